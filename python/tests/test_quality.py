"""The error of the result as the setting."""

import unittest

import gpuzip
import numpy


def result(error):
    return numpy.sin(numpy.arange(100)) * (1 + error)


class QualityTest(unittest.TestCase):
    def measure(self, chosen, factor, ranks=False):
        runs = []
        for config in chosen.runs():
            runs.append(config)
            x = result(0 if config.compressor == "none" else factor * config.error_bound)
            if ranks:
                a, b = chosen.compare(x)
                chosen.judge(a, b)
            else:
                chosen.result(x)
        return runs

    def test_a_bound_is_chosen_and_checked(self):
        chosen = gpuzip.Quality(compressor="dct", quality="gradient:1e-3", disk_path="/tmp", checkpointing_snaps=3)
        with self.assertRaises(gpuzip.StateError):
            chosen.result(result(0))
        runs = self.measure(chosen, 3)
        self.assertEqual((runs[0].compressor, runs[0].checkpointing_snaps), ("none", 3))
        self.assertEqual(runs[1].disk_path, b"/tmp" if isinstance(runs[1].disk_path, bytes) else "/tmp")
        bound = chosen.config.error_bound
        self.assertTrue(3e-4 < 3 * bound < 7e-4)
        chosen.check()
        self.measure(chosen, 30, ranks=True)
        info = chosen.info()
        self.assertTrue(3e-4 < 30 * chosen.config.error_bound < 7e-4)
        self.assertEqual((info.asked, info.shots, info.error_bound), (1e-3, 2, chosen.config.error_bound))
        chosen.close()

    def test_what_cannot_be_measured_is_refused(self):
        for compressor in "zfp", "fp16", "none", "lossless":
            with self.assertRaisesRegex(gpuzip.ConfigError, "quality = gradient:1e-3 with compressor"):
                gpuzip.Quality(compressor=compressor, quality="gradient:1e-3")
        with self.assertRaisesRegex(gpuzip.ConfigError, "gpuzip_quality_open"):
            gpuzip.Schedule(5, compressor="dct", quality="gradient:1e-3")
        chosen = gpuzip.Quality(compressor="dct", quality="image:60dB")
        next(chosen.runs())
        with self.assertRaisesRegex(gpuzip.ValuesError, "one value everywhere"):
            chosen.result(numpy.zeros(5))
        with self.assertRaisesRegex(gpuzip.ValuesError, "NaN"):
            chosen.result(numpy.full(5, numpy.nan))


if __name__ == "__main__":
    unittest.main()
