"""Zero copy: the session's memory as arrays, whose types, orders and lifetimes are those that are promised."""

import random
import subprocess
import sys
import unittest

import gpuzip
from support import initial, needs_numpy, numpy, states, step

SLOTS = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 4, "cache_capacity": 4, "zero_copy": True}
TYPES = "f8 f4 f2 c16 c8 i8 i4 i2 i1 u8 u4 u2 u1 ?".split()
# NumPy reads read-only memory by DLPack from version 2.1 on.
KNOWS = numpy is not None and numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0"
from_dlpack = numpy.from_dlpack if KNOWS else getattr(numpy, "asarray", None)


def first_save(session):
    """The memory of u(0), filled and committed, and the arrays that filled it."""
    slot = session.save_begin(next(session).ts)
    arrays = slot.arrays
    for array in arrays:
        array[...] = 0.25
    slot.commit()
    return slot, arrays


class Program:
    """A session of drawn fields whose every state is known."""

    def __init__(self, seed):
        self.draw = draw = random.Random(seed)
        self.kinds = [
            (tuple(draw.randint(1, 5) for _ in range(draw.randint(0, 4))), draw.choice(TYPES), draw.choice("CF"))
            for _ in range(draw.randint(1, 3))
        ]
        self.steps = draw.randint(2, 25)
        self.live = [numpy.asarray(numpy.full(shape, 0.3), kind, order) for shape, kind, order in self.kinds]

    def fields(self):
        """By arrays or by their descriptions."""
        if self.draw.random() < 0.5:
            return [gpuzip.Field(u, order=order) for u, (_, _, order) in zip(self.live, self.kinds)]
        return [gpuzip.Field(shape=shape, dtype=numpy.dtype(kind), order=order) for shape, kind, order in self.kinds]

    def advance(self, read, write, t):
        for k, (now, after) in enumerate(zip(read, write)):
            after[...] = (numpy.arange(now.size).reshape(now.shape) * 7 + t * (k + 3)) % 53 + (now % 2 if now.dtype.kind in "iuf" else 0)

    def states(self):
        found = [self.live]
        for t in range(1, self.steps + 1):
            found.append([numpy.empty_like(u) for u in self.live])
            self.advance(*found[-2:], t)
        return found

    def made(self, slot):
        """NumPy arrays of the memory, in a drawn way."""
        return self.draw.choice(
            (
                lambda: slot.arrays,
                lambda: [memory.array for memory in slot],
                lambda: list(map(numpy.asarray, slot)),
                lambda: list(map(from_dlpack, slot)),
                lambda: list(map(self.viewed, slot)),
            )
        )()

    def viewed(self, memory):
        """An array of `view()`: of bytes for the types that memoryviews do not have."""
        view = memory.view()
        array = numpy.asarray(view)
        if memory.dtype[1] == "c" or memory.dtype == "<f2":
            array = array.view(memory.dtype)
            array = array.reshape(memory.shape[::-1] if memory.order == "F" else memory.shape)
        elif not memory.shape:
            array = array.reshape(())
        else:
            assert array.dtype == memory.dtype, (array.dtype, memory.dtype)
        return array.T if memory.order == "F" else array


@needs_numpy
class Arrays(unittest.TestCase):
    def check(self, arrays, slot, program):
        for array, memory, (shape, kind, order) in zip(arrays, slot, program.kinds):
            self.assertEqual((array.shape, array.dtype), (shape, numpy.dtype(kind)))
            self.assertEqual(array.__array_interface__["data"], (memory.data, memory.readonly))
            self.assertTrue(array.flags.c_contiguous if order == "C" else array.flags.f_contiguous)

    def test_arrays_of_every_type_and_order_are_the_memory(self):
        in_place = 0
        for seed in range(300):
            program = Program(seed)
            draw, expected = program.draw, program.states()
            slots = draw.randint(0, 5)
            keys = {**SLOTS, "checkpointing_snaps": draw.randint(1, 6), "cache_capacity": slots, "backend": "host"}
            saved = set()
            with gpuzip.Session(program.fields(), program.steps, **keys) as session:
                arrays = None
                for action in session:
                    if action.type == gpuzip.FORWARD:
                        if action.next_is_save and draw.random() < 0.7:
                            after = program.made(session.save_begin(action.ts))
                        else:
                            after = [numpy.empty_like(u) for u in program.live]
                        program.advance(arrays, after, action.ts)
                        arrays = after
                    elif action.type == gpuzip.SAVE:
                        slot = session.save_begin(action.ts)
                        found = program.made(slot)
                        self.check(found, slot, program)
                        for to, of in zip(found, expected[0] if arrays is None else arrays):
                            to[...] = of
                        slot.commit()
                        arrays = found
                        saved.add((action.ts, slot[0].data))
                    elif action.type == gpuzip.RESTORE:
                        slot = session.retrieve_acquire(action.ts, writable=True)
                        arrays = program.made(slot)
                        self.check(arrays, slot, program)
                        in_place += (action.ts, slot[0].data) in saved
                    else:
                        for of, right in zip(arrays, expected[action.ts]):
                            self.assertEqual(of.tobytes(), right.tobytes(), (seed, action))
        self.assertGreater(in_place, 1000)

    def test_fortran_order_without_zero_copy(self):
        for keys in ({}, {"compressor": "lorenzo", "error_bound": 1e-300}):
            u = numpy.asfortranarray(numpy.random.default_rng(1).random((5, 5, 5)))
            with gpuzip.Session(gpuzip.Field(u, order="F"), 3, checkpointing_algorithm="revolve", **keys) as session:
                session.get_action()
                with self.assertRaisesRegex(gpuzip.ArrayError, "field 0: .*rows"):
                    session.save(0, numpy.ascontiguousarray(u))
                with self.assertRaisesRegex(gpuzip.ArrayError, "order 'C', and the session's in 'F'"):
                    session.save(0, gpuzip.Field(u))
                before = u.copy("F")
                session.save(0)
                for action in session:
                    u[...] = 7.0
                    if action.type == gpuzip.SAVE:
                        session.save(action.ts)
                    elif action.type == gpuzip.RESTORE:
                        session.retrieve(action.ts)
                        if action.ts == 0:
                            break
                numpy.testing.assert_array_equal(u, before)
        stream = gpuzip.encode(gpuzip.Field(u, order="F"), compressor="lorenzo", error_bound=1e-9)
        self.assertEqual(stream, gpuzip.encode(u.T, compressor="lorenzo", error_bound=1e-9))
        with self.assertRaisesRegex(gpuzip.ArrayError, 'order = .A.: use "C"'):
            gpuzip.Field(u, order="A")

    def test_a_committed_state_is_not_written_to(self):
        with gpuzip.Session([numpy.zeros(5), numpy.zeros((2, 3), "f4")], 9, **SLOTS) as session:
            slot, arrays = first_save(session)
            for array in (*arrays, *slot.arrays, *map(from_dlpack, slot)):
                self.assertEqual(array.flat[0], 0.25)
                with self.assertRaisesRegex(ValueError, "read-only"):
                    array[...] = 1.0
            with self.assertRaisesRegex(gpuzip.ArrayError, "read-only"):
                gpuzip.decode(b"", slot[0])

    def test_the_shared_level_is_read_only(self):
        now, before, shared = numpy.zeros(8), numpy.zeros(8), 0
        keys = {"checkpointing_algorithm": "store-all", "shared_levels": True, "cache_capacity": 30, "zero_copy": True}
        with gpuzip.Session([now, before], 12, roles=[0, 1], **keys) as session:
            for action in session:
                if action.type == gpuzip.SAVE:
                    slot = session.save_begin(action.ts)
                    self.assertEqual([memory.readonly for memory in slot], [False, action.shared_level])
                    if action.shared_level:
                        self.assertEqual(slot[1].array[0], action.ts - 1)
                        shared += 1
                    else:
                        slot[1].array[...] = action.ts - 1
                    slot[0].array[...] = action.ts
                    slot.commit()
                elif action.type == gpuzip.RESTORE:
                    slot = session.retrieve_acquire(action.ts, writable=True)
                    self.assertEqual(slot[1].readonly, action.shared_level)
                    self.assertEqual([u[0] for u in slot.arrays], [action.ts, action.ts - 1])
        self.assertGreater(shared, 8)


@needs_numpy
class Lifetimes(unittest.TestCase):
    def refuses(self, slot, text):
        memory = slot[0]
        for use in (
            lambda: memory.data,
            lambda: memory.array,
            lambda: slot.arrays,
            memory.view,
            memory.__dlpack__,
            lambda: numpy.asarray(memory),
            lambda: gpuzip.encode(memory, compressor="lorenzo", error_bound=1.0),
        ):
            with self.assertRaisesRegex(gpuzip.StateError, text):
                use()

    def test_memory_is_given_back_at_the_next_save_or_retrieve(self):
        u = numpy.zeros(5)
        with gpuzip.Session(u, 9, **SLOTS) as session:
            slot, _ = first_save(session)
            view, part = slot[0].view(), slot[0].view()[1:]
            capsule = slot[0].__dlpack__(max_version=(1, 0))
            self.assertEqual(view[0], 0.25)
            while next(session).type != gpuzip.SAVE:
                # The state of the last save may be read while the next one is computed.
                self.assertEqual(slot[0].array[0], 0.25)
            after = session.save_begin(session.stats().forward_steps)
            self.assertIs(after[0], session.save_begin(after._ts)[0])
            self.assertEqual(slot[0].array[0], 0.25)
            after.commit()
            self.refuses(slot, r"of u\(0\) was given back by a later save")
            with self.assertRaisesRegex(ValueError, "released"):
                view[0]
            # Parts of a view, like arrays, cannot be taken back. The memory is mapped.
            self.assertEqual(part[0], 0.25)
            if KNOWS:
                with self.assertRaises(ValueError):
                    from_dlpack(Once(capsule))
        self.refuses(after, "later finalize")

    def test_other_calls_give_memory_back(self):
        u = numpy.zeros(5)
        with gpuzip.Session(u, 9, **SLOTS) as session:
            slot, _ = first_save(session)
            action = next(a for a in session if a.type == gpuzip.SAVE)
            begun = session.save_begin(action.ts)
            session.save(action.ts, u)
            self.refuses(slot, "later save")
            self.refuses(begun, "later save")
            for action in session:
                if action.type == gpuzip.SAVE:
                    session.save(action.ts, u)
                elif action.type == gpuzip.RESTORE:
                    break
            with session.acquire(action.ts) as slot:
                self.assertEqual(slot[0].array.shape, (5,))
            self.refuses(slot, "retrieve_release")
            restores = (a for a in session if a.type == gpuzip.RESTORE)
            slot = session.retrieve_acquire(next(restores).ts)
            after = session.retrieve_acquire(next(restores).ts)
            self.refuses(slot, "later retrieve")
            session.retrieve(next(restores).ts, u)
            self.refuses(after, "later retrieve")
            session.setup()
            slot, _ = first_save(session)
            session.setup()
            self.refuses(slot, "setup")

    def test_arrays_keep_the_memory_of_a_session_that_ended(self):
        for seed in range(40):
            draw = random.Random(seed)
            session = gpuzip.Session(numpy.zeros((200, 50)), 9, **SLOTS)
            slot, arrays = first_save(session)
            make = draw.choice(
                (
                    lambda slot: slot[0].array,
                    lambda slot: slot[0].array[3:, ::2],
                    lambda slot: numpy.asarray(slot[0]),
                    lambda slot: from_dlpack(slot[0]).T,
                    lambda slot: numpy.asarray(slot[0].view()),
                    lambda slot: numpy.frombuffer(slot[0].view()).reshape(200, 50),
                )
            )
            kept, _ = make(slot), arrays
            del arrays, _
            finalizer = session._finalizer
            if draw.random() < 0.5:
                session.finalize()
                for call in (session.stats, session.get_action, session.setup, lambda: session.save(0)):
                    with self.assertRaises(gpuzip.HandleError):
                        call()
                session.finalize()
                finalizer = session._finalizer
            else:
                del session, slot, make
            self.assertTrue(finalizer.alive)
            self.assertTrue((kept == 0.25).all())
            del kept
            self.assertFalse(finalizer.alive, seed)

    def test_without_arrays_a_session_ends_at_once(self):
        session = gpuzip.Session(numpy.zeros(5), 9, **SLOTS)
        slot, arrays = first_save(session)
        del arrays
        view, capsule = slot[0].view(), slot[0].__dlpack__(max_version=(1, 0))
        handle, finalizer = session._handle, session._finalizer
        session.finalize()
        self.assertFalse(finalizer.alive)
        self.assertEqual(session._handle, handle)
        self.assertFalse(session._finalizer.alive)
        with self.assertRaisesRegex(ValueError, "released"):
            view[0]
        self.assertIn("used_dltensor", repr(capsule))

    def test_memory_that_arrays_use_does_not_move(self):
        u = numpy.zeros(5)
        with gpuzip.Session(u, 9, **SLOTS) as session:
            _, (array,) = first_save(session)
            with self.assertRaisesRegex(gpuzip.StateError, "arrays of it are in use"):
                session.setup(30)
            self.assertEqual(array[0], 0.25)
            session.setup()
            self.assertFalse(array.flags.writeable)
            session.profile_steps([1.0], [2.0])
            with self.assertRaisesRegex(gpuzip.StateError, "arrays of it are in use"):
                session.setup()
            del array, _
            self.assertEqual(session.setup(30).summary().steps, 30)
            _, (array,) = first_save(session)
            session.setup()

    def test_a_forked_child_leaves_memory_alone(self):
        program = """
import gpuzip, numpy, os
session = gpuzip.Session(numpy.zeros(5), 9, zero_copy=True, checkpointing_algorithm="revolve", checkpointing_snaps=4)
session.get_action()
array = session.save_begin(0)[0].array
if os.fork() == 0:
    for call in (lambda: session.setup(30), session.finalize):
        try:
            call()
        except (gpuzip.ForkedError, gpuzip.StateError):
            pass
else:
    assert os.wait()[1] == 0
    array[:] = 1.0
    print("ok")
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ok\n", ""))

    def test_dlpack_says_what_it_cannot_do(self):
        with gpuzip.Session(numpy.zeros(5), 9, **SLOTS) as session:
            slot, _ = first_save(session)
            self.assertEqual(slot[0].__dlpack_device__(), (1, 0))
            with self.assertRaisesRegex(BufferError, "read-only, which needs DLPack 1.0"):
                slot[0].__dlpack__()
            for wrong in ({"copy": True}, {"dl_device": (2, 0)}):
                with self.assertRaisesRegex(BufferError, "as it is"):
                    slot[0].__dlpack__(max_version=(1, 1), **wrong)


class WithoutNumpy(unittest.TestCase):
    def test_a_program_that_computes_in_the_memory(self):
        """Each step reads one memory and writes another, or the program's own."""
        expected, u, own = states(20), None, initial()
        with gpuzip.Session(initial(), 20, **SLOTS) as session:
            for action in session:
                if action.type == gpuzip.FORWARD:
                    to = session.save_begin(action.ts)[0].view() if action.next_is_save else memoryview(own)
                    to[:] = memoryview(bytes(u)).cast("d")
                    step(to)
                    u = to
                elif action.type == gpuzip.SAVE:
                    slot = session.save_begin(action.ts)
                    if action.ts == 0:
                        slot[0].view()[:] = memoryview(initial())
                    slot.commit()
                    u = slot[0].view()
                elif action.type == gpuzip.RESTORE:
                    u = session.retrieve_acquire(action.ts)[0].view()
                else:
                    self.assertEqual(bytes(u), expected[action.ts])


class Once:
    """A capsule that was asked for before."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


if __name__ == "__main__":
    unittest.main()
