"""Devito with gpuzip in the place of PyRevolve: the same images and gradients, to the last bit."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from support import benchmark

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "..", "examples", "devito_rtm.py")
OVERTHRUST = os.path.join(HERE, "../../../shared/data/overthrust2d_201x81_25m_vp.f32")
# One thread: the order of additions, and so the last bits, depends on the number of threads.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def python(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=ENVIRONMENT
    )


class Devito(unittest.TestCase):
    def image(self, *options):
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "image.npy")
            done = python(EXAMPLE, "--output", output, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreaterEqual(json.loads(done.stdout.splitlines()[-1])["steps"], 100)
            return np.load(output)

    def compare(self, *options):
        full = self.image("--states", "full", *options)
        self.assertEqual(full.dtype, np.float64)
        self.assertTrue(np.isfinite(full).all())
        self.assertGreater(np.abs(full).max(), 0)
        for states in (
            ("pyrevolve",),
            ("gpuzip",),
            ("gpuzip", "--checkpoints", "3"),
            ("gpuzip", "--key", "checkpointing_algorithm=auto", "--key", "host_budget=2M"),
        ):
            np.testing.assert_array_equal(self.image("--states", *states, *options), full, str(states))
        return full

    def test_acoustic_migration(self):
        self.compare("--equation", "acoustic", "--task", "rtm")

    def test_acoustic_gradient(self):
        full = self.compare("--equation", "acoustic", "--task", "gradient")
        codec = ("--key", "compressor=lorenzo", "--key", "error_bound=1e-6", "--key", "checkpointing_snaps=9")
        lossy = self.image("--equation", "acoustic", "--task", "gradient", *codec, "--key", "checkpointing_algorithm=revolve")
        self.assertTrue((lossy != full).any())
        self.assertLess(np.abs(lossy - full).max(), 1e-3 * np.abs(full).max())

    def test_viscoacoustic_migration(self):
        self.compare("--equation", "viscoacoustic", "--task", "rtm")

    def test_viscoacoustic_gradient(self):
        self.compare("--equation", "viscoacoustic", "--task", "gradient")

    def test_a_real_model(self):
        if not os.path.exists(OVERTHRUST):
            return
        model = ("--model", OVERTHRUST, "--shape", "201", "81", "--spacing", "25", "--time", "1000")
        np.testing.assert_array_equal(self.image("--states", "gpuzip", *model), self.image("--states", "full", *model))

    def test_the_configuration_reaches_devitos_solvers(self):
        done = python("-c", """if True:
            import gpuzip, gpuzip.devito
            gpuzip.devito.use(checkpointing_algorithm="revolve", checkpointing_snaps=3)
            import devito
            from examples.seismic.acoustic import wavesolver
            assert wavesolver.Revolver is devito.Revolver is gpuzip.devito.Revolver
            assert devito.DevitoCheckpoint.__mro__[1] is gpuzip.pyrevolve.Checkpoint
            first = devito.Revolver(None, None, None, None, 50)
            gpuzip.devito.use(host_budget="1M")
            second = devito.Revolver(None, None, None, None, 50)
            gpuzip.devito.use()
            third = devito.Revolver(None, None, None, None, 50)
            print(first.config, second.config, third.n_checkpoints)
            try:
                gpuzip.devito.use(host_budgt="1M")
            except gpuzip.ConfigError as reason:
                print(reason)
        """)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            done.stdout.splitlines(),
            [
                "{'checkpointing_algorithm': 'revolve', 'checkpointing_snaps': 3} {'host_budget': '1M'} 4",
                "there is no configuration key 'host_budgt': did you mean host_budget?",
            ],
        )

    def test_too_late_is_an_error(self):
        done = python("-c", "import devito, gpuzip.devito; gpuzip.devito.use()")
        self.assertIn("call gpuzip.devito.use() before `import devito`", done.stderr)

    def test_the_page_is_right(self):
        page = os.environ.get("GPUZIP_TEST_PAGE", os.path.join(HERE, "../../docs/devito.md"))
        with open(page) as file:
            text = file.read()
        self.assertEqual(text.count("```python\n"), 1)
        program, printed = (text.split(f"```{kind}\n")[1].split("```")[0] for kind in ("python", "text"))
        done = python("-c", program)
        self.assertEqual(done.stdout, printed, done.stderr)

    def test_devito_computes_in_buffers(self):
        # The example, beside a TimeFunction and every state.
        with open(os.path.join(HERE, "../examples/devito_buffers.py")) as file:
            program = file.read()
        done = python("-c", program + """if True:
            from devito import TimeFunction
            levels, states = TimeFunction(name="levels", grid=grid, space_order=4, time_order=2), [first[0]]
            advance = Operator([Eq(levels.forward, 2 * levels - levels.backward + model * levels.laplace)])
            levels.data_with_halo[0], levels.data_with_halo[1] = first
            for t in range(60):
                advance.apply(time_m=t + 1, time_M=t + 1)
                states.append(np.array(levels.data_with_halo[(t + 2) % 3]))
            expected = np.zeros(shape)
            for t in reversed(range(60)):
                expected += t * states[t] * states[t + 1]
            assert (image == expected).all()
            def addresses(kind):
                class Seen(kind):
                    def apply(self, t_start, t_end, inbuffer, outbuffer):
                        seen.add(inbuffer[0].ctypes.data)
                        super().apply(t_start, t_end, inbuffer, outbuffer)
                return Seen()
            seen, image[:] = set(), 0.0
            revolver = pyrevolve.Revolver(pyrevolve.Buffers(list(first)), addresses(Forward), Adjoint(), 6, 60)
            revolver.apply_forward()
            revolver.apply_reverse()
            # Six snapshots, the initial state and two buffers beside them.
            assert len(seen) <= 9, len(seen)
            print((image == expected).all())
        """)  # fmt: skip
        # No snapshot was transferred.
        self.assertEqual(done.stdout.splitlines(), ["751.915614 0", "True"], done.stderr)

    def test_the_benchmark_compares_equal_gradients(self):
        path = os.path.join(HERE, "../benches/adapters/devito.py")
        program = f"""if True:
            import importlib.util, sys
            spec = importlib.util.spec_from_file_location("benchmark", {path!r})
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            vars(module).update(module.SMALL)
            module.baseline()
            first, second = (module.WAYS[sys.argv[2]]() for _ in range(2))
            print(sys.modules["devito"].Revolver.__module__, (first == second).all(), second.tobytes().hex())
        """
        ways = ["every state, save=True", "PyRevolve", "gpuzip", 'gpuzip, host_budget="200M"']
        runs = [python("-c", program, "--way", way) for way in ways]
        found = [run.stdout.split() for run in runs]
        self.assertTrue(all(found), [run.stderr for run in runs])
        revolvers, repeated, gradients = zip(*found)
        self.assertEqual(revolvers, ("pyrevolve.pyrevolve",) * 2 + ("gpuzip.devito",) * 2)
        self.assertEqual(set(repeated), {"True"})
        self.assertEqual(len(set(gradients)), 1)
        rows = benchmark("devito")
        self.assertEqual([row[-1] for row in rows], ["–"] + ["equal bits"] * 3)

    def test_a_picture_is_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "image.png")
            self.image("--plot", path)
            self.assertGreater(os.path.getsize(path), 10000)


if __name__ == "__main__":
    unittest.main()
