"""Random sessions that combine algorithms, tiers, zero copy, macro-steps,
ranges, unknown and other numbers of steps, abandoned shots, wrong calls, restarts and damaged
restart files; every state is compared with the test's own. `python test_everything.py FIRST COUNT`
runs the jobs FIRST to FIRST + COUNT - 1."""

import array
import os
import random
import sys
import tempfile
import unittest
from collections import Counter

import gpuzip
from support import initial, needs_numpy, numpy, states, step

REFUSALS = (gpuzip.ConfigError, gpuzip.BudgetError, gpuzip.UnsupportedError)
ALGORITHMS = ("revolve", "uniform", "zcut", "two-level", "store-all", "hrevolve", "online")
OPTIONS = (
    ("zero_copy", lambda draw: True),
    ("range_actions", lambda draw: True),
    ("adjoint_every", lambda draw: draw.randint(2, 5)),
    ("mixed_storage", lambda draw: 2),
    ("schedule_chunk", lambda draw: draw.randint(2, 12)),
)


def choose(draw, folder):
    """The configuration of a job."""
    keys = {"backend": "host", "log_level": "error"}
    keys["checkpointing_algorithm"] = draw.choice(ALGORITHMS)
    keys.update(checkpointing_snaps=draw.randint(1, 9), cache_capacity=draw.randint(0, 5))
    for key, value in OPTIONS:
        if draw.random() < 0.3:
            keys[key] = value(draw)
    if keys["checkpointing_algorithm"] == "online" and draw.random() < 0.9:
        for key in ("zero_copy", "adjoint_every"):
            keys.pop(key, None)
    if draw.random() < 0.3:
        keys.update(host_budget=draw.randint(300, 3000), disk_path=folder)
        keys.update(disk_budget=8192 * draw.randint(1, 20))
    if draw.random() < 0.5:
        keys["persist_dir"] = folder
    return keys


class Job:
    """A session, and what its test knows of the shot."""

    def __init__(self, number, folder):
        self.draw, self.found = random.Random(number), Counter()
        self.folder, self.keys = folder, choose(self.draw, folder)
        self.steps = self.draw.randint(2, 40)
        self.online = self.keys["checkpointing_algorithm"] == "online"
        self.open_end = self.online and self.draw.random() < 0.5
        self.u, self.progress = initial(), memoryview(bytearray(8)).cast("q")
        self.session = self.open()

    def open(self):
        session = gpuzip.Session(self.u, 0 if self.open_end else self.steps, **self.keys)
        if "persist_dir" in self.keys:
            session.persist_open()
        return session

    def damage(self):
        """Changes a byte of the newest generation."""
        newest = max(name for name in os.listdir(self.folder) if name.endswith(".gen"))
        with open(os.path.join(self.folder, newest), "r+b") as file:
            at = self.draw.randrange(os.path.getsize(file.name))
            file.seek(at)
            byte = file.read(1)[0] ^ (1 << self.draw.randrange(8))
            file.seek(at)
            file.write(bytes([byte]))

    def restart(self, within):
        """Goes on in another session after the current action, or from the start of the shot; from
        the older one of two equal generations, if the newest is damaged."""
        damaged = self.draw.random() < 0.2
        shots, inner = {"progress": self.progress}, {"u": self.u}
        for _ in range(1 + damaged):
            self.session.persist_write(1, shots, inner)
            self.session.persist_wait()
        kept = bytes(self.u), self.progress[0]
        self.session.finalize()
        if damaged:
            self.damage()
        self.u[:], self.progress[0] = initial(), -1
        self.session = self.open()
        assert self.session.persist_find().shot == 1
        self.session.persist_read(shots, inner)
        assert kept == (bytes(self.u) if within else bytes(initial()), self.progress[0])
        self.found.update(restarts=1, damaged=int(damaged))

    def misuse(self, action):
        """Makes a call that does not fit the action: it fails and changes nothing."""
        session, other = self.session, self.steps + 7
        calls = [
            lambda: session.save(other, self.u),
            lambda: session.retrieve(other, self.u),
            lambda: session.save_begin(other),
            lambda: session.retrieve_release(other),
            session.autotune,
            lambda: session.dispatch(action.it + 3) if self.open_end else session.end_forward(),
        ]
        before = session.stats()
        try:
            self.draw.choice(calls)()
        except gpuzip.Error as error:
            assert len(str(error)) > 20, error
        else:
            raise AssertionError(f"a call that does not fit {action} succeeded")
        assert (before.saves, before.restores) == (session.stats().saves, session.stats().restores)
        self.found.update(misused=1)

    def serve(self, action):
        if action.type == gpuzip.FORWARD:
            for _ in range(action.ts, action.ts_end + 1):
                step(self.u)
            self.live = action.ts_end
        elif action.type == gpuzip.BACKWARD:
            found = action.ts_end, bytes(self.u)
            assert found == (self.progress[0] - 1, self.expected[action.ts]), action
            self.progress[0] = action.ts
        elif not self.keys.get("zero_copy"):
            call = self.session.save if action.type == gpuzip.SAVE else self.session.retrieve
            call(action.ts, self.u)
        elif action.type == gpuzip.SAVE:
            slot = self.session.save_begin(action.ts)
            numpy.asarray(slot[0])[:] = self.u
            slot.commit()
        else:
            slot = self.session.retrieve_acquire(action.ts)
            self.u[:] = array.array("d", numpy.asarray(slot[0]).tobytes())

    def shot(self):
        """Runs a shot to its end, or gives it up."""
        self.expected, self.live, ended, left = states(self.steps), 0, not self.open_end, 2
        self.u[:], self.progress[0] = initial(), self.steps
        persists = "persist_dir" in self.keys
        gives_up = self.draw.randint(0, 60) if self.draw.random() < 0.1 else -1
        if persists and self.draw.random() < 0.3:
            self.restart(False)
        while True:
            action = self.session.get_action()
            if action.type == gpuzip.TERMINATE:
                break
            if action.it == gives_up:
                return self.found.update(abandoned=1)
            if self.draw.random() < 0.05:
                self.misuse(action)
            self.serve(action)
            if not ended and self.live == self.steps - 1:
                self.session.end_forward()
                ended = True
            if persists and left and not self.online and self.draw.random() < 0.1:
                left -= 1
                self.restart(True)
        assert self.progress[0] == 0 and ended
        assert self.session.stats().backward_steps == self.steps
        self.found.update(shots=1)

    def run(self):
        for _ in range(self.draw.randint(1, 3)):
            self.shot()
            if self.open_end:
                self.steps = self.draw.randint(2, 40)
            elif self.draw.random() < 0.3:
                self.steps = self.draw.randint(1, 40)
                try:
                    self.session.setup(self.steps)
                    continue
                except REFUSALS:
                    self.steps = self.session.summary().steps
            self.session.setup()
        self.session.finalize()


def run(first, count):
    """Runs the jobs and counts what became of them."""
    found = Counter()
    for number in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                job = Job(number, folder)
            except REFUSALS as error:
                assert "=" in str(error) or "budget" in str(error), error
                found["refused"] += 1
                continue
            try:
                job.run()
            except BaseException:
                print(f"run again: test_everything.py {number} 1", job.keys, file=sys.stderr)
                raise
            found.update(job.found, sessions=1, open_end=int(job.open_end))
            left = [name for name in os.listdir(folder) if not name.startswith("gpuzip-r000000")]
            assert not left, left
    return found


@needs_numpy
class Everything(unittest.TestCase):
    def test_random_sessions_restore_what_they_saved(self):
        found = run(0, 200)
        kinds = "sessions shots restarts misused damaged abandoned open_end".split()
        for kind in kinds:
            self.assertGreater(found[kind], 5, found)


if __name__ == "__main__":
    print(dict(run(int(sys.argv[1]), int(sys.argv[2]))))
