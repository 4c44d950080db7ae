"""Makes pages in Markdown of the C++ header, of the small C headers and of the headers for programs of GPUZIP 2.x.

A declaration begins a line with the indentation of its scope, and the brace that ends its block stands in a line with
the same indentation. The comment is in the lines before it; declarations without a blank line between them share one.
What is in another namespace than gpuzip, or has a comment that begins with "Internal", is left out.
"""

import re
import textwrap

from modules import markdown
from reference import ROOT, Declaration, fenced, pages_with, split_classes, write_split

DROPIN = """common/GPUZIPBuilders.cpp checkpointing/Checkpointing.hpp prefetch/Prefetch.cuh Compressor.hpp CompressorZFP.hpp
CompressorBitcomp.hpp CompressorCuSZp.hpp common/structs.h common/real_t.h common/GPUZIPError.h common/GPUZIPLogger.cpp
common/cudaUtils.cuh""".split()
C = ("gpuzip_revolve.h", "gpuzip_gradient.h", "gpuzip_mpi.h", "gpuzip_interrupt.cuh")
# The pages with their titles and headers.
PAGES = {f"c-{name.split('.')[0]}": (f"{'CUDA' if name.endswith('cuh') else 'C'}: {name}", [name]) for name in C}
PAGES["cxx-gpuzip"] = ("C++: gpuzip.hpp", ["gpuzip.hpp"])
PAGES["cxx-dropin"] = ("C++: names of GPUZIP 2.x", [f"gpuzip-dropin/{name}" for name in DROPIN])


def plain(comment):
    """Returns a comment without its marks."""
    return re.sub(r"^ *(?:///?|/?\*) ?", "", re.sub(r"\s*\*/$", "", comment.strip()), flags=re.M).strip()


def blocks(text, indent):
    """Returns the declarations with an indentation: the comment, the code and its block; and labels, and blank lines."""
    lines, found, comment = text.split("\n"), [], ""
    while lines:
        line = lines.pop(0)
        if re.match(rf"{indent}(//|/\*)", line):
            while line.lstrip().startswith("/*") and "*/" not in line:
                line += "\n" + lines.pop(0)
            comment += line + "\n"
        elif not line or re.match(r" \w+:$", line):
            found.append(("", line, ""))
            comment = ""
        elif re.match(rf"{indent}[\w~]|#define \w+\S* +\S", line):
            head, block = line, ""
            while not re.search(r"[;{}]( */[/*].*)?$", head) and head[0] != "#" or head[-1] == "\\":
                head += "\n" + lines.pop(0)
            if head.endswith("{"):
                while not re.match(rf"{indent}}}", lines[0]):
                    block += lines.pop(0) + "\n"
                block += lines.pop(0)
            found.append((comment, textwrap.dedent(head), block))
            comment = ""
    return found


def names_of(code):
    """Returns the names that a declaration declares."""
    if code.startswith("#"):
        return re.findall(r"#define (\w+)", code)
    bare, before = re.sub(r"^template <.*>\n| = [^,;]+|->", "", code), ""
    while bare != before:
        bare, before = re.sub(r"<[^<>]*>", "", bare), bare
    function = re.search(r"(operator ?[^\s(]+|\w+)\(", bare)
    kind = re.match(r"(?:typedef )?(?:class|struct|enum|using) (\w+)", bare)
    if function or kind:
        return [(function or kind).group(1)]
    return re.findall(r"(\w+)(?:\[\w+\])?(?=[,;])", bare)


def without_body(code):
    """Returns a declaration without its body and initialisers. A long one is broken between its arguments."""
    if re.search(r"\)\s*(noexcept )?: ", code):
        code = re.sub(r"\s*(?<!:):(?!:) .*", "", code, flags=re.S)
    code = re.sub(r"\s\{.*", "", code, flags=re.S).rstrip(";") + ";"
    code = re.sub(r"\n +", " ", re.sub(r"^(static )?inline ", "", code, flags=re.M))
    lines = re.sub(r"(?<!,) ", "\0", code).split("\n")
    lines = [textwrap.fill(it, 88, subsequent_indent="    ", break_long_words=False) for it in lines]
    return "\n".join(lines).replace("\0", " ")


def public(text, indent="", scope="", shown=True):
    """Returns the public declarations of a text: their names, and the code and comment of each form."""
    found, follows = [], False
    for comment, code, block in blocks(text, indent):
        label = re.match(r" (\w+):$", code)
        if label:
            shown = label.group(1)
        if label or not code:
            follows = False
            continue
        comment, names = plain(comment), [scope + name for name in names_of(code)]
        kind = re.match(r"(template <.*>\n)?(class|struct|enum|typedef)\b.* \{$", code) if block else None
        hidden = shown in ("private", False) or shown == "protected" and not code.startswith("virtual")
        if hidden or comment.startswith("Internal") or re.search(r"^~|^virtual ~|= delete;|&&other\)|^friend ", code):
            continue
        members = kind and "(" in re.sub(r"/[/*].*", "", block)
        if kind and not members:
            code += "\n" + textwrap.dedent(indent + block)
        elif code[0] != "#" and not re.match(r"enum .*\};$", code):
            code = without_body(code)
        note = re.search(r" +/\* (.*) \*/$", code)
        if code[0] == "#" and note:
            comment, code = note.group(1), code[: note.start()]
        same = [it for it in found if it[0] == names]
        if follows and not comment:
            found[-1][0] += [name for name in names if name not in found[-1][0]]
            found[-1][1][-1][0] += "\n" + code
        elif same:
            same[0][1].append([code, comment])
        else:
            found.append([names, [[code, comment]]])
        if members:
            found += public(block, indent + "  ", names[0] + ".", kind.group(2) == "struct" or "private")
        follows = True
    undefined = re.findall(r"^#undef (\w+)", text, re.M)
    return [it for it in found if it[0][0] not in undefined]


def header(name):
    """Returns the comment at the head of a header, and its public declarations."""
    text = (ROOT / "include" / name).read_text()
    head = re.match(r"/\*(.|\n)*?\*/|(//.*\n)+", text).group()
    text = text[len(head):].replace("\nnamespace gpuzip {\n", "\n")
    inner = re.compile(r"^namespace (\w+) \{\n(.*?)^\}  // namespace \1$", re.M | re.S)
    found = public(inner.sub("", text))
    # Of the namespace detail, what public declarations name.
    used = set(re.findall(r"detail::\w+", "".join(code for _, forms in found for code, _ in forms)))
    helpers = [it for part in inner.finditer(text) for it in public(part.group(2), scope=part.group(1) + "::")]
    return plain(head), found + [it for it in helpers if it[0][0].split(".")[0] in used]


def page_of(title, files):
    """Returns the page of some headers, with links to the pages of the documentation that name them."""
    page = f"# {title}\n\nPages: {pages_with(files[0].split('/')[0])}.\n\n"
    for name in files:
        introduction, found = header(name)
        page += f"## {name.partition('/')[2]}\n\n" if len(files) > 1 else ""
        page += markdown(introduction, "cpp" if name.endswith("hpp") else "text") + "\n\n"
        for names, forms in found:
            level = "###" if len(files) > 1 or "." in names[0] else "##"
            page += f"{level} {names[0]}{''.join(', ' + name.split('.')[-1] for name in names[1:])}\n\n"
            page += "".join(fenced("cpp", code) + markdown(comment) + "\n\n" for code, comment in forms)
    return page


def functions():
    """Returns the functions and types of the small C headers, for manual pages."""
    found = {}
    for name in C:
        for names, ((code, comment),) in header(name)[1]:
            if names[0].startswith("gpuzip") and re.search(r"^typedef|\w\(", code):
                found[names[0]] = Declaration(comment, code)
                found[names[0]].header = name
    return found


def write(folder):
    """Writes the pages into a folder."""
    for page, (title, files) in PAGES.items():
        begins = ("cxx-", "gpuzip::") if page == "cxx-gpuzip" else (f"{page}-", "GPUZIP 2.x: ")
        write_split(folder, page, *split_classes(page_of(title, files), *begins))
