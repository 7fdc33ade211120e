"""The generated code to read: every kernel's LLVM assembly, and the Python entry that calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.compiler.report.explain import ExplainEntry, backward_program, explain

if TYPE_CHECKING:
    from adjoint.compiler.program.program import Program


def format_listing(program: Program) -> str:
    """The LLVM assembly of all kernels in the order in which they run, then the Python entry."""
    parts = []
    for entry, text in list_assembly(program):
        lines = [f"; {line}: {' '.join(ops)}" for line, ops in entry.lines.items()]
        parts.append("\n".join([f"; [{entry.number}] {entry.kind} {entry.name}", *lines, text.strip()]))
    parts.append(f"; the Python entry\n{program.source.strip()}")
    backward = backward_program(program)
    if backward is not None:
        parts.append(f"; {backward.graph.name}\n\n{format_listing(backward).strip()}")
    return "\n\n".join(parts) + "\n"


def list_assembly(program: Program) -> list[tuple[ExplainEntry, str]]:
    """Each entry with its assembly: empty for a call of NumPy, a remark where the kernel was there already."""
    shown: dict[str, int] = {}
    texts = []
    for entry, group in zip(explain(program).entries, program.fusion.order, strict=True):
        kernel = program.kernels.get(group)
        if kernel is None:
            texts.append((entry, ""))
        elif entry.name in shown:
            texts.append((entry, f"; the kernel of [{shown[entry.name]}]"))
        else:
            shown[entry.name] = entry.number
            texts.append((entry, kernel.text))
    return texts
