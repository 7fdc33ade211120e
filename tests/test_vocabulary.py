"""Names of the package: functions are no bare participles, a class name has one class, constants are no adjectives.

What PyTorch or Python dictate stands in the tables below, each with its reason. Figures that are to fall stand in
`RATCHETS`: lower one here when a change lowers it.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
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


@dataclass
class Survey:
    """What one walk over the package has found; syntax trees, which are large, are not kept."""

    functions: dict[str, str] = field(default_factory=dict)  # the file of each name
    classes: Counter[str] = field(default_factory=Counter)
    constants: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # of each file
    helpers: list[str] = field(default_factory=list)  # private functions of at most three lines
    uses_of_any: int = 0


@cache
def survey() -> Survey:
    """Walk over each module once."""
    found = Survey()
    for path, text in SOURCES.items():
        tree, name = ast.parse(text), str(path.relative_to(PACKAGE))
        found.constants[name] += find_assigned_names(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                found.uses_of_any += node.id == "Any"
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.functions[node.name] = name
                found.helpers += [node.name] if is_short_helper(node) else []
            elif isinstance(node, ast.ClassDef):
                found.classes[node.name] += 1
    return found


def is_participle(name: str) -> bool:
    """Return whether a name is one past participle and nothing else."""
    word = name.strip("_")
    if not word or "_" in word or word in VERBS:
        return False
    return word in IRREGULAR.split() or (word.endswith("ed") and len(word) > 3)


def test_no_function_is_named_by_a_bare_participle() -> None:
    found = {name: path for name, path in survey().functions.items() if is_participle(name)}
    assert found.keys() == PARTICIPLES_OF_OTHERS.keys(), found


def test_a_class_name_has_one_class() -> None:
    assert {name for name, count in survey().classes.items() if count > 1} == CLASSES_OF_OTHERS.keys()


def test_no_constant_is_an_adjective() -> None:
    found = {path: ADJECTIVES.intersection(n.strip("_") for n in names) for path, names in survey().constants.items()}
    assert {path: names for path, names in found.items() if names} == {}


def find_assigned_names(tree: ast.Module) -> Iterator[str]:
    """Find the names that statements of a module assign."""
    assigned = (node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign))
    names = (node for each in assigned for node in ast.walk(each) if isinstance(node, ast.Name))
    return (node.id for node in names if isinstance(node.ctx, ast.Store))


def is_short_helper(node: ast.AST) -> bool:
    """Return whether a node is a private, undecorated function whose body has at most three lines."""
    if not isinstance(node, ast.FunctionDef) or not re.match(r"_[^_]", node.name) or node.decorator_list:
        return False
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return bool(body) and (body[-1].end_lineno or 0) - body[0].lineno < 3


def test_figures_only_fall() -> None:
    text = "\n".join(SOURCES.values())
    short = [p for p, source in SOURCES.items() if p.name != "__init__.py" and source.count("\n") < 60]
    uses = Counter(re.findall(r"[A-Za-z_]\w*", text))
    figures = {
        "Any": survey().uses_of_any, "type: ignore": text.count("type: ignore"), "fmt: skip": text.count("fmt: skip"),
        "files under 60 lines": len(short),
        "helpers of one use": sum(uses[name] == 2 for name in survey().helpers),  # and their definition
    }  # fmt: skip
    assert {name: count for name, count in figures.items() if count > RATCHETS[name]} == {}


@pytest.mark.parametrize("name", ["told", "_kept", "laid", "promoted"])
def test_participles_are_found(name: str) -> None:
    assert is_participle(name)


@pytest.mark.parametrize("name", ["seed", "read", "put", "is_shared", "shared_memory", "embed"])
def test_other_names_are_left_alone(name: str) -> None:
    assert not is_participle(name)
