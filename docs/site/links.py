"""Checks a folder of HTML pages: every link and picture is in the folder, with its anchor, and no page loads anything
from a network.

    python3 docs/site/links.py FOLDER
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors and links of a page."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loaded = {"", "top"}, [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        self.anchors.update(of[name] for name in ("id", "name") if of.get(name))
        if tag == "a" and of.get("href"):
            self.links.append(of["href"])
        sheet = tag == "link" and of.get("rel") in ("stylesheet", "icon", "preload")
        loaded = of.get("href") if sheet else of.get("src")
        if loaded:
            self.loaded.append(loaded)


def dead_links(folder):
    """Returns the links that lead nowhere, and what is loaded from elsewhere."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    dead = [] if pages else [f"{folder} has no page"]
    for path, page in pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loaded and parts.scheme != "data":
                    dead.append(f"{path}: loads {link}")
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not to.is_file() or to in pages and unquote(parts.fragment) not in pages[to].anchors:
                dead.append(f"{path}: {link}")
    return dead


if __name__ == "__main__":
    dead = dead_links(Path(sys.argv[1]))
    sys.exit("\n".join(["links that lead nowhere:"] + dead) if dead else 0)
