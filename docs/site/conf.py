"""Sphinx's configuration for `make site`: docs/site/make.sh copies the pages into a folder and calls Sphinx."""

import re
from pathlib import Path

from docutils import nodes

PAGES = Path(__file__).resolve().parent

project = "gpuzip"
author = copyright = "The gpuzip authors"
version = release = re.search(r'^version = "(.*)"$', (PAGES / "Cargo.toml").read_text(), re.M).group(1)
extensions = ["myst_parser"]
root_doc = "README"
myst_heading_anchors = 6
# A measurement may begin with a second-level heading; listings of one language hold fragments.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
html_theme = "furo"
html_title = f"gpuzip {version}"
html_static_path = ["site.css", "site.js"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
# Quotation marks in the texts stand for those of C and the shell.
smartquotes = False
html_copy_source = False
# Browsers do not let a page of files read the others, for excerpts beside the search results.
html_show_search_summary = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
pygments_style = "friendly"


def is_linked(node):
    while node is not None and not isinstance(node, (nodes.title, nodes.reference)):
        node = node.parent
    return node is not None


def link_names(app, doctree, page):
    """Makes a link of every name of the C and C++ interfaces that a page has as code."""
    for literal in list(doctree.findall(nodes.literal)):
        there, anchor = app.env.reference_names.get(literal.astext(), (page, ""))
        if there != page and not is_linked(literal):
            uri = app.builder.get_relative_uri(page, there) + anchor
            link = nodes.reference("", "", internal=True, refuri=uri)
            literal.replace_self(link)
            link += literal


def read_names(app, env, _docs):
    """Finds the page of every function, type and constant."""
    folder = PAGES / "reference"
    env.reference_names = {page.stem: (f"reference/{page.stem}", "") for page in folder.glob("gpuzip*.md")}
    heading = ""
    for line in (folder / "constants.md").read_text().splitlines():
        if line.startswith("## "):
            heading = "#" + line[3:].lower().replace(" ", "-")
        for name in re.findall(r"^\| `(\w+)` \|", line):
            env.reference_names[name] = ("reference/constants", heading)
    pages = {page.stem: "gpuzip::" for page in folder.glob("cxx-*.md") if "dropin" not in page.stem}
    for page, prefix in {**pages, "c-gpuzip_revolve": "", "c-gpuzip_gradient": ""}.items():
        for level, name in re.findall(r"^(#+) (?:gpuzip::)?([\w.]+)$", (folder / f"{page}.md").read_text(), re.M):
            if (prefix + name).startswith("gpuzip"):
                anchor = "#" + re.sub(r"\W|_", "-", name.lower()) if level > "#" else ""
                env.reference_names[prefix + name.replace(".", "::")] = (f"reference/{page}", anchor)


def setup(app):
    app.connect("env-before-read-docs", read_names)
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
