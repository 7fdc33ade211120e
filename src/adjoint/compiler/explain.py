"""What became of each equation: kernels and calls in order, the lines they came from, why each begins where it does."""

from __future__ import annotations

from typing import Any

from adjoint.compiler.fuse import Group
from adjoint.core.spec import describe


def steps(program: Any) -> list[dict[str, Any]]:
    """One entry for each kernel or call: kind, ops, shape, source lines, reason."""
    return [_step(program, group) for group in program.fusion.order]


def _step(program: Any, group: Group) -> dict[str, Any]:
    lines: dict[str, None] = {}
    for value in group.equations:
        if value.origin is not None:
            lines[str(value.origin)] = None
    kernel = program.kernels.get(group)
    return {
        "kind": "call" if group.call else "kernel",
        "name": kernel.name if kernel else group.equations[0].op.name,
        "ops": [v.op.name for v in group.equations],
        "results": [describe(v) for v in group.stored],
        "lines": list(lines),
        "reason": group.reason,
    }


def explain(program: Any) -> str:
    """The program as a table to read."""
    entries = steps(program)
    kernels = sum(e["kind"] == "kernel" for e in entries)
    head = (
        f"{program.graph.name}: {len(program.graph.equations)} equations in {kernels} kernels and "
        f"{len(entries) - kernels} NumPy calls; {program.binding.plan}"
    )
    parts = [head]
    for i, entry in enumerate(entries):
        results = ", ".join(entry["results"])
        parts.append(f"[{i}] {entry['kind']} {' '.join(entry['ops'])} → {results}")
        parts.extend(f"      from {line}" for line in entry["lines"])
        if entry["reason"]:
            parts.append(f"      begins here: {entry['reason']}")
    return "\n".join(parts)
