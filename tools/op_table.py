"""docs/ops.md, made from the ops' declarations: `python3 tools/op_table.py` writes it anew."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ops.md"
HEAD = """# The ops, forward and backward

Made by `tools/op_table.py` from the declarations: run it after you have changed one.

A *node* is what `grad_fn` shows; some ops name it by what they were given. *Keeps* says, for each input, what its
gradient rule needs of the forward pass: inputs, the result (`out`), shapes or parameters. Only what the inputs that
want a gradient need is kept, and it is freed as soon as backward has used it. *Rules*: for which inputs there is a
gradient; asking for another raises an error which names the op and the line. The other words are explained in
[architecture.md](architecture.md).
"""

COLUMNS = "| op | node | keeps | rules | what it computes |\n| --- | --- | --- | --- | --- |\n"


def main() -> None:
    """Write the page, and say whether that changed it."""
    page = op_table()
    fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page
    PAGE.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}: {'as it was' if fresh else 'written anew'}\n")


def op_table() -> str:
    """The page: one table for each module that declares ops."""
    parts = [HEAD]
    for name, ops in _declared():
        parts.append(f"\n## {name}\n\n{COLUMNS}")
        parts.extend(_row(op) for op in ops)
    return "".join(parts)


def _declared() -> Iterator[tuple[str, list[Any]]]:
    """Each module that declares ops, and these in the order of the text."""
    sys.path.insert(0, str(ROOT / "src"))
    from adjoint import functions, ops
    from adjoint.core.op.op import Op

    for package in (ops, functions):
        for info in sorted(pkgutil.walk_packages(package.__path__, f"{package.__name__}."), key=lambda info: info.name):
            module = importlib.import_module(info.name)
            found: dict[int, Op] = {}
            for value in vars(module).values():
                op = value if isinstance(value, Op) else getattr(value, "op", None)
                if isinstance(op, Op) and op.evaluate.__module__ == module.__name__:
                    found.setdefault(id(op), op)
            if found:
                yield f"{info.name.removeprefix('adjoint.').replace('.', '/')}.py", sorted(found.values(), key=_line)


def _line(op: Any) -> int:
    line: int = inspect.unwrap(op.evaluate).__code__.co_firstlineno
    return line


def _row(op: Any) -> str:
    keeps = [f"{name}: {', '.join(needs)}" for name, needs in zip(op.inputs, op.needs, strict=True) if needs]
    ruled = [name for name, rule in zip(op.inputs, op.rules, strict=True) if rule is not None]
    rules = "none" if not ruled else "all" if len(ruled) == len(op.inputs) else ", ".join(ruled)
    sentence = " ".join((op.evaluate.__doc__ or "").split("\n\n")[0].split()).replace("|", "\\|")
    return f"| `{op.name}` | {_node(op)} | {'; '.join(keeps) or 'nothing'} | {rules} | {sentence} |\n"


def _node(op: Any) -> str:
    """The name of the node; where it depends on the call, that of one without parameters, or none."""
    if all(rule is None for rule in op.rules):
        return "none"
    try:
        return f"`{op.node_name(SimpleNamespace(op=op, params={}, shapes=None, saved=None, parents=()))}`"
    except (AttributeError, KeyError, TypeError, IndexError):
        return "depends on the call"


if __name__ == "__main__":
    main()
