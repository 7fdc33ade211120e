"""The API reference as Markdown: a page for each public module, written from signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "adjoint"
MODULES = {  # page title by module, in the order of the index
    "adjoint": "Tensors and functions", "adjoint.Tensor": "Methods of Tensor",
    "adjoint.nn": "Modules", "adjoint.nn.functional": "Functions of networks", "adjoint.nn.init": "Initial values",
    "adjoint.nn.utils": "Utilities of modules", "adjoint.nn.utils.rnn": "Sequences of several lengths",
    "adjoint.optim": "Optimizers", "adjoint.optim.lr_scheduler": "Learning-rate schedules",
    "adjoint.optim.swa_utils": "Averaged models", "adjoint.autograd": "Gradients",
    "adjoint.autograd.functional": "Jacobians and products", "adjoint.autograd.graph": "Hooks of the graph",
    "adjoint.func": "Transforms of functions", "adjoint.linalg": "Linear algebra", "adjoint.fft": "Fourier transforms",
    "adjoint.special": "Special functions", "adjoint.signal.windows": "Windows of signals",
    "adjoint.data": "Datasets and loaders", "adjoint.distributions": "Distributions",
    "adjoint.amp": "Mixed precision", "adjoint.distributed": "Several processes",
    "adjoint.profiler": "The profiler", "adjoint.utils.checkpoint": "Checkpointing", "adjoint.library": "Custom ops",
    "adjoint.serialization": "Files", "adjoint.testing": "Testing",
}  # fmt: skip
HEADING = re.compile(r"([A-Z][a-z]+):")
INLINE_HEADING = re.compile(r"(Raises|Returns|Shapes|Source|Sources|Shape|Yields): ")
ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): ")
CODE_SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
SPECIAL = re.compile(r"([\\*_\[\]<>|$#~])")

LinkToSource = Callable[[Path, int], str]


def write_reference(folder: Path, link_to_source: LinkToSource) -> None:
    """Write the index and the page of each module into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    index = ["# API reference", "", "Every public name, from its docstring. Signatures and defaults are PyTorch's.", ""]
    toctree = ["```{toctree}", ":maxdepth: 1", ""]
    for module, title in MODULES.items():
        names = find_public_names(module)
        (folder / f"{module}.md").write_text(write_page(module, title, names, link_to_source), encoding="utf-8")
        index.append(f"- [{module}]({module}.md): {title[0].lower() + title[1:]}, {len(names)} names")
        toctree.append(f"{module}.md")
    (folder / "index.md").write_text("\n".join([*index, "", *toctree, "```", ""]), encoding="utf-8")


def find_public_names(module: str) -> dict[str, Any]:
    """The documented functions and classes of a module that are Adjoint's, by name.

    A module without `__all__` that is a single file gives what it defines; a package also gives what it gathers.
    """
    holder = import_holder(module)
    listed = getattr(holder, "__all__", None)
    names = listed if isinstance(holder, ModuleType) and listed else sorted(dir(holder))
    found = {}
    for name in names:
        if name.startswith("_"):
            continue
        value = inspect.getattr_static(holder, name, None) or getattr(holder, name, None)
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if is_documented(value) and (listed or belongs_to(value, holder)):
            found[name] = value
    return found


def import_holder(module: str) -> Any:
    """The module, or the class where the last part names one."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        parent, _, name = module.rpartition(".")
        return getattr(importlib.import_module(parent), name)


def is_documented(value: Any) -> bool:
    """Tell whether `value` is a function, class or property of Adjoint's with a docstring."""
    if isinstance(value, property):
        return bool(value.__doc__)
    home = getattr(value, "__module__", None) or ""
    return callable(value) and home.partition(".")[0] == "adjoint" and bool(value.__doc__)


def belongs_to(value: Any, holder: Any) -> bool:
    """Tell whether a module that is a single file defines `value`; whatever a package or a class has belongs to it."""
    is_file = isinstance(holder, ModuleType) and not hasattr(holder, "__path__")
    facade = is_file and not inspect.getsource(holder).count("\ndef ")
    return not is_file or facade or value.__module__ == holder.__name__


def write_page(module: str, title: str, names: dict[str, Any], link_to_source: LinkToSource) -> str:
    """The page of a module: its own docstring, then an entry for each name."""
    lines = [f"# {module}", "", f"{title}.", ""]
    for name, value in names.items():
        lines += write_entry(f"{module}.{name}", value, link_to_source)
    return "\n".join(lines)


def write_entry(full_name: str, value: Any, link_to_source: LinkToSource) -> list[str]:
    """A directive of Sphinx's Python domain with the docstring as its content."""
    if isinstance(value, property):
        head = f"```````{{py:property}} {full_name}"
        body = convert_docstring(inspect.cleandoc(value.__doc__ or ""))
        return [head, "", *body, "```````", ""]
    kind = "class" if inspect.isclass(value) else "function"
    head = f"```````{{py:{kind}}} {full_name}{format_signature(value)}"
    body = convert_docstring(inspect.getdoc(value) or "")
    if kind == "class":
        body += list_methods(value)
    place = find_source(value)
    if place is not None:
        body += ["", link_to_source(*place)]
    return [head, "", *body, "```````", ""]


def format_signature(value: Any) -> str:
    """The parameters with types and defaults, in one line; types that are strings lose their quotes."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "()"
    if inspect.isclass(value):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature))
    return re.sub(r"<[^<>]*?(\w+)(?: at 0x[0-9a-f]+|'[^<>]*)?>", r"\1", text).replace("\n", " ")


def list_methods(cls: type) -> list[str]:
    """The public methods that the class itself defines, each with the first line of its docstring."""
    lines = []
    for name, method in vars(cls).items():
        text = inspect.getdoc(method) if callable(method) or isinstance(method, property) else None
        if text and not name.startswith("_"):
            lines.append(f"- `{name}`: {escape_markdown(text.splitlines()[0])}")
    return ["", "**Methods**", "", *lines] if lines else []


def find_source(value: Any) -> tuple[Path, int] | None:
    """The file of the project that defines `value`, and its line."""
    try:
        path = Path(inspect.getsourcefile(inspect.unwrap(value)) or "")
        line = inspect.getsourcelines(inspect.unwrap(value))[1]
    except (OSError, TypeError):
        return None
    return (path, max(line, 1)) if path.is_relative_to(ROOT) else None


def convert_docstring(text: str) -> list[str]:
    """Markdown from a docstring in this project's form: paragraphs, sections, an example."""
    blocks: list[str] = []
    for heading, lines in split_sections(text):
        if heading in ("Example", "Examples"):
            blocks += ["", "```pycon", *textwrap.dedent("\n".join(lines)).strip("\n").splitlines(), "```"]
        elif heading:
            blocks += ["", f"**{heading}**", "", *convert_entries(lines)]
        else:
            blocks += ["", *(INLINE_HEADING.sub(r"**\1:** ", escape_markdown(line), count=1) for line in lines)]
    return blocks


def split_sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """The parts of a docstring: a heading, or "" for free text, with its lines."""
    heading, lines = "", list[str]()
    for line in text.splitlines():
        opening = HEADING.fullmatch(line)
        if opening or (heading and line and not line.startswith(" ")):
            yield heading, lines
            heading, lines = (opening[1], []) if opening else ("", [line])
        else:
            lines.append(line)
    yield heading, lines


def convert_entries(lines: list[str]) -> list[str]:
    """The lines of a section as a list: deeper lines go on with the entry before them."""
    entries: list[str] = []
    for line in textwrap.dedent("\n".join(lines)).splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        elif line.strip():
            entries.append(line.strip())
    return [f"- {escape_markdown(ENTRY.sub(lambda found: f'`{found[1]}`: ', entry, count=1))}" for entry in entries]


def escape_markdown(text: str) -> str:
    """The text with Markdown's special characters escaped outside of code spans."""
    parts, end = [], 0
    for span in CODE_SPAN.finditer(text):
        parts += [SPECIAL.sub(r"\\\1", text[end : span.start()]), span[0]]
        end = span.end()
    return "".join([*parts, SPECIAL.sub(r"\\\1", text[end:])])
