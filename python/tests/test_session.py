"""Sessions: the loop, states, statistics, shots, callbacks, zero copy, restart files, the end."""

import array
import copy
import gc
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import gpuzip
from support import initial, needs_numpy, numpy, reverse, states, step

REVOLVE = {"checkpointing_algorithm": "revolve", "backend": "host"}


class Loop(unittest.TestCase):
    def test_digits_of_the_c_program(self):
        u, adjoint = array.array("d", [0.1]), 1.0
        with gpuzip.Session(u, steps=1000, checkpointing_snaps=10, **REVOLVE) as session:
            for action in session:
                if action.type == gpuzip.FORWARD:
                    u[0] += 1e-3 * u[0] * (1.0 - u[0])
                elif action.type == gpuzip.SAVE:
                    session.save(action.ts, u)
                elif action.type == gpuzip.RESTORE:
                    session.retrieve(action.ts, u)
                else:
                    adjoint *= 1.0 + 1e-3 * (1.0 - 2.0 * u[0])
        expected = os.environ.get("GPUZIP_TEST_C_OUTPUT", "du(1000)/du(0) = 1.979449291628\n")
        self.assertEqual(f"du(1000)/du(0) = {adjoint:.12f}\n", expected)

    def test_actions_are_those_of_the_command(self):
        for algorithm, snaps in [("revolve", 3), ("zcut", 4), ("uniform", 5), ("store-all", 0)]:
            keys = {"checkpointing_algorithm": algorithm, "checkpointing_snaps": snaps, "backend": "host"}
            expected, u = states(40), initial()
            with gpuzip.Session(u, 40, **keys) as session:
                actions = reverse(session, u, expected)
                summary, stats = session.summary(), session.stats()
            name = gpuzip.algorithm_name(summary.algorithm)
            words = ["schedule", "--algorithm", name, "--steps", "40", "--print"]
            if name != "store-all":
                words += ["--snapshots", str(summary.snapshots)]
            if name == "zcut":
                words += ["--chunk", str(summary.chunk)]
            text = subprocess.run(
                [gpuzip.process.executable(), *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ).stdout
            printed = text.splitlines()[:-1]
            self.assertEqual([f"{a.ts} {a.type.name}" for a in actions], printed, algorithm)
            self.assertEqual(summary.forward_steps, stats.forward_steps)
            self.assertEqual(stats.restores, summary.restores)
            self.assertEqual(stats.backward_steps, 40)
            self.assertEqual([a.it for a in actions], list(range(len(actions))))

    def test_a_summary_is_printed_with_units_in_the_words_of_the_command(self):
        plain = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 3, "backend": "host"}
        self.assertEqual(
            str(gpuzip.Schedule(10, **plain).summary()),
            "revolve, n = 10, 3 snapshots\nforward steps   15\nbackward steps  10\nsaves           6\nrestores        9",
        )
        with gpuzip.Session(initial(3000), 10, **plain) as session:
            given = session.summary()
        # 0.014 % is rounded up.
        shown = str(given._replace(
            slot_bytes=24000, cache=4, compressor=5, raw_slots=2, hits=3, predicted_s=7300.0, bound_s=7299.0,
            device_bytes=1023, host_bytes=3 * 1024**3, host_budget=2**42, disk_bytes=1024,
        ))
        self.assertEqual(shown.splitlines()[:2], [
            "revolve, n = 10, 3 snapshots, cache of 4 slots, clairvoyant, dct but for 2 slots",
            "predicted       2.03 h, at most 0.1 % above any nested schedule",
        ])
        rows = dict(re.split(" {2,}", line) for line in shown.splitlines()[1:])
        expected = {"restores": "9, 33 % of them from the cache", "snapshot": "23.4 KiB", "device": "1023 B", "host": "3.0 GiB of 4.0 TiB", "disk": "1.0 KiB"}
        self.assertEqual({name: rows[name] for name in expected}, expected)
        for time, text in ((0.5, "500.00 ms"), (1.0, "1.00 s"), (2e-5, "20.00 us")):
            self.assertIn(f"\npredicted       {text}\n", str(given._replace(predicted_s=time, bound_s=0.0)))

    def test_sessions_and_schedules_are_not_copied_and_configurations_are(self):
        keys = {"checkpointing_snaps": 3, "zero_copy": True, **REVOLVE}
        with gpuzip.Session(initial(), 9, **keys) as session, gpuzip.Schedule(9, **REVOLVE) as schedule:
            session.get_action()
            slot = session.save_begin(0)
            for value in (session, schedule, slot, slot[0], [session]):
                for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                    if not (isinstance(value, list) and copied is copy.copy):
                        with self.assertRaisesRegex(TypeError, "cannot be pickled or copied"):
                            copied(value)
        config = gpuzip.Config(host_budget="4G", error_bound=1e-3, disk_path="/tmp/a b", zero_copy=True)
        for copied in (copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
            other = copied(config)
            self.assertEqual(other, config)
            other.host_budget = "1G"
            self.assertEqual(config.host_budget, 4 << 30)

    def test_flags_and_peek(self):
        u = initial()
        with gpuzip.Session(u, 3, checkpointing_snaps=1, **REVOLVE) as session:
            seen = []

            def check(action):
                seen.append((action.type.name, action.ts, action.recompute, action.first_backward, action.last_use))

            self.assertEqual(session.peek().type, gpuzip.SAVE)
            reverse(session, u, states(3), check)
            with self.assertRaisesRegex(gpuzip.StateError, "only setup is valid"):
                session.peek()
            with self.assertRaises(gpuzip.StateError):
                next(session)
        self.assertEqual(
            seen,
            [
                ("SAVE", 0, False, False, False),
                ("FORWARD", 1, False, False, False),
                ("FORWARD", 2, False, False, False),
                ("BACKWARD", 2, False, True, False),
                ("RESTORE", 0, False, False, False),
                ("FORWARD", 1, True, False, False),
                ("BACKWARD", 1, False, False, False),
                ("RESTORE", 0, False, False, True),
                ("BACKWARD", 0, False, False, False),
            ],
        )

    def test_shots_and_other_numbers_of_steps(self):
        u = initial()
        with gpuzip.Session(u, 20, checkpointing_snaps=3, **REVOLVE) as session:
            first = reverse(session, u, states(20))
            for steps in (None, 31, None):
                u[:] = initial()
                again = reverse(session.setup(steps), u, states(31))
                self.assertEqual(again[-1].ts, 0)
                self.assertEqual(session.stats().backward_steps, session.summary().steps)
            self.assertEqual(session.summary().steps, 31)
            self.assertEqual(len(first), len([a for a in first if a.it >= 0]))

    def test_online(self):
        u = initial()
        with gpuzip.Session(u, checkpointing_algorithm="online", checkpointing_snaps=4, backend="host") as session:
            ended = []

            def check(action):
                if action.type == gpuzip.FORWARD and action.ts == 29 and not ended:
                    session.end_forward()
                    ended.append(action)

            actions = reverse(session, u, states(30), check)
            self.assertEqual([a.ts for a in actions if a.type == gpuzip.BACKWARD], list(range(29, -1, -1)))
            self.assertEqual(session.summary().steps, 30)

    def test_ranges_and_every_kth_state(self):
        u = initial()
        with gpuzip.Session(u, 10, range_actions=True, adjoint_every=4, checkpointing_snaps=2, **REVOLVE) as session:
            actions = reverse(session, u, states(10))
        self.assertEqual(
            [(a.ts, a.ts_end) for a in actions if a.type == gpuzip.BACKWARD], [(8, 9), (4, 7), (0, 3)]
        )

    def test_the_fields_of_the_session_are_the_default(self):
        u = initial()
        with gpuzip.Session(u, 5, checkpointing_snaps=2, **REVOLVE) as session:
            for action in session:
                if action.type == gpuzip.FORWARD:
                    step(u)
                elif action.type == gpuzip.SAVE:
                    session.save(action.ts)
                elif action.type == gpuzip.RESTORE:
                    session.retrieve(action.ts)
                else:
                    self.assertEqual(bytes(u), states(5)[action.ts])
        with gpuzip.Session(gpuzip.Field(shape=5, dtype="float64"), 5, **REVOLVE) as session:
            next(session)
            with self.assertRaisesRegex(gpuzip.ArgumentError, "without arrays"):
                session.save(0)

    def test_several_fields_and_roles(self):
        curr, prev = initial(), initial()
        with gpuzip.Session([curr, prev], 6, roles=[0, 1], checkpointing_snaps=2, compressor="lorenzo", **REVOLVE) as session:
            next(session)
            with self.assertRaisesRegex(gpuzip.ShapeError, "1 field"):
                session.save(0, curr)
            session.save(0, curr, prev)
            with self.assertRaisesRegex(gpuzip.StateError, "done already"):
                session.save(0, curr, prev)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "3 numbers for 2 fields"):
            gpuzip.Session([curr, prev], 6, roles=[0, 1, 0], **REVOLVE)

    def test_one_schedule_for_two_sessions(self):
        first, second, expected = initial(), initial(), states(25)
        schedule = gpuzip.Schedule(25, checkpointing_snaps=3, **REVOLVE)
        sessions = [schedule.attach(u, checkpointing_snaps=3, **REVOLVE) for u in (first, second)]
        schedule.release()
        schedule = gpuzip.Schedule.of(sessions[0])
        for action in schedule:
            for session, u in zip(sessions, (first, second)):
                session.dispatch(action)
                if action.type == gpuzip.FORWARD:
                    step(u)
                elif action.type == gpuzip.SAVE:
                    session.save(action.ts, u)
                elif action.type == gpuzip.RESTORE:
                    session.retrieve(action.ts, u)
                elif action.type == gpuzip.BACKWARD:
                    self.assertEqual(bytes(u), expected[action.ts])
        self.assertEqual(sessions[0].fingerprint(), sessions[1].fingerprint())
        self.assertEqual(sessions[0].fingerprint(), schedule.fingerprint())


class Callbacks(unittest.TestCase):
    def run_with(self, **replaced):
        u, seen = initial(), []

        def forward(ts, ts_end, flags):
            seen.append(("F", ts, ts_end))
            step(u)

        def backward(ts, flags):
            seen.append(("B", ts))
            self.assertEqual(bytes(u), states(12)[ts])

        functions = {"forward": forward, "backward": backward, **replaced}
        with gpuzip.Session(u, 12, checkpointing_snaps=3, **REVOLVE) as session:
            session.run(functions.pop("forward"), functions.pop("backward"), u, **functions)
            return seen, session.stats()

    def test_a_shot(self):
        observed = []
        seen, stats = self.run_with(observe=lambda kind, ts, flags: observed.append((kind.name, ts)))
        self.assertEqual([ts for kind, ts, *_ in seen if kind == "B"], list(range(11, -1, -1)))
        self.assertEqual(len([1 for kind, *_ in seen if kind == "F"]), stats.forward_steps)
        self.assertEqual([k for k, _ in observed].count("RESTORE"), stats.restores)

    def test_exceptions_go_through_the_library(self):
        class Odd(BaseException):
            pass

        for kind in (ValueError, KeyboardInterrupt, Odd):
            reason = kind("in the adjoint")

            def backward(ts, flags):
                if ts == 7:
                    raise reason

            with self.assertRaises(kind) as caught:
                self.run_with(backward=backward)
            self.assertIs(caught.exception, reason)

    def test_a_number_stops_the_run_and_setup_begins_again(self):
        u = initial()
        with gpuzip.Session(u, 12, checkpointing_snaps=3, **REVOLVE) as session:
            with self.assertRaisesRegex(gpuzip.CallbackError, "77"):
                session.run_forward(lambda ts, ts_end, flags: 77, u)
            with self.assertRaises(gpuzip.StateError):
                session.run_forward(lambda *_: step(u), u)
            session.setup()
            session.run(lambda *_: step(u), lambda *_: None, u)
            self.assertEqual(session.stats().backward_steps, 12)

    def test_locate_for_programs_that_swap_buffers(self):
        buffers, live, expected = [initial(), initial()], [0], states(15)

        def forward(ts, ts_end, flags):
            old, live[0] = buffers[live[0]], 1 - live[0]
            buffers[live[0]][:] = old
            step(buffers[live[0]])

        def backward(ts, flags):
            self.assertEqual(bytes(buffers[live[0]]), expected[ts])

        with gpuzip.Session(buffers[0], 15, checkpointing_snaps=3, **REVOLVE) as session:
            session.run(forward, backward, buffers[0], locate=lambda kind, ts: buffers[live[0]])
        with self.assertRaisesRegex(TypeError, "foreward"):
            with gpuzip.Session(buffers[0], 15, **REVOLVE) as session:
                session.run_forward(forward, buffers[0], foreward=None)

    def test_ranges_of_backwards(self):
        u, ranges = initial(), []
        with gpuzip.Session(u, 10, adjoint_every=4, checkpointing_snaps=2, **REVOLVE) as session:
            session.run(lambda *_: step(u), None, u, backward_range=lambda ts, end, flags: ranges.append((ts, end)))
        self.assertEqual(ranges, [(8, 9), (4, 7), (0, 3)])


class ZeroCopy(unittest.TestCase):
    def shot(self, session, of):
        expected, u = states(20), None
        own = initial()
        u = own
        for action in session:
            if action.type == gpuzip.FORWARD:
                new = array.array("d", u)
                step(new)
                u = new
            elif action.type == gpuzip.SAVE:
                with session.slot(action.ts) as slot:
                    of(slot[0])[:] = memoryview(u)
            elif action.type == gpuzip.RESTORE:
                with session.acquire(action.ts) as slot:
                    u = array.array("d", bytes(of(slot[0])))
            else:
                self.assertEqual(bytes(u), expected[action.ts])

    def test_views(self):
        with gpuzip.Session(initial(), 20, checkpointing_snaps=4, cache_capacity=3, zero_copy=True, checkpointing_algorithm="revolve") as session:
            self.shot(session, lambda memory: memory.view())
            self.assertEqual(session.stats().saves, session.summary().saves)

    @needs_numpy
    def test_numpy(self):
        with gpuzip.Session(initial(), 20, checkpointing_snaps=4, zero_copy=True, checkpointing_algorithm="revolve") as session:
            self.shot(session, numpy.asarray)

    def test_memory_of_snapshots_is_read_only(self):
        u = initial()
        with gpuzip.Session(u, 3, checkpointing_snaps=1, cache_capacity=2, zero_copy=True, **REVOLVE) as session:
            for action in session:
                if action.type == gpuzip.SAVE:
                    slot = session.save_begin(action.ts)
                    slot[0].view()[:] = memoryview(u)
                    slot.commit()
                elif action.type == gpuzip.RESTORE:
                    slot = session.retrieve_acquire(action.ts)
                    self.assertTrue(slot[0].view().readonly)
                    with self.assertRaisesRegex(gpuzip.ArrayError, "read-only"):
                        gpuzip.decode(b"", slot[0])

    def test_memory_has_a_place(self):
        with self.assertRaisesRegex(gpuzip.ConfigError, "set backend"):
            gpuzip.Session(gpuzip.Field(shape=(3, 4), dtype="f4"), 3, zero_copy=True)


@needs_numpy
class Export(unittest.TestCase):
    def test_numpy_reads_every_state_as_it_was(self):
        expected = states(12)
        with tempfile.TemporaryDirectory() as folder:
            u = initial()
            half, pair = numpy.arange(6, dtype="f2").reshape(2, 3), numpy.zeros((4, 2), "c16", order="F")
            of_state = (u, half, gpuzip.Field(pair, order="F"))
            with gpuzip.Session(of_state, 12, checkpointing_snaps=2, **REVOLVE) as session:
                session.name_fields("u", "half", "pair")
                session.export(folder, 0)  # the arrays of the session
                for action in session:
                    if action.type == gpuzip.FORWARD:
                        for ts in range(action.ts, action.ts_end + 1):
                            step(u)
                            pair += 1j
                            session.export(pathlib.Path(folder), ts, u, half, pair)
                    elif action.type == gpuzip.SAVE:
                        session.save(action.ts)
                    elif action.type == gpuzip.RESTORE:
                        session.retrieve(action.ts)
                with self.assertRaisesRegex(gpuzip.ArgumentError, "ts = -1"):
                    session.export(folder, -1)
                with self.assertRaisesRegex(gpuzip.ShapeError, r"field 0 \(u\).*has the shape \(3,\)"):
                    session.export(folder, 0, array.array("d", [0.0] * 3), half, pair)
                with self.assertRaisesRegex(gpuzip.FileError, "/proc/nowhere: .*name another folder"):
                    session.export("/proc/nowhere", 0)
            self.assertEqual(len(os.listdir(folder)), 3 * 12)
            for ts in range(12):
                found = {name: numpy.load(f"{folder}/{name}-{ts:09}.npy") for name in ("u", "half", "pair")}
                self.assertEqual((found["u"].dtype, found["u"].tobytes()), (numpy.dtype("f8"), expected[ts]))
                self.assertEqual(found["half"].view("f2").tolist(), half.tolist())
                self.assertEqual(found["pair"].shape, (2, 4))
                self.assertTrue((found["pair"] == ts * 1j).all())


class Restart(unittest.TestCase):
    def test_a_shot_goes_on_with_the_same_bits(self):
        expected = states(30)
        with tempfile.TemporaryDirectory() as folder:
            keys = {"checkpointing_snaps": 4, "persist_dir": folder, "persist_overhead": 1.0, **REVOLVE}
            u, image = initial(), array.array("d", [0.0] * 5)
            kept_folder = os.path.join(folder, "kept")

            def shot(session, until):
                for action in session:
                    if action.type == gpuzip.FORWARD:
                        step(u)
                    elif action.type == gpuzip.SAVE:
                        session.save(action.ts, u)
                    elif action.type == gpuzip.RESTORE:
                        session.retrieve(action.ts, u)
                    else:
                        self.assertEqual(bytes(u), expected[action.ts])
                        for k in range(5):
                            image[k] += u[k]
                        if action.ts == until:
                            return

            published, statuses = [], []
            with gpuzip.Session(u, 30, **keys) as session:
                session.persist_open()
                session.persist_stage("last", lambda file, of: published.append((file, of.shot, os.stat(file).st_size)), 2)
                finalize = gpuzip.session.library.gpuzip_finalize
                session.persist_stage("first", lambda file, of: statuses.append(finalize(session._handle)), 1)
                with self.assertRaisesRegex(gpuzip.Error, "a stage of the name first is registered already"):
                    session.persist_stage("first", print)
                self.assertIsNone(session.persist_find())
                self.assertIn(session.persist_due(), (gpuzip.DUE_NO, gpuzip.DUE_YES))
                shot(session, until=11)
                session.persist_write(7, {"image": image}, {"u": u})
                session.persist_wait()
                session.persist_clone(kept_folder)
                [(file, number, size)] = published
                self.assertEqual(statuses, [-201])  # the session waits for its stages
                self.assertEqual((os.path.dirname(file), number), (folder, 7))
                self.assertEqual(session.stats().persist_bytes, size)
                kept = bytes(image)
                shot(session, until=-1)
                whole = bytes(image)
            u[:], image[:] = initial(), array.array("d", [0.0] * 5)
            with gpuzip.Session(u, 30, **{**keys, "persist_dir": kept_folder}) as session:
                session.persist_open()
                found = session.persist_find()
                self.assertEqual(found.shot, 7)
                session.persist_read({"image": image}, {"u": u})
                self.assertEqual(bytes(image), kept)
                shot(session, until=-1)
                self.assertEqual(bytes(image), whole)

    def test_ranks_agree(self):
        with tempfile.TemporaryDirectory() as folder:
            calls = []

            def minimum(value):
                calls.append(value)
                return value

            with gpuzip.Session(initial(), 30, checkpointing_snaps=4, persist_dir=folder, **REVOLVE) as session:
                session.agree(minimum)
                self.assertEqual(len(calls), 5)
                session.persist_open(rank=0, ranks=2, minimum=minimum)
                self.assertIsNone(session.persist_find())
                self.assertGreater(len(calls), 5)

                def fails(value):
                    raise OSError("no network")

                with self.assertRaisesRegex(OSError, "no network"):
                    session.agree(fails)


class Ends(unittest.TestCase):
    def test_every_call_after_the_end_is_an_error(self):
        session = gpuzip.Session(initial(), 5, **REVOLVE)
        session.finalize()
        for call in (session.get_action, session.setup, session.stats, lambda: session.save(0, initial())):
            with self.assertRaisesRegex(gpuzip.HandleError, r"^gpuzip_\w+: this session was finalized, by `finalize`"):
                call()
        session.finalize()
        schedule = gpuzip.Schedule(5, **REVOLVE)
        schedule.release()
        with self.assertRaisesRegex(gpuzip.HandleError, "this schedule was released$"):
            schedule.summary()

    def test_sessions_that_nobody_holds_are_finalized(self):
        session = gpuzip.Session(initial(), 5, **REVOLVE)
        handle, finalizer = session._handle, session._finalizer
        session.cycle = session
        del session
        gc.collect()
        self.assertFalse(finalizer.alive)
        self.assertLess(gpuzip._library.gpuzip_setup(handle), 0)

    def test_an_exception_in_the_block_is_the_one_that_is_seen(self):
        with self.assertRaisesRegex(ValueError, "mine"):
            with gpuzip.Session(initial(), 5, **REVOLVE) as session:
                session.finalize()
                raise ValueError("mine")

    def test_the_interpreter_may_end_with_sessions(self):
        program = """
import array, gpuzip, logging
gpuzip.log_to(logging.getLogger())
u = array.array("d", [1.0] * 1000)
session = gpuzip.Session(u, 50, checkpointing_snaps=3, log_level=0)
for action in session:
    if action.type == gpuzip.SAVE:
        session.save(action.ts)
        if action.ts:
            break
schedule = gpuzip.Schedule.of(session)
session.itself = session
print("ok")
"""
        result = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "ok\n", ""))

    def test_a_forked_child_leaves_the_session_alone(self):
        u = initial()
        with gpuzip.Session(u, 5, checkpointing_snaps=2, **REVOLVE) as session:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    session.get_action()
                except gpuzip.ForkedError:
                    status = 0
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            reverse(session, u, states(5))

    def test_signals_request_a_stop(self):
        program = """
import gpuzip, os, signal, array
seen = []
signal.signal(signal.SIGUSR2, lambda *_: seen.append(1))
gpuzip.catch_signals(signal.SIGUSR2)
assert gpuzip.stop_requested() is None
os.kill(os.getpid(), signal.SIGUSR2)
assert gpuzip.stop_requested() > 0
session = gpuzip.Session(array.array("d", [0.0]), 5)
assert next(session).interrupt and seen == [1]
try:
    gpuzip.catch_signals(signal.SIGSEGV)
except gpuzip.ArgumentError:
    print("ok")
"""
        result = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((result.returncode, result.stdout), (0, "ok\n"), result.stderr)


class Threads(unittest.TestCase):
    def test_sessions_of_several_threads(self):
        failures = []

        def work(values):
            try:
                for _ in range(5):
                    u = initial(values)
                    with gpuzip.Session(u, 40, checkpointing_snaps=3, **REVOLVE) as session:
                        reverse(session, u, states(40, values))
                        try:
                            session.save(0, u)
                        except gpuzip.StateError as reason:
                            assert "save" in str(reason), reason
            except BaseException as reason:
                failures.append(reason)

        threads = [threading.Thread(target=work, args=(k + 1,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_one_session_from_several_threads(self):
        # The threads take turns: every call works on structs of its own.
        u = initial()
        with gpuzip.Session(u, 40, checkpointing_snaps=3, **REVOLVE) as session:
            lock, actions, failures = threading.Lock(), [], []
            expected = states(40)

            def work():
                try:
                    while True:
                        with lock:
                            if actions and actions[-1].type == gpuzip.TERMINATE:
                                return
                            action = session.get_action()
                            actions.append(action)
                            if action.type == gpuzip.FORWARD:
                                step(u)
                            elif action.type == gpuzip.SAVE:
                                session.save(action.ts, u)
                            elif action.type == gpuzip.RESTORE:
                                session.retrieve(action.ts, u)
                            elif action.type == gpuzip.BACKWARD:
                                assert bytes(u) == expected[action.ts]
                except BaseException as reason:
                    failures.append(reason)

            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])

    def test_calls_release_the_lock_of_the_interpreter(self):
        # A callback waits for another thread, which can run only if the call holds no lock.
        u, done = initial(), threading.Event()

        def forward(ts, ts_end, flags):
            if ts == 1:
                threading.Thread(target=done.set).start()
                assert done.wait(60)
            step(u)

        with gpuzip.Session(u, 5, checkpointing_snaps=2, **REVOLVE) as session:
            session.run_forward(forward, u)


class Files(unittest.TestCase):
    def test_no_file_is_written_through_a_link_of_others(self):
        with tempfile.TemporaryDirectory() as folder:
            names = ("victim", "link", "second")
            victim, link, second = (os.path.join(folder, name) for name in names)
            writes = (gpuzip.Profile(b"profile").save, lambda path: gpuzip.write_trace(path, []))
            for write in writes:
                with open(victim, "w") as file:
                    file.write("precious")
                os.link(victim, second)
                os.symlink(victim, link)
                paths = [second, folder, os.devnull]
                if os.geteuid() == 0:
                    os.chown(link, 65534, 65534, follow_symlinks=False)
                    paths.append(link)
                for path in paths:
                    with self.assertRaises(OSError):
                        write(path)
                with open(victim) as file:
                    self.assertEqual(file.read(), "precious")
                os.unlink(second)
                os.chown(link, os.geteuid(), os.getegid(), follow_symlinks=False)
                write(link)  # The user's own link is followed.
                with open(victim) as file:
                    self.assertNotEqual(file.read(), "precious")
                self.assertTrue(os.path.islink(link))
                os.unlink(link)


if __name__ == "__main__":
    unittest.main()
