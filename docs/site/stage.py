"""Copies the pages of the documentation into a folder for Sphinx, with the navigation of docs/README.md.

    python3 docs/site/stage.py FOLDER
"""

import re
import shutil
import sys
from pathlib import Path

import headers
import modules
import reference

ROOT = Path(__file__).resolve().parents[2]
FILES = """README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md CITATION.cff LICENSE Cargo.toml
docs/*.md docs/*.svg docs/*.png benches/results/*.md benches/results/*.txt""".split()
REFERENCE = ["functions", "types", "constants", *headers.PAGES, "fortran-gpuzip", "fortran-gpuzip_gradient"] + [
    f"python-{name}" for name in ("init", "jax", "torch", "pyrevolve", "checkpoint_schedules", "devito")]


def navigation():
    """Returns the tables of contents: the groups of docs/README.md, the reference, and what remains."""
    seen, trees = {"README"}, reference.tree(["docs/README"])
    index = (ROOT / "docs/README.md").read_text()
    for group, text in re.findall(r"^\*\*(.*?)\*\*\n(.*?)(?=^\*\*|\Z)", index, re.M | re.S):
        links = re.findall(r"\]\(([^)#]*)\.md\)", text)
        pages = [link[3:] if link.startswith("../") else f"docs/{link}" for link in links]
        pages = [page for page in dict.fromkeys(pages) if page not in seen]
        seen.update(pages)
        trees += reference.tree(pages, group)
        if group == "Use gpuzip":
            trees += reference.tree([f"reference/{page}" for page in REFERENCE], "Reference")
    paths = [path for name in FILES if name.endswith(".md") for path in sorted(ROOT.glob(name))]
    rest = [str(path.relative_to(ROOT))[:-3] for path in paths]
    results = [page for page in rest if page.startswith("benches")]
    others = [page for page in rest if page not in seen and page not in results and page != "docs/README"]
    return trees + reference.tree(others, "Project") + reference.tree(results, "Measurements")


def split_changes(folder):
    """Moves the long sections of CHANGELOG.md to pages of at most 2,500 words."""
    page, *sections = re.split(r"^(##+ .*)\n", (folder / "CHANGELOG.md").read_text(), flags=re.M)
    names, release = [], ""
    for heading, text in zip(sections[::2], sections[1::2]):
        release = re.sub(r"^## \[?([^] ]*).*", r"\1", heading) if heading.startswith("## ") else release
        page += f"{heading}\n"
        if len(text.split()) < 500:
            page += text
            continue
        parts = [""]
        for entry in re.split(r"^(?=- )", text, flags=re.M):
            parts += [""] if len((parts[-1] + entry).split()) > 2500 else []
            parts[-1] += entry
        for number, part in enumerate(parts, 1):
            title = f"{release}: {heading[4:]}" + (f", {number} of {len(parts)}" if parts[1:] else "")
            names.append("CHANGELOG-" + re.sub(r"\W+", "-", title))
            (folder / f"{names[-1]}.md").write_text(f"# {title}\n\n{part}")
            page += f"\n- [{title}]({names[-1]}.md)"
        page += "\n\n"
    (folder / "CHANGELOG.md").write_text(page + reference.tree(names))


def stage(folder):
    for name in FILES:
        for path in ROOT.glob(name):
            to = folder / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
    for name in ("conf.py", "site.css", "site.js"):
        shutil.copy(ROOT / "docs/site" / name, folder)
    split_changes(folder)
    readme = folder / "README.md"
    readme.write_text(readme.read_text() + navigation())
    reference.write_pages(folder / "reference")
    modules.write(folder / "reference")
    headers.write(folder / "reference")


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
