"""Calls of a compiled function that has a loop which grows: Python runs the loop, and its body is compiled apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from adjoint.compiler.log import LOGGED, log
from adjoint.core.runtime.lazy_import import importing
from adjoint.core.typing import Function, Operand, Operands

if TYPE_CHECKING:
    from adjoint.compiler.program.eager_step import StepWrapper
    from adjoint.compiler.scripts.loop_outline import LoopOutline
    from adjoint.compiler.scripts.outlined_loop import OutlinedFunction
    from adjoint.compiler.trace.signature import SignatureKey


class OutlinedCalls:
    """The calls of a compiled function once a trace has met a loop that grows, in the same modes.

    `are_watched`: whether traces are to look for such loops: not where sizes are no symbols (`dynamic` is False), nor
    where the body of one could not be compiled apart, so that it is unrolled.
    """

    def __init__(
        self, function: Function, name: str, compile_region: Callable[[Function], StepWrapper], are_watched: bool
    ) -> None:
        self._function, self._name, self._compile_region = function, name, compile_region
        self.are_watched = are_watched
        self.outlined: OutlinedFunction | None = None
        self._modes: Operands = ()

    def take(self, key: SignatureKey, outline: LoopOutline) -> bool:
        """Let calls run so from now on that are in the modes of this one; False if there is no such function."""
        with importing():
            from adjoint.compiler.scripts.outlined_loop import OutlinedFunction
        outlined = OutlinedFunction(self._function, outline, self._compile_region)
        if outlined.find() is None:
            self.are_watched = False
            return False
        self.outlined, self._modes = outlined, key[3:]
        if "trace" in LOGGED:
            log("trace", f"{self._name}: {outline}")
        return True

    def serves(self, key: SignatureKey) -> bool:
        """True for a call that has no program of its own, and runs so."""
        return self.outlined is not None and key[3:] == self._modes

    def run(self, args: Operands, kwargs: Mapping[str, Operand]) -> Operand:
        """The result of a call. If the body could not be compiled, the next call is traced as one program."""
        outlined = self.outlined
        assert outlined is not None
        function = outlined.find() or self._function
        try:
            return function(*args, **kwargs)
        finally:
            if outlined.has_failed:
                self.outlined, self.are_watched = None, False

    def explain(self) -> str:
        """A sentence on what became of the loop; an empty text if there is none."""
        return str(self.outlined.outline) if self.outlined is not None else ""

    @property
    def latest(self) -> Operand:
        """The compiled function of the body, where one is there."""
        return self.outlined.main_region if self.outlined is not None else None

    @property
    def compilations(self) -> int:
        """The number of times that the body was compiled."""
        return self.outlined.compilations if self.outlined is not None else 0
