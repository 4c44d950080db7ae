"""Makes pages in Markdown of the Fortran modules and of the Python package, from their sources alone."""

import ast
import re
import textwrap

from reference import ROOT, escaped, fenced, marked, purposes, split, split_classes, write_split

# Fortran.


def comment_of(lines):
    return "\n".join(line.strip()[2:] for line in lines.strip("\n").split("\n")).strip()


class Procedure:
    """A procedure of a module: its comment, its first line and the declarations of its arguments."""

    def __init__(self, comment, head, name, arguments, tail, body):
        self.comment, self.name, self.arguments = comment_of(comment), name, re.sub(r"[&\s]", "", arguments)
        names = set(self.arguments.split(",")) | set(re.findall(r"result\((\w+)\)", tail))
        self.lines = [re.sub(r"\s*&\s*", " ", f"{head.strip()}({arguments}){tail}")]
        for line in re.findall(r"^    (\S[^!\n]*::.*)$", body, re.M):
            if names & set(re.findall(r"\w+", re.sub(r"\(.*?\)", "", line.split("::")[1]))):
                self.lines.append("  " + line)

    def code(self, name):
        return "\n".join([re.sub(rf"\b{self.name}\(", name + "(", self.lines[0], count=1)] + self.lines[1:])


def fortran(file, module):
    """Returns the page of a module: its comment, and every public procedure."""
    source, c = (ROOT / "fortran" / file).read_text(), (ROOT / "include/gpuzip.h").read_text()
    introduction, source = re.split(rf"^module {module}$", source, maxsplit=1, flags=re.M)
    procedures = re.findall(
        r"((?:^  ![^\n]*\n)*)^  (?!end )((?:[a-z][\w()]* )*(?:subroutine|function) (\w+))"
        r"\(([^()]*)\)([^\n]*)\n(.*?)^  end (?:subroutine|function)",
        source.split("\ncontains\n")[1], re.M | re.S)
    found = {procedure[2]: Procedure(*procedure) for procedure in procedures}
    generic = {}
    for name, body in re.findall(r"^  interface (\w+)\n(.*?)^  end interface", source, re.M | re.S):
        generic.setdefault(name, []).extend(re.findall(r"\b(?!module|procedure)\w+_\w+\b", body))
    public = [name for names in re.findall(r"^  public :: (.*)$", source, re.M) for name in names.split(", ")]
    page = f"# Fortran: module {module}\n\n{markdown(comment_of(introduction))}\n\n"
    for name in sorted(public):
        # Of a generic procedure, one for each list of arguments.
        forms = {found[it].arguments: found[it] for it in reversed(generic.get(name, [name])) if it in found}
        if not forms:
            continue
        page += f"## {name}\n\n"
        if f" {name}(" in c or f"*{name}(" in c:
            page += f"In C: [{name}]({name}.md).\n\n"
        for form in reversed(forms.values()):
            page += markdown(form.comment) + "\n\n" + fenced("fortran", form.code(name))
        if len(generic.get(name, [])) > len(forms):
            page += "The array is of any of the types and ranks that the module takes.\n\n"
    return page


def markdown(text, language="text"):
    """Returns a comment with its indented lines as formulas and listings, of a language."""
    parts = re.split(r"((?:^ {4,}.*\n?)+)", text, flags=re.M)
    parts[::2] = [marked(part) for part in parts[::2]]
    parts[1::2] = [fenced(language, textwrap.dedent(part).strip("\n")) for part in parts[1::2]]
    return "".join(parts)


# Python.


def docstring(node):
    """Returns the text of a docstring, whose blocks after `::` are code."""
    text = ast.get_docstring(node) or ""
    blocks = re.split(r"(?:^|(?<=\S))::\n\n((?:(?: {4}.*)?\n?)+)", text, flags=re.M)
    blocks[::2] = [escaped(block) for block in blocks[::2]]
    blocks[1::2] = ["\n\n" + fenced("python", textwrap.dedent(block).strip("\n")) for block in blocks[1::2]]
    return "".join(blocks).strip()


def signature(node, name):
    """Returns the head of a function, in several lines if it is long."""
    arguments = ast.unparse(node.args)
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    if len(name + arguments + result) < 88:
        return f"{name}({arguments}){result}"
    one = re.split(r", (?![^\[(]*[\])])", arguments)
    return f"{name}(\n    " + ",\n    ".join(one) + f",\n){result}"


def members(node):
    """Returns the public methods, properties and described attributes of a class."""
    page = ""
    for it, after in zip(node.body, node.body[1:] + [None]):
        if isinstance(it, ast.FunctionDef):
            text, decorators = docstring(it), [ast.unparse(decorator) for decorator in it.decorator_list]
            hidden = it.name.startswith("_") and not (text and it.name.startswith("__"))
            if hidden or f"{it.name}.setter" in decorators:
                continue
            head = signature(it, it.name)
            if "property" in decorators:
                head = f"{it.name}: {ast.unparse(it.returns) if it.returns else 'Any'}"
            page += f"### {node.name}.{it.name}\n\n".replace("__", r"\_\_")
            page += fenced("python", head) + text + "\n\n"
        elif isinstance(it, (ast.Assign, ast.AnnAssign)) and isinstance(getattr(after, "value", None), ast.Constant):
            target = it.target if isinstance(it, ast.AnnAssign) else it.targets[0]
            if not ast.unparse(target).startswith("_"):
                page += f"### {node.name}.{ast.unparse(target)}\n\n{escaped(after.value.value)}\n\n"
    return page


def described(node, name):
    """Returns the part of a page on a class or function."""
    page = f"## {name}\n\n"
    if isinstance(node, ast.ClassDef):
        init = [it for it in node.body if isinstance(it, ast.FunctionDef) and it.name == "__init__"]
        bases = [base for base in map(ast.unparse, node.bases) if base[0] != "_" and base != "Unshared"]
        head = f"class {signature(init[0], name).replace(' -> None', '')}" if init else f"class {name}"
        head = head.replace("(self, ", "(").replace("(self)", "()").replace("(\n    self,", "(")
        page += fenced("python", head) + docstring(node) + "\n\n"
        if bases:
            page += "Derived from " + ", ".join(f"`{base}`" for base in bases) + ".\n\n"
        return page + members(node)
    return page + fenced("python", signature(node, name)) + docstring(node) + "\n\n"


def python(module):
    """Returns the page of a module: the classes and functions that it has or imports for its users."""
    folder = ROOT / "python/src/gpuzip"
    tree = ast.parse((folder / f"{module}.py").read_text())
    name = "gpuzip" if module == "__init__" else f"gpuzip.{module}"
    listed = [it.value for it in tree.body if isinstance(it, ast.Assign) and ast.unparse(it.targets[0]) == "__all__"]
    names = ast.literal_eval(listed[0]) if listed else None
    page = f"# Python: {name}\n\n{docstring(tree)}\n\n"
    for node in tree.body:
        own = [(node, node.name)] if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else []
        if isinstance(node, ast.ImportFrom) and node.level and node.module and names:
            source = ast.parse((folder / f"{node.module}.py").read_text())
            there = {it.name: it for it in source.body if isinstance(it, (ast.ClassDef, ast.FunctionDef))}
            own = [(there[it.name], it.asname or it.name) for it in node.names if it.name in there]
        for it, public in own:
            if not public.startswith("_") and (names is None or public in names):
                page += described(it, public)
    return page


def write(folder):
    """Writes the pages into a folder."""
    page = fortran("gpuzip.f90", "gpuzip")
    names = re.findall(r"^## (\w+)$", page, re.M)
    groups = [(purpose.lower(), [name for name in them if name in names]) for purpose, them in purposes()]
    groups.append(("what C has not", [name for name in names if name not in sum(dict(groups).values(), [])]))
    write_split(folder, "fortran-gpuzip", *split(page, "fortran-", "Fortran: ", groups))
    (folder / "fortran-gpuzip_gradient.md").write_text(fortran("gpuzip_gradient.f90", "gpuzip_gradient"))
    write_split(folder, "python-init", *split_classes(python("__init__"), "gpuzip.", "gpuzip."))
    for module in ("jax", "torch", "pyrevolve", "checkpoint_schedules", "devito"):
        (folder / f"python-{module}.md").write_text(python(module))
