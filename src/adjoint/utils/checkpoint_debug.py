"""Log of the ops of a checkpointed function in both calls, for comparison."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from adjoint.core.graph.source_location import user_site
from adjoint.core.op.spec import describe
from adjoint.core.runtime.mode import ModeScope, mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operands
from adjoint.utils.checkpoint_frames import CheckpointError


class Comparison:
    """Log of the ops of both calls; `first` and `again` are contexts for them."""

    def __init__(self) -> None:
        self.of_first: list[str] = []
        self.of_again: list[str] = []

    def first(self) -> AbstractContextManager[None]:
        """Return a context that logs ops of the first call."""
        return _LoggingBlock(self.of_first)

    def again(self) -> AbstractContextManager[None]:
        """Return a context that logs ops of the second call."""
        return _LoggingBlock(self.of_again)

    def explain(self, error: CheckpointError) -> CheckpointError:
        """Return the error with the ops of both calls before its text."""
        return CheckpointError(
            "Operations executed during the original forward:\n\n"
            + "\n".join(self.of_first)
            + "\n\nOperations executed during recomputation:\n\n"
            + "\n".join(self.of_again)
            + "\n\nERROR: Detected non-determinism while running activation checkpointing.\n"
            "You are seeing this error because you passed `debug=True` to checkpoint and the tensors to be saved "
            "during the original forward differ from those saved during recomputation. Look for the first op above "
            f"that differs.\n\n{error}"
        )


class _LoggingBlock:
    """Context that logs ops; it may be entered many times, for several backward passes."""

    __slots__ = ("lines", "scopes")

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.scopes: list[ModeScope] = []

    def __enter__(self) -> None:
        self.lines.clear()
        scope = ModeScope(anomaly_detector=_OpLogger(self.lines, mode.anomaly_detector))
        self.scopes.append(scope)
        scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.scopes.pop().__exit__(*error)


class _OpLogger:
    """Watcher that writes a line for each op, and then calls the watcher that was there before."""

    __slots__ = ("lines", "other")

    def __init__(self, lines: list[str], other: Any) -> None:
        self.lines = lines
        self.other = other

    def observe_op(self, op: Any, inputs: Operands, out: Tensor) -> None:
        operands = ", ".join(describe(x.array) if isinstance(x, Tensor) else repr(x) for x in inputs)
        self.lines.append(f"{describe(out.array)} = {op.name}({operands})  at {user_site()}")
        if self.other is not None:
            self.other.observe_op(op, inputs, out)
