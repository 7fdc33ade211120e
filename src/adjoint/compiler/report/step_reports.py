"""Reports of a compiled step on the program that ran last: its graph, kernels, memory, code, costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from adjoint.core.runtime.exchange_log import CallLog
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.typing import Operand

if TYPE_CHECKING:
    from os import PathLike

    from adjoint.compiler.build import CompiledEntry
    from adjoint.compiler.cuts.staged_entry import StagedEntry
    from adjoint.compiler.ir.graph import Graph
    from adjoint.compiler.program.outlined_calls import OutlinedCalls
    from adjoint.compiler.program.program import Program
    from adjoint.compiler.report.advice import CallCosts, StepAdvice
    from adjoint.compiler.report.explain import Explanation
    from adjoint.compiler.report.kernel_times import StepTimes
    from adjoint.compiler.report.memory_report import ProgramMemory
    from adjoint.compiler.trace.recompilation import Recompilation
    from adjoint.compiler.trace.signature import Signature
    from adjoint.compiler.trace.sizes.batch_sizes import BatchSizes, Size
    from adjoint.core.viewer.page import GraphPage


class StepReports:
    """The reports of a compiled step; each is imported where it is first asked for."""

    name: str
    _programs: dict[Operand, Signature]
    _costs: CallCosts
    _loops: OutlinedCalls
    _sizes: BatchSizes
    _trace: Callable[..., tuple[CompiledEntry | StagedEntry, Callable[[], None]]]
    __call__: Callable[..., Operand]
    recompilations: list[Recompilation]

    @property
    def compilations(self) -> int:
        """The number of times that the function was traced, or the body of a loop that runs in Python."""
        return len(self.recompilations) + self._loops.compilations

    @property
    def sizes(self) -> Mapping[int | Size, int]:
        """The number of calls that found no program, by the size of their arguments; by the shapes if several differ.

        Each size is a program of its own. The first two are compiled at once. Any other runs eagerly the first time,
        and then until the programs have saved as much time as its compilation takes; up to 32 are compiled.
        """
        return self._sizes.all()

    @property
    def graph(self) -> Graph:
        """The graph of the program that ran last, after rewriting."""
        return self._program().graph

    @property
    def kernels(self) -> Sequence[dict[str, Any]]:
        """A dictionary for each step of the program: its kind, ops, source lines. It prints as loops."""
        from adjoint.compiler.report.explain import entries_as_dicts

        return entries_as_dicts(self._program())

    def explain(self, *args: Operand, profile: bool = False, **kwargs: Operand) -> Explanation:
        """Explain which equations became which kernel, from which lines, and why each kernel begins where it does.

        Of a step that asks for values the program that writes is shown, then the tree of its decisions and calls; of
        one whose loop runs in Python, what became of it, and the program of its body.

        Args:
            args: with `profile`, the arguments of the call that is measured. Default: those for which the program was
                made; random ones of the same shapes if nobody has them any more.
            profile: True to measure each kernel and call in a copy of this process: parameters, moments, generators
                and buffers stay as they are. Default: False.

        Raises: RuntimeError for a step that was not called yet, or that cannot be measured.
        """
        from adjoint.compiler.report.explain import explain

        if not profile and (args or kwargs):
            raise TypeError("explain() takes arguments of the step only with profile=True, which calls it with them")
        shown = self._shown_step()
        if shown is not self:
            explanation = shown.explain(profile=profile)
            explanation.loop = self._loops.explain()
            return explanation
        program, latest = self._program(), self._latest_entry()
        times = self._measure(args, kwargs) if profile else None
        found = (s.entries for s in self._programs.values() if any(entry is latest for entry in s.entries))
        ways = [path for entries in found for entry in entries if (path := entry.as_path())]
        at = 0 if latest is None else next(i for i, each in enumerate(latest.programs) if each is program)
        return explain(program, ways, times, at)

    def _measure(self, args: Sequence[Operand], kwargs: Mapping[str, Operand]) -> StepTimes:
        """Measure the kernels and calls of the programs that ran last, by default with arguments like those then."""
        from adjoint.compiler.report.example_arguments import GIVEN_ONES
        from adjoint.compiler.report.kernel_times import MeasuredStep, measure_step

        latest, what, modes = self._latest_entry(), GIVEN_ONES, dict[str, Operand]()
        if not (args or kwargs) and latest is not None and latest.example is not None:
            args, kwargs, what = latest.example.find()
            keys = (key for key, s in self._programs.items() if any(entry is latest for entry in s.entries))
            recording, autocast = next(keys)[3:]
            modes = {"recording": recording is True, "inference": recording == "inference", "autocast": autocast}

        def programs() -> Sequence[Program]:
            entry = self._latest_entry()
            return [] if entry is None else entry.programs

        def prepare() -> None:
            self.__dict__.update(_trace=_refuse_program, _run_eagerly=_refuse_program)

        def call() -> Operand:
            with ModeScope(**modes):  # as it was called
                return self(*args, **kwargs)

        measured = measure_step(MeasuredStep(call, programs, prepare, what))
        if latest is None or len(measured.programs) != len(latest.programs):
            raise RuntimeError("these arguments are for another program than that which ran last: call the step first")
        return measured

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

    def page(self, *args: Operand, profile: bool = True, **kwargs: Operand) -> GraphPage:
        """Return all of this as one HTML page: the graph after each pass, kernels, memory, code, beside your lines.

        `page.write(path)` saves it, `page.open()` shows it in a browser. For the times of the kernels and the graphs
        before them, the step is called, and traced once more, in a copy of this process; where that is not possible the
        page says why.

        Args:
            args, kwargs: as those of `explain()`.
            profile: False to measure no times. Default: True.
        """
        from adjoint.compiler.report.explain import backward_program, explain
        from adjoint.compiler.report.pass_stages import PassStages, record_stages
        from adjoint.compiler.report.step_page import render_step_page

        shown, latest = self._shown_step(), self._latest_entry()
        if shown is not self:
            return shown.page(profile=profile)
        if latest is None:
            raise self._no_program()
        times, why = None, ""
        if profile:
            try:
                times = self._measure(args, kwargs)
            except RuntimeError as error:
                why = f"{error}."
        halves = []
        for at, program in enumerate(latest.programs):
            explanation = explain(program, (), times, at)
            halves.append((program, explanation))
            half = backward_program(program)
            if half is not None and explanation.backward is not None:
                halves.append((half, explanation.backward))
        stages = PassStages(note="The step asks for values: it is several programs, whose passes are not shown.")
        if len(latest.programs) == 1:
            stages = record_stages(self._retrace, latest.program)
        return render_step_page(halves, stages, why)

    def export(self, path: str | PathLike[str], target: str = "native") -> list[Path]:
        """Write the program that ran last as files that need neither Python nor this library; return their paths.

        Args:
            path: of the main file; the others lie beside it, with its name.
            target: "wasm32" for WebAssembly, with a JavaScript module that loads it; "native" for a library for this
                processor, with a header for C; or another processor's name: "x86-64-v2", "x86-64-v3", "x86-64-v4",
                "aarch64". Default: "native".

        Raises: RuntimeError for a step that was not called yet, or one that needs Python or NumPy in each call, which
            is told by name; ValueError for an unknown target. Nothing is written then.
        """
        from adjoint.compiler.program.export.exported_step import ExportedStep
        from adjoint.compiler.program.export.native.step_library import write_library
        from adjoint.compiler.program.export.targets import find_target
        from adjoint.compiler.program.export.wasm.step_files import write_wasm

        machine = find_target(target)
        latest = self._latest_entry()
        if self._shown_step() is not self:
            raise RuntimeError(f"the step {self.name!r} cannot be exported: {self._loops.explain()}")
        if latest is None:
            raise RuntimeError(
                f"compiled function {self.name!r} was not called yet: call it once with inputs like those to come, "
                "then export it"
            )
        if len(latest.programs) != 1:
            raise RuntimeError(
                f"the step {self.name!r} cannot be exported: Python decides in each call, by values, what it does next"
            )
        if latest.program.graph.symbols:
            raise RuntimeError(
                f"the step {self.name!r} cannot be exported: its program serves arguments of many sizes. Compile it "
                "with dynamic=False, and call it once with arguments of the size to export"
            )
        with latest.program.alone():  # no call changes weights while they are copied
            step = ExportedStep(latest.program, machine)
            return (write_wasm if machine.is_wasm else write_library)(step, Path(path))

    def _retrace(self) -> Program:
        """Return the program of the latest call, traced once more: in a copy of this process."""
        entry = self._latest_entry()
        found = ((key, s) for key, s in self._programs.items() if any(each is entry for each in s.entries))
        key, signature = next(found)
        assert entry is not None
        assert entry.example is not None
        args, kwargs, _ = entry.example.find()
        made, _ = self._trace(signature, key, args, kwargs, CallLog())
        return made.programs[0]

    def _repr_html_(self) -> str:
        from adjoint.compiler.report.step_summary import render_step

        shown = self._shown_step()
        return render_step(self.name, shown._latest_entry(), shown.recompilations, self._loops.explain())

    def _shown_step(self) -> StepReports:
        """The compiled function whose program ran last: that of the body of a loop that runs in Python, or this one."""
        region: StepReports | None = self._loops.latest if self._latest_entry() is None else None
        return self if region is None else region

    def _program(self) -> Program:
        latest = self._shown_step()._latest_entry()
        if latest is None:
            raise self._no_program()
        return latest.program

    def _no_program(self) -> RuntimeError:
        return RuntimeError(f"compiled function {self.name!r} was not called yet: there is no program to show")

    def _latest_entry(self) -> CompiledEntry | StagedEntry | None:
        raise NotImplementedError


def _refuse_program(*args: object) -> NoReturn:
    """Raise RuntimeError in place of making a program, or of doing without one."""
    raise RuntimeError("there is no program for these arguments in the present state: call the step first")
