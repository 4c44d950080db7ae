"""Random sessions that combine algorithms, tiers, zero copy, macro-steps, ranges, other numbers of
steps and restarts; every state is compared with the test's own. `python test_everything.py FIRST
COUNT` runs the jobs FIRST to FIRST + COUNT - 1."""

import array
import random
import sys
import tempfile
import unittest
from collections import Counter

import gpuzip
from support import initial, needs_numpy, numpy, states, step

REFUSALS = (gpuzip.ConfigError, gpuzip.BudgetError, gpuzip.UnsupportedError)
ALGORITHMS = ("revolve", "uniform", "zcut", "two-level", "store-all", "hrevolve")


def choose(draw, folder):
    """The configuration of a job."""
    keys = {"backend": "host", "log_level": "error", "checkpointing_algorithm": draw.choice(ALGORITHMS)}
    keys.update(checkpointing_snaps=draw.randint(1, 9), cache_capacity=draw.randint(0, 5))
    for key, value in (("zero_copy", True), ("range_actions", True), ("adjoint_every", draw.randint(2, 5)), ("mixed_storage", 2)):
        if draw.random() < 0.3:
            keys[key] = value
    if draw.random() < 0.3:
        keys.update(host_budget=draw.randint(300, 3000), disk_budget=8192 * draw.randint(1, 20), disk_path=folder)
    if draw.random() < 0.5:
        keys["persist_dir"] = folder
    return keys


class Job:
    """A session, and what its test knows of the shot."""

    def __init__(self, number, folder):
        self.draw = random.Random(number)
        self.keys = choose(self.draw, folder)
        self.steps = self.draw.randint(1, 40)
        self.u, self.progress = initial(), memoryview(bytearray(8)).cast("q")
        self.restarts = 0
        self.session = self.open()

    def open(self):
        session = gpuzip.Session(self.u, self.steps, **self.keys)
        if "persist_dir" in self.keys:
            session.persist_open()
        return session

    def restart(self):
        """Goes on in another session after the current action."""
        self.session.persist_write(1, {}, {"u": self.u, "progress": self.progress})
        kept = bytes(self.u), self.progress[0]
        self.session.finalize()
        self.u[:] = initial()
        self.progress[0] = -1
        self.session = self.open()
        assert self.session.persist_find().shot == 1
        self.session.persist_read({}, {"u": self.u, "progress": self.progress})
        assert kept == (bytes(self.u), self.progress[0])
        self.restarts += 1

    def serve(self, action):
        if action.type == gpuzip.FORWARD:
            for _ in range(action.ts, action.ts_end + 1):
                step(self.u)
        elif action.type == gpuzip.BACKWARD:
            assert (action.ts_end, bytes(self.u)) == (self.progress[0] - 1, self.expected[action.ts]), action
            self.progress[0] = action.ts
        elif not self.keys.get("zero_copy"):
            call = self.session.save if action.type == gpuzip.SAVE else self.session.retrieve
            call(action.ts, self.u)
        elif action.type == gpuzip.SAVE:
            slot = self.session.save_begin(action.ts)
            numpy.asarray(slot[0])[:] = self.u
            slot.commit()
        else:
            self.u[:] = array.array("d", numpy.asarray(self.session.retrieve_acquire(action.ts)[0]).tobytes())

    def shot(self):
        self.expected = states(self.steps)
        self.u[:], self.progress[0] = initial(), self.steps
        left = 2
        while True:
            action = self.session.get_action()
            if action.type == gpuzip.TERMINATE:
                break
            self.serve(action)
            if "persist_dir" in self.keys and left and self.draw.random() < 0.1:
                left -= 1
                self.restart()
        assert self.progress[0] == 0
        assert self.session.stats().backward_steps == self.steps

    def run(self):
        for _ in range(self.draw.randint(1, 3)):
            self.shot()
            if self.draw.random() < 0.3:
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
            found.update(sessions=1, restarts=job.restarts)
    return found


@needs_numpy
class Everything(unittest.TestCase):
    def test_random_sessions_restore_what_they_saved(self):
        found = run(0, 100)
        self.assertGreater(min(found["sessions"], found["restarts"]), 20, found)


if __name__ == "__main__":
    print(dict(run(int(sys.argv[1]), int(sys.argv[2]))))
