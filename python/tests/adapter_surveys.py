"""Shots of a survey as tasks of Dask, whose workers are processes."""

import os
import subprocess
import sys
import unittest

from dask.distributed import Client, LocalCluster

import gpuzip
from test_workers import PLAIN, fails, raises, shot

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "../examples/shots.py")


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

    def test_the_example(self):
        done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "31.017599855387 {3636}\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
