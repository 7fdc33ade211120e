"""The committed stub of Tensor is as `python3 dev.py stubs` writes it, and has every method that attached itself."""

import ast
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest
from tests.support.scripts import start

import adjoint as ad
from adjoint.functions.api.publish import public

ROOT = Path(__file__).parents[2]
STUB = ROOT / "src" / "adjoint" / "core" / "tensor" / "tensor.pyi"
TOOL = ROOT / "tools" / "stubs.py"
Kind = TypeVar("Kind", bound=Callable[..., Any])


def load() -> Any:
    """The tool, as a module."""
    spec = importlib.util.spec_from_file_location("stubs", TOOL)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


stubs = load()


def members() -> dict[str, list[ast.FunctionDef | ast.AnnAssign]]:
    """What the committed stub's class Tensor declares, by name."""
    found: dict[str, list[ast.FunctionDef | ast.AnnAssign]] = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == "Tensor":
            for statement in node.body:
                if isinstance(statement, ast.FunctionDef):
                    found.setdefault(statement.name, []).append(statement)
                elif isinstance(statement, ast.AnnAssign):
                    found.setdefault(ast.unparse(statement.target), []).append(statement)
    return found


def test_committed_stub_is_fresh(tmp_path: Path) -> None:
    done = start(tmp_path, str(TOOL), "--check")  # in a process of its own: tests may attach methods too
    assert done.status == 0, done.out + done.error


def test_stub_has_every_method() -> None:
    ours = {name: str(getattr(value, "__module__", "")) for name, value in inspect.getmembers_static(ad.Tensor)}
    attached = {name for name, module in ours.items() if module.startswith("adjoint.")}
    assert {"sum", "softmax", "add_", "__add__", "__iadd__", "register_hook", "backward", "item"} <= attached
    assert not attached - set(members())


@pytest.mark.parametrize("name", ["array", "node", "grad", "shape", "T", "requires_grad", "_grad"])
def test_stub_has_what_is_no_method(name: str) -> None:
    assert name in members()


def test_methods_take_self_first() -> None:
    named = [(name, f) for name, found in members().items() for f in found if isinstance(f, ast.FunctionDef)]
    functions = [f for name, f in named if name != "__new__"]
    assert len(functions) > 300
    assert {f.args.args[0].arg for f in functions} == {"self"}


def test_stale_stub_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = tmp_path / "tensor.pyi"
    monkeypatch.setattr(stubs, "ROOT", tmp_path)
    monkeypatch.setattr(stubs, "STUB", stub)
    assert stubs.main(["--check"]) == 1
    assert not stub.exists()
    assert stubs.main([]) == 0
    assert stubs.main(["--check"]) == 0
    stub.write_text("class Tensor: ...\n")
    assert stubs.main(["--check"]) == 1


@pytest.mark.parametrize(("kind", "expected"), [
    (None, "None"), (Any, "Any"), (ad.Tensor, "Tensor"), (int | None, "_int | None"),
    (ad.Tensor | Sequence[ad.Tensor] | None, "Tensor | Sequence[Tensor] | None"),
    (tuple[str, ...], "tuple[str, ...]"), (Callable[[ad.Tensor], bool], "Callable[[Tensor], _bool]"),
    (Iterator[Self], "Iterator[Self]"), (Kind, "Kind"),
])  # fmt: skip
def test_spelling(kind: Any, expected: str) -> None:
    assert stubs.Spelling({"int", "bool"})(kind) == expected


def test_spelling_collects_what_must_be_imported() -> None:
    spelling = stubs.Spelling({"int", "device"})
    assert spelling(Callable[[int], ad.device | Any]) == "Callable[[_int], _device | Any]"
    assert spelling.import_lines() == [
        "from builtins import int as _int", "from collections.abc import Callable", "from typing import Any", "",
        "from adjoint.core.dtype.device import device as _device",
    ]  # fmt: skip


def texts(function: Any, name: str) -> list[str]:
    """The declarations that the tool makes of a method."""
    found = [stubs.as_method(s) for s in stubs.signatures(name, function)]
    return [line for line in stubs.definitions(name, found, stubs.Spelling({"int"})) if line != "@overload"]


def test_plain_method() -> None:
    def shift(input: ad.Tensor, by: int = 1, *, mode: str = "wrap") -> ad.Tensor:
        raise NotImplementedError

    assert texts(shift, "shift") == ['def shift(self, by: _int = 1, *, mode: str = "wrap") -> Tensor: ...']


def test_method_that_takes_both_standards_names() -> None:
    @public(method=False)
    def total(input: ad.Tensor, p: int, dim: int | None = None, keepdim: bool = False) -> ad.Tensor:
        raise NotImplementedError

    assert texts(total, "total") == [
        "def total(self, p: _int, dim: _int | None = None, keepdim: bool = False) -> Tensor: ...",
        "def total(self, p: _int, *, axis: _int | None = None, keepdims: bool = False) -> Tensor: ...",
    ]


def test_method_that_takes_integers_one_by_one() -> None:
    @public(method=False, varargs_ints=True)
    def arrange(input: ad.Tensor, shape: Sequence[int]) -> ad.Tensor:
        raise NotImplementedError

    assert texts(arrange, "arrange") == [
        "def arrange(self, shape: Sequence[_int]) -> Tensor: ...",
        "def arrange(self, *shape: _int) -> Tensor: ...",
    ]


def test_in_place_method_takes_what_its_twin_takes() -> None:
    assert texts(vars(ad.Tensor)["clamp_"], "clamp_") == [
        "def clamp_(self, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor: ..."
    ]


def test_long_declaration_is_broken() -> None:
    names = [f"parameter_number_{k}" for k in range(12)]
    many = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=str) for name in names]
    found = inspect.Signature([stubs.SELF, *many], return_annotation=None)
    lines = list(stubs.definitions("long", [found], stubs.Spelling(set())))
    assert len(lines) > 3
    assert max(map(len, lines)) <= 116
    assert ast.unparse(ast.parse("\n".join(lines))).count("parameter_number") == 12
