"""Arrays: what is accepted, what is refused, and the texts."""

import array
import unittest

import gpuzip
from support import initial, needs_numpy, numpy, step

KEYS = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 2, "backend": "host"}


def saved_and_restored(source, target, **keys):
    """Saves u(0) from `source` and restores it into `target`."""
    with gpuzip.Session(source, 3, **{**KEYS, **keys}) as session:
        for action in session:
            if action.type == gpuzip.SAVE:
                session.save(action.ts, source)
            elif action.type == gpuzip.RESTORE:
                session.retrieve(action.ts, target)
                return


class Accepted(unittest.TestCase):
    def test_buffers_of_every_type(self):
        for letter in "bBhHiIlLqQfd":
            source, target = array.array(letter, [1, 2, 3]), array.array(letter, [0, 0, 0])
            saved_and_restored(source, target)
            self.assertEqual(source, target)
        target = bytearray(4)
        saved_and_restored(b"abcd", target)
        self.assertEqual(target, b"abcd")

    def test_a_buffer_is_given_back(self):
        u = bytearray(8)
        with gpuzip.Session(u, 3, **KEYS) as session:
            next(session)
            session.save(0, u)
            u.append(1)  # A BufferError while anybody holds the buffer.

    @needs_numpy
    def test_the_inside_of_an_array_with_a_halo(self):
        random = numpy.random.default_rng(1)
        for shape, inside in [((9, 8), numpy.s_[2:-2, 1:-1]), ((6, 7, 8), numpy.s_[1:-1, 2:-2, 3:-3]), ((4, 5), numpy.s_[:, 1:2])]:
            source = random.random(shape)
            target = numpy.full(shape, 7.0)
            expected = target.copy()
            expected[inside] = source[inside]
            saved_and_restored(source[inside], target[inside])
            self.assertTrue((target == expected).all(), shape)

    @needs_numpy
    def test_dlpack_of_the_host(self):
        class ByDlpack:
            """An array whose only interface is DLPack."""

            def __init__(self, of):
                self.of = of

            def __dlpack__(self, **keys):
                return self.of.__dlpack__(**keys)

            def __dlpack_device__(self):
                return self.of.__dlpack_device__()

        for kind in ("float32", "complex128", "int16", "float16", "bool"):
            source, target = numpy.arange(12).reshape(3, 4).astype(kind), numpy.zeros((3, 4), kind)
            saved_and_restored(ByDlpack(source), ByDlpack(target))
            self.assertTrue((source == target).all(), kind)
        target.flags.writeable = False
        with self.assertRaisesRegex(gpuzip.ArrayError, "read-?only"):
            saved_and_restored(source, ByDlpack(target))

    @needs_numpy
    def test_names_of_types(self):
        for dtype in ("float32", numpy.float32, numpy.dtype("f4"), "<f4", "f4"):
            self.assertEqual(gpuzip.plan(gpuzip.Field(shape=(5, 60), dtype=dtype), 3, **KEYS).slot_bytes, 1280)
        with self.assertRaisesRegex(gpuzip.ArrayError, "quaternion"):
            gpuzip.plan(gpuzip.Field(shape=3, dtype="quaternion"), 3, **KEYS)


class Refused(unittest.TestCase):
    def refused(self, kind, text, *arrays):
        u = initial()
        with gpuzip.Session(u, 3, **KEYS) as session:
            next(session)
            with self.assertRaisesRegex(kind, text):
                session.save(0, *arrays)
            session.save(0, u)

    def test_objects_that_are_not_arrays(self):
        self.refused(gpuzip.ArrayError, "list is not an array|float is not an array", [1.0, 2.0])
        self.refused(TypeError, "neither the buffer protocol", object())
        self.refused(gpuzip.ArrayError, r"a dict is not an array: .* list\(state.values\(\)\)", {"u": initial()})
        with self.assertRaisesRegex(gpuzip.ArrayError, r"list\(state.values\(\)\)"):
            gpuzip.plan({"u": initial()}, 3, **KEYS)

    def test_other_shapes_and_types(self):
        self.refused(gpuzip.ShapeError, r"shape \(6,\) and the type <f8, the session's \(5,\) and <f8$", initial(6))
        self.refused(gpuzip.ShapeError, r"shape \(5,\) and the type <f4, the session's \(5,\) and <f8$", array.array("f", [0] * 5))
        self.refused(gpuzip.ShapeError, "2 fields: the session has 1: give those of gpuzip_init", initial(), initial())

    @needs_numpy
    def test_the_field_of_another_shape_is_told_in_the_order_of_numpy(self):
        right = [numpy.zeros(3), gpuzip.Field(numpy.zeros((4, 6), order="F"), order="F")]
        wrong = gpuzip.Field(numpy.zeros((4, 5), order="F"), order="F")
        with gpuzip.Session(right, 3, **KEYS) as session:
            for action in session:
                if action.type == gpuzip.SAVE:
                    with self.assertRaisesRegex(gpuzip.ShapeError, r"field 1 .*shape \(4, 5\) .* session's \(4, 6\)"):
                        session.save(action.ts, right[0], wrong)
                    session.save(action.ts)
                elif action.type == gpuzip.RESTORE:
                    with self.assertRaisesRegex(gpuzip.ShapeError, r"field 1 .*shape \(4, 5\) .* session's \(4, 6\)"):
                        session.retrieve(action.ts, right[0], wrong)
                    session.retrieve(action.ts)
                    return
        self.fail("nothing was restored")

    def test_strides(self):
        self.refused(gpuzip.ArrayError, r"shape \(5,\) and strides \(16,\) bytes", memoryview(initial(10))[::2])
        self.refused(gpuzip.ArrayError, r"strides \(-8,\)", memoryview(initial())[::-1])

    @needs_numpy
    def test_layouts_of_numpy(self):
        for wrong in (numpy.zeros((4, 5)).T, numpy.zeros((4, 5))[::-1], numpy.broadcast_to(numpy.zeros(5), (4, 5))):
            with self.assertRaisesRegex(gpuzip.ArrayError, "its transpose"):
                gpuzip.plan(wrong, 3, **KEYS)
        for kind in (">f8", "f4,f4", "U3"):
            with self.assertRaisesRegex(gpuzip.ArrayError, "cannot be fields"):
                gpuzip.plan(numpy.zeros(3, kind), 3, **KEYS)

    def test_read_only_memory(self):
        u = initial()
        with self.assertRaisesRegex(gpuzip.ArrayError, "read-only"):
            saved_and_restored(u, memoryview(u).toreadonly())

    def test_locate_gives_an_array_of_another_shape(self):
        # The library would write five values to the memory of four.
        u = initial()
        for wrong in (initial(4), array.array("f", [0] * 5), [u, u]):
            with gpuzip.Session(u, 5, **KEYS) as session:
                with self.assertRaises(gpuzip.ShapeError):
                    session.run(lambda *_: step(u), lambda *_: None, u, locate=lambda kind, ts: wrong)

    def test_numbers_that_c_cannot_hold(self):
        u = initial()
        for steps in (2**32 + 5, -(2**31) - 1):
            for call in (
                lambda: gpuzip.Session(u, steps, **KEYS),
                lambda: gpuzip.plan(u, steps, **KEYS),
                lambda: gpuzip.Schedule(steps, **KEYS),
            ):
                with self.assertRaisesRegex(gpuzip.ArgumentError, f"steps = {steps}"):
                    call()
        with gpuzip.Session(u, 3, **KEYS) as session:
            next(session)
            with self.assertRaisesRegex(gpuzip.ArgumentError, "ts = 4294967296"):
                session.save(2**32, u)


class Configuration(unittest.TestCase):
    def test_values(self):
        config = gpuzip.Config(host_budget="1.5kB", compressor="cuZFP", zero_copy=True, error_bound="1e-4", device_budget="2 KiB")
        self.assertEqual((config.host_budget, config.compressor, config.zero_copy), (1500, "zfp", True))
        self.assertEqual((config.error_bound, config.device_budget), (1e-4, 2048))
        self.assertEqual(config.copy(), config)
        self.assertEqual(gpuzip.Config().changed(), {})

    def test_what_is_refused(self):
        for key, value in [("checkpointing_snaps", 2**31), ("checkpointing_snaps", 1.5), ("host_budget", -1), ("compressor", "gzip"), ("zero_copy", 2), ("host_budget", "4X"), ("trace_out", 5)]:
            with self.assertRaisesRegex(gpuzip.ConfigError, f"{key} = .*: use "):
                gpuzip.Config(**{key: value})
        with self.assertRaisesRegex(gpuzip.ConfigError, "did you mean host_budget"):
            gpuzip.Config(host_budgets=1)
        for key, remedy in (("memory", "here give host_budget"), ("progress", "gpuzip.progress shows"), ("keep", "gpuzip.adjoint")):
            with self.assertRaisesRegex(gpuzip.ConfigError, f"no configuration key '{key}': {key} is a keyword of .*{remedy}"):
                gpuzip.plan(initial(), 3, **{key: 1})

    def test_every_status_has_a_class(self):
        statuses = {v for k, v in vars(gpuzip._abi).items() if k.startswith("ERR_")}
        self.assertEqual(statuses, set(gpuzip.errors.CLASSES))


if __name__ == "__main__":
    unittest.main()
