"""Makes a reference and manual pages from include/gpuzip.h. Pages need Python 3.9, manual pages 3.8, and no package.

    python3 docs/site/reference.py man FOLDER     manual pages of section 3
    python3 docs/site/reference.py pages FOLDER   pages in Markdown, of C, Fortran and Python
"""

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Declaration:
    """A function, type or constant of a header: its name, its code and the comment before it."""

    header = "gpuzip.h"

    def __init__(self, comment, code):
        self.code = re.sub(r" GPUZIP_DEFAULT\(.*\)", "", code)
        self.text, _, self.pointers = dedent(comment).partition("Pointers:\n")
        self.text, self.pointers = self.text.strip(), self.pointers.strip()
        self.members = []
        if code.startswith("#define"):
            _, self.name, self.value = code.split(None, 2)
            self.kind = "constant"
        elif code.startswith("typedef"):
            self.name = re.search(r"(\w+)(?:;$|\)\()", code).group(1)
            self.kind = "type"
            body = re.findall(r"^  /\*\n(.*?)^   \*/\n  (.*?);\n", self.code, re.M | re.S)
            names = [re.search(r"(\w+)(\[\d+\])?$", member).group(1) for _, member in body]
            self.members = [(name, member, dedent(text)) for name, (text, member) in zip(names, body)]
        else:
            self.name = re.search(r"(\w+)\(", code).group(1)
            self.kind = "function"
        # Without the comments of the members.
        self.code = re.sub(r"^  /\*\n.*?^   \*/\n", "", self.code, flags=re.M | re.S)

    def summary(self):
        """Returns the first sentence of the text, in one line and without its period."""
        sentence = re.split(r"\.(?:\s|$)|;\s", " ".join(self.text.split()), maxsplit=1)[0]
        head = sentence.split(": ")[0]
        return head if len(sentence) > 100 and len(head) > 20 and "(" not in head else sentence

    def line(self):
        """Returns the text in one line of Markdown, also for a cell of a table."""
        return marked(" ".join(self.text.split())).replace("|", "&#124;")

    def errors(self):
        """Returns the statuses that the text names."""
        return sorted(set(re.findall(r"GPUZIP_ERR_\w+", self.text)))

    def others(self):
        """Returns the functions and types that the code and the text name."""
        names = re.findall(r"\bgpuzip_\w+", self.code + self.text + self.pointers)
        return [name for name in dict.fromkeys(names) if name not in (self.name, "gpuzip_status_t")]


def dedent(comment):
    return textwrap.dedent(comment.strip("\n"))


def header():
    """Returns the declarations of the header by name, in their order."""
    text = (ROOT / "include/gpuzip.h").read_text()
    declaration = r"#define .*?$|typedef struct \w+ \{.*?^\} \w+;|[^;]*;"
    found = re.findall(rf"^/\*\n(.*?)^ \*/\n({declaration})", text, re.M | re.S)
    return {it.name: it for it in (Declaration(*pair) for pair in found)}


def purposes(page="api.md", section="Functions"):
    """Returns the rows of a table in docs/: a purpose, without its link, and its functions or keys."""
    table = (ROOT / "docs" / page).read_text().split(f"\n## {section}\n")[1].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]*?)(?: \(\[[^|]*)? \| (`.*) \|$", table, re.M)
    return [(purpose[0].upper() + purpose[1:], re.findall(r"`(\w+)`", names)) for purpose, names in rows]


def related(it, declarations):
    """Returns the functions and types that a page refers to: those it names, and those of one purpose or small header."""
    same = [names for _, names in purposes() if it.name in names]
    if it.header != Declaration.header:
        same.append([other.name for other in declarations.values() if other.header == it.header])
    names = dict.fromkeys(it.others() + sum(same, []))
    return [name for name in names if name in declarations and name != it.name]


# Manual pages.


def version():
    return re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M).group(1)


def roff(text):
    """Returns a text of the header in the language of manual pages."""
    made = []
    for paragraph in re.split(r"\n\n|\n(?=- )", text):
        item, words = paragraph.startswith("- "), " ".join(paragraph.split())
        made += [".IP \\(bu 2"] if item else [".PP"] if made else []
        if paragraph.startswith("```"):
            made.append(code(paragraph.partition("\n")[2].rstrip("`\n")).rstrip())
            continue
        words = (words[2:] if item else words).replace("\\", "\\e").replace("-", "\\-")
        words = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", words)
        words = re.sub(r"(?<![\w*])\*(\w[\w ]*)\*(?!\w)", r"\\fI\1\\fR", words)
        lines = textwrap.wrap(words, 78, break_on_hyphens=False)
        made += ["\\&" + line if line[0] in "'." else line for line in lines]
    return "\n".join(made)


def code(text):
    return ".nf\n" + text.replace("\\", "\\e").replace("-", "\\-") + "\n.fi\n"


def manual(it, declarations):
    """Returns the manual page of a function or type."""
    page = f'.TH {it.name.upper()} 3 "" "gpuzip {version()}" "gpuzip manual"\n'
    page += ".SH NAME\n" + roff(f"{it.name} - {it.summary()}".replace("`", "")) + "\n"
    page += ".SH SYNOPSIS\n" + code(f"#include <{it.header}>\n\n{it.code}")
    page += f".SH DESCRIPTION\n{roff(it.text)}\n"
    if it.pointers:
        page += f".SH POINTERS\n{roff(it.pointers)}\n"
    if it.members:
        page += ".SH MEMBERS\n"
        page += "".join(f".TP\n.B {roff(member)}\n{roff(text)}\n" for _, member, text in it.members)
    if it.code.startswith("gpuzip_status_t "):
        page += ".SH RETURN VALUE\n0 (GPUZIP_OK), or a negative status, whose reason\n"
        page += ".BR gpuzip_last_error (3)\nreturns.\n"
    if it.name == "gpuzip_status_t":
        statuses = [c for c in declarations.values() if c.name.startswith(("GPUZIP_OK", "GPUZIP_ERR"))]
    else:
        statuses = [declarations[name] for name in it.errors()]
    if statuses:
        page += ".SH STATUSES\n"
        page += "".join(f".TP\n.BR {c.name} \" ({roff(c.value)})\"\n{roff(c.text)}\n" for c in statuses)
    also = ["gpuzip"] + related(it, declarations)
    return page + ".SH SEE ALSO\n" + " ,\n".join(f".BR {name} (3)" for name in also) + "\n"


def overview(declarations):
    """Returns the manual page gpuzip(3): conventions, and all functions by purpose."""
    text = (ROOT / "include/gpuzip.h").read_text()
    conventions = re.match(r"/\* gpuzip: (.*?)\n \*\n(.*?)\n \*/", text, re.S)
    text = dedent(re.sub(r"^ \*", "", conventions.group(2), flags=re.M).partition("Conventions:\n")[2])
    page = f'.TH GPUZIP 3 "" "gpuzip {version()}" "gpuzip manual"\n'
    page += ".SH NAME\n" + roff(f"gpuzip - {conventions.group(1).rstrip('.')}") + "\n"
    page += ".SH SYNOPSIS\n" + code("#include <gpuzip.h>\n\ncc ... $(pkg-config --cflags --libs gpuzip)")
    page += f".SH DESCRIPTION\n{roff(text)}\n.SH FUNCTIONS\n"
    small = {}
    for it in declarations.values():
        if it.header != Declaration.header:
            small.setdefault(it.header, []).append(it.name)
    for purpose, names in purposes() + list(small.items()):
        page += f".TP\n{roff(purpose)}\n" + "\n".join(f".BR {name} (3)" for name in names) + "\n"
    return page + ".SH SEE ALSO\n.BR gpuzip (1)\n"


def write_manuals(folder, declarations):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpuzip.3").write_text(overview(declarations))
    for it in declarations.values():
        if it.kind != "constant":
            (folder / f"{it.name}.3").write_text(manual(it, declarations))


# Pages in Markdown.


def fenced(language, text):
    return f"```{language}\n{text}\n```\n\n"


def outside_code(change, text):
    """Returns a text whose parts outside of code are changed."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [change(part) for part in parts[::2]]
    return "".join(parts)


def escaped(text):
    return outside_code(lambda part: part.replace("<", "&lt;"), text)


def marked(text):
    """Returns a text of the header with its names of gpuzip as code."""
    name = re.compile(r"\b(GPUZIP_[A-Z0-9_]*[A-Z0-9]|gpuzip(?:_|::)\w+)\b(?!_|\*|\.h)")
    return outside_code(lambda part: name.sub(r"`\1`", part), escaped(text))


def page_of(it, declarations):
    """Returns the page of a function or type; docs/site/conf.py makes links of the names."""
    page = f"# {it.name}\n\n" + fenced("c", it.code) + marked(it.text) + "\n\n"
    if it.pointers:
        page += f"## Pointers\n\n{marked(it.pointers)}\n\n"
    for name, member, text in it.members:
        page += f"## {name}\n\n" + fenced("c", member + ";") + marked(text) + "\n\n"
    if it.code.startswith("gpuzip_status_t "):
        page += "## Status\n\n`GPUZIP_OK`, or a negative [status](constants.md#statuses), "
        page += "whose reason `gpuzip_last_error` returns.\n\n"
        page += "".join(f"- `{name}`: {declarations[name].line()}\n" for name in it.errors()) + "\n"
    return page


def pages_with(text):
    """Returns links to the pages that have a text."""
    paths = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "api.md"]
    found = {path.name: path.read_text() for path in paths if text in path.read_text()}
    titles = {name: page[2 : page.index("\n")] for name, page in found.items()}
    return ", ".join(f"[{title}](../docs/{name})" for name, title in titles.items())


def see_also(it, declarations):
    names = ", ".join(f"`{name}`" for name in related(it, declarations))
    pages = pages_with(f"`{it.name}`")
    lists = [f"- {title}: {found}\n" for title, found in (("reference", names), ("pages", pages)) if found]
    return "## See also\n\n" + "".join(lists)


def constants(declarations):
    titles = {"OK": "Statuses", "ERR": "Statuses", "DUE": "Restart files", "POLICY": "Policies"}
    groups = {}
    for it in declarations.values():
        if it.kind == "constant":
            group = it.name.split("_")[1]
            groups.setdefault(titles.get(group, group.capitalize() + "s"), []).append(it)
    page = "# C constants\n"
    for group, them in groups.items():
        page += f"\n## {group}\n\n| name | number | meaning |\n|---|---|---|\n"
        for it in them:
            page += f"| `{it.name}` | {it.value} | {it.line()} |\n"
    return page


def tree(names, caption=""):
    """Returns a hidden table of contents, from which the navigation is made."""
    head = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return "\n```{toctree}\n" + head + "\n" + "\n".join(names) + "\n```\n"


def split(page, name, title, groups):
    """Returns a page with links in the place of sections that have pages of their own, and these pages by name.

    A group is what a page is about, which ends its name and its title, and the headings of its sections. A section with
    members is a whole page.
    """
    head, *parts = re.split(r"^## ", page, flags=re.M)
    parts, pages = dict(part.split("\n", 1) for part in parts), {}
    head += "On pages of their own:\n\n"
    for what, headings in groups:
        there, links = name + re.sub(r"\W+", "-", what), []
        pages[there] = f"# {title}{what}\n"
        for heading in headings:
            text = parts.pop(heading)
            whole = "\n### " in text
            pages[there] += re.sub("^###", "##", text, flags=re.M) if whole else f"\n## {heading}\n{text}"
            # A link to the place where the section was leads to the link in its place.
            anchor = f'<a id="{re.sub(r"[^a-z0-9]+", "-", heading.lower())}"></a>'
            links.append(f"{anchor}[{heading}]({there}.md{'' if whole else '#' + heading})")
        head += f"- {'' if whole else f'[{what}]({there}.md): '}{', '.join(links)}\n"
    return head + "\n" + "".join(f"## {heading}\n{text}" for heading, text in parts.items()) + tree(pages), pages


def split_classes(page, name, title):
    """Splits a page as `split` does: each class, or header, with members gets a page of its own."""
    sections = re.findall(r"^## ([\w./]+)\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    groups = [(it, [it]) for it, text in sorted(sections) if "\n### " in text]
    return split(page, name, title, groups) if groups else (page, {})


def write_split(folder, name, page, pages):
    for name, text in {name: page, **pages}.items():
        (folder / f"{name}.md").write_text(text)


def same_names(what, declared, groups):
    different = sorted(set(declared) ^ {name for _, names in groups for name in names})
    if different:
        sys.exit(f"{what} have different names: {', '.join(different)}")


def write_pages(folder):
    declarations = header()
    folder.mkdir(parents=True, exist_ok=True)
    groups = purposes()
    functions = [it.name for it in declarations.values() if it.kind == "function"]
    same_names("docs/api.md and the functions of include/gpuzip.h", functions, groups)
    functions = "# C functions\n\nFrom `include/gpuzip.h`. `man gpuzip_save` shows the same text.\n"
    for purpose, names in groups:
        functions += f"\n## {purpose}\n\n"
        functions += "".join(f"- `{name}`: {declarations[name].summary()}\n" for name in names)
    (folder / "functions.md").write_text(functions + tree(name for _, names in groups for name in names))
    types = [it for it in declarations.values() if it.kind == "type"]
    listed = "".join(f"- `{it.name}`: {it.summary()}\n" for it in types)
    (folder / "types.md").write_text("# C types\n\n" + listed + tree(it.name for it in types))
    (folder / "constants.md").write_text(constants(declarations))
    for it in declarations.values():
        if it.kind != "constant":
            (folder / f"{it.name}.md").write_text(page_of(it, declarations) + see_also(it, declarations))
    keys, config = purposes("configuration.md", "Keys by purpose"), declarations["gpuzip_config_t"]
    declared = [name for name, *_ in config.members if name != "struct_size" and not name.startswith("reserved")]
    same_names("docs/configuration.md and gpuzip_config_t", declared, keys)
    page = page_of(config, declarations) + see_also(config, declarations)
    groups = [(purpose.lower(), names) for purpose, names in keys]
    write_split(folder, config.name, *split(page, "config-", f"{config.name}: ", groups))


if __name__ == "__main__":
    import headers
    import modules

    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "man":
        write_manuals(folder, {**header(), **headers.functions()})
    else:
        write_pages(folder)
        modules.write(folder)
        headers.write(folder)
