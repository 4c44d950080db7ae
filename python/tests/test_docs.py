"""The programs of docs/python.md, which run one after the other, as one program, and the program of
python/README.md."""

import contextlib
import io
import logging
import os
import tempfile
import unittest

import gpuzip

PAGE = os.path.abspath(
    os.environ.get("GPUZIP_TEST_PAGE", os.path.join(os.path.dirname(__file__), "../../docs/python.md"))
)


class Page(unittest.TestCase):
    def test_every_program_runs(self):
        with open(PAGE) as file:
            parts = file.read().split("\n```")
        blocks = [part.split("\n", 1) for part in parts[1::2]]
        programs = [text for language, text in blocks if language == "python"]
        outputs = [text for language, text in blocks if language == "text"]
        self.assertGreater(len(programs), 3)
        # The programs write files.
        self.addCleanup(os.chdir, os.getcwd())
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chdir(folder.name)
        logged = logging.getLogger("page")
        logged.propagate, lines = False, []
        logged.addFilter(lambda record: lines.append(record.getMessage()))
        gpuzip.log_to(logged)
        self.addCleanup(gpuzip.log_to, None)
        names, printed = {}, io.StringIO()
        with contextlib.redirect_stdout(printed):
            for program in programs:
                exec(compile(program, PAGE, "exec"), names)
        self.assertEqual(lines, [])  # no warning
        for text in outputs:
            self.assertIn(text + "\n", printed.getvalue())
        # Comments behind calls of print say what is printed.
        for line in "\n".join(programs).split("\n"):
            if "print(" in line and "  # " in line:
                self.assertIn(line.split("  # ")[1] + "\n", printed.getvalue())
        self.assertEqual(printed.getvalue().count("1.979449291628\n"), 2)

    def test_the_program_of_the_readme_runs(self):
        page = os.path.join(os.path.dirname(PAGE), "../python/README.md")
        with open(page) as file:
            _, *programs = file.read().split("```python\n")
        (program,) = (program.split("```")[0] for program in programs)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, page, "exec"), {})
        # The first digits of docs/python.md, as NumPy prints them.
        self.assertEqual(printed.getvalue(), "[1.97944929]\n")


if __name__ == "__main__":
    unittest.main()
