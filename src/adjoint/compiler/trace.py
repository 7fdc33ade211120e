"""Running a step once on symbols: what it computes becomes a graph, what it touches becomes state.

A tensor met for the first time gives its array to the trace and holds a symbolic value until the trace ends; then all
tensors are put back as they were, whether or not the trace succeeded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.compiler.graph import Argument, Constant, Graph, Origin, Setting, State, TraceError, Value
from adjoint.core.mode import Scope
from adjoint.core.node import tick
from adjoint.core.op import explained, target_dtype
from adjoint.core.site import user_site
from adjoint.core.spec import Spec
from adjoint.core.tensor import Tensor, wrap
from adjoint.ops.selection import cast

ndarray = np.ndarray
CAST = cast.op  # type: ignore[attr-defined]


class Watch:
    """A fact about Python state on which the trace relied."""

    __slots__ = ("contents", "expected", "held", "probe", "settled", "subject", "what")

    def __init__(
        self,
        subject: Any,
        probe: Callable[[Any], Any],
        what: str,
        settled: bool = False,
        contents: Callable[[Any], list[Any]] | None = None,
    ) -> None:
        self.subject = subject
        self.probe = probe
        self.what = what
        self.settled = settled
        self.contents = contents
        self.settle()

    def settle(self) -> None:
        """Expect the fact as it is now."""
        self.expected = self.probe(self.subject)
        self.held = self.contents(self.subject) if self.contents is not None else None

    def holds(self) -> bool:
        """True while the fact is as it was; a version that moved is looked through."""
        now = self.probe(self.subject)
        if now == self.expected:
            return True
        if self.contents is None or not _same(self.contents(self.subject), self.held):
            return False
        self.expected = now
        return True


PLAIN = (bool, int, float, str, type(None))


def _same(now: Any, before: Any) -> bool:
    """True if both lists hold the same objects; numbers and strings by value."""
    return len(now) == len(before) and all(
        a is b or (type(a) is type(b) and isinstance(a, PLAIN) and a == b) for a, b in zip(now, before, strict=True)
    )


class Tracer:
    """Takes the place of NumPy for one thread while a step is traced."""

    def __init__(self, name: str) -> None:
        self.graph = Graph(name)
        self.watches: list[Watch] = []
        self.state: list[tuple[Tensor, Any, Value]] = []  # tensor, its array before, its symbol
        self.gradients: dict[int, tuple[Tensor, Tensor | None, str]] = {}  # first access: tensor, .grad before, kind
        self._symbols: dict[int, tuple[Any, Value]] = {}  # by the array's identity, the array kept alive
        self._settings: dict[tuple[int, Any], Tensor] = {}
        self._locations: dict[int, tuple[Tensor, Any]] = {}
        self._modules: list[str] = []
        self._ticks: list[int] = []
        self._origins: list[Origin] = []
        self._following: Origin | None = None

    def trace(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the step with this tracer in charge of the thread; its result, in symbols."""
        with Scope(tracer=self):
            return function(*args, **kwargs)

    def bind_argument(self, tensor: Tensor, index: int, name: str) -> None:
        """Make the tensor stand for the n-th argument; one given twice stands for the first."""
        if type(tensor.array) is ndarray:
            self._take(tensor, Argument(index, name))

    def emit(self, op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> Value:
        """An op call as an equation; operands are brought to the op's common type by equations of their own."""
        operands = tuple(self._operand(op, x) for x in inputs)
        target = target_dtype(op, operands)
        if target is not None:
            operands = tuple(self._converted(x, target) for x in operands)
        specs = [
            x if isinstance(x, Value) else Spec((), target or getattr(given, "dtype", None) or np.dtype(type(x)))
            for x, given in zip(operands, inputs, strict=True)
            if x is not None
        ]
        try:
            spec = op.spec(*specs, **params)
        except (ValueError, TypeError, IndexError) as error:
            raise explained(op, tuple(_stand_in(x) for x in operands), error) from error
        return self.graph.add(op, operands, params, spec, self._origin())

    def _operand(self, op: Any, x: Any) -> Any:
        if isinstance(x, Tensor):
            return self.adopt(x)
        if isinstance(x, ndarray):
            literal = x.ndim == 0 and op.family in ("unary", "binary", "elementwise")
            return x.item() if literal else self.graph.constant(x)
        return x.item() if isinstance(x, np.generic) else x

    def _converted(self, x: Any, target: np.dtype[Any]) -> Any:
        if isinstance(x, Value) and x.dtype != target:
            return self.graph.add(CAST, (x,), {"dtype": target}, Spec(x.shape, target), self._origin())
        return x

    def constant(self, array: Any) -> Value:
        """An array which the step made from Python data."""
        return self.graph.constant(array)

    def adopt(self, tensor: Tensor) -> Value:
        """The tensor's symbol; on first sight its memory becomes state of the step."""
        if type(tensor.array) is ndarray:
            _, location = self._locations.get(id(tensor), (tensor, None))
            self._take(tensor, State(location or (lambda: tensor), ""))
        symbol: Value = tensor.array
        return symbol

    def _take(self, tensor: Tensor, source: Any) -> None:
        array = tensor.array
        known = self._symbols.get(id(array))
        symbol = known[1] if known is not None else self.graph.input(array, source)
        self._symbols[id(array)] = (array, symbol)
        self.state.append((tensor, array, symbol))
        tensor.array = symbol

    def symbols(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """What an op's node keeps of its inputs: the symbols of tensors."""
        return tuple(self.adopt(x) if isinstance(x, Tensor) else x for x in inputs)

    def detached(self, tensor: Tensor) -> Value:
        """The symbol: it has no history."""
        return self.adopt(tensor)

    def replacement(self, x: Tensor, out: Tensor, called: str, since: int | None) -> Tensor:
        """`out`, as it is: all memory belongs to the step."""
        return out

    def read_setting(self, holder: Any, key: Any) -> Any:
        """A Python number of `holder` as a 0-d float64 input of the step."""
        path = key if isinstance(key, tuple) else (key,)
        known = self._settings.get((id(holder), path))
        if known is not None:
            return known
        setting = Setting(holder, path, ".".join(map(str, path)))
        value = setting.read()
        if isinstance(value, (Tensor, bool)) or not isinstance(value, (int, float)):
            return value
        tensor = wrap(self.graph.input(np.empty((), np.float64), setting))
        self._settings[id(holder), path] = tensor
        return tensor

    def watch(self, subject: Any, probe: Callable[[Any], Any], what: str, settled: bool, contents: Any) -> None:
        """Retrace when `probe(subject)` changes from what it is now, or, if `settled`, at the end of the trace."""
        self.watches.append(Watch(subject, probe, what, settled, contents))

    def touch_gradient(self, tensor: Tensor, kind: str) -> None:
        """`.grad` of a tensor is about to be read ("read") or replaced ("write")."""
        if id(tensor) in self.gradients:
            return
        before = tensor._grad
        self.gradients[id(tensor)] = (tensor, before, kind)
        if kind == "read" and before is not None and type(before.array) is ndarray:
            self._locations[id(before)] = (before, lambda: tensor._grad)

    def refuse_write(self, called: str) -> None:
        """Raise TraceError: an in-place op reached memory that other, differently shaped tensors see."""
        raise TraceError(
            f"{called} writes to memory that a view shares, at {user_site()}; a compiled step cannot do that yet: "
            "clone() the tensor first"
        )

    def enter_module(self, name: str) -> None:
        """Ops belong to this module until `leave_module`."""
        self._modules.append(name)

    def leave_module(self) -> None:
        """Back to the module around."""
        self._modules.pop()

    def follow(self, node: Any) -> None:
        """Equations belong to the gradient of this node until told otherwise; None ends it."""
        if node is None or not self._ticks:
            self._following = None
            return
        at = bisect_left(self._ticks, getattr(node, "order", 0)) - 1
        forward = self._origins[max(at, 0)]
        self._following = forward._replace(backward=True)

    def _origin(self) -> Origin:
        if self._following is not None:
            return self._following
        origin = Origin(user_site(), ".".join(self._modules), False)
        self._ticks.append(tick())
        self._origins.append(origin)
        return origin

    def restore(self) -> None:
        """Give every tensor its own array and gradient back."""
        for tensor, array, _ in self.state:
            tensor.array = array
        for tensor, before, _ in self.gradients.values():
            tensor._grad = before


def _stand_in(x: Any) -> Any:
    """Something with the operand's shape and type, for an error message."""
    return np.broadcast_to(np.zeros((), x.dtype), x.shape) if isinstance(x, Value) else x


__all__ = ["Constant", "TraceError", "Tracer", "Watch"]
