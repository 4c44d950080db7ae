"""Configurations and results as pickles, and in processes of workers."""

import array
import copy
import ctypes
import multiprocessing
import pickle
import unittest

import gpuzip
from support import initial, step

PLAIN = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 3, "backend": "host"}


def shot(config):
    """Runs a shot in a worker, and returns what it has told."""
    u = initial()
    with gpuzip.Session(u, 20, config) as session:
        session.autotune()
        session.run(lambda *_: step(u), lambda *_: None, u)
        return session.stats(), session.summary(), session.profile, session.fingerprint()


def fails(config, kind):
    calls = {
        "ConfigError": lambda: gpuzip.Config(host_budgets=1),
        "ArrayError": lambda: gpuzip.plan([1.0], 20, config),
        "ArgumentError": lambda: gpuzip.Session(initial(), 2**40, config),
        "FileError": lambda: gpuzip.Session(initial(), 20, config, persist_dir="/dev/null/no").persist_open(),
        "StateError": lambda: gpuzip.Session(initial(), 20, config).save(0),
    }
    calls[kind]()


def raises(kind):
    raise kind("what is wrong, and what to do")


def changed(value):
    return pickle.loads(pickle.dumps(value))


class Pickles(unittest.TestCase):
    def test_configurations_with_every_key(self):
        for key, (_, _, names, _) in gpuzip._abi.KEYS.items():
            config, is_text = gpuzip.Config(), gpuzip.config._TYPES[key] is ctypes.c_char_p
            setattr(config, key, list(names)[-1] if names else "a b" if is_text else 3)
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                again = pickle.loads(pickle.dumps(config, protocol))
                self.assertEqual((again, again.changed()), (config, config.changed()), key)

    def test_results(self):
        stats, summary, profile, _ = shot(gpuzip.Config(**PLAIN))
        schedule = gpuzip.Schedule(20, **PLAIN)
        stream = gpuzip.encode(array.array("f", [0.5] * 64), compressor="lorenzo", error_bound=1e-3)
        values = (
            stats, summary, profile, profile.info(), gpuzip.plan(initial(), 20, **PLAIN), schedule.actions(),
            schedule.summary(), gpuzip.codec_info(stream), gpuzip.Field(shape=(3, 4), dtype="f4", order="F").shape,
        )  # fmt: skip
        self.assertGreater(stats.forward_steps, 20)
        for value in values:
            for copied in (copy.copy, copy.deepcopy, changed):
                self.assertEqual(copied(value), value)
                self.assertIs(type(copied(value)), type(value))

    def test_every_error(self):
        for status, kind in gpuzip.errors.CLASSES.items():
            error = kind("what is wrong, and what to do")
            error.status = status
            again = changed(error)
            self.assertEqual(str(kind.__new__(kind, "why")), "why")
            self.assertEqual((type(again), str(again), again.status), (kind, str(error), status))

    def test_what_belongs_to_a_process_is_refused(self):
        quality = gpuzip.Quality(compressor="dct", quality="gradient:1e-3")
        with self.assertRaisesRegex(TypeError, "give a worker a gpuzip.Config"):
            pickle.dumps(quality)


class Processes(unittest.TestCase):
    def test_workers_decide_what_this_process_decides(self):
        configs = [gpuzip.Config(**{**PLAIN, "checkpointing_snaps": snaps}) for snaps in (1, 3, 9)]
        here = [shot(config) for config in configs]
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            there = pool.map(shot, configs)
            for kind in ("ConfigError", "ArrayError", "ArgumentError", "FileError", "StateError"):
                with self.assertRaises(getattr(gpuzip, kind)) as caught:
                    pool.apply(fails, (configs[0], kind))
                self.assertGreater(len(str(caught.exception)), 20)
                self.assertIs(type(caught.exception), getattr(gpuzip, kind))
        for (stats, summary, profile, fingerprint), (others, other, measured, same) in zip(here, there):
            self.assertEqual((stats.forward_steps, stats.saves, fingerprint), (others.forward_steps, others.saves, same))
            self.assertEqual((summary.snapshots, summary.forward_steps), (other.snapshots, other.forward_steps))
            # A profile of a worker plans here.
            self.assertEqual(measured.info().codecs, profile.info().codecs)
            with gpuzip.Session(initial(), 20, **PLAIN) as session:
                session.profile = measured
                self.assertEqual(session.profile, measured)


if __name__ == "__main__":
    unittest.main()
