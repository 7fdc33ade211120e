"""The types of Tensor, whose methods attach themselves at import: `python3 dev.py stubs` writes tensor.pyi anew.

Type checkers and editors read core/tensor/tensor.pyi in place of tensor.py beside it. With --check nothing is written,
and a stub that is not as it would be written is an error.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from adjoint.core.op.view_replay import replay_views
from adjoint.core.tensor import tensor as module
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api import lazy_index
from adjoint.functions.api.publish import ARRAY_API_NAMES

ROOT = Path(__file__).resolve().parents[1]
STUB = ROOT / "src" / "adjoint" / "core" / "tensor" / "tensor.pyi"
OPENING = '"""Made by `python3 dev.py stubs` from the class as it is after `import adjoint`: not to be edited."""'
PLUMBING = {
    "__annotations__",
    "__dict__",
    "__doc__",
    "__init_subclass__",
    "__module__",
    "__slots__",
    "__torch_function__",
    "__weakref__",
}
WIDTH = 120
REPLAYING = frozenset(  # the code of functions that repeat the views of others, and take what these do
    {replay_views(lambda x: x, takes_sequence=False).__code__}
)
SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)


def attributes() -> dict[str, Any]:
    """All that Tensor has, its own and what it inherits, by name; methods as they are without sparse tensors."""
    found = {name: value for kind in reversed(Tensor.__mro__[:-1]) for name, value in vars(kind).items()}
    return {name: getattr(value, "documented_as", value) for name, value in found.items()}


def main(arguments: list[str]) -> int:
    """Write the stub, or check it."""
    text = stub()
    fresh = STUB.exists() and STUB.read_text(encoding="utf-8") == text
    if "--check" in arguments:
        sys.stdout.write("" if fresh else f"{STUB.relative_to(ROOT)} is stale: run `python3 dev.py stubs`\n")
        return 0 if fresh else 1
    STUB.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{STUB.relative_to(ROOT)}: {'as it was' if fresh else 'written anew'}\n")
    return 0


def stub() -> str:
    """The whole file."""
    lazy_index.import_all_modules()
    spelling = Spelling(shadowed=set(attributes()))
    members = [*slots(spelling)]
    members += [line for name in sorted(attributes().keys() - PLUMBING) for line in member(name, spelling)]
    functions = [f for f in vars(module).values() if inspect.isfunction(f) and f.__module__ == module.__name__]
    outside = [line for f in functions for line in definitions(f.__name__, [signature(f)], spelling)]
    again = [name for name in module.__all__ if vars(module)[name].__module__ != module.__name__]
    for name in again:
        source = vars(module)[name].__module__
        spelling.imports.discard((source, name))
        spelling.imports.add((source, f"{name} as {name}"))
    everything = f"__all__ = {module.__all__}".replace("'", '"')
    parts = [
        [OPENING, "", *spelling.import_lines(), "", *spelling.variables, everything, ""],
        ["class Tensor:", '    """See core/tensor/tensor.py."""', "", *(f"    {line}" for line in members), ""],
        *spelling.classes.values(),
        outside,
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


class Spelling:
    """How a type is written in the stub, and what must be imported for it.

    A name that is also an attribute of Tensor would mean that attribute inside the class: it gets an underscore.
    """

    def __init__(self, shadowed: set[str]) -> None:
        self.shadowed = shadowed
        self.imports: set[tuple[str, str]] = set()
        self.variables: list[str] = []
        self.classes: dict[str, list[str]] = {}

    def __call__(self, kind: Any) -> str:
        """The type as source text."""
        if kind is None or kind is type(None):
            return "None"
        if kind is Ellipsis:
            return "..."
        if isinstance(kind, list):
            return f"[{', '.join(map(self, kind))}]"
        if isinstance(kind, TypeVar):
            return self._variable(kind)
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Union, types.UnionType):
            return " | ".join(map(self, inner))
        if origin is not None:
            return f"{self(origin)}[{', '.join(map(self, inner))}]"
        return self._name(kind)

    def import_lines(self) -> list[str]:
        """Sorted, the standard library first."""
        rooms: tuple[list[tuple[str, str]], ...] = ([], [], [])  # standard library, NumPy, this package
        for found in sorted(self.imports):
            rooms[{"numpy": 1, "adjoint": 2}.get(found[0].partition(".")[0], 0)].append(found)
        return [line for room in rooms if room for line in (*_imports(room), "")][:-1]

    def _name(self, kind: Any) -> str:
        if isinstance(kind, type) and issubclass(kind, Tensor):  # sparse tensors are defined in a layer above
            return "Tensor"
        source = kind.__module__
        held = vars(sys.modules[source]) if source in sys.modules else {}
        name = kind.__name__ if kind.__name__ in held else next((n for n in held if held[n] is kind), kind.__name__)
        if name in self.shadowed:  # NumPy's dtype is apart from the library's
            spelled = f"_numpy_{name}" if source == "numpy" else f"_{name}"
            self.imports.add((source, f"{name} as {spelled}"))
            return spelled
        if source.startswith("adjoint") and not source.startswith("adjoint.core"):
            self._named_tuple(kind)  # importing it from a layer above would lead mypy in a circle
        elif source != "builtins":
            self.imports.add((source, name))
        return name

    def _named_tuple(self, kind: Any) -> None:
        name = kind.__name__
        if name not in self.classes:
            self.imports.add(("typing", "NamedTuple"))
            fields = [f"    {field}: {self(of)}" for field, of in typing.get_type_hints(kind).items()]
            self.classes[name] = [f"class {name}(NamedTuple):", f'    """See {kind.__module__}."""', "", *fields, ""]

    def _variable(self, variable: TypeVar) -> str:
        line = f'{variable.__name__} = TypeVar("{variable.__name__}", bound={self(variable.__bound__)})'
        if line not in self.variables:
            self.imports.add(("typing", "TypeVar"))
            self.variables.append(line)
        return variable.__name__


def _imports(found: list[tuple[str, str]]) -> Iterator[str]:
    """One line for each module, and one for each name that is imported as another."""
    for source in dict.fromkeys(source for source, _ in found):
        names = [name for where, name in found if where == source]
        plain = [name for name in names if " as " not in name]
        lines = [name for name in names if " as " in name] + ([", ".join(plain)] if plain else [])
        yield from (f"from {source} import {line}" for line in sorted(lines))


def slots(spelling: Spelling) -> Iterator[str]:
    """The attributes of an instance, with the types that the class and `__init__` declare for them."""
    source = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(source):
        if isinstance(node, ast.ClassDef) and node.name == "Tensor":
            for declared in (n for n in node.body if isinstance(n, ast.AnnAssign)):
                kind = eval(ast.unparse(declared.annotation), vars(module))
                yield f"{ast.unparse(declared.target)}: {spelling(kind)}"
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            yield f"{node.target.attr}: {spelling(eval(ast.unparse(node.annotation), vars(module)))}"


def member(name: str, spelling: Spelling) -> Iterator[str]:
    """The lines of one attribute of the class."""
    value = attributes()[name]
    if isinstance(value, property):
        yield from accessors(name, value, spelling)
    elif inspect.isfunction(value):
        yield from definitions(name, [as_method(s) for s in signatures(name, value)], spelling)
    elif isinstance(value, staticmethod):  # `__new__`
        yield from definitions(name, [as_constructor(signature(value.__func__))], spelling)
    elif not inspect.ismemberdescriptor(value):
        yield f"{name}: {spelling(type(value))}"


def accessors(name: str, value: property, spelling: Spelling) -> Iterator[str]:
    """A property: its getter, and its setter and deleter where it has them."""
    accesses = {"property": value.fget, f"{name}.setter": value.fset, f"{name}.deleter": value.fdel}
    for decorator, access in accesses.items():
        if access is not None:
            yield f"@{decorator}"
            yield from definitions(name, [as_method(signature(access))], spelling)


def definitions(name: str, found: list[inspect.Signature], spelling: Spelling) -> Iterator[str]:
    """One `def`, or one for each overload."""
    for one in found:
        if len(found) > 1:
            spelling.imports.add(("typing", "overload"))
            yield "@overload"
        parameters = ", ".join(spelled_parameters(one, spelling))
        end = f") -> {spelling(one.return_annotation)}: ..."
        if name in ("__eq__", "__ne__"):
            end += "  # type: ignore[override]"
        line = f"def {name}({parameters}{end}"
        broken = textwrap.wrap(parameters, WIDTH - 8, initial_indent="    ", subsequent_indent="    ")
        yield from [line] if len(line) + 4 <= WIDTH else [f"def {name}(", *broken, end]


def spelled_parameters(of: inspect.Signature, spelling: Spelling) -> Iterator[str]:
    """The parameters with their types and defaults, and the `*` before those that go by keyword."""
    starred = False
    for p in of.parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            yield "*"
        starred = starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        kind = "" if p.annotation is p.empty else f": {spelling(p.annotation)}"
        default = "" if p.default is p.empty else f" = {p.default!r}" if kind else f"={p.default!r}"
        yield f"{stars}{p.name}{kind}{default}".replace("'", '"')


def signatures(name: str, function: Callable[..., Any]) -> list[inspect.Signature]:
    """How a method may be called: with more than one signature where `public` takes more than the function declares."""
    plain = signature(function)
    if getattr(function, "__code__", None) in REPLAYING:
        function = function.__wrapped__
    raw = inspect.signature(function, follow_wrapped=False)
    kinds = [p.kind for p in raw.parameters.values()]
    if function.__name__ == "<lambda>":  # an operator of the table
        return [plain.replace(return_annotation=Tensor)]
    if kinds[1:] == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        if inspect.unwrap(function) is function:  # in place: what the function it is made from takes
            twin = f"__{name[3:]}" if name.startswith("__i") else name.removesuffix("_")
            return [s.replace(return_annotation=Tensor) for s in signatures(twin, attributes()[twin])]
        return [plain, one_by_one(plain)]
    if kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return [plain, with_array_api_names(plain)] if "dim" in plain.parameters else [plain]
    return [plain]


def one_by_one(plain: inspect.Signature) -> inspect.Signature:
    """The second parameter as integers one by one, the rest by keyword."""
    first, last, *rest = plain.parameters.values()
    given = last.replace(kind=last.VAR_POSITIONAL, annotation=int, default=last.empty)
    return plain.replace(parameters=[first, given, *(p.replace(kind=p.KEYWORD_ONLY) for p in rest)])


def with_array_api_names(plain: inspect.Signature) -> inspect.Signature:
    """`axis` and `keepdims` in place of `dim` and `keepdim`, by keyword, as is all that follows."""
    theirs = {ours: name for name, ours in ARRAY_API_NAMES.items()}
    before = list(plain.parameters)[: list(plain.parameters).index("dim")]
    return plain.replace(
        parameters=[
            p if p.name in before else p.replace(name=theirs.get(p.name, p.name), kind=p.KEYWORD_ONLY)
            for p in plain.parameters.values()
        ]
    )


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of what a wrapper stands for, its annotations evaluated; Any where there are none."""
    declared = inspect.unwrap(function)
    found = inspect.signature(declared)
    hints = typing.get_type_hints(declared, localns={"Tensor": Tensor, "TensorLike": Tensor})
    parameters = [p.replace(annotation=hints.get(p.name, Any)) for p in found.parameters.values()]
    return found.replace(parameters=parameters, return_annotation=hints.get("return", Any))


def as_method(of: inspect.Signature) -> inspect.Signature:
    """The first parameter is `self`; `out=` is for functions."""
    rest = [p for p in list(of.parameters.values())[1:] if p.name != "out"]
    first = SELF.replace(kind=SELF.POSITIONAL_ONLY) if any(p.kind is p.POSITIONAL_ONLY for p in rest) else SELF
    return of.replace(parameters=[first, *rest])


def as_constructor(of: inspect.Signature) -> inspect.Signature:
    """The first parameter is the class, and needs no type."""
    first, *rest = of.parameters.values()
    return of.replace(parameters=[first.replace(annotation=first.empty), *rest])


if __name__ == "__main__":
    import package_stubs

    sys.exit(main(sys.argv[1:]) + package_stubs.main(sys.argv[1:]))
