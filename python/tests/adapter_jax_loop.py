"""gpuzip.jax.loop beside the gradients of jax.lax.scan."""

import functools
import gc
import os
import unittest
import weakref
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import gpuzip
import gpuzip.jax
from programs import Program, Stop, interrupted, loop, together
from support import SCHEDULES, forward_steps, is_open, sessions

jax.config.update("jax_enable_x64", True)

N = 200
FEW = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 7}
ALL = {"checkpointing_algorithm": "store-all"}


def step(state, t, speed, source=0.0):
    """A wave with a restoring force that grows with time, and a counter beside it."""
    u, before, count = state
    curvature = jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)
    return 2 * u - before + speed * curvature - 1e-4 * t * jnp.sin(u) + source, u, count + 1


def begin(u):
    return u, u, jnp.int32(0)


def ours(u, *params, n=N, **config):
    last, _, count = gpuzip.jax.loop(step, begin(u), n, *params, **config)
    assert int(jax.lax.stop_gradient(count)) == n
    return jnp.sum(last**2)


def plain(u, *params, n=N):
    def body(state, t):
        return step(state, t, *params), None

    (last, _, _), _ = jax.lax.scan(body, begin(u), jnp.arange(n, dtype=jnp.int32))
    return jnp.sum(last**2)


class Scan(unittest.TestCase):
    def setUp(self):
        self.u = jnp.exp(-(jnp.linspace(-3, 3, 64) ** 2))
        self.speed = jnp.linspace(0.1, 0.3, 64)

    def gradients(self, function, **options):
        return jax.value_and_grad(lambda *x: function(*x, **options), (0, 1))(self.u, self.speed)

    def test_the_gradient_is_that_of_a_plain_scan(self):
        expected, slopes = self.gradients(plain)
        for config in (FEW, ALL, {"host_budget": "20K"}, {**FEW, "range_actions": True}):
            value, gradients = self.gradients(ours, **config)
            np.testing.assert_allclose(value, expected, rtol=1e-12)
            for gradient, slope in zip(gradients, slopes):
                error = jnp.max(jnp.abs(gradient - slope)) / jnp.max(jnp.abs(slope))
                self.assertLess(float(error), 1e-12)

    def test_snapshots_change_no_bit(self):
        every = self.gradients(ours, **ALL)
        for snapshots in (1, 3, 30):
            few = self.gradients(ours, checkpointing_algorithm="revolve", checkpointing_snaps=snapshots, n=60)
            again = self.gradients(ours, **ALL, n=60)
            jax.tree.map(np.testing.assert_array_equal, few, again)
        jax.tree.map(np.testing.assert_array_equal, self.gradients(ours, **FEW), every)

    def test_short_loops_and_single_precision(self):
        for n in (1, 2, 3):
            value, gradients = self.gradients(ours, n=n, **FEW)
            expected, slopes = self.gradients(plain, n=n)
            np.testing.assert_allclose(value, expected, rtol=1e-13)
            for gradient, slope in zip(gradients, slopes):
                np.testing.assert_allclose(gradient, slope, rtol=1e-11, atol=1e-13)
        u = self.u.astype(jnp.float32)
        gradient = jax.grad(lambda u: ours(u, jnp.float32(0.2), **FEW))(u)
        self.assertEqual(gradient.dtype, jnp.float32)
        slope = jax.grad(lambda u: plain(u, jnp.float32(0.2)))(u)
        np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-4)

    def test_one_array_as_two_leaves(self):
        def energy(speed, config):
            return ours(self.u, speed, **config)

        slopes = [jax.grad(energy)(self.speed, config) for config in (FEW, ALL)]
        np.testing.assert_array_equal(*slopes)
        expected = jax.grad(lambda speed: plain(self.u, speed))(self.speed)
        self.assertLess(float(jnp.max(jnp.abs(slopes[0] - expected)) / jnp.max(jnp.abs(expected))), 1e-12)

    def test_integers_among_the_parameters(self):
        def picked(state, t, speed, table):
            return step(state, t, speed * table[t % 3])

        def energy(speed, table, config):
            return jnp.sum(gpuzip.jax.loop(picked, begin(self.u), 30, speed, table, **config)[0])

        def expected(speed, table):
            state = begin(self.u)
            for t in range(30):
                state = picked(state, t, speed, table)
            return jnp.sum(state[0])

        table = jnp.array([1, 0, 1])
        slope = jax.grad(energy)(self.speed, table, FEW)
        np.testing.assert_array_equal(slope, jax.grad(energy)(self.speed, table, ALL))
        np.testing.assert_allclose(slope, jax.grad(expected)(self.speed, table), rtol=1e-11, atol=1e-13)
        by_table = jax.grad(energy, (0, 1), allow_int=True)(self.speed, table, FEW)[1]
        self.assertEqual(by_table.dtype, jax.dtypes.float0)

    def test_without_a_gradient_nothing_is_kept(self):
        value = ours(self.u, self.speed, checkpointing_algorithm="trace", trace_file_path="nowhere")
        np.testing.assert_allclose(value, plain(self.u, self.speed), rtol=1e-12)

    def test_a_reverse_sweep_runs_once(self):
        _, pull_back = jax.vjp(lambda u: ours(u, self.speed, **FEW), self.u)
        pull_back(1.0)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "runs once"):
            pull_back(1.0)

    def test_a_reverse_sweep_that_fails_is_over(self):
        _, pull_back = jax.vjp(lambda u: ours(u, self.speed, **FEW), self.u)
        with mock.patch.object(gpuzip._jax_loop._Sweep, "until_backward", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                pull_back(1.0)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "runs once"):
            pull_back(1.0)

    def test_types_of_jax(self):
        def shrink(state, t, speed):
            u, low = state
            return u * speed + low.astype(u.dtype), (low * 0.5).astype(jnp.bfloat16)

        def total(speed, config):
            return jnp.sum(gpuzip.jax.loop(shrink, (self.u, self.u.astype(jnp.bfloat16)), 30, speed, **config)[0])

        slopes = [jax.grad(total)(self.speed, config) for config in (FEW, ALL)]
        np.testing.assert_array_equal(*slopes)
        self.assertGreater(float(jnp.max(jnp.abs(slopes[0]))), 0)

    def test_what_is_not_differentiated_to_the_end_is_freed(self):
        for _ in range(50):
            jax.vjp(lambda u: ours(u, self.speed, **FEW), self.u)
        gc.collect()
        live = [x for x in gc.get_objects() if isinstance(x, gpuzip.Session)]
        self.assertLess(len(live), 3)

    def test_steps_that_are_not_used_any_more_are_freed(self):
        steps = weakref.WeakSet()
        for k in range(40):

            def scaled(u, t, speed, k=k):
                return k * speed * u

            steps.add(scaled)
            gpuzip.jax.loop(scaled, self.u, 3, self.speed)
        gc.collect()
        self.assertLess(len(steps), 20)

    def test_what_a_step_reads_is_that_of_the_call(self):
        class Model:
            def __init__(self):
                self.dt, self.parts, self.table = 0.1, {"rate": 0.5}, np.ones(1)

            def step(self, u, t, speed):
                return u + self.dt * self.parts["rate"] * jnp.sin(speed * u) * self.table

            def __call__(self, u, t, speed):
                return self.step(u, t, speed)

        model, rate = Model(), 1.0

        def inner(u, t, speed):
            return rate * model.step(u, t, speed)

        def changes():
            nonlocal rate
            yield None
            model.dt = 0.3
            yield None
            model.parts["rate"] = 0.7
            yield None
            model.table[:] = 1.5
            yield None
            rate = 0.9
            yield None

        def gradient(scan, step, **config):
            return jax.grad(lambda *x: jnp.sum(scan(step, x[0], 9, x[1], **config) ** 2), (0, 1))(self.u, self.speed)

        def loop(step, u, n, speed):
            for t in range(n):
                u = step(u, t, speed)
            return u

        partial = functools.partial(lambda scale, u, t, speed: scale * model.step(u, t, speed), 0.8)
        for _ in changes():
            for step in (model.step, model, inner, partial, lambda *x: inner(*x)):
                for found, expected in zip(gradient(gpuzip.jax.loop, step, **FEW), gradient(loop, step)):
                    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        # The reverse sweep has the values of the forward sweep.
        _, pull_back = jax.vjp(lambda u: gpuzip.jax.loop(model.step, u, 9, self.speed, **FEW), self.u)
        expected = jax.vjp(lambda u: loop(model.step, u, 9, self.speed), self.u)[1](self.u)
        model.dt = 7.0
        np.testing.assert_allclose(pull_back(self.u)[0], expected[0], rtol=1e-12, atol=1e-14)

    def test_calls_with_one_function_share_its_code(self):
        traces = [0]

        def counted(u, t, speed):
            count(traces)
            return u * speed

        def count(traces, add=lambda traces: traces.__setitem__(0, traces[0] + 1)):
            add(traces)

        def constant(u, t, speed):
            return u * speed * 0.5

        gpuzip.jax.loop(constant, self.u, 3, self.speed)
        kept = constant._gpuzip_compiled[2]
        gpuzip.jax.loop(constant, self.u, 5, self.speed, **FEW)
        self.assertIs(constant._gpuzip_compiled[2], kept)
        gpuzip.jax.loop(counted, self.u, 3, self.speed)
        self.assertEqual(traces[0], 1)

    def test_a_value_to_differentiate_by_must_be_a_parameter(self):
        with self.assertRaisesRegex(gpuzip.ArgumentError, "one of `params`"):
            jax.grad(lambda s: jnp.sum(gpuzip.jax.loop(lambda u, t: u * s, self.u, 5, **FEW)))(2.0)

    def program(self, seed):
        return Program(seed, jnp, jnp.array, lambda x, kind: x.astype(kind))

    def pull_back(self, program, scan, n, inputs, keys):
        """A function that returns the gradient of the program's loss."""
        value, back = jax.vjp(lambda *x: program.loss(scan, n, *x, **keys), *inputs)
        return lambda: back(jnp.ones_like(value))

    def near(self, program, found, expected, what):
        for one, other in zip(expected, found):
            self.assertEqual(one.dtype, other.dtype)
            error, most = (float(jnp.max(jnp.abs(x))) for x in (one - other, one))
            self.assertLessEqual(error, program.bound * most, what)

    def test_random_programs(self):
        programs, cases = (50, 20) if os.environ.get("GPUZIP_TEST_LONG") else (3, 3)
        stopped = twice = 0
        for seed in range(programs):
            program = self.program(seed)
            for case in range(cases):
                n, keys = program.config(longest=6)
                inputs, draw, what = program.inputs(), program.draw, (seed, case, n, keys)
                expected = self.pull_back(program, loop, n, inputs, {})()
                back, left = None, keys.get("sweeps", 1) - 1
                if draw.random() < 0.3:
                    with interrupted(draw):
                        try:
                            back = self.pull_back(program, gpuzip.jax.loop, n, inputs, keys)
                            self.near(program, back(), expected, what)
                        except Stop:
                            stopped, left = stopped + 1, 0
                else:
                    back = self.pull_back(program, gpuzip.jax.loop, n, inputs, keys)
                    self.near(program, back(), expected, what)
                if back is not None:
                    for _ in range(left):
                        self.near(program, back(), expected, what)
                        twice += 1
                    with self.assertRaisesRegex(gpuzip.ArgumentError, "runs once"):
                        back()
                if draw.random() < 0.3:
                    again = self.pull_back(program, gpuzip.jax.loop, n, inputs, keys)
                    self.near(program, again(), expected, what)
                program.change()
        self.assertGreater(min(stopped, twice), 0)

    def test_random_programs_in_threads(self):
        rounds, longest = (30, 6) if os.environ.get("GPUZIP_TEST_LONG") else (1, 2)
        for number in range(rounds):
            programs = [self.program(1000 + 3 * number + k) for k in range(3)]

            def work(program, inputs, n, keys):
                for _ in range(2):
                    expected = self.pull_back(program, loop, n, inputs, {})()
                    found = self.pull_back(program, gpuzip.jax.loop, n, inputs, keys)()
                    self.near(program, found, expected, (number, n, keys))

            def drawn(program):
                config = program.config(longest)
                return functools.partial(work, program, program.inputs(), *config)

            together([drawn(program) for program in programs])
            # One program in all threads, and so one function that keeps its compiled code.
            step = programs[0].step()
            with mock.patch.object(programs[0], "step", lambda: step):
                together([drawn(programs[0]) for _ in range(3)])

    def test_one_reverse_sweep_in_several_threads(self):
        for _ in range(3):
            value, back = jax.vjp(lambda u: ours(u, self.speed, n=20, **FEW), self.u)
            expected = jax.vjp(lambda u: ours(u, self.speed, n=20, **FEW), self.u)[1](1.0)
            found, refused = [], []

            def work():
                try:
                    found.append(back(1.0))
                except gpuzip.ArgumentError:
                    refused.append(1)

            together([work] * 4)
            self.assertEqual((len(found), len(refused)), (1, 3))
            np.testing.assert_array_equal(found[0], expected)

    def test_wrong_calls_say_what_to_do(self):
        def run(u):
            return ours(u, self.speed, **FEW)

        for wrong in (jax.jit(run), jax.grad(jax.jit(run)), lambda u: jax.vmap(run)(u[None])):
            with self.assertRaisesRegex(gpuzip.ArgumentError, "outside of jax.jit"):
                wrong(self.u)
        with self.assertRaisesRegex(gpuzip.ConfigError, "checkpointing_snaps"):
            ours(self.u, self.speed, checkpointing_snap=3)
        with self.assertRaisesRegex(gpuzip.UnsupportedError, "gpuzip.jax.loop writes no restart files"):
            ours(self.u, self.speed, persist_dir="folder", **FEW)
        with self.assertRaisesRegex(gpuzip.ConfigError, "memory is a keyword of gpuzip.adjoint and of scan"):
            ours(self.u, self.speed, memory="64K")
        for leaf in (jax.random.key(1), jnp.zeros((0, 3))):
            with self.assertRaisesRegex(gpuzip.UnsupportedError, "leaf 1 of the state.*gpuzip.jax.scan"):
                gpuzip.jax.loop(lambda state, t: state, (self.u, leaf), 3)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "no gradient of its gradient"):
            jax.grad(lambda u: jnp.sum(jax.grad(lambda u: ours(u, self.speed, **FEW))(u)))(self.u)
        with self.assertRaisesRegex(TypeError, "n = 2.5"):
            gpuzip.jax.loop(step, begin(self.u), 2.5, self.speed)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "n is 0"):
            ours(self.u, self.speed, n=0)
        with self.assertRaisesRegex(gpuzip.UnsupportedError, "adjoint_every"):
            jax.grad(lambda u: ours(u, self.speed, adjoint_every=3, **FEW))(self.u)
        with self.assertRaisesRegex(gpuzip.ConfigError, "checkpointing_snaps"):
            jax.grad(lambda u: ours(u, self.speed, checkpointing_snap=3))(self.u)

    def test_memory_of_a_session_is_an_array(self):
        session = gpuzip.Session(np.zeros((5, 4)), 9, zero_copy=True, cache_capacity=7, **FEW)
        session.get_action()
        slot = session.save_begin(0)
        slot[0].array[...] = 0.25
        array = jnp.from_dlpack(slot[0])
        self.assertEqual(array.unsafe_buffer_pointer(), slot[0].data)
        session.finalize()
        finalizer = session._finalizer
        self.assertTrue(finalizer.alive)
        self.assertEqual(float(array.sum()), 5.0)
        del array
        gc.collect()
        self.assertFalse(finalizer.alive)


class Sweeps(unittest.TestCase):
    """Reverse sweeps that are planned together: `sweeps=k`."""

    def setUp(self):
        self.u, self.speed = jnp.linspace(0.1, 0.9, 64), jnp.linspace(-0.5, 1.5, 64)
        self.weights = [jnp.cos(jnp.arange(64.0) * (k + 1)) for k in range(6)]

        def step(u, t, speed):
            return u + 0.1 * jnp.sin(speed * u) * (1 + 0.01 * t)

        self.step, self.compiled = step, gpuzip._jax_loop._Compiled(step, self.u, (self.speed,))
        # How often the compiled step and its adjoint are called.
        self.calls = {"forward": 0, "adjoint": 0}
        noted = mock.Mock(forward=self.noted("forward"), adjoint=self.noted("adjoint"))
        patch = mock.patch.object(gpuzip._jax_loop, "_compiled", lambda *_: noted)
        patch.start()
        self.addCleanup(patch.stop)

    def noted(self, name):
        function = getattr(self.compiled, name)

        def call(*arguments):
            self.calls[name] += 1
            return function(*arguments)

        return call

    def pull_back(self, n, **config):
        self.calls.update(forward=0, adjoint=0)
        return jax.vjp(lambda u, speed: gpuzip.jax.loop(self.step, u, n, speed, **config), self.u, self.speed)[1]

    def expected(self, n):
        """The gradients by cotangent, each from a run of its own that keeps every state."""
        return [self.pull_back(n, **ALL)(weight) for weight in self.weights]

    def same(self, found, expected):
        jax.tree.map(np.testing.assert_array_equal, found, expected)
        self.assertGreater(min(float(jnp.max(jnp.abs(x))) for x in found), 0)

    def steps(self, n, config, sweeps):
        """Forward steps of the plan and of the last state."""
        return forward_steps(np.zeros(64), n, {"range_actions": False, **config}, sweeps=sweeps) + 1

    def test_they_share_the_states_of_one_forward_sweep(self):
        for n in (1, 2, 41):
            expected = self.expected(n)
            for k, config in ((k, config) for k in range(1, 6) for config in SCHEDULES):
                with self.subTest(n=n, k=k, **config), sessions() as made:
                    back = self.pull_back(n, sweeps=k, **config)
                    for sweep in range(k):
                        self.assertEqual(is_open(made), [True])
                        self.same(back(self.weights[sweep]), expected[sweep])
                    self.assertEqual(is_open(made), [False])
                    self.assertEqual(self.calls, {"forward": self.steps(n, config, k), "adjoint": k * n})
                    if k > 1:
                        self.assertLess(self.calls["forward"], k * self.steps(n, config, 1))
                    for _ in range(2):
                        with self.assertRaisesRegex(gpuzip.ArgumentError, rf"as the key `sweeps` plans \(here {k}\)"):
                            back(self.weights[0])
                    self.assertEqual(len(made), 1)

    def test_a_pullback_that_is_dropped_closes_the_session(self):
        with sessions() as made:
            for sweeps in range(3):
                back = self.pull_back(9, sweeps=3, **FEW)
                for sweep in range(sweeps):
                    back(self.weights[sweep])
                self.assertEqual(is_open(made)[-1], True)
            del back
            gc.collect()
        self.assertEqual(is_open(made), [False] * len(made))

    def test_exceptions_in_a_sweep(self):
        for name in ("rewind", "retrieve", "save", "get_action"):
            for fails in range(3):
                # Revolve saves states in the last sweep, too.
                if (name, fails) in {("rewind", 0), ("save", 0), ("save", 1)}:
                    continue
                with self.subTest(name=name, fails=fails), sessions() as made:
                    back = self.pull_back(41, sweeps=3, **{**FEW, "checkpointing_snaps": 3})
                    for sweep in range(fails):
                        back(self.weights[sweep])
                    with mock.patch.object(gpuzip.Session, name, side_effect=KeyboardInterrupt):
                        with self.assertRaises(KeyboardInterrupt):
                            try:
                                back(self.weights[fails])
                            finally:
                                self.assertEqual(is_open(made), [False])
                    with self.assertRaisesRegex(gpuzip.ArgumentError, "not after an error"):
                        back(self.weights[0])

    def test_rows_of_a_jacobian(self):
        def last(u, speed, loop, **config):
            return loop(self.step, u, 20, speed, **config)[:3]

        expected = jax.jacrev(last, (0, 1))(self.u, self.speed, lambda step, u, n, speed: loop(step, u, n, speed))
        # jax.jacrev has one reverse sweep for all rows.
        self.calls["adjoint"] = 0
        with sessions() as made:
            found = jax.jacrev(functools.partial(last, loop=gpuzip.jax.loop, sweeps=1, **FEW), (0, 1))(self.u, self.speed)
            self.assertEqual((self.calls["adjoint"], is_open(made)), (20, [False]))
            _, back = jax.vjp(functools.partial(last, loop=gpuzip.jax.loop, sweeps=3, **FEW), self.u, self.speed)
            rows = [back(row) for row in jnp.eye(3)]
        self.assertEqual(is_open(made), [False] * 2)
        for k in (0, 1):
            for one in (found[k], jnp.stack([row[k] for row in rows])):
                np.testing.assert_allclose(one, expected[k], rtol=1e-12, atol=1e-15)

    def test_several_threads_have_one_sweep_each(self):
        expected = self.expected(20)
        for planned in (1, 3, 6):
            back, found, refused = self.pull_back(20, sweeps=planned, **FEW), {}, []

            def work(k):
                try:
                    found[k] = back(self.weights[k])
                except gpuzip.ArgumentError:
                    refused.append(k)

            together([functools.partial(work, k) for k in range(6)])
            self.assertEqual((len(found), len(refused)), (planned, 6 - planned))
            for k, slopes in found.items():
                self.same(slopes, expected[k])

    def test_what_has_one_sweep(self):
        with self.assertRaisesRegex(gpuzip.UnsupportedError, "sweeps = 2"):
            self.pull_back(9, sweeps=2, checkpointing_algorithm="online", checkpointing_snaps=4)
        with self.assertRaisesRegex(gpuzip.ConfigError, "sweeps = -1"):
            self.pull_back(9, sweeps=-1, **FEW)


if __name__ == "__main__":
    unittest.main()
