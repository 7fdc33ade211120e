"""docs/ops.md, made from the ops' declarations: `python3 tools/op_table.py` writes it anew."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ops.md"
MAX_VALUE_CHARS = 110  # a longer expression gives way to the first sentence
HEAD = """# The ops

All ops of the library, one row each: value, gradient, saved values, node, compiled code. `python3 tools/op_table.py`
makes this page from the source; run it after a change of a declaration. An op is a NumPy function under a decorator:

```python notest
@unary(promotion="float", scalar="exp", dx=lambda g, out: g * out)
def exp(x):
    return np.exp(x)
```

- *Value*: the expression that the function returns, or its first sentence where the body is longer or calls a helper.
- *Gradient*: the rule of each input, `d<input>=` in the decorator. `g` is the gradient of the output `out`, and a name
  that begins with `_` is a function in the same file. Without a rule, a gradient for that input is an error that names
  the op and the line.
- *Keeps*: the parameters of the rules, which backward needs of the forward pass: inputs, `out`, shapes, settings. Only
  what the inputs that want a gradient need is saved, and it is freed as soon as backward has used it.
- *Node*: the name that `grad_fn` shows; a dash where there is no gradient, "varies" where the name depends on the call.
- *Compiled*: how `ad.compile` lowers the op. `exp(x)` is a method of the builder, inlined into the loop of a fused
  kernel; "view" and "fold" are index maps and reductions of such loops. "traced as" gives the composite of other ops
  that is compiled instead. A kernel of its own has a name such as "matmul". "NumPy" calls the function itself.

To add an op, write its declaration beside its kin, add a line to `tests/support/samples.py`, and publish it in
`functions/`: [CONTRIBUTING](../CONTRIBUTING.md#adding-an-op) does that for one op from end to end.
"""
COLUMNS = "| op | value | gradient | keeps | node | compiled |\n| --- | --- | --- | --- | --- | --- |\n"


def main() -> None:
    """Write the page, and print whether that changed it."""
    page = op_table()
    fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page
    PAGE.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}: {'as it was' if fresh else 'written anew'}\n")


def op_table() -> str:
    """Return the page: a section for each folder, in it a table for each module that declares ops."""
    parts, last = [HEAD], None
    for module, ops in declared_ops():
        path = module.__name__.removeprefix("adjoint.").replace(".", "/")
        folder = path.rpartition("/")[0]
        if folder != last:
            package = importlib.import_module(f"adjoint.{folder.replace('/', '.')}")
            parts.append(f"\n## {folder}\n\n{_first_sentence(package)}\n")
            last = folder
        parts.append(f"\n### [{path}.py](../src/adjoint/{path}.py)\n\n{_first_sentence(module)}\n\n{COLUMNS}")
        parts.extend(_row(op) for op in ops)
    return "".join(parts)


def declared_ops() -> Iterator[tuple[ModuleType, list[Any]]]:
    """Yield each module that declares ops, with its ops in the order of the text."""
    sys.path.insert(0, str(ROOT / "src"))
    from adjoint import functions, ops
    from adjoint.core.op.op import Op

    for package in (ops, functions):
        infos = [info for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.") if not info.ispkg]
        for info in sorted(infos, key=lambda info: info.name.rpartition(".")):
            module = importlib.import_module(info.name)
            declared: dict[int, Op] = {}
            for value in vars(module).values():
                op = value if isinstance(value, Op) else getattr(value, "op", None)
                if isinstance(op, Op) and op.name.isidentifier() and op.evaluate.__module__ == module.__name__:
                    declared.setdefault(id(op), op)
            if declared:
                yield module, sorted(declared.values(), key=lambda op: _code(op).co_firstlineno)


def _row(op: Any) -> str:
    facets = _facets(op)
    rules = [f"d{name}: {_rule(op, i, facets)}" for i, name in enumerate(op.inputs) if op.rules[i] is not None]
    keeps = [f"{name}: {', '.join(needs)}" for name, needs in zip(op.inputs, op.needs, strict=True) if needs]
    columns = (f"`{op.name}`", _value(op), "; ".join(rules), "; ".join(keeps), _node(op), _lowering(op, facets))
    return "".join(f"| {column or '–'} " for column in columns) + "|\n"


def _value(op: Any) -> str:
    """Return the expression that the op's function returns; its first sentence if it does more or calls a helper."""
    function = _definition(op)
    if isinstance(function, ast.FunctionDef):
        body = function.body[ast.get_docstring(function) is not None :]
        value = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
        is_helper_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
        if value is not None and not is_helper_call and len(text := ast.unparse(value)) <= MAX_VALUE_CHARS:
            return _code_cell(text)
    return _first_sentence(op.evaluate)


def _rule(op: Any, position: int, facets: dict[str, ast.expr]) -> str:
    """Return a gradient rule as the declaration has it."""
    written = facets.get("d" + op.inputs[position])
    if written is not None:
        return _written(written)
    return f"`{inspect.unwrap(op.rules[position]).__name__}`"


def _node(op: Any) -> str:
    """Return the name of the node; where it depends on the call, that of one without parameters, or "varies"."""
    if all(rule is None for rule in op.rules):
        return ""
    try:
        return f"`{op.node_name(SimpleNamespace(op=op, params={}, shapes=None, saved=None, parents=()))}`"
    except (AttributeError, KeyError, TypeError, IndexError):
        return "varies"


def _lowering(op: Any, facets: dict[str, ast.expr]) -> str:
    from adjoint.compiler.kernels import kernel_kinds

    kinds = {
        kernel_kinds.PRODUCT: "matmul", kernel_kinds.READING: "gather", kernel_kinds.WRITING: "scatter",
        kernel_kinds.SPATIAL: "sliding window", kernel_kinds.DRAW: "random numbers",
        kernel_kinds.ATTENTION: "attention", kernel_kinds.MATRICES: "matrices",
        kernel_kinds.ROWS: "lines along a dimension",
    }  # fmt: skip
    if op.name in kernel_kinds.KERNEL_KINDS:
        return kinds[kernel_kinds.KERNEL_KINDS[op.name]]
    if isinstance(op.scalar, str):
        return f"`{op.scalar}({', '.join(op.inputs)})`"
    if op.scalar is not None:
        return _written(facets["scalar"])
    if op.combine is not None:
        return f"fold by `{op.combine}`"
    if op.index is not None:
        return "view"
    if op.composite is None:
        return "NumPy"
    return f"traced as {_written(facets['composite'])}" if "composite" in facets else "traced as its ops"


def _facets(op: Any) -> dict[str, ast.expr]:
    """Return the keyword arguments of the op's declaration, as they are written."""
    function = _definition(op)
    calls = [d for d in getattr(function, "decorator_list", ()) if isinstance(d, ast.Call)]
    return {keyword.arg: keyword.value for call in calls for keyword in call.keywords if keyword.arg}


def _definition(op: Any) -> ast.AST | None:
    """Return the syntax tree of the op's function, if a `def` made it."""
    code = _code(op)
    return _functions(code.co_filename).get((code.co_name, code.co_firstlineno))


@cache
def _functions(path: str) -> dict[tuple[str, int], ast.AST]:
    """Return the functions of a file by name and first line, which is that of the first decorator."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {(f.name, min([f.lineno, *[d.lineno for d in f.decorator_list]])): f for f in functions}


def _code(op: Any) -> Any:
    return inspect.unwrap(op.evaluate).__code__


def _written(expression: ast.expr) -> str:
    """Return a facet as the declaration has it; of a lambda its body, without the decorator that gives it a kernel."""
    if isinstance(expression, ast.Call) and ast.unparse(expression.func) == "with_elementwise_kernel":
        return _written(expression.args[0])
    return _code_cell(ast.unparse(expression.body if isinstance(expression, ast.Lambda) else expression))


def _code_cell(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def _first_sentence(documented: Any) -> str:
    paragraph = textwrap.dedent(documented.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(paragraph.split()).replace("|", "\\|")


if __name__ == "__main__":
    main()
