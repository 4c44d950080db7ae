"""gpuzip.jax.scan in the place of jax.lax.scan: gradients, plans, memory, and what JAX puts around a loop."""

import os

# Four devices, before JAX starts.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4 " + os.environ.get("XLA_FLAGS", "")

import collections
import functools
import itertools
import json
import random
import re
import subprocess
import sys
import tempfile
import unittest

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import gpuzip
import gpuzip.jax
from gpuzip import _jax_plan as plans
from support import benchmark

jax.config.update("jax_enable_x64", True)

LONG = bool(os.environ.get("GPUZIP_TEST_LONG"))
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def error(found, expected):
    """The greatest difference of two pytrees, relative to the greatest value of each leaf."""
    worst = 0.0
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, a.dtype, b.shape, b.dtype)
        if a.size and a.dtype != jax.dtypes.float0:
            most = max(float(jnp.max(jnp.abs(b))), 1e-300)
            worst = max(worst, float(jnp.max(jnp.abs(a - b))) / most)
    return worst


class Plans(unittest.TestCase):
    def replay(self, n, slots, tape):
        """Replays a plan's tables and returns the number of steps that it runs."""
        t, kept, row, runs = plans.tables(n, slots, tape), {0: 0}, 0, 0
        segments = -(-n // tape)
        self.assertEqual([len(t.restore), len(t.begin), len(t.count)], [segments] * 3)
        for i in range(segments):
            here = kept[int(t.restore[i])]
            self.assertEqual(here, t.begin[i])
            for to, slot in t.rows[row : row + t.count[i]]:
                self.assertTrue(to > here and 0 < slot < slots)
                runs, here, kept[int(slot)] = runs + to - here, int(to), int(to)
            row += t.count[i]
            segment = (segments - 1 - i) * tape
            self.assertLessEqual(here, segment)
            runs += segment - here
        self.assertEqual(row, len(t.rows))
        return runs

    def test_every_plan_is_a_reversal_with_the_fewest_steps(self):
        fewest = functools.lru_cache(None)(
            lambda k, s: 0 if k == 1 else k * (k - 1) // 2 if s == 1
            else min(m + fewest(k - m, s - 1) + fewest(m, s) for m in range(1, k))
        )  # fmt: skip
        for n in (*range(1, 30), 64):
            for slots in (1, 2, 3, 5, 8, n):
                self.assertEqual(self.replay(n, slots, 1), fewest(n, slots))
                self.assertEqual(plans.advances(n, slots), fewest(n, slots))
                for tape in (2, 5):
                    self.replay(n, slots, tape)
        for slots in (2, 7, 300):
            self.assertEqual(self.replay(20_000, slots, 1), plans.advances(20_000, slots))

    def test_the_choice_has_the_least_work_of_all_plans(self):
        draw = random.Random(1)
        for _ in range(200):
            n, state, residuals = draw.randint(1, 40), draw.randint(1, 9), draw.randint(0, 9)
            costs = plans.Costs(state, residuals, *(draw.uniform(0.5, 3) * 1e6 for _ in range(4)))
            memory, host = draw.randint(1, 60), draw.choice((None, draw.randint(1, 60)))
            best = None
            for tape in range(1, n + 1):
                left = memory - (tape * residuals if tape > 1 or n == 1 else 0)
                for slots in range(1, n + 1):
                    most = left if host is None else host
                    if left >= 0 and (slots * state <= most or tape == n):
                        found = costs.of(n, min(slots, max(-(-n // tape) - 1, 1)), tape)
                        best = found if best is None else min(best, found)
            slots, tape = plans.choose(n, memory, host, costs)
            if tape == 0:
                self.assertIsNone(best)
            else:
                self.assertLessEqual(costs.of(n, slots, tape), best * 1.02)


def wave(loop, u, speed, xs, key, **keys):
    """A wave with random sources, a counter and a key in its state, and sums as its outputs."""

    def f(carry, x):
        w, before, i, key = carry
        key, now = jax.random.split(key)
        curvature = jnp.roll(w, 1) - 2 * w + jnp.roll(w, -1)
        after = 2 * w - before + speed * curvature - 1e-3 * jnp.sin(w) + x * jax.random.uniform(now, w.shape, w.dtype)
        return (after, w, i + 1, key), {"sum": jnp.sum(w**3), "i": i, "none": None}

    (last, *_), ys = loop(f, (u, u, jnp.int32(0), key), xs, **keys)
    return jnp.sum(last**2) + jnp.sum(jnp.sin(ys["sum"]) * jnp.cos(ys["i"]))


WAYS = ({"snapshots": 1}, {"snapshots": 5}, {"snapshots": 4, "tape": 7}, {"memory": 9000}, {"memory": "1M"})


class Scan(unittest.TestCase):
    def setUp(self):
        self.u, self.speed = jnp.exp(-(jnp.linspace(-3, 3, 32) ** 2)), jnp.linspace(0.1, 0.3, 32)
        self.key = jax.random.key(1)
        self.xs = 1e-3 * jax.random.normal(jax.random.key(0), (61, 32))

    def same(self, of, *arguments, ways=WAYS, bound=1e-12):
        """Checks `of(loop)` of these arguments with every way against that with jax.lax.scan."""
        expected = of(lax.scan)(*arguments)
        for way in ways:
            found = of(functools.partial(gpuzip.jax.scan, **way))(*arguments)
            self.assertLess(error(found, expected), bound, way)
        return expected

    def gradient(self, loop, **keys):
        return jax.grad(lambda u, speed, xs: wave(loop, u, speed, xs, self.key, **keys), (0, 1, 2))

    def test_gradients_values_and_what_jax_puts_around(self):
        arguments = self.u, self.speed, self.xs
        host = ({"snapshots": 5, "host_memory": "1M"}, {"memory": "20K", "host_memory": 3000})
        value = lambda loop: jax.jit(lambda u, c, xs: wave(loop, u, c, xs, self.key))
        self.same(value, *arguments)
        self.same(lambda loop: jax.jit(self.gradient(loop)), *arguments, ways=(*WAYS, *host))
        self.same(lambda loop: self.gradient(loop), *arguments)
        self.same(lambda loop: jax.jit(self.gradient(loop, reverse=True)), *arguments)

        def hessian_product(loop):
            gradient = self.gradient(loop)
            return jax.jit(lambda u, c, xs: jax.jvp(gradient, (u, c, xs), (jnp.sin(u), c, 2 * xs))[1])

        self.same(hessian_product, *arguments, ways=(*WAYS, *host))
        self.same(lambda loop: jax.jit(jax.jacfwd(self.gradient(loop), 1)), *arguments, ways=WAYS[1:3])
        batch = jnp.stack([self.u, 2 * self.u])
        self.same(lambda loop: jax.jit(jax.vmap(self.gradient(loop), (0, None, None))), batch, *arguments[1:])
        inputs = jnp.stack([self.xs, -self.xs])
        self.same(lambda loop: jax.vmap(self.gradient(loop), (None, None, 0)), *arguments[:2], inputs)

        def outer(loop):
            def body(total, scale):
                return total + 1e-3 * wave(loop, scale * self.u, self.speed, self.xs, self.key), None

            return jax.jit(jax.grad(lambda scales: lax.scan(body, 0.0, scales)[0]))

        self.same(outer, jnp.array([0.5, 1.0, 1.1]))

        def again(loop):
            loss = jax.checkpoint(lambda *x: wave(loop, *x, self.key))
            return jax.jit(jax.grad(loss, (0, 1, 2)))

        self.same(again, *arguments)

        def forward_mode(loop):
            energy = lambda u, c: wave(loop, u, c, self.xs, self.key)
            once = lambda u, c: jax.jvp(energy, (u, c), (c, u))[1]
            return jax.jit(lambda u, c: (once(u, c), jax.jvp(once, (u, c), (c, c))[1], jax.jacfwd(energy, 1)(u, c)))

        self.same(forward_mode, *arguments[:2])

        def across_vmap(loop):
            """A step that talks to the other elements, and a gradient around the `vmap`."""
            f = lambda c: lambda s, x: (lax.psum(0.4 * jnp.sin(s) * c, "i") + x, None)
            energy = lambda u, c: jnp.sum(loop(f(c), u, self.xs)[0] ** 2)
            every = jax.vmap(energy, (0, None), axis_name="i")
            return jax.jit(jax.grad(lambda c: jnp.sum(every(jnp.stack([self.u, 2 * self.u]), c))))

        self.same(across_vmap, self.speed)
        donated = functools.partial(jax.jit, donate_argnums=(0, 1, 2))
        for way in WAYS[1:3]:
            copies = [x + 0 for x in arguments]
            found = donated(self.gradient(functools.partial(gpuzip.jax.scan, **way)))(*copies)
            self.assertLess(error(found, jax.jit(self.gradient(lax.scan))(*arguments)), 1e-12)

    def test_many_devices(self):
        mesh = Mesh(np.array(jax.devices()), ("x",))

        def halo(loop):
            def local(u, c, scale):
                def f(state, _):
                    w, before = state
                    ends = [(w[-1:], 1), (w[:1], -1)]
                    left, right = (lax.ppermute(e, "x", [(i, (i + s) % 4) for i in range(4)]) for e, s in ends)
                    wide = jnp.concatenate([left, w, right])
                    curvature = wide[2:] - 2 * w + wide[:-2]
                    return (2 * w - before + scale * c * curvature - 1e-3 * jnp.sin(w), w), jnp.sum(w)

                (w, _), sums = loop(f, (u, u), None, 41)
                return lax.psum(jnp.sum(w**2) + jnp.sum(sums), "x")

            specs = {"mesh": mesh, "in_specs": (P("x"), P("x"), P()), "out_specs": P()}
            return jax.jit(jax.grad(jax.shard_map(local, **specs), (0, 1, 2)))

        self.same(halo, self.u, self.speed, 1.0)
        shared = [jax.device_put(x, NamedSharding(mesh, P("x"))) for x in (self.u, self.speed)]
        self.same(lambda loop: jax.jit(self.gradient(loop)), *shared, self.xs)

    def test_many_kinds_of_leaves(self):
        def odd(loop):
            def loss(u, c, z, b):
                table = jnp.array([1, 0, 1])

                def f(state, x):
                    w, empty, n, flag, kept, small, key = state
                    w = w + c * jnp.sin(w) * table[n % 3] * kept["k"] + x["a"]
                    w = lax.cond(n % 2 == 0, lambda w: w * 0.9, lambda w: w, w)
                    w = lax.fori_loop(0, 2, lambda _, w: w * 0.99, w)
                    small = small + w.astype(jnp.bfloat16)
                    return (w, empty * 2, n + 1, ~flag, kept, small, key), (x["i"] + n, jnp.sum(w), empty, small, key)

                begin = u, jnp.zeros((0, 3)), 0, jnp.array(True), {"k": z}, u.astype(jnp.bfloat16), jax.random.key(2)
                (w, _, n, _, kept, small, _), ys = loop(f, begin, {"a": b, "i": jnp.arange(30)}, reverse=True)
                return jnp.sum(w**2) + jnp.sum(ys[1] ** 2) + jnp.sum(kept["k"]) + jnp.sum(small.astype(float))

            return jax.jit(jax.grad(loss, (0, 1, 2, 3)))

        b = jnp.ones((30, 32)) * jnp.arange(30)[:, None] * 1e-3
        self.same(odd, self.u, self.speed, 2.0, b)

        def complex_wave(loop):
            f = lambda s, c: s * c + 0.1 * s * s.conj()
            last = lambda z, c: loop(lambda s, _: (f(s, c), None), z, None, 17)[0]
            return jax.grad(lambda z, c: jnp.sum(jnp.abs(last(z, c)) ** 2), (0, 1))

        self.same(complex_wave, self.u + 0.3j * self.u, self.speed * (1 + 0.5j))

    def test_a_number_of_steps(self):
        def counted(u, c):
            return jnp.sum(gpuzip.jax.scan(lambda u, t: u * (1 + 0.01 * t * c), u, 30, memory="2K") ** 2)

        def plain(u, c):
            return jnp.sum(lax.scan(lambda u, t: (u * (1 + 0.01 * t * c), None), u, jnp.arange(30))[0] ** 2)

        found, expected = (jax.jit(jax.grad(f, (0, 1)))(self.u, self.speed) for f in (counted, plain))
        self.assertLess(error(found, expected), 1e-13)

    def test_short_loops(self):
        for n in range(5):
            power = lambda loop: jax.grad(lambda a: loop(lambda s, _: (s * a, None), 1.0, None, n)[0])
            self.same(power, 2.0)
            self.same(lambda loop: jax.grad(lambda a: loop(lambda s, _: (s * 2.0, s), a, None, n)[0]), 2.0)

    def test_single_precision(self):
        cast = lambda x: x.astype(jnp.float32)
        arguments = cast(self.u), cast(self.speed), cast(self.xs)
        self.same(lambda loop: jax.jit(self.gradient(loop)), *arguments, bound=1e-4)

    def test_what_has_no_adjoint_costs_nothing(self):
        """A closed-over array that is not differentiated by has no sum of adjoints and no residuals."""
        big = jnp.ones((3, 100_000))

        def loss(u, big):
            return jnp.sum(gpuzip.jax.scan(lambda u, t: jnp.sin(u) * big[t % 3], u, 50, snapshots=5) ** 2)

        used = jax.jit(jax.grad(loss)).lower(big[0], big).compile().memory_analysis().temp_size_in_bytes
        self.assertLess(used, 11 * big[0].nbytes)

    def test_parameters_in_the_carry_are_not_saved(self):
        def loss(u, model):
            f = lambda carry, _: ((carry[0] * carry[1]["a"], carry[1]), None)
            return jnp.sum(gpuzip.jax.scan(f, (u, {"a": model}), None, 50, snapshots=20)[0][0])

        u = jnp.ones(100_000)
        used = jax.jit(jax.grad(loss, (0, 1))).lower(u, u).compile().memory_analysis().temp_size_in_bytes
        self.assertLess(used, 26 * u.nbytes)
        carried = lambda loop: jax.grad(
            lambda u, m: jnp.sum(loop(lambda c, _: ((c[0] * c[1], c[1]), None), (u, m), None, 9)[0][0]), (0, 1)
        )
        self.same(carried, self.u, self.speed)

    def test_memory_is_kept_and_slots_are_not_copied(self):
        def loss(u, c, **way):
            f = lambda w, _: (w + c * jnp.sin(w), jnp.sum(w))
            last, sums = gpuzip.jax.scan(f, u, None, 300, **way)
            return jnp.sum(last) + jnp.sum(sums)

        u = jnp.zeros(1 << 16)
        # The working memory of a step's derivative, and the sums of adjoints.
        one = jax.jit(jax.grad(functools.partial(loss, snapshots=1), (0, 1))).lower(u, u).compile()
        working = one.memory_analysis().temp_size_in_bytes
        for states in (3, 10, 25, 60, 100, 400, 1000):
            gradient = jax.jit(jax.grad(functools.partial(loss, memory=states * u.nbytes), (0, 1)))
            compiled = gradient.lower(u, u).compile()
            used = compiled.memory_analysis().temp_size_in_bytes
            self.assertLess(used, working + 1.1 * states * u.nbytes, states)
            # No copy of all slots, and none of the tape but the one that makes its memory.
            copies = re.findall(r"= f64\[(\d+),65536\]\S* copy\((\S+)\)", compiled.as_text())
            self.assertTrue(all("broadcast" in source for _, source in copies), copies)
            self.assertNotIn("conditional", compiled.as_text())

    def test_a_million_steps(self):
        f = lambda s, _: (s + 1e-6 * jnp.sin(s), None)
        for way in ({"snapshots": 10}, {"memory": 30_000}):
            loss = lambda s: jnp.sum(gpuzip.jax.scan(f, s, None, 1_000_000, **way)[0])
            slope = jax.jit(jax.grad(loss))(jnp.ones(3))
            expected = jax.jit(jax.grad(lambda s: jnp.sum(lax.scan(f, s, None, 1_000_000)[0])))(jnp.ones(3))
            self.assertLess(error(slope, expected), 1e-10)

    def test_wrong_calls_say_what_to_do(self):
        def run(*arguments, **keys):
            return gpuzip.jax.scan(lambda s, _: (s * self.speed, None), self.u, *arguments, **keys)

        for keys in ({}, {"memory": "1M", "snapshots": 3}, {"memory": "1M", "tape": 3}, {"tape": 3}):
            with self.assertRaisesRegex(gpuzip.ArgumentError, 'memory="2G".*not both'):
                run(None, 9, **keys)
        for xs in (2.0, jnp.int32(3), {"x": np.array(3)}):
            with self.assertRaisesRegex(gpuzip.ArgumentError, "give a Python int"):
                run(xs, snapshots=3)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "n = -3"):
            run(-3, snapshots=3)
        for keys in ({"snapshots": 0}, {"snapshots": 3, "tape": 0}):
            with self.assertRaisesRegex(gpuzip.ArgumentError, "at least one"):
                run(None, 9, **keys)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "neither length"):
            run(9, reverse=True, snapshots=3)
        with self.assertRaisesRegex(TypeError, "length"):
            run(None, 9, snapshots=3, length=4)
        for wrong in ("2X", "", "-1", -1, 2.5, True):
            with self.assertRaisesRegex(gpuzip.ArgumentError, f"memory = {wrong!r}: give bytes"):
                run(None, 9, memory=wrong)
            with self.assertRaisesRegex(gpuzip.ArgumentError, f"host_memory = {wrong!r}: give bytes"):
                run(None, 9, snapshots=3, host_memory=wrong)
        with self.assertRaisesRegex(TypeError, "carry input and carry output"):
            gpuzip.jax.scan(lambda s, _: ((s, s), None), self.u, None, 9, snapshots=3)
        loss = lambda u, **keys: jnp.sum(gpuzip.jax.scan(lambda s, _: (jnp.sin(s), None), u, None, 9, **keys)[0])
        with self.assertRaisesRegex(gpuzip.ArgumentError, "memory=255 bytes: a state of this loop has 256 bytes"):
            jax.grad(functools.partial(loss, memory=255))(self.u)
        with self.assertRaisesRegex(gpuzip.ArgumentError, "host_memory=767 bytes: these states have 768"):
            jax.grad(functools.partial(loss, snapshots=3, host_memory=767))(self.u)
        for way in ({"snapshots": 3}, {"snapshots": 2, "tape": 3}, {"memory": "1M"}):
            found = functools.partial(loss, **way)
            twice = lambda u: jnp.sum(jax.grad(found)(u))
            across = lambda u: jax.jvp(found, (u,), (u,))[1]
            for compiled, of in itertools.product((lambda f: f, jax.jit), (twice, across)):
                with self.assertRaisesRegex(gpuzip.UnsupportedError, "jax.jvp.jax.grad"):
                    compiled(jax.grad(of))(self.u)

    def test_effects_of_steps(self):
        """A step that writes what is not its state, or calls Python for an effect, is refused: it runs again."""
        kept = jax.new_ref(jnp.zeros(32))

        def of_its_own(s, _):
            r = jax.new_ref(jnp.zeros_like(s))
            r[...] = s * self.speed
            return jnp.sin(r[...]), None

        def inside_a_loop(s, _):
            r = jax.new_ref(jnp.zeros_like(s))
            lax.fori_loop(0, 2, lambda k, _: r.__setitem__(..., s * self.speed), None)
            return jnp.sin(r[...]), None

        def of_the_caller(s, _):
            kept[...] = kept[...] + lax.stop_gradient(s)
            return jnp.sin(s), None

        def reader(s, _):
            return s + jax.experimental.io_callback(lambda: np.float64(1), jax.ShapeDtypeStruct((), "float64")), None

        for f in (of_its_own, inside_a_loop, of_the_caller, reader):
            for way in WAYS[1:4]:
                with self.assertRaisesRegex(gpuzip.UnsupportedError, "runs steps again"):
                    jax.grad(lambda u: jnp.sum(gpuzip.jax.scan(f, u, None, 9, **way)[0]))(self.u)
        seen = []

        def prints(s, _):
            jax.debug.callback(lambda: seen.append(1))
            return jnp.sin(s), None

        self.same(lambda loop: jax.grad(lambda u: jnp.sum(loop(prints, u, None, 9)[0])), self.u)
        self.assertTrue(seen)

    def test_lengths_are_what_jax_takes(self):
        for length in (np.int64(5), np.int32(5), jnp.int32(5)):
            self.same(lambda loop: jax.grad(lambda a: loop(lambda s, _: (s * a, None), 1.0, None, length)[0]), 2.0)

    def test_random_programs(self):
        count = int(os.environ.get("GPUZIP_TEST_PROGRAMS", 100 if LONG else 5))
        first = int(os.environ.get("GPUZIP_TEST_SEED", 0))
        drawn = collections.Counter()
        for seed in range(first, first + count):
            program = Random(seed)
            drawn.update(program.words())
            expected = program.run(lax.scan)
            found = program.run(functools.partial(gpuzip.jax.scan, **program.way))
            self.assertLess(error(found, expected), program.bound, (seed, program.words()))
        if count >= 100:
            self.assertTrue(all(drawn[word] for word in (*AROUND, "cond", "while", "inner", "taped", "memory")), drawn)


    def test_the_page_is_right(self):
        page = os.environ.get("GPUZIP_TEST_PAGE", os.path.join(ROOT, "docs/jax.md"))
        with open(page) as file:
            programs = [part.split("```")[0] for part in file.read().split("```python\n")[1:]]
        self.assertGreaterEqual(len(programs), 2)
        for program in programs:
            names, plain = {}, {}
            exec(compile(program, page, "exec"), names)
            exec(compile(self.plain(program), page, "exec"), plain)
            self.assertGreater(float(jnp.max(jnp.abs(names["by_speed"]))), 0.1)
            for name in ("by_u", "by_speed"):
                self.assertLess(error(names[name], plain[name]), 1e-4)

    def plain(self, program):
        """The program with jax.lax.scan in the place of gpuzip's."""
        body = "jax.lax.scan(lambda s, t: (f(s, t, *p), None), s, jnp.arange(n))[0]"
        plain = program.replace("import gpuzip.jax\n", f"def plain(f, s, n, *p, **_):\n    return {body}\n")
        plain = plain.replace("gpuzip.jax.scan(", "plain(").replace("gpuzip.jax.loop(", "plain(")
        self.assertNotIn("gpuzip", plain)
        return plain

    def test_an_inversion_finds_the_body(self):
        example = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../examples/jax_fwi.py")
        small = ("--points", "48", "--steps", "260", "--shots", "3", "--iterations", "5")
        velocities = []
        with tempfile.TemporaryDirectory() as folder:
            picture, output = os.path.join(folder, "picture.png"), os.path.join(folder, "velocity.npy")
            for options in (("--states", "full"), ("--memory", "400K", "--plot", picture)):
                words = [sys.executable, example, *small, *options, "--output", output]
                done = subprocess.run(words, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                found = json.loads(done.stdout.splitlines()[-1])
                self.assertLess(found["misfit"][1], 0.1 * found["misfit"][0])
                self.assertLess(found["error"][1], 0.5 * found["error"][0])
                velocities.append(np.load(output))
            self.assertGreater(os.path.getsize(picture), 10000)
        np.testing.assert_allclose(*velocities, rtol=1e-9)

    def test_the_benchmarks_compare_gradients(self):
        rows = benchmark("jax")
        self.assertEqual(len([row for row in rows if row[0].startswith("gpuzip")]), 4)
        bench = os.path.join(ROOT, "python/benches/jax_curve.py")
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "curve.svg")
            words = [sys.executable, bench, "neural", "--small", "--runs", "1", "--memories", "20", "--plot", picture]
            done = subprocess.run(words, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("over jax.checkpoint", done.stdout)
            self.assertGreater(os.path.getsize(picture), 10000)


AROUND = (
    "jit", "eager", "vmap", "outer scan", "checkpoint", "hessian product", "inputs vmapped", "forward mode", "around vmap",
)  # fmt: skip
Pair = collections.namedtuple("Pair", "first rest")


class Random:
    """A program drawn from a seed: the state's structure and types, parameters, inputs and outputs, control flow
    in the step, what JAX puts around the loop, and the plan."""

    def __init__(self, seed):
        draw = self.draw = random.Random(seed)
        self.n, self.type = draw.randint(1, 14), draw.choice(("float64", "float64", "float64", "float32", "complex128"))
        self.bound = 1e-3 if self.type == "float32" else 1e-11
        self.shape = draw.choice([(), (1,), (3,), (2, 3), (5, 1)])
        self.structure = draw.choice(("one", "tuple", "dict", "named"))
        self.extra = [k for k in ("count", "flag", "key", "empty", "model", "half") if draw.random() < 0.3]
        self.inputs = draw.choice((None, "array", "dict"))
        self.outputs = draw.choice((None, "sum", "dict"))
        self.body = [draw.choice("slmcwikpr") for _ in range(draw.randint(1, 4))]
        self.reverse = draw.random() < 0.3
        self.around = draw.choice(AROUND)
        self.by = [draw.random() < 0.7 for _ in range(4)]
        if not any(self.by):
            self.by[draw.randrange(4)] = True
        if draw.random() < 0.4:
            self.way = {"memory": draw.choice((2000, 4000, 8000, "1M"))}
        else:
            self.way = {"snapshots": draw.randint(1, self.n), "tape": draw.choice((1, 1, 2, 3, self.n, 40))}
        numbers = np.random.default_rng(seed)
        make = lambda *shape: jnp.asarray(numbers.uniform(0.3, 1.1, (*shape, *self.shape)), self.type)
        self.arguments = [make(), make(), make(), make(self.n)]

    def words(self):
        taped = self.way.get("tape", 1) > 1
        names = {"c": "cond", "w": "while", "i": "inner"}
        return {self.around, *map(names.get, self.body), "taped" if taped else "", *self.way} - {None, ""}

    def step(self, loop, a, b, w, count):
        for word in self.body:
            w = {
                "s": lambda: jnp.sin(w) * a,
                "l": lambda: 0.9 * w + 0.1 * a * b,
                "m": lambda: w * b / (1.0 + jnp.abs(w) ** 2),
                "c": lambda: lax.cond(count % 2 == 0, lambda w: w * a, lambda w: jnp.tanh(w) + b, w),
                "w": lambda: lax.fori_loop(0, 2, lambda k, w: w * (0.9 + 0.01 * k), w),
                "i": lambda: loop(lambda w, _: (jnp.sin(w + b), None), w, None, 3)[0],
                "k": lambda: lax.scan(lambda w, x: (w * x, None), w, jnp.stack([a, b]))[0],
                "p": lambda: jnp.where(jnp.real(w) > 0.5, w, 0.5 * w + 0.2),
                "r": lambda: w + 0.01 * count,
            }[word]().astype(self.type)
        return w

    def loss(self, loop, u, a, b, series):
        extra = {
            "count": jnp.int32(3), "flag": jnp.array([True, False]), "key": jax.random.key(5),
            "empty": jnp.zeros((0, 2)), "model": {"b": b}, "half": jnp.real(u).astype("float32"),
        }  # fmt: skip
        rest = {name: extra[name] for name in self.extra}
        join, split = {
            "one": (lambda w, r: (w, r), lambda s: s),
            "tuple": (lambda w, r: (w, tuple(r.values())), lambda s: (s[0], dict(zip(rest, s[1])))),
            "dict": (lambda w, r: {"w": [w], "r": r}, lambda s: (s["w"][0], s["r"])),
            "named": (lambda w, r: Pair(w, r), lambda s: (s.first, s.rest)),
        }[self.structure]

        def f(state, x):
            w, r = split(state)
            count = r.get("count", 1)
            x = x if x is None or self.inputs == "array" else x["x"]
            w = self.step(loop, a, r["model"]["b"] if "model" in r else b, w, count)
            w = w if x is None else w + 0.1 * x
            if "key" in r:
                key, now = jax.random.split(r["key"])
                w, r = w + 0.01 * jax.random.uniform(now, w.shape).astype(w.dtype), {**r, "key": key}
            if "half" in r:
                w, r = w + 0.01 * r["half"].astype(w.dtype), {**r, "half": r["half"] * 0.5}
            if "flag" in r:
                w, r = jnp.where(r["flag"][0], w, 0.95 * w), {**r, "flag": ~r["flag"]}
            if "count" in r:
                r = {**r, "count": count + 1}
            y = {None: None, "sum": jnp.sum(w * w), "dict": {"w": w, "count": count}}[self.outputs]
            return join(w, r), y

        xs = {None: None, "array": series, "dict": {"x": series, "unused": jnp.arange(self.n)}}[self.inputs]
        last, ys = loop(f, join(u, rest), xs, self.n, reverse=self.reverse)
        total = jnp.sum(jnp.abs(split(last)[0]) ** 2)
        for y in jax.tree.leaves(ys):
            total += jnp.sum(jnp.abs(y)) * 0.1 if jnp.issubdtype(y.dtype, jnp.inexact) else 0.0
        return total

    def run(self, loop):
        chosen = [k for k in range(4) if self.by[k]]
        loss = functools.partial(self.loss, loop)
        around = self.around
        if around == "checkpoint":
            loss = jax.checkpoint(loss)
        if around == "outer scan":
            inner = loss
            scales = jnp.array([0.9, 1.1], jnp.finfo(self.type).dtype)
            body = lambda u, x, total, s: (total + inner(u * s, *x), None)
            loss = lambda u, *x: lax.scan(functools.partial(body, u, x), scales.dtype.type(0), scales)[0]
        gradient = jax.grad(loss, chosen)
        u, a, b, series = self.arguments
        if around == "hessian product":
            of = gradient
            gradient = lambda *x: jax.jvp(lambda u: of(u, *x[1:]), (x[0],), (0.5 * x[0],))[1]
        if around == "forward mode":
            dots = tuple(0.5 * x if k in chosen else jnp.zeros_like(x) for k, x in enumerate(self.arguments))
            return jax.jit(lambda *x: jax.jvp(loss, x, dots))(*self.arguments)
        if around == "around vmap":
            every = jax.vmap(loss, (0, None, 0, None))
            total = lambda u, a, b, series: jnp.sum(every(jnp.stack([u, 0.7 * u]), a, jnp.stack([b, a]), series))
            return jax.jit(jax.grad(total, chosen))(u, a, b, series)
        if around == "vmap":
            return jax.jit(jax.vmap(gradient, (0, None, None, None)))(jnp.stack([u, 0.7 * u]), a, b, series)
        if around == "inputs vmapped":
            batched = jnp.stack([a, b]), b, jnp.stack([series, -series])
            return jax.jit(jax.vmap(gradient, (None, 0, None, 0)))(u, *batched)
        return (gradient if around == "eager" else jax.jit(gradient))(u, a, b, series)


if __name__ == "__main__":
    unittest.main()
