"""The layers of the package, read off its imports: a module imports only from layers below its own."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "adjoint"
MODULES = sorted(PACKAGE.rglob("*.py"))

EAGER = {"core", "ops", "autograd", "functions", "transforms"}
LAYERS: dict[str, set[str]] = {  # each with the layers that it may import, besides itself
    "core": set(),
    "ops": {"core"},
    "autograd": {"core", "ops"},
    "functions": {"core", "ops", "autograd"},
    "transforms": {"core", "ops", "autograd", "functions", "nn"},
    "nn": EAGER,
    "optim": EAGER | {"nn"},  # averaged models
    "data": EAGER,
    "distributed": EAGER | {"data", "nn", "optim", "compat"},
    "distributions": EAGER,
    "serialization": EAGER | {"nn"},
    "amp": EAGER | {"optim"},
    "quasirandom": EAGER,
    "interop": EAGER | {"serialization", "nn", "compiler"},
    "testing": EAGER,
    "diagnosis": EAGER | {"nn", "optim", "data"},
    "utils": EAGER | {"data", "nn"},
    "linalg": EAGER,
    "fft": EAGER,
    "func": EAGER,
    "signal": EAGER,
    "special": EAGER,
    "library": EAGER,
    "compiler": {"core", "ops", "autograd"},
    "__main__": {"core", "compiler", "compat"},  # the command line
    "compat": EAGER | {
        "amp", "data", "diagnosis", "distributions", "func", "interop", "library", "nn", "optim", "serialization",
        "testing", "utils",
    },
}  # fmt: skip
OUTSIDE: dict[str, set[str]] = {layer: {"numpy"} for layer in LAYERS} | {"compiler": {"numpy", "llvmlite"}}
# packages of others that a function may try to import
OPTIONAL = {
    "core": {"ml_dtypes"}, "interop": {"einops", "onnx", "onnxruntime"}, "serialization": {"ml_dtypes"},
    "utils": {"matplotlib"}, "distributed": {"mpi4py"}, "functions": {"scipy"},
}  # fmt: skip
NAMELESS = {"utils.py", "util.py", "common.py", "base.py", "helpers.py", "misc.py"}  # names that say nothing
MOST_LINES = 400
STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)  # in which imports stand, but for calls that import


@dataclass(frozen=True)
class Import:
    """One imported module, by its full name."""

    target: str
    line: int
    when: str  # "load": with the module; "call": inside a function; "never": for type checkers only


def test_there_are_modules() -> None:
    assert PACKAGE / "__init__.py" in MODULES


@pytest.mark.parametrize("layer", sorted({path.relative_to(PACKAGE).parts[0] for path in MODULES}))
def test_modules(layer: str) -> None:
    modules = (path for path in MODULES if path.relative_to(PACKAGE).parts[0] == layer)
    faults = [
        f"{path.relative_to(PACKAGE.parents[1])}:{fault}"
        for path in modules
        for fault in inspect(path.relative_to(PACKAGE), path.read_text(encoding="utf-8"))
    ]
    assert not faults, "\n" + "\n".join(faults)


def inspect(path: Path, source: str) -> list[str]:
    """Return what is wrong with the module at `path`, relative to the package, each fault as `line: what`."""
    tree = ast.parse(source)
    layer = path.parts[0].removesuffix(".py")  # `__init__` for the top
    if layer in LAYERS or layer == "__init__":
        kinds = (ast.AST,) if "import_module" in source or "__import__" in source else STATEMENTS
        faults = [fault for found in imports(tree, path, kinds) if (fault := import_fault(found, layer))]
    else:
        faults = [f"1: {layer} is not a layer; the layers are {', '.join(LAYERS)}"]
    if path.name in NAMELESS:
        faults.append(f"1: a file is named after what is in it, not {path.name}")
    if ast.get_docstring(tree) is None:
        faults.append("1: the module has no docstring")
    if (lines := len(source.splitlines()) - docstring_lines(tree)) > MOST_LINES:
        faults.append(f"{lines}: more than {MOST_LINES} lines besides docstrings: split by concept")
    return faults + [fault for node in tree.body if (fault := order_fault(node))]


def docstring_lines(tree: ast.Module) -> int:
    """Return how many lines the docstrings of functions and classes take: examples must not be dear."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    documented = (node for node in ast.walk(tree) if isinstance(node, kinds) and ast.get_docstring(node) is not None)
    return sum((node.body[0].end_lineno or 0) - node.body[0].lineno + 1 for node in documented)


def import_fault(found: Import, layer: str) -> str | None:
    """Say why a module of `layer` may not import what was found, if it may not."""
    root, _, rest = found.target.partition(".")
    target = rest.partition(".")[0]
    if layer == "compiler" and root == "llvmlite":
        return None
    if layer == "__init__":
        if target == "compiler" and found.when == "load":
            return f"{found.line}: the compiler is imported on its first use, inside a function"
        return None if root == "adjoint" else outside_fault(found, root, layer)
    if root == "llvmlite":
        return f"{found.line}: only the compiler imports llvmlite"
    if root != "adjoint":
        return outside_fault(found, root, layer)
    if target == layer or target in LAYERS[layer]:
        return None
    if target == "compiler":
        return f"{found.line}: only adjoint/__init__.py imports the compiler"
    if target == "compat":
        return f"{found.line}: only adjoint/__init__.py imports compat"
    if target in LAYERS:
        return f"{found.line}: {layer} imports {target}, which is not below it"
    return f"{found.line}: {layer} imports {found.target}: import from the layer that has it, not from the top"


def outside_fault(found: Import, root: str, layer: str) -> str | None:
    """Say why a module of `layer` may not import another's package, if it may not."""
    allowed = OUTSIDE.get(layer, set())
    if root in allowed or root in sys.stdlib_module_names:
        return None
    if root in OPTIONAL.get(layer, ()) and found.when != "load":
        return None
    rule = f"of others' packages it may: {', '.join(sorted(allowed)) or 'none'}"
    return f"{found.line}: {layer} imports {found.target}; {rule}"


def order_fault(node: ast.stmt) -> str | None:
    """Say what is wrong with the order of `__all__`, where `node` assigns it as a list of names."""
    match node:
        case ast.Assign(targets=[ast.Name("__all__")], value=ast.List() | ast.Tuple() as value):
            pass
        case ast.AnnAssign(target=ast.Name("__all__"), value=ast.List() | ast.Tuple() as value):
            pass
        case _:
            return None
    names = [entry.value for entry in value.elts if isinstance(entry, ast.Constant) and isinstance(entry.value, str)]
    if names != sorted(set(names)):
        return f"{node.lineno}: __all__ is not in alphabetical order, each name once"
    return None


def imports(tree: ast.Module, path: Path, kinds: tuple[type[ast.AST], ...]) -> Iterator[Import]:
    """Find every import in the module at `path` that stands in nodes of these kinds, all but expressions or all."""
    package = ["adjoint", *path.parts[:-1]]

    def visit(node: ast.AST, when: str) -> Iterator[Import]:
        match node:
            case ast.Import():
                for alias in node.names:
                    yield Import(alias.name, node.lineno, when)
            case ast.ImportFrom():
                start = package[: len(package) - node.level + 1] if node.level else []
                stem = ".".join([*start, *filter(None, [node.module])])
                for alias in node.names:
                    # `from adjoint import ops` imports a layer, `from adjoint.ops import exp` a name of one.
                    yield Import(f"{stem}.{alias.name}" if stem in ("adjoint", "") else stem, node.lineno, when)
            case ast.Call(func=ast.Attribute(attr="import_module") | ast.Name("import_module" | "__import__")):
                if node.args and isinstance(node.args[0], ast.Constant):
                    yield Import(str(node.args[0].value), node.lineno, when)
        for field, child in children(node, kinds):
            inside = when
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and field == "body":
                inside = "call" if when == "load" else when
            elif isinstance(node, ast.If) and field == "body" and "TYPE_CHECKING" in ast.unparse(node.test):
                inside = "never"
            yield from visit(child, inside)

    return visit(tree, "load")


def children(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> Iterator[tuple[str, ast.AST]]:
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, kinds):
                yield field, child


# Each of these must be found, so that the tests above cannot pass by looking away.
FAULTY = [
    ("core/tensor/tensor.py", "from adjoint.ops import exp", "core imports ops, which is not below it"),
    ("core/tensor/tensor.py", "from ...ops.arithmetic import add", "core imports ops, which is not below it"),
    ("core/tensor/tensor.py", "from ... import ops", "core imports ops, which is not below it"),
    ("core/tensor/tensor.py", "import adjoint.nn.functional as F", "core imports nn, which is not below it"),
    ("core/__init__.py", "from ..functions import relu", "core imports functions, which is not below it"),
    ("ops/deep/er.py", "from ...autograd.engine import backward", "ops imports autograd, which is not below it"),
    (
        "autograd/function/function.py",
        "def apply():\n    from adjoint.transforms.forward import dual_level",
        "autograd imports transforms, which is not below it",
    ),
    ("data/loader.py", "def step():\n    from adjoint import nn", "data imports nn, which is not below it"),
    ("data/loader.py", "import importlib\nimportlib.import_module('adjoint.nn')", "data imports nn"),
    ("compiler/trace/tracer.py", "from adjoint.functions.linalg.matmul import linear", "compiler imports functions"),
    (
        "functions/loss/regression.py",
        "import typing\nif typing.TYPE_CHECKING:\n    import adjoint.nn",
        "functions imports nn",
    ),
    ("nn/module/module.py", "from adjoint import Tensor", "not from the top"),
    ("nn/module/module.py", "import adjoint", "not from the top"),
    ("nn/module/module.py", "import scipy.special", "nn imports scipy.special; of others' packages it may: numpy"),
    ("nn/module/module.py", "def f():\n    import llvmlite", "only the compiler imports llvmlite"),
    ("nn/module/module.py", "def f():\n    from adjoint.compiler import compile", "only adjoint/__init__.py imports"),
    ("__init__.py", "from adjoint.compiler import compile", "on its first use"),
    ("__init__.py", "try:\n    from . import compiler\nfinally:\n    pass", "on its first use"),
    ("__init__.py", "class A:\n    import adjoint.compiler", "on its first use"),
    ("__init__.py", "def f(x=__import__('adjoint.compiler')): pass", "on its first use"),
    ("__init__.py", "def f():\n    import llvmlite.binding", "of others' packages it may: none"),
    ("stray.py", "", "stray is not a layer"),
    ("stray/one.py", "import numpy", "stray is not a layer"),
    ("serialization/safetensors.py", "import ml_dtypes", "serialization imports ml_dtypes"),
    ("core/utils.py", "", "named after what is in it"),
    ("core/long.py", "\n" * MOST_LINES, f"more than {MOST_LINES} lines"),
    ("core/op/op.py", "__all__ = ['b', 'a']", "alphabetical order"),
    ("core/op/op.py", "__all__: list[str] = ['a', 'a']", "alphabetical order"),
]
SOUND = [
    ("core/tensor/tensor.py", "import numpy as np\nfrom .node import Node\nfrom adjoint.core import dtype"),
    ("nn/module/module.py", "from adjoint.functions import relu\nfrom ..core.tensor import Tensor\nfrom .. import ops"),
    ("compiler/llvm.py", "import llvmlite.binding as llvm\nfrom ..autograd import engine\nfrom .graph import Graph"),
    ("__init__.py", "from .nn import *\ndef compile(f):\n    from .compiler import compile\n    return compile(f)"),
    ("__init__.py", "import typing\nif typing.TYPE_CHECKING:\n    from .compiler import compile as compile"),
    ("core/op/op.py", "__all__ = ['Op', 'primitive']"),
    ("utils/inspect.py", "import inspect\nfrom .core import Tensor\nfrom .nn import Module"),
    ("serialization/safetensors.py", "def load():\n    import ml_dtypes"),
]


@pytest.mark.parametrize(("path", "code", "fault"), FAULTY)
def test_fault_is_found(path: str, code: str, fault: str) -> None:
    faults = inspect(Path(path), f'"""A module."""\n{code}\n')
    assert len(faults) == 1
    assert fault in faults[0]


def test_missing_docstring_is_found() -> None:
    assert inspect(Path("core/op/op.py"), "import numpy\n") == ["1: the module has no docstring"]


@pytest.mark.parametrize(("path", "code"), SOUND)
def test_sound_module_passes(path: str, code: str) -> None:
    assert inspect(Path(path), f'"""A module."""\n{code}\n') == []
