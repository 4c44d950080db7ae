"""gpuzip.torch.Layers beside torch.nn.Sequential, and its plans beside a search of all orders."""

import contextlib
import copy
import functools
import gc
import heapq
import io
import os
import random
import unittest
from unittest import mock

import torch

import gpuzip
import gpuzip.torch
from gpuzip import _chains
from gpuzip.torch import Cost, Layers
from programs import together
from support import benchmark

LONG = bool(os.environ.get("GPUZIP_TEST_LONG"))


def drawn_costs(draw, layers, most=6):
    costs = []
    for _ in range(layers):
        output = draw.randint(1, most)
        costs.append(Cost(draw.randint(1, 5), draw.randint(1, 9), output, output + draw.randint(0, 2 * most)))
    return costs


def needed(costs, inputs, stored, recorded, adjoint):
    """Bytes of what is stored and recorded, and of an adjoint of the input of layer `adjoint`."""
    sizes = [inputs, *(cost.output for cost in costs)]
    return sum(sizes[k] for k in stored if k) + sum(costs[k].saved for k in recorded) + sizes[adjoint]


def least_seconds(costs, inputs, memory):
    """The time of the quickest order, by Dijkstra's algorithm over all states of the memory; None if no order is
    within it. A state is the layer whose adjoint is next, the layers whose input is stored, those that are recorded,
    and the layer whose input is there."""
    sizes, count = [inputs, *(cost.output for cost in costs)], 0
    begin = len(costs) - 1, frozenset([0]), frozenset(), 0
    best, queue = {begin: 0.0}, [(0.0, 0, begin)]
    while queue:
        seconds, _, state = heapq.heappop(queue)
        if best[state] < seconds:
            continue
        last, stored, recorded, here = state
        if last < 0:
            return seconds
        resident = stored | {k + 1 for k in recorded}
        bytes_of = functools.partial(needed, costs, inputs)
        ways = [(0, (last, stored, recorded, k), 0) for k in resident if k <= last and k not in recorded]
        if here is not None and here <= last and here not in recorded:
            one, kept, result = costs[here].forward, stored if here in resident else stored | {here}, sizes[here + 1]
            live = 0 if here in resident else sizes[here]
            more = recorded | {here}
            ways += [
                (one, (last, stored, recorded, here + 1), bytes_of(stored, recorded, last + 1) + live + result),
                (one, (last, kept, recorded, here + 1), bytes_of(kept, recorded, last + 1) + result),
                (one, (last, kept, more, here + 1), bytes_of(kept, more, last + 1)),
            ]
        if last in recorded:
            after = last - 1, stored - {last}, recorded - {last}, None
            ways.append((costs[last].backward, after, bytes_of(stored, recorded, last) + sizes[last + 1]))
        for one, after, room in ways:
            if room <= memory and seconds + one < best.get(after, float("inf")):
                best[after], count = seconds + one, count + 1
                heapq.heappush(queue, (seconds + one, count, after))
    return None


def replay(test, costs, inputs, order):
    """The seconds and the most bytes of an order, which must be possible."""
    stored, recorded, here, seconds, most = {0}, set(), 0, 0.0, 0
    sizes, last = [inputs, *(cost.output for cost in costs)], len(costs) - 1
    for name, k in order.actions:
        if name == _chains.LOAD:
            test.assertIn(k, stored | {j + 1 for j in recorded})
            here = k
        elif name == _chains.ADJOINT:
            test.assertEqual(k, last)
            most = max(most, needed(costs, inputs, stored, recorded, last) + sizes[last + 1])
            seconds += costs[k].backward
            recorded.remove(k)
            stored.discard(k)
            last, here = last - 1, None
        else:
            test.assertEqual(k, here)
            there = k in stored or k - 1 in recorded
            live = 0 if there or name != _chains.RUN else sizes[k]
            if name != _chains.RUN and not there:
                stored.add(k)
            result = sizes[k + 1]
            if name == _chains.RECORD:
                recorded.add(k)
                result = 0
            most = max(most, needed(costs, inputs, stored, recorded, last + 1) + live + result)
            seconds, here = seconds + costs[k].forward, k + 1
    test.assertEqual((last, recorded), (-1, set()))
    return seconds, most


class Plans(unittest.TestCase):
    def test_plans_are_the_quickest_of_all_orders(self):
        draw, none = random.Random(1), 0
        for case in range(3000 if LONG else 300):
            costs, inputs, memory = drawn_costs(draw, draw.randint(1, 5)), draw.randint(1, 6), draw.randint(4, 50)
            expected, what = least_seconds(costs, inputs, memory), (case, costs, inputs, memory)
            if expected is None:
                none += 1
                with self.assertRaisesRegex(gpuzip.BudgetError, f"memory = {memory} bytes: .* needs") as error:
                    _chains.plan(costs, inputs, memory)
                enough = int(str(error.exception).split()[-2])
                self.assertIsNotNone(least_seconds(costs, inputs, enough), what)
                self.assertIsNone(least_seconds(costs, inputs, enough - 1), what)
                continue
            order = _chains.plan(costs, inputs, memory)
            seconds, most = replay(self, costs, inputs, order)
            self.assertEqual((order.seconds, seconds), (expected, expected), what)
            self.assertLessEqual(most, memory, what)
        self.assertGreater(none, 10)

    def test_long_chains_and_large_sizes(self):
        draw = random.Random(2)
        for layers in (1, 2, 30, 60):
            costs = [
                Cost(draw.random(), draw.random(), output, output * draw.randint(1, 4))
                for output in (draw.randint(1, 10**9) for _ in range(layers))
            ]
            every = sum(cost.saved for cost in costs) + 2 * max(cost.output for cost in costs)
            plain = sum(cost.forward + cost.backward for cost in costs)
            before = None
            for part in (1.1, 0.7, 0.5):
                try:
                    order = _chains.plan(costs, 10**6, int(part * every))
                except gpuzip.BudgetError:
                    self.assertLess(layers, 30)
                    break
                seconds, most = replay(self, costs, 10**6, order)
                self.assertAlmostEqual(seconds, order.seconds, places=9)
                self.assertLessEqual(most, int(part * every))
                if part > 1:
                    self.assertAlmostEqual(seconds, plain, places=9)
                self.assertGreaterEqual(seconds, before or plain - 1e-9)
                before = seconds


class Scale(torch.nn.Module):
    """Counts in a buffer, and multiplies by a number that depends on the count."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.factor = torch.nn.Parameter(torch.tensor(0.9))

    def forward(self, x):
        self.count += 1
        return x * self.factor * (1 + 0.01 * self.count.detach().clone())


class Split(torch.nn.Module):
    def forward(self, x):
        return {"x": x, "more": (torch.sigmoid(x), torch.arange(3))}


class Join(torch.nn.Module):
    def forward(self, s):
        return s["x"] * s["more"][0] + s["more"][1].sum()


def modules(draw, layers):
    """Modules of drawn kinds and widths, and the width of their input."""
    width = first = draw.randint(1, 9)
    found, shared = [], torch.nn.Linear(5, 5)
    while len(found) < layers:
        kind = draw.choice(("linear", "linear", "tanh", "dropout", "norm", "scale", "shared", "tree", "block"))
        after = draw.randint(1, 30)
        if kind == "linear":
            found.append(torch.nn.Linear(width, after))
            width = after
        elif kind == "shared":
            found += [torch.nn.Linear(width, 5), shared, torch.nn.Tanh(), shared]
            width = 5
        elif kind == "tree":
            found += [Split(), Join()]
        elif kind == "block":
            found.append(torch.nn.Sequential(torch.nn.Linear(width, after), torch.nn.GELU(), torch.nn.Linear(after, width)))
        else:
            made = {"tanh": torch.nn.Tanh, "dropout": lambda: torch.nn.Dropout(0.3), "scale": Scale}
            found.append(torch.nn.BatchNorm1d(width) if kind == "norm" else made[kind]())
    return found, first


def half(on):
    return torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False) if on else contextlib.nullcontext()


class Stacks(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)

    def gradients(self, stack, x, sweeps=1, autocast=False):
        """The result, the gradient, buffers and random numbers after it."""
        torch.manual_seed(11)
        x = x.detach().clone().requires_grad_()
        params = [p for p in stack.parameters() if p.requires_grad]
        with half(autocast):
            value = stack(x)
        drawn = torch.rand(3)
        for _ in range(sweeps):
            found = torch.autograd.grad((value.float() ** 2).sum(), (x, *params), retain_graph=True)
        return [value.detach(), *found, drawn, torch.rand(3), *(b.clone() for b in stack.buffers())]

    def same(self, found, expected, what=None):
        self.assertEqual(len(found), len(expected))
        for k, (a, b) in enumerate(zip(found, expected)):
            self.assertTrue(a.dtype == b.dtype and torch.equal(a, b), (k, what))

    def compare(self, stack, x, memory, what=None, **options):
        """Compares with copies of the modules in a torch.nn.Sequential. Returns whether the memory is enough."""
        plain = torch.nn.Sequential(*copy.deepcopy(stack))
        plain.train(stack[0].training)
        ours = Layers(*stack, memory=memory)
        try:
            with half(options.get("autocast")):
                order = ours.order(x.detach().requires_grad_())
        except gpuzip.BudgetError:
            return None
        self.same(self.gradients(ours, x, **options), self.gradients(plain, x, **options), what)
        return order

    def test_random_stacks_have_the_bits_of_a_sequential(self):
        seen = set()
        for seed in range(300 if LONG else 40):
            draw = random.Random(seed)
            torch.manual_seed(seed)
            stack, width = modules(draw, draw.randint(1, 9))
            for module in stack:
                module.train(seed % 5 > 0)
            x = torch.rand(draw.randint(2, 6), width)
            options = {"sweeps": draw.randint(1, 2), "autocast": draw.random() < 0.2}
            for _ in range(4):
                order = self.compare(stack, x, draw.choice((2000, 4000, 8000, 16000)), seed, **options)
                seen.update(name for name, _ in order.actions) if order else seen.add("none")
        self.assertEqual(seen, {"none", "run", "store", "record", "load", "adjoint"})

    def test_random_numbers_are_drawn_again(self):
        stack = [torch.nn.Dropout(0.3) for _ in range(7)]
        plain, cost = torch.nn.Sequential(*stack), [Cost(1, 1, 400, 500)] * 7
        for memory in ("1700", "2K", "2500", "1M"):
            ours, x = Layers(*stack, memory=memory, costs=cost), torch.rand(10, 10)
            self.assertEqual("load" in dict(ours.order(x).actions), memory != "1M")
            self.same(self.gradients(ours, x, sweeps=2), self.gradients(plain, x))
        ours = Layers(*stack, memory="1700", costs=cost, preserve_rng_state=False)
        self.assertFalse(torch.equal(self.gradients(ours, x)[1], self.gradients(plain, x)[1]))

    def test_strides(self):
        stack = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.Tanh()] + [
            torch.nn.Conv2d(8, 4, 3)
        ]
        x = torch.rand(2, 3, 16, 16).contiguous(memory_format=torch.channels_last)
        for memory in ("1M", "55K"):
            order = self.compare(stack, x, memory)
            self.assertEqual("load" in dict(order.actions), memory == "55K")

    def test_the_memory_that_is_kept(self):
        kept = []

        def noted(sweep, done):
            done(sweep)
            kept.append(sum(leaf.numel() * leaf.element_size() for stored in sweep.stored.values() for leaf in stored[0]))
            kept[-1] += sum(cost[k].saved for k in sweep.recorded)

        cost = [Cost(1, 1, 4000, 8000)] * 12
        layers = [torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.Tanh()) for _ in cost]
        from gpuzip import _layers

        until = _layers._Sweep.until_adjoint
        for memory in ("40K", "60K", "1M"):
            ours, kept[:] = Layers(*layers, memory=memory, costs=cost), []
            with mock.patch.object(_layers._Sweep, "until_adjoint", lambda sweep: noted(sweep, until)):
                found = self.gradients(ours, torch.rand(100, 10))
            self.assertEqual(len(kept), 13)
            # The input of the first module is the caller's.
            self.assertLessEqual(max(kept), ours.memory + 4000)
            del found

    def test_measured_sizes(self):
        stack = [
            torch.nn.Linear(10, 20),
            torch.nn.Tanh(),
            torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Linear(50, 7)),
        ]
        costs = gpuzip.torch.measure(stack, torch.rand(100, 10))
        # A linear layer reads its input, which is not counted, tanh its result, and the block what relu returns.
        self.assertEqual([cost.output for cost in costs], [8000, 8000, 2800])
        self.assertEqual([cost.saved for cost in costs], [8000, 8000, 22800])
        self.assertTrue(all(cost.forward > 0 and cost.backward > 0 for cost in costs))
        stack = [torch.nn.BatchNorm1d(10), torch.nn.Dropout(0.5)]
        torch.manual_seed(1)
        gpuzip.torch.measure(stack, torch.rand(100, 10))
        drawn = torch.rand(3)
        torch.manual_seed(1)
        torch.rand(100, 10)
        self.assertTrue(torch.equal(drawn, torch.rand(3)))
        self.assertEqual(int(stack[0].num_batches_tracked), 0)

    def test_what_is_differentiated(self):
        stack = [torch.nn.Linear(4, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3), torch.nn.Tanh()]
        x = torch.rand(50, 4)
        cost = [Cost(1, 1, 1800, 4000), Cost(1, 1, 1800, 4000), Cost(1, 1, 600, 600), Cost(1, 1, 600, 600)]
        stack[0].weight.requires_grad_(False)
        stack[2].bias.requires_grad_(False)
        ours = Layers(*stack, memory=10000, costs=cost)
        self.assertIn("load", dict(ours.order(x).actions))
        plain = torch.nn.Sequential(*stack)
        for stack in (ours, plain):
            stack.zero_grad()
            (stack(x) ** 2).sum().backward()  # x has no gradient.
            stack.found = [p.grad.clone() for p in stack.parameters() if p.requires_grad]
        self.same(ours.found, plain.found)
        for p in plain.parameters():
            p.requires_grad_(False)
        x.requires_grad_()
        self.same(*(torch.autograd.grad((stack(x) ** 2).sum(), x) for stack in (ours, plain)))
        with torch.no_grad():
            self.assertFalse(ours(x).requires_grad)
        self.assertFalse(ours(x.detach()).requires_grad)
        self.assertEqual(list(ours.state_dict()), list(plain.state_dict()))
        self.assertTrue(torch.autograd.gradcheck(copy.deepcopy(ours).double(), x[:5].detach().double().requires_grad_()))

    def test_autocast_with_a_cache(self):
        stack = [torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8), torch.nn.Tanh()]
        x, expected = torch.rand(9, 8), None
        cost = [Cost(1, 1, 288, 288)] * 4
        for made in (torch.nn.Sequential(*stack), Layers(*stack, memory=1200, costs=cost)):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                # The weights are read again after the stack, under the same autocast.
                value = stack[2](made(x)).float().sum()
            found = torch.autograd.grad(value, list(made.parameters()))
            for a, b in zip(found, expected or found):
                self.assertLess(float((a - b).abs().max()), 0.02 * float(b.abs().max()))
            self.assertGreater(min(float(a.abs().max()) for a in found), 0)
            expected = found

    def test_threads_and_exceptions(self):
        stack = [torch.nn.Linear(8, 8), torch.nn.Tanh()] * 3
        x = torch.rand(9, 8, requires_grad=True)
        cost = [Cost(1, 1, 288, 288)] * 6
        ours = Layers(*stack, memory=1500, costs=cost)
        params = list(ours.parameters())
        expected = torch.autograd.grad(torch.nn.Sequential(*stack)(x).sum(), (x, *params))
        value = ours(x).sum()
        found = []
        together([lambda: found.append(torch.autograd.grad(value, (x, *params), retain_graph=True))] * 3)
        for slopes in found:
            self.same(slopes, expected)
        fails = [True]

        def failing(module, arguments, result):
            if fails:
                raise KeyError(fails.pop())

        value = ours(x).sum()
        hook = stack[1].register_forward_hook(failing)
        with self.assertRaises(KeyError):
            value.backward(retain_graph=True)
        self.same(torch.autograd.grad(value, (x, *params)), expected)
        hook.remove()

    @unittest.skipUnless(hasattr(torch, "compile"), "torch.compile is of PyTorch 2")
    def test_compiled(self):
        stack = [torch.nn.Linear(8, 8), torch.nn.Tanh()] * 3
        ours, plain = Layers(*stack, memory=1500, costs=[Cost(1, 1, 288, 288)] * 6), torch.nn.Sequential(*stack)
        compiled = torch.compile(lambda x: 2 * ours(x + 1), backend="eager")
        x = torch.rand(9, 8)
        self.same(self.gradients(wrapped(compiled, ours), x), self.gradients(wrapped(lambda x: 2 * plain(x + 1), plain), x))

    def test_what_is_held(self):
        ours = Layers(torch.nn.Linear(4, 4), torch.nn.Tanh(), memory="1M")
        gc.collect()
        gc.disable()  # A cycle would keep the tensors until the next collection.
        try:
            for backward in (True, False):
                value = ours(torch.rand(3, 4)).sum()
                if backward:
                    value.backward()
            self.assertEqual(sum(type(x).__name__ == "_Sweep" for x in gc.get_objects()), 1)
            del value
            self.assertEqual(sum(type(x).__name__ == "_Sweep" for x in gc.get_objects()), 0)
        finally:
            gc.enable()

    def test_wrong_calls_say_what_to_do(self):
        linear, x, other = torch.nn.Linear(4, 4), torch.rand(3, 4), torch.ones(4, requires_grad=True)

        class Reads(torch.nn.Module):
            def forward(self, x):
                return x * other

        class Number(torch.nn.Module):
            def forward(self, x):
                return x, 1.0

        cost = [Cost(1, 1, 48, 48)]
        places = [linear, torch.nn.ReLU(inplace=True), linear, torch.nn.Tanh(), torch.nn.Tanh()]
        for kind, text, call in (
            (gpuzip.ArgumentError, "module 1 changes its input in place", lambda: Layers(*places, memory="1M")(x)),
            (
                gpuzip.ArgumentError,
                "module 1 changes its input in place",
                lambda: Layers(*places, memory="1M", costs=cost * 5)(x),
            ),
            # Within this memory module 1 runs without being recorded first.
            (
                gpuzip.ArgumentError,
                "module 1 changes its input in place",
                lambda: Layers(*places, memory=240, costs=cost * 5)(x),
            ),
            (gpuzip.ArgumentError, "at least one module", lambda: Layers(memory=1)),
            (gpuzip.ArgumentError, "costs has 1 items for 2 modules", lambda: Layers(linear, linear, memory=1, costs=cost)),
            (gpuzip.ConfigError, "memory = '1 pound': use", lambda: Layers(linear, memory="1 pound")),
            (
                gpuzip.BudgetError,
                "memory = 100 bytes: .* needs 144 bytes",
                lambda: Layers(linear, memory=100, costs=cost)(x),
            ),
            (gpuzip.ArgumentError, "module 1 reads a tensor of shape .4,.", lambda: Layers(linear, Reads(), memory="1M")(x)),
            (
                gpuzip.ArgumentError,
                "module 0 returns a float as leaf 1",
                lambda: Layers(Number(), linear, memory="1M", costs=cost * 2)(other),
            ),
            (gpuzip.ArgumentError, "leaf 1 of the input is a float", lambda: Layers(linear, memory="1M")((x, 1.0))),
            (
                gpuzip.UnsupportedError,
                "leave out create_graph=True",
                lambda: torch.autograd.grad(Layers(linear, memory="1M")(x).sum(), linear.weight, create_graph=True),
            ),
        ):
            with self.assertRaisesRegex(kind, text):
                call()


def wrapped(function, module):
    """The function, with the parameters and buffers of the module."""

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def forward(self, x):
            return function(x)

    return Wrapped()


class Documents(unittest.TestCase):
    def test_the_page_is_right(self):
        page = os.environ.get("GPUZIP_TEST_PAGE", os.path.join(os.path.dirname(__file__), "../../docs/torch.md"))
        with open(page) as file:
            # adapter_torch.py runs the other program.
            _, _, program = file.read().split("```python\n")
        program = program.split("```")[0]
        printed, ours, plain = io.StringIO(), {}, {}
        with contextlib.redirect_stdout(printed):
            exec(compile(program, page, "exec"), ours)
        self.assertIn("('load', ", printed.getvalue())
        every = (
            program.replace("gpuzip.torch.Layers", "torch.nn.Sequential")
            .replace(', memory="2500K"', "")
            .rpartition("print")[0]
        )
        exec(compile(every, page, "exec"), plain)
        for a, b in zip(ours["stack"].parameters(), plain["stack"].parameters()):
            self.assertTrue(torch.equal(a.grad, b.grad))

    def test_the_benchmark_compares_equal_gradients(self):
        rows = benchmark("torch_layers")
        self.assertEqual([row[-1] for row in rows], ["–"] + ["equal bits"] * (len(rows) - 1))


if __name__ == "__main__":
    unittest.main()
