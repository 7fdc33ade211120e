"""Names of the package: functions are no bare participles, a class name has one class, constants are no adjectives.

What PyTorch or Python dictate stands in the tables below, each with its reason. Figures that are to fall stand in
`RATCHETS`: lower one here when a change lowers it.
"""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "adjoint"
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
IRREGULAR = """
    borne begun broken brought built bound caught chosen done drawn driven fallen felt forgotten found frozen given gone
    grown held hidden kept knelt known laid led left lent lost made meant met overdone remade retold rewritten said sent
    seen shown slept sold sought spent spoken spun stolen stood struck sung sunk swept sworn swung taken taught thought
    thrown told torn undone understood woken won worn wound woven written
"""
VERBS = frozenset({"embed", "exceed", "feed", "heed", "need", "proceed", "seed", "shed"})  # these end in "ed" as well
PARTICIPLES_OF_OTHERS = {
    "__reversed__": "Python's protocol",
    "cached": "the name in torch.nn.utils.parametrize",
    "done": "the name in torch.futures.Future",
    "searchsorted": "torch.searchsorted, numpy.searchsorted and the array API's",
    "untyped": "the name in torch.TypedStorage",
    "unused": "the name in torch.jit",
}
CLASSES_OF_OTHERS = {
    "Event": "torch.cuda.Event, beside the profiler's",
    "GradScaler": "torch.amp, torch.cuda.amp and torch.cpu.amp each have one",
    "Graph": "torch.fx.Graph, beside the compiler's",
    "Identity": "torch.nn.Identity and torch.nn.utils.prune.Identity",
    "Interpreter": "torch.fx.Interpreter, beside what interprets op calls",
    "Node": "torch.autograd.graph.Node and torch.fx.Node, beside the node itself",
    "Stream": "torch.cpu.Stream and torch.cuda.Stream, where CUDA means the CPU",
    "TraceError": "torch.fx.proxy.TraceError, beside the compiler's",
    "Tracer": "torch.fx.Tracer, beside the compiler's",
    "Transformer": "torch.nn.Transformer and torch.fx.Transformer",
    "autocast": "torch, torch.cuda.amp and torch.cpu.amp each have one",
    "device": "torch.device and torch.cuda.device",
}
ADJECTIVES = frozenset({
    "APART", "FEW", "GONE", "HELD", "HERE", "LARGE", "LITTLE", "MANY", "MISS", "MOST", "NOTHING", "PACE", "PATIENCE",
    "PLAIN", "SHORT", "SMALL", "SOON", "WHOLE", "WORTH",
})  # fmt: skip
RATCHETS = {
    "Any": 1_903, "type: ignore": 25, "fmt: skip": 134, "files under 60 lines": 71, "helpers of one use": 90,
}  # fmt: skip


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the syntax tree of each module."""
    return {path: ast.parse(text) for path, text in SOURCES.items()}


def is_participle(name: str) -> bool:
    """Return whether a name is one past participle and nothing else."""
    word = name.strip("_")
    if not word or "_" in word or word in VERBS:
        return False
    return word in IRREGULAR.split() or (word.endswith("ed") and len(word) > 3)


def test_no_function_is_named_by_a_bare_participle() -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = {node.name: path for path, tree in trees().items() for node in ast.walk(tree) if isinstance(node, kinds)}
    found = {name: str(path.relative_to(PACKAGE)) for name, path in names.items() if is_participle(name)}
    assert found.keys() == PARTICIPLES_OF_OTHERS.keys(), found


def test_a_class_name_has_one_class() -> None:
    names = Counter(node.name for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} == CLASSES_OF_OTHERS.keys()


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(PACKAGE))) for path in SOURCES])
def test_no_constant_is_an_adjective(path: Path) -> None:
    assigned = (node for node in trees()[path].body if isinstance(node, ast.Assign | ast.AnnAssign))
    names = (node for each in assigned for node in ast.walk(each) if isinstance(node, ast.Name))
    stored = (node.id for node in names if isinstance(node.ctx, ast.Store))
    assert [name for name in stored if name.strip("_") in ADJECTIVES] == []


def find_one_use_helpers() -> dict[Path, list[str]]:
    """Return, by module, the private functions of at most three lines that are named once beside their definition."""
    uses = Counter(word for text in SOURCES.values() for word in re.findall(r"[A-Za-z_]\w*", text))
    return {
        path: [f.name for f in ast.walk(tree) if is_short_helper(f) and uses[f.name] == 2]
        for path, tree in trees().items()
    }


def is_short_helper(node: ast.AST) -> bool:
    """Return whether a node is a private, undecorated function whose body has at most three lines."""
    if not isinstance(node, ast.FunctionDef) or not re.match(r"_[^_]", node.name) or node.decorator_list:
        return False
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return bool(body) and (body[-1].end_lineno or 0) - body[0].lineno < 3


def test_figures_only_fall() -> None:
    text = "\n".join(SOURCES.values())
    names = (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.Name))
    short = [p for p, source in SOURCES.items() if p.name != "__init__.py" and source.count("\n") < 60]
    figures = {
        "Any": sum(node.id == "Any" for node in names), "type: ignore": text.count("type: ignore"),
        "fmt: skip": text.count("fmt: skip"), "files under 60 lines": len(short),
        "helpers of one use": sum(map(len, find_one_use_helpers().values())),
    }  # fmt: skip
    assert {name: count for name, count in figures.items() if count > RATCHETS[name]} == {}


@pytest.mark.parametrize("name", ["told", "_kept", "laid", "promoted"])
def test_participles_are_found(name: str) -> None:
    assert is_participle(name)


@pytest.mark.parametrize("name", ["seed", "read", "put", "is_shared", "shared_memory", "embed"])
def test_other_names_are_left_alone(name: str) -> None:
    assert not is_participle(name)
