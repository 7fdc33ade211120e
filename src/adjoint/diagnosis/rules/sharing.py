"""Rules on what was made twice: weights that shall be shared, and functions that are compiled again and again."""

from __future__ import annotations

import numpy as np

from adjoint.core.graph.source_location import definition_site
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import OptimizerStep, caller_place
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.rule import WatchRule

MANY_COMPILATIONS = 5


class LostSharing(WatchRule):
    """Two parameters of different layers with the same values: a copy where one weight was to be shared."""

    def before_step(self, step: OptimizerStep) -> None:
        if self.facts.steps:
            return
        for root in self.facts.names.models():
            found: dict[tuple[int, ...], list[tuple[str, Operand, type]]] = {}
            for path, part in root.module.named_modules():
                for name, p in part._parameters.items():
                    if p is not None and p.array.ndim >= 2 and p.array.size >= 4 and type(p.array) is np.ndarray:
                        full = ".".join(filter(None, (root.name, path, name)))
                        found.setdefault(tuple(p.shape), []).append((full, p, type(part)))
            for same in found.values():
                self._compare(same)

    def _compare(self, same: list[tuple[str, Operand, type]]) -> None:
        for i, (first, p, kind) in enumerate(same):
            for second, q, other in same[i + 1 :]:
                if p is q or kind is other or np.ptp(p.array) == 0 or not np.array_equal(p.array, q.array):
                    continue
                self.report(
                    "weight-sharing-lost",
                    self.facts.names.origin_of_parameter(q),
                    second,
                    f"{second} {tuple(q.shape)} has the values of {first}, but is another parameter: from the first "
                    "step on they differ",
                    f"assign the parameter itself: {second} = {first}",
                    tuple(q.shape),
                )


class Recompilations(WatchRule):
    """A function that is compiled in each step."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.made: dict[Operand, tuple[int, Place]] = {}
        self.compiled: dict[int, Operand] = {}

    def function_is_compiled(self, compiled: Operand, function: Operand, *args: object, **kwargs: object) -> None:
        """See `compile(function)`."""
        code = getattr(function, "__code__", None)
        if code is not None:
            count, place = self.made.get(code, (0, caller_place()))
            self.made[code] = count + 1, place

    def compiled_is_called(self, compiled: Operand, *args: object, **kwargs: object) -> None:
        """See a call of a compiled function."""
        self.compiled[id(compiled)] = compiled

    def finish(self) -> None:
        for code, (count, place) in self.made.items():
            if count >= MANY_COMPILATIONS and count >= self.facts.steps // 2:
                self.report(
                    "recompilation",
                    place,
                    code.co_name,
                    f"{code.co_name} is compiled anew {count} times: each call of compile() gives another function",
                    "call compile() once, before the loop",
                    count,
                )
        for compiled in self.compiled.values():
            if compiled.compilations >= MANY_COMPILATIONS:
                code = getattr(compiled.function, "__code__", None)
                why = "; ".join(map(str, compiled.recompilations[-1].changes)) or "other shapes"
                self.report(
                    "recompilation",
                    None if code is None else place_of_code(code),
                    compiled.name,
                    f"{compiled.name} was compiled {compiled.compilations} times; the last time since: {why}",
                    "pass what changes as a tensor argument, and keep the shapes",
                    compiled.compilations,
                )


def place_of_code(code: Operand) -> Place:
    """Return the first line of a function."""
    return Place(definition_site(code))
