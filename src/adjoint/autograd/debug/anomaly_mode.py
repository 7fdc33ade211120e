"""Anomaly detection: the op that makes the first NaN is found while the program runs forward, or else in backward.

Every op's result is looked at, and every node's gradients; a node keeps the whole traceback of its forward call.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from adjoint.autograd.engine.error_notes import owning_node
from adjoint.autograd.engine.graph_task import UNDEFINED, GraphTask
from adjoint.autograd.engine.node_call import call_node
from adjoint.core.graph.node import OutputSlot
from adjoint.core.graph.source_location import PACKAGE, Site, user_frame, user_site
from adjoint.core.runtime.mode import ModeScope, mode, set_modes
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand

if TYPE_CHECKING:
    from adjoint.core.graph.hooks import HookableNode
    from adjoint.core.graph.node import GraphNode, Vertex

ndarray = np.ndarray

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class detect_anomaly:
    """Within the block, an op that makes a NaN out of operands without one raises RuntimeError where it is called.

    The error names the operands' ranges and where the first infinity came from. A node whose gradient has a NaN raises
    RuntimeError in backward, and whatever is raised there is preceded by a warning with the traceback of the forward
    call. `check_nan=False`: the warnings alone. Holds for this thread. It slows the program down: for debugging.
    """

    def __init__(self, check_nan: bool = True) -> None:
        warnings.warn(
            "Anomaly Detection has been enabled. It slows the program down and is meant for debugging.",
            UserWarning,
            stacklevel=2,
        )
        self.scope = ModeScope(anomaly_detector=AnomalyDetector(check_nan))

    def __enter__(self) -> None:
        self.scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.scope.__exit__(*error)


class set_detect_anomaly:
    """Switch anomaly detection on or off at once; as a context, until the end of the block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = _current_detector()
        set_modes(anomaly_detector=AnomalyDetector(check_nan) if mode else None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        set_modes(anomaly_detector=self.before)


def is_anomaly_enabled() -> bool:
    """Return whether this thread detects anomalies."""
    return _current_detector() is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether NaN counts as an anomaly: the default."""
    watcher = _current_detector()
    return watcher is None or watcher.check_nan


def _current_detector() -> AnomalyDetector | None:
    watcher = mode.anomaly_detector
    while watcher is not None and not isinstance(watcher, AnomalyDetector):
        watcher = getattr(watcher, "other", None)  # one of another kind, which passes on what it sees
    return watcher


class NamedOp(Protocol):
    """An op, or a Function, as far as messages tell of it."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...


class AnomalyDetector:
    """The value of `mode.anomaly_detector`: sees the results of ops, and runs the nodes of the walk."""

    __slots__ = ("check_nan", "first_infinity", "current_node")

    def __init__(self, check_nan: bool) -> None:
        self.check_nan = check_nan
        self.first_infinity: str | None = None
        self.current_node: GraphNode | OutputSlot | None = (
            None  # the node whose rules run: the ops called now are its own
        )

    def observe_op(self, op: NamedOp, inputs: Sequence[Operand], out: Operand) -> None:
        """See what an op, or a Function, made. Raises RuntimeError for the first NaN."""
        if not isinstance(out, Tensor) or type(out.array) is not ndarray:
            return
        if out.node is not None:
            self._attach_traceback(out.node)
        if not self.check_nan or self.current_node is not None or _is_finite(out.array):
            return
        operands = {given: value for given, value in _name_operands(op, inputs) if _is_number(value)}
        if not operands:
            return
        if np.isnan(out.array).any():
            if not any(np.isnan(_array(x)).any() for x in operands.values()):
                raise RuntimeError(self._first_nan_message(op.name, operands, out))
        elif self.first_infinity is None and all(_is_finite(_array(x)) for x in operands.values()):
            self.first_infinity = f"{op.name}, at {user_site()}, of {_ranges(operands)}"

    def _first_nan_message(self, name: str, operands: dict[str, Operand], out: Tensor) -> str:
        said = (
            f"{name} made the first NaN, at {user_site()}: {int(np.isnan(out.array).sum())} in a result of shape "
            f"{list(out.array.shape)}. Its operands have none: {_ranges(operands)}."
        )
        if self.first_infinity is not None and not all(_is_finite(_array(x)) for x in operands.values()):
            said += f" The first infinity was made by {self.first_infinity}."
        return said

    def _attach_traceback(self, node: Vertex) -> None:
        """Let the node keep the traceback of this call, and the node in whose backward it is made."""
        node = owning_node(node)
        if "traceback_" not in node.metadata:
            stack = traceback.extract_stack(user_frame(sys._getframe()))
            calls = (frame for frame in stack if not frame.filename.startswith(PACKAGE))
            node.metadata["traceback_"] = traceback.StackSummary.from_list(calls).format()
            if self.current_node is not None and self.current_node is not node:
                node.metadata["parent_"] = self.current_node

    def pull(
        self, gradients: GraphTask, node: GraphNode | OutputSlot, g: Operand, mask: Operand = None
    ) -> Sequence[Operand]:
        """Return what `call_node` does. Raises RuntimeError for a NaN in it."""
        before, self.current_node = self.current_node, node
        try:
            pulled = call_node(gradients, node, g, mask)
            if self.check_nan and type(node) is not OutputSlot:
                for i, d in enumerate(pulled):
                    if d is not UNDEFINED and _has_nan(d):
                        raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")
        except Exception:
            _warn_with_forward_trace(node)
            raise
        finally:
            self.current_node = before
        return pulled


def _warn_with_forward_trace(node: Vertex) -> None:
    """Warn with the traceback of the call that recorded the node, and of those whose backward that was part of."""
    node = owning_node(node)
    _warn(f"Error detected in {node.name()}. " + _forward_trace_text(node, "caused the error"))
    parent = node.metadata.get("parent_")
    while parent is not None:
        _warn(
            f"The previous calculation was part of the backward of {parent.name()}. "
            + _forward_trace_text(parent, "induced the previous calculation")
        )
        parent = parent.metadata.get("parent_")


def _forward_trace_text(node: HookableNode, what: str) -> str:
    lines = node.metadata.get("traceback_")
    if lines is not None:
        return f"Traceback of forward call that {what}:\n{''.join(lines)}"
    site: Site | None = getattr(node, "site", None)
    return (
        f"It was recorded at {site}. No forward pass information besides that line: enable detect anomaly during the "
        "forward pass too for the whole traceback."
    )


def _warn(message: str) -> None:
    try:
        warnings.warn(message, UserWarning, stacklevel=5)
    except UserWarning:  # the user made errors of warnings; the error that is on its way matters more
        sys.stderr.write(message + "\n")


def _name_operands(op: NamedOp, inputs: Sequence[Operand]) -> list[tuple[str, Operand]]:
    """Return the operands with their names."""
    names = op.inputs
    if len(names) != len(inputs):
        return [(f"argument {i}", value) for i, value in enumerate(inputs)]
    return list(zip(names, inputs, strict=True))


def _is_number(x: Operand) -> bool:
    array = _array(x)
    return isinstance(array, (float, complex)) or (type(array) is ndarray and array.dtype.kind in "fciub")


def _array(x: Operand) -> Operand:
    return x.array if isinstance(x, Tensor) else x


def _is_finite(array: Array) -> bool:
    return bool(np.isfinite(array).all())


def _has_nan(d: Operand) -> bool:
    array = _array(d)
    return type(array) is ndarray and array.dtype.kind in "fcV" and bool(np.isnan(array).any())


def _ranges(operands: dict[str, Operand]) -> str:
    return "; ".join(f"{name} {_range(_array(x))}" for name, x in operands.items())


def _range(x: Array) -> str:
    """Shape, smallest and largest finite value, and how many are not finite."""
    if type(x) is not ndarray:
        return f"= {x}"
    infinite = int(np.isinf(x).sum())
    finite = np.abs(x[np.isfinite(x)]) if x.dtype.kind == "c" else x[np.isfinite(x)]
    told = f"of shape {list(x.shape)}"
    if finite.size:
        what = "magnitudes " if x.dtype.kind == "c" else ""
        told += f", {what}from {finite.min():.6g} to {finite.max():.6g}"
    return told + (f", {infinite} infinite" if infinite else "")
