"""Shots of a survey as tasks of Dask, whose workers are processes."""

import os
import subprocess
import sys
import tempfile
import unittest

from dask.distributed import Client, LocalCluster

import gpuzip
from test_workers import PLAIN, fails, raises, shot

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.environ.get("GPUZIP_TEST_PAGE", os.path.join(HERE, "../../docs/surveys.md"))


class Dask(unittest.TestCase):
    def test_configurations_and_results_of_workers(self):
        configs = [gpuzip.Config(**{**PLAIN, "checkpointing_snaps": snaps}) for snaps in (1, 3, 9)]
        with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
            with Client(cluster) as client:
                # The module is that of the tests, which workers find by their path.
                client.run(sys.path.append, HERE)
                ids = client.run(os.getpid)
                self.assertEqual(len({os.getpid(), *ids.values()}), 3)
                found = client.gather(client.map(shot, configs, pure=False))
                for (stats, summary, profile, fingerprint), config in zip(found, configs):
                    mine = shot(config)
                    self.assertEqual((stats.forward_steps, stats.saves, fingerprint), (mine[0].forward_steps, mine[0].saves, mine[3]))
                    self.assertEqual((type(stats), type(summary), type(profile)), tuple(map(type, mine[:3])))
                for kind in ("ConfigError", "FileError", "StateError"):
                    with self.assertRaises(getattr(gpuzip, kind)):
                        client.submit(fails, configs[0], kind).result()
                for kind in gpuzip.errors.CLASSES.values():
                    with self.assertRaisesRegex(kind, "what to do"):
                        client.submit(raises, kind).result()

    def test_the_page_is_right(self):
        with open(PAGE) as file:
            text = file.read()
        parts = text.split("```python\n")
        self.assertEqual(len(parts), 2)
        program, printed = parts[1].split("```")[0], parts[1].split("```text\n")[1].split("```")[0]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "survey.py")
            with open(path, "w") as file:
                file.write(program)
            done = subprocess.run([sys.executable, path], cwd=folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, printed), done.stderr)


if __name__ == "__main__":
    unittest.main()
