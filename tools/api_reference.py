"""The API reference as Markdown: a page for each public module, written from signatures and docstrings.

Names whose docstrings lack an example have one in docs/reference_examples/: see reference_examples.py.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from enum import Enum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from docstring_markdown import convert_docstring, escape_markdown, write_example, write_session
from reference_examples import SETUP, Section, read_companion

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "adjoint"
MODULES = {  # page title by module, in the order of the index
    "adjoint": "Tensors and functions", "adjoint.Tensor": "Methods of Tensor",
    "adjoint.nn": "Modules", "adjoint.nn.Module": "Methods of Module",
    "adjoint.nn.functional": "Functions of networks", "adjoint.nn.attention": "Choice of attention",
    "adjoint.nn.attention.bias": "Causal masks",
    "adjoint.nn.init": "Initial values", "adjoint.nn.parallel": "Data-parallel modules",
    "adjoint.nn.utils": "Utilities of modules", "adjoint.nn.utils.parametrize": "Computed parameters",
    "adjoint.nn.utils.parametrizations": "Orthogonal and normalised parameters", "adjoint.nn.utils.prune": "Pruning",
    "adjoint.nn.utils.rnn": "Sequences of several lengths",
    "adjoint.optim": "Optimizers", "adjoint.optim.Optimizer": "Methods of Optimizer",
    "adjoint.optim.lr_scheduler": "Learning-rate schedules", "adjoint.optim.swa_utils": "Averaged models",
    "adjoint.autograd": "Gradients", "adjoint.autograd.forward_ad": "Forward mode",
    "adjoint.autograd.function": "Parts of a custom Function",
    "adjoint.autograd.functional": "Jacobians and products", "adjoint.autograd.graph": "Hooks of the graph",
    "adjoint.func": "Transforms of functions", "adjoint.linalg": "Linear algebra", "adjoint.fft": "Fourier transforms",
    "adjoint.special": "Special functions", "adjoint.masked": "Reductions of masked elements",
    "adjoint.signal.windows": "Windows of signals", "adjoint.data": "Datasets and loaders",
    "adjoint.distributions": "Distributions", "adjoint.distributions.constraints": "Supports of distributions",
    "adjoint.fx": "Recorded modules",
    "adjoint.amp": "Mixed precision", "adjoint.distributed": "Several processes",
    "adjoint.profiler": "The profiler", "adjoint.utils.checkpoint": "Checkpointing", "adjoint.library": "Custom ops",
    "adjoint.serialization": "Files", "adjoint.onnx": "ONNX files", "adjoint.testing": "Testing",
}  # fmt: skip
INTRODUCTION = """\
Every public name, from its docstring, with an example. Signatures and defaults are PyTorch's. [What differs from
PyTorch](differences.md) stands at its name; the examples of the other names print the same with PyTorch.
"""
CLASSES = ("adjoint.Tensor", "adjoint.nn.Module", "adjoint.optim.Optimizer")  # pages of methods
CHOSEN = {  # the names of packages in which other things stand too
    "adjoint.nn.attention": ("SDPBackend", "sdpa_kernel"),
    "adjoint.nn.parallel": ("DataParallel", "DistributedDataParallel", "data_parallel", "parallel_apply", "replicate"),
    "adjoint.autograd.function": ("FunctionCtx", "InplaceFunction", "once_differentiable"),
}
VARIANT = re.compile(r"In-place `?(\w+)`?: |`(\w+)` in memory of its own")

LinkToSource = Callable[[Path, int], str]


class Entry(NamedTuple):
    """A public name on a page: its object, and what its companion, or that of another name of the object, says."""

    value: Any
    section: Section
    alias_of: str  # the full name of the entry that describes the same object; "" for that entry itself


def write_reference(folder: Path, link_to_source: LinkToSource) -> None:
    """Write the index, the page of each module and the list of differences into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    index = ["# API reference", "", *INTRODUCTION.splitlines(), ""]
    toctree = ["```{toctree}", ":maxdepth: 1", "", "differences.md"]
    for module, title in MODULES.items():
        entries = collect_entries()[module]
        (folder / f"{module}.md").write_text(write_page(module, title, entries, link_to_source), encoding="utf-8")
        index.append(f"- [{module}]({module}.md): {title[0].lower() + title[1:]}, {len(entries)} names")
        toctree.append(f"{module}.md")
    (folder / "index.md").write_text("\n".join([*index, "", *toctree, "```", ""]), encoding="utf-8")
    (folder / "differences.md").write_text("\n".join(list_differences()), encoding="utf-8")


def list_differences() -> list[str]:
    """A page of all names that say what differs from PyTorch, with what they say."""
    lines = ["# What differs from PyTorch", "", "Each line stands in the entry of its name too."]
    for module, entries in collect_entries().items():
        told = {name: entry.section.difference for name, entry in entries.items() if not entry.alias_of}
        differences = [f"- {{py:obj}}`{module}.{name}`: {escape_markdown(d)}" for name, d in told.items() if d]
        lines += ["", f"## {module}", "", *differences] if differences else []
    return [*lines, ""]


def find_public_names(module: str) -> dict[str, Any]:
    """The documented functions and classes of a module that are Adjoint's, by name.

    A module without `__all__` that is a single file gives what it defines; a package also gives what it gathers.
    """
    holder = import_holder(module)
    listed = CHOSEN.get(module) or list_names(holder)
    found = {}
    for name in sorted(listed or dir(holder)):
        if name.startswith("_"):
            continue
        loaded = getattr(holder, name, None)  # a lazy one is in its place afterwards
        value = inspect.getattr_static(holder, name, None) or loaded
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        value = getattr(value, "documented_as", value)
        if is_documented(value) and (listed or belongs_to(value, holder)):
            found[name] = value
    return found


def list_names(holder: Any) -> list[str]:
    """The names in `__all__`, and those that load their modules on demand; none for a class and without `__all__`."""
    if not isinstance(holder, ModuleType) or not hasattr(holder, "__all__"):
        return []
    return [*holder.__all__, *vars(holder).get("_LAZY_NAMES", ())]


def find_original(value: Any) -> Any:
    """The function whose in-place twin, or whose variant that copies, `value` is; None for any other function."""
    found = VARIANT.match(getattr(value, "__doc__", None) or "")
    name = (found[1] or found[2]) if found else ""
    holders = import_holder("adjoint.Tensor"), import_holder("adjoint")
    return next((getattr(holder, name) for holder in holders if hasattr(holder, name)), None)


def has_example(value: Any) -> bool:
    """Tell whether the docstring shows an example; that of an in-place twin is the function's."""
    text = value.__doc__ or ""
    return ">>>" in text and find_original(value) is None


@cache
def collect_entries() -> dict[str, dict[str, Entry]]:
    """The entries of every page, by module and name.

    A name without an example shows that of another name of the same object, the first one that has it. An example in
    a companion takes the place of the docstring's, so that Tensor's methods are called as methods.
    """
    names = {module: find_public_names(module) for module in MODULES}
    companions = {module: read_companion(module).sections for module in MODULES}
    places = dict[int, list[tuple[str, str]]]()  # of each object
    for module, found in names.items():
        for name, value in found.items():
            places.setdefault(id(value), []).append((module, name))

    def find_section(module: str, name: str, value: Any) -> Section:
        own = companions[module].get(name, Section())
        others = [companions[m][n] for m, n in places[id(value)] if n in companions[m]]
        examples = [own.example] if has_example(value) else [own.example, *(other.example for other in others)]
        differences = [own.difference, *(other.difference for other in others)]
        return Section(next(filter(None, examples), ""), next(filter(None, differences), ""))

    def find_first(module: str, name: str, value: Any) -> str:
        own = getattr(value, "__name__", name)
        same = [f"{m}.{n}" for m, n in sorted(places[id(value)], key=lambda place: place[1] != own)]
        return "" if same[0] == f"{module}.{name}" else same[0]

    return {
        module: {
            name: Entry(value, find_section(module, name, value), find_first(module, name, value))
            for name, value in found.items()
        }
        for module, found in names.items()
    }


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


def write_page(module: str, title: str, entries: dict[str, Entry], link_to_source: LinkToSource) -> str:
    """The page of a module: a sentence, the imports of its examples, then an entry for each name."""
    imports = write_session(SETUP + read_companion(module).setup)
    lines = [f"# {module}", "", f"{title}. The examples begin with", "", *imports, ""]
    lines += [f"```{{py:currentmodule}} {module}", "```", ""]  # where types in signatures are looked up first
    for name, entry in entries.items():
        lines += write_entry(f"{module}.{name}", entry, link_to_source)
    return "\n".join(lines)


def write_entry(full_name: str, entry: Entry, link_to_source: LinkToSource) -> list[str]:
    """A directive of Sphinx's Python domain with the docstring, the example and the difference as its content."""
    value, section, alias_of = entry
    kind = "property" if isinstance(value, property) else "class" if inspect.isclass(value) else "function"
    signature = "" if kind == "property" else format_signature(value, full_name.rpartition(".")[0] in CLASSES)
    body = convert_docstring(inspect.getdoc(value) or "", keeps_example=not section.example)
    if alias_of:
        body += ["", f"The same as {{py:obj}}`{alias_of}`."]
    if section.example:
        body += write_example(section.example)
    if section.difference:
        body += ["", "**Differs from PyTorch**", "", escape_markdown(section.difference)]
    if kind == "class":
        body += list_methods(value)
    place = find_source(value.fget if kind == "property" else value, full_name.rpartition(".")[2])
    if place is not None:
        body += ["", link_to_source(*place)]
    head = [f"```````{{py:{kind}}} {full_name}{signature}", ":module:"]  # the name is whole
    if kind == "property":
        head += [f":type: {value.fget.__annotations__.get('return', '')}"]
    return [*head, "", *body, "```````", ""]


def format_signature(value: Any, is_method: bool = False) -> str:
    """The parameters with types and defaults, in one line; types that are strings lose their quotes.

    None for enumerations, which nobody calls, and for errors, which take any arguments. Those of a method are without
    the object: the parameter `input`, or the first.
    """
    if inspect.isclass(value) and issubclass(value, (Enum, BaseException)):
        return ""
    try:
        original = find_original(value)
        signature = inspect.signature(original or value)
    except (TypeError, ValueError):
        return "()"
    left_out = {"out"} if original is not None else set[str]()  # the variant itself passes its arguments on
    if is_method:
        names = list(signature.parameters)
        left_out |= {"input"} if "input" in names else set(names[:1])
    given = [parameter for name, parameter in signature.parameters.items() if name not in left_out]
    signature = signature.replace(parameters=given)
    if inspect.isclass(value):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature))
    return re.sub(r"<[^<>]*?(\w+)(?: at 0x[0-9a-f]+|'[^<>]*)?>", r"\1", text).replace("\n", " ")


def list_methods(cls: type) -> list[str]:
    """The members of an enumeration, or the public methods that a class itself defines, with their first lines."""
    if issubclass(cls, Enum):
        return ["", "**Members:** " + ", ".join(f"`{name}`" for name in cls.__members__)]
    lines = []
    for name, method in vars(cls).items():
        if isinstance(method, staticmethod) and getattr(method.__func__, "__module__", None) != cls.__module__:
            continue  # a function of another file, which the class calls
        text = inspect.getdoc(method) if callable(method) or isinstance(method, property) else None
        if text and not name.startswith("_"):
            lines.append(f"- `{name}`: {escape_markdown(text.splitlines()[0])}")
    return ["", "**Methods**", "", *lines] if lines else []


def find_source(value: Any, name: str) -> tuple[Path, int] | None:
    """The file of the project that defines `value`, and its line; of an in-place twin those of its function."""
    original = find_original(value)
    if original is not None:
        return find_source(original, original.__name__)
    home = find_home(value)
    if home is None:
        return None
    try:
        function = inspect.unwrap(value)
        if Path(inspect.getsourcefile(function) or "").resolve() == home:
            return home, max(inspect.getsourcelines(function)[1], 1)
    except (OSError, TypeError):
        pass  # a class or a function that another made: a line of its module names it
    text = home.read_text(encoding="utf-8")
    names = rf"(?:{re.escape(getattr(value, '__name__', name))}|{re.escape(name)})"
    for pattern in (rf"^ *(?:def|class) {names}\b", rf"^[\w, ]*\b{names}\b[\w, :\[\]]* = ", rf"[\"'`]{names}[\"'`]"):
        if line := re.search(pattern, text, re.MULTILINE):
            return home, text.count("\n", 0, line.start()) + 1
    return None


def find_home(value: Any) -> Path | None:
    """The project's file of the module that `value` says it is of, or of the code of a class."""
    files = [getattr(importlib.import_module(value.__module__), "__file__", None)]
    files += [part.__code__.co_filename for part in vars(value).values() if inspect.isfunction(part)]
    paths = (Path(file).resolve() for file in files if file)
    return next((path for path in paths if path.is_relative_to(PACKAGE)), None)
