"""Reports of a compiled step on the program that ran last: its graph, kernels, memory, code, costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adjoint.compiler.build import CompiledEntry
    from adjoint.compiler.cuts.staged_entry import StagedEntry
    from adjoint.compiler.ir.graph import Graph
    from adjoint.compiler.program.program import Program
    from adjoint.compiler.report.advice import CallCosts, StepAdvice
    from adjoint.compiler.report.explain import Explanation
    from adjoint.compiler.report.memory_report import ProgramMemory
    from adjoint.compiler.trace.signature import Signature


class StepReports:
    """The reports of a compiled step; each is imported where it is first asked for."""

    name: str
    _programs: dict[object, Signature]
    _costs: CallCosts

    @property
    def graph(self) -> Graph:
        """The graph of the program that ran last, after rewriting."""
        return self._program().graph

    @property
    def kernels(self) -> Sequence[dict[str, Any]]:
        """A dictionary for each step of the program: its kind, ops, source lines. It prints as loops."""
        from adjoint.compiler.report.explain import entries_as_dicts

        return entries_as_dicts(self._program())

    def explain(self) -> Explanation:
        """Explain which equations became which kernel, from which lines, and why each kernel begins where it does.

        Of a step that asks for values the program that writes is shown, then the tree of its decisions and calls.
        """
        from adjoint.compiler.report.explain import explain

        program, latest = self._program(), self._latest_entry()
        found = (s.entries for s in self._programs.values() if any(entry is latest for entry in s.entries))
        return explain(program, [path for entries in found for entry in entries if (path := entry.as_path())])

    def memory(self) -> ProgramMemory:
        """Report the values in the arena, with place and time, and those saved for backward, by line; in bytes."""
        from adjoint.compiler.report.memory_report import report_memory

        return report_memory(self._program())

    def advice(self) -> StepAdvice:
        """Return what calls spent time on besides kernels, as far as they were observed, and what to write instead."""
        return self._costs.advice()

    def source(self) -> str:
        """The generated LLVM of all kernels, and the Python function that calls them."""
        from adjoint.compiler.report.source_listing import format_listing

        return format_listing(self._program())

    def page(self) -> str:
        """All of this as one HTML page that needs nothing else."""
        from adjoint.compiler.report.html_page import page

        return page(self._program())

    def _program(self) -> Program:
        latest = self._latest_entry()
        if latest is None:
            raise RuntimeError(f"compiled function {self.name!r} was not called yet: there is no program to show")
        return latest.program

    def _latest_entry(self) -> CompiledEntry | StagedEntry | None:
        raise NotImplementedError
