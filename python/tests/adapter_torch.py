"""gpuzip.torch.scan beside the gradients of a plain loop."""

import array
import contextlib
import functools
import gc
import os
import random
import unittest
import weakref
from unittest import mock

import numpy
import torch

import gpuzip
import gpuzip.torch
from programs import Program, Stop, interrupted, together
from support import SCHEDULES, benchmark, forward_steps, is_open, sessions

N = 200
FEW = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 7}
ALL = {"checkpointing_algorithm": "store-all"}


def step(state, t, speed, source=None):
    """A wave with a restoring force that grows with time, and a counter beside it."""
    u, before, count = state["u"], state["levels"][0], state["levels"][1]
    curvature = torch.roll(u, 1) - 2 * u + torch.roll(u, -1)
    after = 2 * u - before + speed * curvature - 1e-4 * t * speed * torch.sin(u)
    return {"u": after if source is None else after + source, "levels": (u, count + 1)}


def begin(u):
    return {"u": u, "levels": (torch.zeros_like(u), torch.tensor(0))}


def plain_loop(step, state, n, *params):
    for t in range(n):
        state = step(state, t, *params)
    return state


def run(scan, u, *params, n=N, step=step, **config):
    last = scan(step, begin(u), n, *params, **config)
    assert int(last["levels"][1]) == n
    return torch.sum(last["u"] ** 2) + torch.sum(last["levels"][0])


def ours(*arguments, **config):
    return run(gpuzip.torch.scan, *arguments, **config)


def plain(*arguments, **options):
    return run(plain_loop, *arguments, **options)


def reordered(x, draw):
    """The tensor with its dimensions in a drawn order in memory."""
    order = draw.sample(range(x.dim()), x.dim())
    return x.permute(order).contiguous().permute([order.index(d) for d in range(x.dim())])


class Scan(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)
        self.u = torch.exp(-(torch.linspace(-3, 3, 64, dtype=torch.float64) ** 2)).requires_grad_()
        self.speed = torch.linspace(0.1, 0.3, 64, dtype=torch.float64).requires_grad_()
        self.source = torch.linspace(-1e-3, 1e-3, 64, dtype=torch.float64).requires_grad_()

    def gradients(self, function, *inputs, **options):
        inputs = inputs or (self.u, self.speed, self.source)
        value = function(*inputs, **options)
        return (value.detach(), *torch.autograd.grad(value, [x for x in inputs if x.requires_grad]))

    def same(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for k, (a, b) in enumerate(zip(found, expected)):
            self.assertTrue(a.dtype == b.dtype and torch.equal(a, b), k)
            self.assertGreater(float(torch.max(torch.abs(a))), 0)

    def test_the_gradient_has_the_bits_of_a_plain_loop(self):
        expected = self.gradients(plain)
        budget = {"host_budget": "20K"}
        for config in (FEW, ALL, budget, {**FEW, "range_actions": True}, {**FEW, "checkpointing_snaps": 1}):
            self.same(self.gradients(ours, **config), expected)

    def test_short_loops_and_single_precision(self):
        for n in (1, 2, 3):
            inputs = (self.u, self.speed)
            self.same(self.gradients(ours, *inputs, n=n, **FEW), self.gradients(plain, *inputs, n=n))
        single = [x.detach().float().requires_grad_() for x in (self.u, self.speed)]
        self.same(self.gradients(ours, *single, **FEW), self.gradients(plain, *single))

    def test_types_of_states(self):
        def mixed(state, t, weight):
            half, flags, z = state
            flags = torch.logical_xor(flags, half > 0.4)
            z = z * weight * torch.exp(1j * z.real)
            return (half * 0.99 + flags.to(half.dtype) * 0.01), flags, z

        state = (torch.rand(9).bfloat16(), torch.rand(9) > 0.5, torch.rand(2, 5, dtype=torch.complex128).conj().mT)
        weight = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)

        def loss(scan, **config):
            half, flags, z = scan(mixed, state, 30, weight, **config)
            return z.abs().sum() + half.double().sum() + flags.sum()

        expected, found = ((v, *torch.autograd.grad(v, weight)) for v in (loss(plain_loop), loss(gpuzip.torch.scan, **FEW)))
        self.same(found, expected)

    def test_what_is_not_differentiated(self):
        speed = self.speed.detach()
        self.same(self.gradients(ours, self.u, speed, **FEW), self.gradients(plain, self.u, speed))
        u = self.u.detach()
        self.same(self.gradients(ours, u, self.speed, **FEW), self.gradients(plain, u, self.speed))
        # A parameter that no step reads has no gradient, and parameters need not be tensors.
        unused = torch.ones(3, requires_grad=True)

        def named(state, t, params):
            assert params["kind"] == "wave"
            return step(state, t, params["speed"])

        params = {"speed": self.speed, "kind": "wave", "unused": unused, "nothing": None}
        value = ours(self.u, params, step=named, **FEW)
        found = torch.autograd.grad(value, (self.u, self.speed, unused), allow_unused=True)
        self.assertIsNone(found[2])
        self.same((value.detach(), *found[:2]), self.gradients(plain, self.u, self.speed))

    def test_one_tensor_as_two_leaves_and_a_detached_state(self):
        def swap(state, t):
            a, b = state
            return (a * torch.cos(b), a * torch.cos(b)) if t % 5 else (b, b)

        def twice(state, t):
            after = state[0] * 0.9 + 0.1
            return after, after

        def cut(state, t):
            return (torch.sin(state[0]).detach() if t == 10 else torch.sin(state[0]) + state[1], state[1])

        for function, second in ((swap, self.speed), (twice, self.speed), (cut, self.speed), (cut, self.u), (swap, self.u)):
            values = []
            for scan, config in ((plain_loop, {}), (gpuzip.torch.scan, FEW)):
                a, b = scan(function, (self.u, second), 23, **config)
                value = (a * b).sum() + (2 * b).sum()
                values.append((value.detach(), *torch.autograd.grad(value, (self.u, self.speed), allow_unused=True)))
            (first, *slopes), (second, *found) = values
            self.assertTrue(torch.equal(first, second))
            for slope, mine in zip(slopes, found):
                zero = torch.zeros_like(self.u)
                slope, mine = (zero if x is None else x for x in (slope, mine))
                error = torch.max(torch.abs(mine - slope))
                self.assertLessEqual(float(error), 1e-12 * float(torch.max(torch.abs(slope))), function)

    def test_a_module_by_its_parameters(self):
        try:
            from torch.func import functional_call
        except ImportError:
            from torch.nn.utils.stateless import functional_call
        cell = torch.nn.GRUCell(4, 8).double()
        data, state = torch.rand(50, 3, 4, dtype=torch.float64), torch.zeros(3, 8, dtype=torch.float64)

        def one(state, t, weights, data):
            return functional_call(cell, weights, (data[t], state))

        weights = dict(cell.named_parameters())
        gpuzip.torch.scan(one, state, 50, weights, data, **FEW).sum().backward()
        found = [weight.grad.clone() for weight in cell.parameters()]
        cell.zero_grad()
        for t in range(50):
            state = cell(data[t], state)
        state.sum().backward()
        for slope, weight in zip(found, cell.parameters()):
            self.assertLess(float((slope - weight.grad).abs().max()), 1e-12 * float(weight.grad.abs().max()))

    def test_random_numbers_are_drawn_again(self):
        def noisy(state, t, speed):
            return step(state, t, speed, 1e-2 * torch.rand_like(speed) * state["u"])

        results = []
        for function, config in ((plain, {}), (ours, FEW)):
            torch.manual_seed(3)
            value = function(self.u, self.speed, step=noisy, **config)
            drawn = torch.rand(3)
            found = torch.autograd.grad(value, (self.u, self.speed))
            results.append((value.detach(), *found, drawn, torch.rand(3)))
        self.same(*results)
        torch.manual_seed(3)
        value = ours(self.u, self.speed, step=noisy, preserve_rng_state=False, **FEW)
        torch.rand(6)
        self.assertFalse(torch.equal(torch.autograd.grad(value, self.u)[0], results[0][1]))

    def test_autocast_is_that_of_the_call(self):
        def layer(u, t, weight):
            return torch.tanh(u @ weight).float()

        weight = (torch.rand(16, 16) / 4).requires_grad_()
        results = []
        for scan, config in ((plain_loop, {}), (gpuzip.torch.scan, FEW)):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                value = scan(layer, torch.ones(2, 16), 20, weight, **config).sum()
            results.append((value.detach(), *torch.autograd.grad(value, weight)))
        error = (results[0][1] - results[1][1]).abs().max()
        self.assertTrue(torch.equal(results[0][0], results[1][0]))
        # The plain loop has one cast of the weight, whose gradients it adds up in half precision.
        self.assertLess(float(error), 0.02 * float(results[0][1].abs().max()))
        full = scan(layer, torch.ones(2, 16), 20, weight.detach()).sum()
        self.assertNotEqual(float(full), float(results[0][0]))

    def test_autocast_without_casts_that_are_kept(self):
        def layer(u, t, weight, other):
            # The reverse sweep computes states with `other` before it differentiates by it.
            return torch.tanh(u @ weight if t > 5 else u @ other).float()

        def gradients(scan, cache, read_again, **config):
            with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=cache):
                value = scan(layer, torch.ones(2, 16), 20, *weights, **config)
                value = (value @ weights[0] @ weights[1]).float() if read_again else value
            return (value.detach(), *torch.autograd.grad(value.sum(), weights))

        weights = [(torch.rand(16, 16) / 4).requires_grad_() for _ in range(2)]
        for config in (FEW, ALL, {**FEW, "checkpointing_snaps": 1}):
            self.same(gradients(gpuzip.torch.scan, False, False, **config), gradients(plain_loop, False, False))
            for cache, read_again in ((False, True), (True, False), (True, True)):
                expected = gradients(plain_loop, False, read_again)
                for found, slope in zip(gradients(gpuzip.torch.scan, cache, read_again, **config), expected):
                    self.assertLess(float((found - slope).abs().max()), 0.02 * float(slope.abs().max()))

    def test_without_a_gradient_nothing_is_kept(self):
        nowhere = {"checkpointing_algorithm": "trace", "trace_file_path": "nowhere"}
        with torch.no_grad():
            value = ours(self.u, self.speed, **nowhere)
        again = ours(self.u.detach(), self.speed.detach(), **nowhere)
        with torch.inference_mode():
            inferred = ours(self.u.clone(), self.speed, **nowhere)
        for found in (value, again, inferred.clone()):
            self.assertFalse(found.requires_grad)
            self.assertTrue(torch.equal(found, plain(self.u, self.speed).detach()))

    def test_a_lossy_codec_keeps_the_gradient_close(self):
        expected = self.gradients(plain)
        found = self.gradients(ours, **FEW, compressor="lorenzo", error_bound_mode="absolute", error_bound=1e-8)
        self.assertFalse(torch.equal(found[1], expected[1]))
        for a, b in zip(found, expected):
            self.assertLess(float((a - b).abs().max()), 1e-4 * float(b.abs().max()))

    def test_a_second_reverse_sweep_begins_with_a_forward_sweep(self):
        def noisy(state, t, speed):
            return step(state, t, speed, 1e-2 * torch.rand_like(speed) * state["u"])

        inputs = self.u, self.speed
        for n in (1, 2, N):
            torch.manual_seed(3)
            value = plain(*inputs, n=n, step=noisy)
            expected = torch.autograd.grad(value, inputs)
            torch.manual_seed(3)
            value = ours(*inputs, n=n, step=noisy, **FEW)
            for _ in range(3):
                self.same(torch.autograd.grad(value, inputs, retain_graph=True), expected)
            self.same(torch.autograd.grad(value, inputs), expected)
            with self.assertRaisesRegex(RuntimeError, "backward through the graph a second time"):
                torch.autograd.grad(value, inputs)

    def test_a_reverse_sweep_after_an_exception(self):
        fails = []

        def once(u, t):
            if fails and torch.is_grad_enabled() and t == 5:
                raise KeyError(fails.pop())
            return torch.sin(u)

        value = gpuzip.torch.scan(once, self.u, 9, **FEW).sum()
        fails.append(True)
        with self.assertRaises(KeyError):
            value.backward(retain_graph=True)
        self.same(torch.autograd.grad(value, self.u), torch.autograd.grad(plain_loop(once, self.u, 9).sum(), self.u))

    def test_a_changed_initial_state_has_one_reverse_sweep(self):
        u = self.u.detach().clone().requires_grad_()
        expected = torch.autograd.grad(plain(u, self.speed), u)
        value = ours(u, self.speed, **FEW)
        with torch.no_grad():
            u += 1
        self.same(torch.autograd.grad(value, u, retain_graph=True), expected)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "initial state has been changed in place"):
            torch.autograd.grad(value, u)

    def test_gradcheck(self):
        def last(u, speed, source, **config):
            return gpuzip.torch.scan(step, begin(u), 9, speed, source, **config)["u"]

        inputs = [x.detach()[:5].clone().requires_grad_() for x in (self.u, self.speed, self.source)]
        for config in (FEW, ALL, {**FEW, "checkpointing_snaps": 1}):
            self.assertTrue(torch.autograd.gradcheck(functools.partial(last, **config), inputs))
        with self.assertRaisesRegex(gpuzip.UnsupportedError, "leave out create_graph=True"):
            torch.autograd.gradgradcheck(functools.partial(last, **FEW), inputs)
        with self.assertRaisesRegex(gpuzip.UnsupportedError, "leave out create_graph=True"):
            torch.autograd.grad(ours(self.u, self.speed, **FEW), self.u, create_graph=True)

    def test_strides_of_states(self):
        def mixing(state, t, weight):
            seen.append((t, [x.stride() for x in state]))
            u, v = state
            after = torch.nn.functional.conv2d(u, weight, padding=1)
            # The strides of v change with time.
            return torch.tanh(after), (v * 0.9).t().contiguous().t() if t % 3 else v.contiguous() * 0.9

        def gradients(scan, **config):
            seen.clear()
            u, v = scan(mixing, (x, v0), 12, weight, **config)
            value = (u * u).sum() + v.sum()
            return (value.detach(), *torch.autograd.grad(value, (x, v0, weight))), dict(seen)

        seen, weight = [], (torch.rand(3, 3, 3, 3) - 0.4).requires_grad_()
        v0 = torch.rand(5, 4).t().requires_grad_()
        for layout in (torch.channels_last, torch.contiguous_format):
            x = torch.rand(2, 3, 5, 4).contiguous(memory_format=layout).requires_grad_()
            expected, strides = gradients(plain_loop)
            self.assertEqual(strides[5][0] == x.detach().contiguous().stride(), layout is torch.contiguous_format)
            self.assertNotEqual(strides[5][1], strides[4][1])
            for config in (FEW, ALL, {**FEW, "checkpointing_snaps": 1}):
                found, again = gradients(gpuzip.torch.scan, **config)
                self.same(found, expected)
                self.assertEqual(again, strides)
                self.assertEqual({t: s for t, s in seen}, strides)
                for t, strides_at_t in seen:
                    self.assertEqual(strides_at_t, strides[t])

    def test_one_number_is_the_memory(self):
        def kept(**config):
            sessions = []
            made = gpuzip.Session.__init__

            def noted(session, *arguments, **named):
                made(session, *arguments, **named)
                sessions.append(session.summary())

            with mock.patch.object(gpuzip.Session, "__init__", noted):
                self.same(self.gradients(ours, **config), expected)
            return sessions[0].snapshots, sessions[0].host_budget

        expected = self.gradients(plain)
        self.assertEqual(kept(memory="20 KiB"), kept(host_budget="20K"))
        self.assertEqual(kept(memory=20480), kept(host_budget=20480))
        self.assertLess(kept(memory="20K")[0], kept(memory="100K")[0])
        for memory, keys, kind, text in (
            ("1M", {"host_budget": "1M"}, gpuzip.ArgumentError, "memory is host_budget where the state is"),
            ("2 parsecs", {}, gpuzip.ConfigError, "memory = '2 parsecs': use a byte count"),
            (0, {}, gpuzip.ConfigError, "memory = 0: give a number"),
            (64, {}, gpuzip.BudgetError, "host_budget, 64 bytes, to at least that; memory is host_budget here"),
        ):
            with self.assertRaisesRegex(kind, text):
                ours(self.u, self.speed, memory=memory, **keys)

    @unittest.skipUnless(hasattr(torch, "compile"), "torch.compile is of PyTorch 2")
    def test_compiled_functions_around_a_scan(self):
        def value(u, speed):
            return 2 * ours(u * 1.0, speed, **FEW)

        def slopes(u, speed):
            return torch.autograd.grad(value(u, speed), (u, speed))

        def back(u, speed):
            value(u, speed).backward()
            return u.grad * 1.0, speed.grad * 1.0

        inputs = self.u, self.speed
        expected = slopes(*inputs)
        self.same(torch.autograd.grad(torch.compile(value, backend="eager")(*inputs), inputs), expected)
        self.same(torch.compile(slopes, backend="eager")(*inputs), expected)
        self.same(torch.compile(back, backend="eager")(*inputs), expected)

    def test_a_graph_that_has_been_used_holds_no_memory(self):
        arrays = [numpy.linspace(0.1, 0.3, 64) for _ in range(2)]
        inputs = [torch.from_numpy(array) for array in arrays]
        watched = [weakref.ref(array) for array in arrays]

        def product(u, t, speed, factor):
            return torch.sin(u * speed) * factor

        value = gpuzip.torch.scan(product, inputs[0], 9, inputs[1], self.speed, **FEW).sum()
        del arrays, inputs
        self.assertEqual([array() is None for array in watched], [False, False])
        value.backward()
        self.assertEqual([array() is None for array in watched], [True, True])
        self.assertTrue(value.requires_grad)

    def test_what_is_not_differentiated_to_the_end_is_freed(self):
        gc.collect()
        gc.disable()  # A cycle would keep the states until the next collection.
        try:
            for _ in range(3):
                ours(self.u, self.speed, **FEW)
            self.assertEqual([x for x in gc.get_objects() if type(x) is gpuzip.Session], [])
        finally:
            gc.enable()

    def test_tensors_that_change_before_the_reverse_sweep(self):
        u = self.u.detach().clone().requires_grad_()
        value = ours(u, self.speed, **FEW)
        with torch.no_grad():
            u += 1  # u(0) is in the session.
        self.same(torch.autograd.grad(value, u), torch.autograd.grad(plain(self.u, self.speed), self.u))
        value = ours(self.u, self.speed, **FEW)
        with torch.no_grad():
            self.speed += 1
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            value.backward()

    def test_what_a_step_reads_must_not_change(self):
        class Model:
            def __init__(self):
                self.dt, self.scale, self.calls = 0.1, torch.ones(1, dtype=torch.float64), 0
                self.adds, self.binds, self.order = False, False, 1

            def step(self, u, t, speed):
                self.calls += 1
                if self.adds:
                    self.scale.add_(0.01)
                if self.binds:
                    self.scale = self.scale + 0.01
                return u + self.dt * self.scale * torch.sin(speed * u) ** self.order

        def value(model, **config):
            return gpuzip.torch.scan(model.step, self.u, 20, self.speed, **{**FEW, **config}).sum()

        def adds(u, t, b):
            b.add_(0.01)
            return u * b

        def changed_list(u, t, numbers):
            numbers[0] += 1
            return u * numbers[0]

        with self.assertRaisesRegex(gpuzip.ArgumentError, "list or dict among the parameters has changed"):
            gpuzip.torch.scan(changed_list, self.u, 20, [1.0], **FEW)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "list or dict among the parameters has changed"):
            gpuzip.torch.scan(changed_list, self.u.detach(), 20, [1.0], **FEW)
        factor = torch.ones(1, dtype=torch.float64, requires_grad=True)
        found = gpuzip.torch.scan(lambda u, t, c: u * c, self.u, 20, factor, **FEW).sum()
        factor.data = torch.full((1,), 0.5, dtype=torch.float64)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "parameter 0 has changed"):
            found.backward()

        def changed(name, change):
            model = Model()
            found = value(model)
            change(model)
            with self.assertRaisesRegex(gpuzip.ArgumentError, f"{name} has changed"):
                found.backward()

        changed("step.dt|self.dt", lambda model: setattr(model, "dt", 0.2))
        changed("self.order", lambda model: setattr(model, "order", 2))
        changed("self.scale", lambda model: model.scale.mul_(2))
        changed("self.scale", lambda model: setattr(model, "scale", model.scale * 2))
        changed("self.adds", lambda model: setattr(model, "adds", True))
        for name in ("adds", "binds"):
            model = Model()
            setattr(model, name, True)
            with self.assertRaisesRegex(gpuzip.ArgumentError, "self.scale has changed"):
                value(model)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "parameter 0 has changed"):
            gpuzip.torch.scan(adds, self.u, 20, torch.ones(1, dtype=torch.float64), **FEW)
        norm = torch.nn.BatchNorm1d(64, affine=False).double()
        state = self.u.expand(3, 64)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "BatchNorm.*eval mode"):
            gpuzip.torch.scan(lambda u, t: u + norm(u * t), state, 5, **FEW)
        gpuzip.torch.scan(lambda u, t: u + norm.eval()(u * t), state, 5, **FEW).sum().backward()
        # Between calls everything may change, and counting is no change.
        model = Model()
        for dt in (0.1, 0.2):
            model.dt = dt
            found = torch.autograd.grad(value(model), (self.u, self.speed))
            expected = torch.autograd.grad(plain_loop(model.step, self.u, 20, self.speed).sum(), (self.u, self.speed))
            self.same(found, expected)
            last = value(model)
            for _ in range(3):
                calls = model.calls
                self.same(torch.autograd.grad(last, (self.u, self.speed), retain_graph=True), expected)
                self.assertGreater(model.calls, calls)
        model.dt = 0.3
        with self.assertRaisesRegex(gpuzip.ArgumentError, "dt has changed"):
            last.backward()

    def program(self, seed):
        draw = random.Random(seed)
        return Program(
            seed,
            torch,
            lambda values, kind: reordered(torch.tensor(values, dtype=getattr(torch, kind)), draw),
            lambda x, kind: x.to(getattr(torch, kind)),
        )

    def slopes(self, program, scan, n, inputs, **keys):
        """A function that returns the gradient of the program's loss."""
        inputs = [x.detach().requires_grad_() for x in inputs]
        value = program.loss(scan, n, *inputs, **keys)
        options = {"allow_unused": True, "retain_graph": True}

        def back():
            found = torch.autograd.grad(value, inputs, **options)
            return [torch.zeros_like(x) if y is None else y for x, y in zip(inputs, found)]

        return back

    def near(self, program, found, expected, what):
        for one, other in zip(expected, found):
            # One tensor that is read as two parameters has its adjoints added in another order.
            self.assertEqual(one.dtype, other.dtype)
            error = float((one - other).abs().max())
            self.assertLessEqual(error, program.bound * float(one.abs().max()), what)

    def test_random_programs(self):
        stopped = twice = 0
        for seed in range(100 if os.environ.get("GPUZIP_TEST_LONG") else 10):
            program = self.program(seed)
            for case in range(10):
                n, keys = program.config()
                if "host_budget" in keys and program.draw.random() < 0.5:
                    keys["memory"] = keys.pop("host_budget")
                inputs, draw, what = program.inputs(), program.draw, (seed, case, n, keys)
                expected = self.slopes(program, plain_loop, n, inputs)()
                with interrupted(draw) if draw.random() < 0.3 else contextlib.nullcontext():
                    try:
                        back = self.slopes(program, gpuzip.torch.scan, n, inputs, **keys)
                        for sweep in range(draw.randint(1, 3)):
                            self.near(program, back(), expected, what)
                            twice += sweep
                    except Stop:
                        stopped += 1
                if draw.random() < 0.3:
                    again = self.slopes(program, gpuzip.torch.scan, n, inputs, **keys)
                    self.near(program, again(), expected, what)
                program.change()
        self.assertGreater(min(stopped, twice), 0)

    def test_random_programs_in_threads(self):
        for number in range(100 if os.environ.get("GPUZIP_TEST_LONG") else 5):
            programs = [self.program(1000 + 3 * number + k) for k in range(3)]

            def work(program, inputs, n, keys):
                for _ in range(2):
                    expected = self.slopes(program, plain_loop, n, inputs)()
                    found = self.slopes(program, gpuzip.torch.scan, n, inputs, **keys)()
                    self.near(program, found, expected, (number, n, keys))

            for group in (programs, programs[:1] * 3):
                drawn = [(program, program.inputs(), *program.config()) for program in group]
                together([functools.partial(work, *each) for each in drawn])

    def test_reverse_sweeps_of_one_graph_in_several_threads(self):
        for _ in range(10):
            expected = torch.autograd.grad(ours(self.u, self.speed, n=20, **FEW), self.u)
            value = ours(self.u, self.speed, n=20, **FEW)
            found = []

            def work():
                found.append(torch.autograd.grad(value, self.u, retain_graph=True))

            together([work] * 4)
            for slopes in found:
                self.same(slopes, expected)

    def test_wrong_calls_say_what_to_do(self):
        def scan(step, state, n=9, *params, **config):
            return gpuzip.torch.scan(step, state, n, *params, **{**FEW, **config})

        def counted(state, t, weight):
            u, count = state
            if t == 8:
                count.add_(1)
            return u * weight * count, count.clone()

        def early(u, t):
            return u + weight if t < 3 else torch.sin(u)

        def late(u, t):
            return u + weight if t > 3 else torch.sin(u)

        u, weight = self.u, self.speed
        wrong = (
            ("n is 0", lambda: scan(lambda u, t: u, u, 0)),
            ("leaf 1 of the state is a float", lambda: scan(lambda s, t: s, (u, 1.0))),
            ("structure", lambda: scan(lambda u, t: (u, u), u)),
            ("leaf 0 of the state, which is .*64", lambda: scan(lambda u, t: u.float(), u)),
            ("returns float for leaf 0", lambda: scan(lambda u, t: 1.0, u)),
            ("changes its state in place", lambda: scan(lambda u, t: u.mul_(2), u.detach())),
            ("step 8 changes its state in place", lambda: scan(counted, (u.detach(), torch.tensor(1)), 9, weight)),
            ("step 8 returns", lambda: scan(lambda u, t: u[:3] if t == 8 else u + 1, u)),
            (r"shape \(64,\) that requires a gradient", lambda: scan(lambda u, t: u * weight, u).sum().backward()),
            (r"shape \(64,\) that requires a gradient", lambda: scan(lambda u, t: u * weight, u.detach())),
            ("that requires a gradient", lambda: scan(early, u).sum().backward()),
            ("that requires a gradient", lambda: scan(late, u.detach())),
        )
        for text, call in wrong:
            with self.assertRaisesRegex(gpuzip.ArgumentError, text):
                call()
        with self.assertRaisesRegex(TypeError, "n = 2.5"):
            scan(lambda u, t: u, u, 2.5)
        for leaf in (torch.zeros(0), torch.eye(3).to_sparse(), torch.ones(3, device="meta")):
            with self.assertRaisesRegex(gpuzip.UnsupportedError, "leaf 1 of the state, .* has no memory"):
                scan(lambda state, t: state, (u, leaf))
        with self.assertRaisesRegex(gpuzip.UnsupportedError, "adjoint_every"):
            scan(lambda u, t: u, u, adjoint_every=3)
        with self.assertRaisesRegex(gpuzip.ConfigError, "checkpointing_snaps"):
            scan(lambda u, t: u, u, checkpointing_snap=3)
        for v in (u, u.detach()):
            with self.assertRaisesRegex(gpuzip.UnsupportedError, "gpuzip.torch.scan writes no restart files"):
                scan(lambda u, t: u, v, persist_dir="folder")
            with self.assertRaisesRegex(gpuzip.UnsupportedError, "gpuzip.torch.scan writes no restart files"):
                scan(lambda u, t: u, v, config=gpuzip.Config(persist_dir="folder"))
            with self.assertRaisesRegex(gpuzip.ConfigError, "progress is a keyword of gpuzip.adjoint"):
                scan(lambda u, t: u, v, progress=True)

    def test_the_page_is_right(self):
        page = os.environ.get("GPUZIP_TEST_PAGE", os.path.join(os.path.dirname(__file__), "../../docs/torch.md"))
        with open(page) as file:
            # adapter_torch_layers.py runs the other program.
            _, program, _ = file.read().split("```python\n")
        program = program.split("```")[0]
        names, all_kept = {}, {}
        exec(compile(program, page, "exec"), names)
        every = program.replace('"revolve"', '"store-all"').replace(", checkpointing_snaps=20", "")
        self.assertNotEqual(every, program)
        exec(compile(every, page, "exec"), all_kept)
        self.same([names["u"].grad, names["speed"].grad], [all_kept["u"].grad, all_kept["speed"].grad])

    def test_the_benchmark_compares_equal_gradients(self):
        rows = benchmark("torch")
        self.assertEqual([row[-1] for row in rows], ["–"] + ["equal bits"] * (len(rows) - 1))


class Sweeps(unittest.TestCase):
    """Reverse sweeps that are planned together: `sweeps=k`."""

    def setUp(self):
        torch.manual_seed(7)
        self.u = torch.rand(64, dtype=torch.float64, requires_grad=True)
        self.speed = torch.rand(64, dtype=torch.float64, requires_grad=True)
        self.inputs = self.u, self.speed
        # How often the step is called, and at which call it fails. What is in an array is not watched.
        calls = self.calls = array.array("q", [0, 0])

        def step(u, t, speed):
            calls[0] += 1
            if calls[0] == calls[1]:
                raise KeyError(t)
            return u + 0.1 * torch.sin(speed * u) * (1 + 0.01 * t)

        self.step = step
        self.weights = [torch.rand(64, dtype=torch.float64) - 0.5 for _ in range(12)]

    def scan(self, n, **config):
        return gpuzip.torch.scan(self.step, self.u, n, self.speed, **config)

    def slopes(self, value, k, keep=True):
        return torch.autograd.grad(value, self.inputs, self.weights[k], retain_graph=keep)

    def expected(self, n):
        """The gradients by cotangent, each from a plain loop of its own."""
        return [self.slopes(plain_loop(self.step, self.u, n, self.speed), k, False) for k in range(len(self.weights))]

    def same(self, found, expected):
        self.assertEqual([torch.equal(a, b) for a, b in zip(found, expected)], [True] * len(self.inputs))
        self.assertGreater(min(float(x.abs().max()) for x in found), 0)

    def steps(self, n, config, sweeps, runs=1):
        """Calls of the step: of the plan, of the last state, and of each adjoint."""
        return runs * forward_steps(numpy.zeros(64), n, config, sweeps=sweeps) + 1

    def test_they_share_the_states_of_one_forward_sweep(self):
        expected = {n: self.expected(n) for n in (1, 2, 41)}
        for n, config in ((n, config) for n in expected for config in SCHEDULES):
            for k in range(1, 6):
                with self.subTest(n=n, k=k, **config), sessions() as made:
                    self.calls[0] = 0
                    value = self.scan(n, sweeps=k, **config)
                    for sweep in range(k):
                        self.assertEqual(is_open(made), [True])
                        self.same(self.slopes(value, sweep, sweep < k - 1), expected[n][sweep])
                    self.assertEqual(is_open(made), [False])
                    self.assertEqual(self.calls[0], self.steps(n, config, k) + k * n)
                    apart = k * (self.steps(n, config, 1) + n)
                    (self.assertLess if k > 1 else self.assertEqual)(self.calls[0], apart)
                    with self.assertRaisesRegex(RuntimeError, "backward through the graph a second time"):
                        self.slopes(value, 0)

    def test_more_of_them_than_planned(self):
        n, expected = 41, self.expected(41)
        for config in (FEW, ALL, {"host_budget": "8K"}):
            for k in range(1, 6):
                with self.subTest(k=k, **config), sessions() as made:
                    self.calls[0] = 0
                    value = self.scan(n, sweeps=k, **config)
                    for sweep in range(2 * k + 1):
                        self.same(self.slopes(value, sweep), expected[sweep])
                        runs, left = sweep // k + 1, (sweep + 1) % k > 0
                        self.assertEqual(is_open(made), [False] * (runs - 1) + [left])
                        if not left:
                            self.assertEqual(self.calls[0], self.steps(n, config, k, runs) + (sweep + 1) * n)
                    del value
                    self.assertEqual(is_open(made), [False] * 3)

    def test_every_way_to_ask_for_gradients(self):
        n, three = 20, {**FEW, "sweeps": 3}
        jacobian = torch.autograd.functional.jacobian

        def first(scan, u, speed, **config):
            return scan(self.step, u, n, speed, **config)[:3]

        for options, adjoints in (({}, 3), ({"vectorize": True}, 1)):
            with sessions() as made:
                self.calls[0] = 0
                found = jacobian(functools.partial(first, gpuzip.torch.scan, **three), self.inputs, **options)
            self.assertEqual(is_open(made), [False])
            if adjoints == 3:
                self.assertEqual(self.calls[0], self.steps(n, FEW, 3) + 3 * n)
            self.same(found, jacobian(functools.partial(first, plain_loop), self.inputs, **options))
        self.calls[0] = 0
        rows = torch.stack(self.weights)
        found = torch.autograd.grad(self.scan(n, **three), self.inputs, rows, is_grads_batched=True)
        self.assertEqual(self.calls[0], forward_steps(numpy.zeros(64), n, FEW) + 1 + n)
        self.same(found, [torch.stack(slopes) for slopes in zip(*self.expected(n))])
        settings = gpuzip.Config(sweeps=2, checkpointing_algorithm="revolve", checkpointing_snaps=4)
        short = [x.detach()[:3].clone().requires_grad_() for x in self.inputs]
        for config in ({"sweeps": 4, **ALL}, {"sweeps": 3, **FEW}, {"config": settings}):
            with sessions() as made:
                self.assertTrue(
                    torch.autograd.gradcheck(lambda u, c: gpuzip.torch.scan(self.step, u, 5, c, **config), short)
                )
            self.assertFalse(any(is_open(made)))

        step = self.step

        def values(scan, **config):
            """Two results, of which a gradient takes one or both."""
            last = scan(lambda state, t, c: (step(state[1], t, c), state[0]), (self.u, self.u * 0.5), n, self.speed, **config)
            return last + (last[0] * last[1],)

        several, plain = values(gpuzip.torch.scan, **three), values(plain_loop)
        with sessions() as made:
            for which in ((0,), (0, 1, 2), (1, 2)):
                found, slopes = (
                    torch.autograd.grad([x[k] for k in which], self.inputs, [self.weights[k] for k in which], retain_graph=True)
                    for x in (several, plain)
                )
                self.same(found, slopes)
        self.assertEqual(made, [])

    def test_a_graph_that_ends_early_closes_the_session(self):
        expected = self.expected(9)
        gc.collect()
        gc.disable()  # A cycle would keep the states until the next collection.
        try:
            for sweeps in range(4):
                for backward in (False, True):
                    with sessions() as made:
                        value = self.scan(9, sweeps=5, **FEW)
                        for sweep in range(sweeps):
                            self.same(self.slopes(value, sweep), expected[sweep])
                        self.assertEqual(is_open(made), [True])
                        if backward:
                            # PyTorch frees the graph, and `value` is alive.
                            self.same(self.slopes(value, 5, False), expected[5])
                        else:
                            del value
                        self.assertEqual(is_open(made), [False])
        finally:
            gc.enable()

    def test_exceptions_in_a_sweep(self):
        n, expected = 9, self.expected(9)
        for fails in range(3):
            with self.subTest(fails=fails), sessions() as made:
                self.calls[:] = array.array("q", [0, 0])
                value = self.scan(n, sweeps=3, **FEW)
                for sweep in range(fails):
                    self.same(self.slopes(value, sweep), expected[sweep])
                self.calls[1] = self.calls[0] + 5
                with self.assertRaises(KeyError):
                    try:
                        self.slopes(value, fails)
                    finally:
                        self.assertEqual(is_open(made), [False])
                # A forward sweep follows, and its states serve three sweeps again.
                self.calls[:] = array.array("q", [0, 0])
                for sweep in range(3):
                    self.same(self.slopes(value, sweep), expected[sweep])
                self.assertEqual(self.calls[0], self.steps(n, FEW, 3) - 1 + 3 * n)
                self.assertEqual(is_open(made), [False] * 2)
        with mock.patch.object(gpuzip.Session, "rewind", side_effect=KeyboardInterrupt), sessions() as made:
            value = self.scan(n, sweeps=3, **FEW)
            self.same(self.slopes(value, 0), expected[0])
            with self.assertRaises(KeyboardInterrupt):
                self.slopes(value, 1)
        self.assertEqual(is_open(made), [False])
        self.same(self.slopes(value, 1), expected[1])

    def test_random_numbers_and_a_changed_initial_state(self):
        step = self.step

        def noisy(u, t, speed):
            return step(u, t, speed) + 1e-2 * torch.rand_like(u) * u

        for config in (FEW, ALL):
            u = self.u.detach().clone().requires_grad_()
            torch.manual_seed(3)
            expected = torch.autograd.grad(plain_loop(noisy, self.u, 20, self.speed), self.inputs, self.weights[0])
            torch.manual_seed(3)
            value = gpuzip.torch.scan(noisy, u, 20, self.speed, sweeps=3, **config)
            after = torch.rand(2)
            with torch.no_grad():
                u += 1  # u(0) is in the session.
            for _ in range(3):
                state = torch.get_rng_state()
                self.same(torch.autograd.grad(value, (u, self.speed), self.weights[0], retain_graph=True), expected)
                self.assertTrue(torch.equal(torch.get_rng_state(), state))
            with self.assertRaisesRegex(gpuzip.ArgumentError, "initial state has been changed.*`sweeps` has planned"):
                torch.autograd.grad(value, u, self.weights[0])
            torch.manual_seed(3)
            plain_loop(noisy, self.u, 20, self.speed)
            self.assertTrue(torch.equal(torch.rand(2), after))

    def test_threads_and_saved_tensors_elsewhere(self):
        expected = self.expected(20)
        for sweeps in (2, 4):
            with sessions() as made:
                value = self.scan(20, sweeps=sweeps, **FEW)

                def work(k):
                    for _ in range(3):
                        self.same(self.slopes(value, k), expected[k])

                together([functools.partial(work, k) for k in range(4)])
                self.assertLessEqual(sum(is_open(made)), 1)
                del value, work
                self.assertEqual(sum(is_open(made)), 0)
        # A graph that keeps a copy does not tell when it is freed: each forward sweep has one reverse sweep.
        with sessions() as made:
            same = self.speed.data_ptr()
            with torch.autograd.graph.saved_tensors_hooks(lambda x: x if x.data_ptr() == same else x.clone(), lambda x: x):
                value = self.scan(20, sweeps=3, **FEW)
            for k in range(3):
                self.same(self.slopes(value, k), expected[k])
                self.assertEqual(is_open(made), [False] * (k + 1))

    def test_what_has_one_sweep(self):
        with self.assertRaisesRegex(gpuzip.UnsupportedError, "sweeps = 2"):
            self.scan(9, sweeps=2, checkpointing_algorithm="online", checkpointing_snaps=4)
        with self.assertRaisesRegex(gpuzip.ConfigError, "sweeps = -1"):
            self.scan(9, sweeps=-1, **FEW)


if __name__ == "__main__":
    unittest.main()
