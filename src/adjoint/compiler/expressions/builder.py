"""Tensors that stand for expressions: within `symbolic()` ops write equations, which run when a tensor is read.

with symbolic() as graph:
    x = adjoint.tensor(2.0)
    y = x * 3
print(graph)
y.item()  # 6.0
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from adjoint.compiler.ir.graph import Constant, Graph, Source, Value, ValueOrigin
from adjoint.compiler.ir.interpreter import evaluate_equation
from adjoint.compiler.trace.tracer import Tracer
from adjoint.core.op.apply import apply
from adjoint.core.op.op import Op
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.mode import ModeScope, mode
from adjoint.core.tensor.tensor import Tensor, detach, wrap
from adjoint.core.typing import Array, Operand, Operands, Params

# Marks where a history is cut off: the same value, beyond which no gradient goes.
DETACH = Op(
    lambda x: x,
    {},
    call=apply,
    family="movement",
    spec=lambda x: Spec(x.shape, x.dtype),
    index=lambda view: view,
    linear=True,
)
DETACH.name = "detach"


@contextmanager
def symbolic() -> Iterator[Expressions]:
    """A block in which ops compute nothing: they become equations of the graph that the block is given.

    Its tensors are computed, once, when they are read: by `item()`, `numpy()`, `bool`, within the block or after it.
    Tensors from outside take part with the values they have at the end of the block. Raises RuntimeError if one of them
    was written, or got a gradient, for neither is carried out; for a custom Function, whose backward the graph would
    not know; within a compiled step.
    """
    if mode.interpreter is not None:
        raise RuntimeError("symbolic() cannot be used while a step is traced, nor within itself or vmap")
    tracer = SymbolicTracer()
    graph = tracer.expressions
    try:
        with ModeScope(interpreter=tracer):
            yield graph
        lost = tracer.find_lost_update()
    finally:
        inner = tracer.inner_gradients()
        tracer.restore()
        for tensor, g in inner:
            tensor._grad = g
        graph.import_graph(tracer, copied=True)
    if lost is not None:
        raise RuntimeError(
            f"a tensor from outside of symbolic(), of shape {list(lost.array.shape)}, was written within it, or got a "
            "gradient: that is not carried out. clone() it in the block, or use compute_gradient or autograd.grad"
        )


class Expression(Value):
    """A value of a symbolic graph: it can be computed."""

    __slots__ = ("graph",)

    def __init__(self, graph: Expressions, *fields: Any, **more: Any) -> None:
        super().__init__(*fields, **more)
        self.graph = graph

    def refuse(self, reader: str) -> Operand:
        """The array: it is read."""
        return self.graph.compute_value(self)


class Expressions(Graph):
    """A graph under construction whose values can be read; what was computed once is kept."""

    def __init__(self, name: str, tracer: Tracer) -> None:
        super().__init__(name)
        self.arrays: dict[Value, Array] = {}
        self._tracer: Tracer | None = tracer
        self._outside: dict[int, tuple[Tensor, Value]] = {}  # tensors from outside, by identity

    def input(self, spec: Operand, source: Source) -> Value:
        """A new input."""
        value = Expression(self, None, (), {}, Spec(tuple(spec.shape), spec.dtype), source=source)
        self.inputs.append(value)
        return value

    def add(self, op: Op, inputs: Operands, params: Params, spec: Spec | Value, origin: ValueOrigin | None) -> Value:
        """Append an equation."""
        value = Expression(self, op, inputs, params, spec, origin)
        self.equations.append(value)
        return value

    def import_graph(self, tracer: Tracer, copied: bool) -> None:
        """Know the arrays of the tensors from outside; `copied`: apart from these, which may change from now on."""
        for tensor, array, symbol in tracer.state:
            self.arrays[symbol] = np.array(array) if copied else array
            self._outside[id(tensor)] = (tensor, symbol)
        if copied:
            self._tracer = None

    def value_of(self, tensor: Tensor) -> Value | None:
        """Return the value that a tensor stands for in the graph; None if it has no part in it."""
        if self._tracer is not None:
            self.import_graph(self._tracer, copied=False)
        held = tensor.array
        if isinstance(held, Expression):
            return held if held.graph is self else None
        return self._outside[id(tensor)][1] if id(tensor) in self._outside else None

    def compute_value(self, value: Value) -> Array:
        """The array of a value: equation by equation on NumPy, those that lead to it and did not run yet."""
        if self._tracer is not None:
            self.import_graph(self._tracer, copied=False)
        known = self.arrays
        with ModeScope(interpreter=None, recording=False):
            for v in equations_to([value], stop=known):
                known[v] = v.source.array if isinstance(v.source, Constant) else evaluate_equation(v, known)
        return known[value]


class SymbolicTracer(Tracer):
    """Writes equations that can be read, and cuts where a history is cut off."""

    def item(self, tensor: Tensor) -> None:
        """Return None: reading a tensor computes it."""

    def __init__(self) -> None:
        super().__init__("symbolic")
        self.graph = self.expressions = Expressions("symbolic", self)

    def emit(self, op: Op, inputs: Operands, params: Params) -> Value:
        """An op call as an equation; one that nobody records is cut off."""
        value = super().emit(op, inputs, params)
        return value if mode.recording or mode.recorded_by_caller else self._detach_value(value)

    def detach_array(self, tensor: Tensor) -> Value:
        """The value, cut off from its history."""
        return self._detach_value(self.adopt(tensor))

    def replacement(self, x: Tensor, out: Tensor, called: str, since: int | None) -> Tensor:
        """Return the array for a written tensor: where nobody records, it is cut off from its history."""
        if mode.recording or mode.recorded_by_caller:
            return out
        return wrap(self._detach_value(self.adopt(out)))

    def apply_function(self, function: type, args: tuple[object, ...]) -> NoReturn:
        """Raise RuntimeError: the graph has the forward of a custom Function only."""
        raise RuntimeError(
            f"symbolic() cannot hold {function.__name__}: compute_gradient would not call its backward, which is "
            "written in Python. Write it with the library's ops, or differentiate it eagerly or in a compiled step"
        )

    def _detach_value(self, value: Value) -> Value:
        if value.op is DETACH:
            return value
        return self.graph.add(DETACH, (value,), {}, Spec(value.shape, value.dtype), value.origin)

    def find_lost_update(self) -> Tensor | None:
        """A tensor from outside that was written or got a gradient."""
        states = {id(tensor): (tensor, symbol) for tensor, _, symbol in self.state}
        written = [tensor for tensor, symbol in states.values() if tensor.array is not symbol]
        given = [t for t, before, _ in self.gradients.values() if id(t) in states and t._grad is not before]
        return next(iter(written + given), None)

    def inner_gradients(self) -> list[tuple[Tensor, Tensor | None]]:
        """The tensors of the block that a gradient was touched of, and these as they are now."""
        outside = {id(tensor) for tensor, _, _ in self.state}
        return [(t, t._grad) for t, _, _ in self.gradients.values() if id(t) not in outside]


def as_function(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Callable[..., tuple[Tensor, ...]]:
    """The function that a symbolic graph computes: from tensors in place of `inputs` to `outputs`.

    It calls the graph's ops one by one, so it can be differentiated, compiled and made symbolic again. What does not
    depend on `inputs` enters with its values. Raises ValueError for a tensor that is not symbolic.
    """
    for tensor in (*inputs, *outputs):
        if not isinstance(tensor.array, Expression):
            raise ValueError(f"as_function: a tensor of shape {list(tensor.shape)} is not one of a symbolic() block")
    holes = [tensor.array for tensor in inputs]
    results = [tensor.array for tensor in outputs]
    order = equations_to(results, stop=set(holes))
    open_ones = set(holes)
    for v in order:
        if any(x in open_ones for x in v.operands):
            open_ones.add(v)
    entering = {x for v in order if v in open_ones for x in v.operands} | set(results)
    fixed = {x: x.graph.compute_value(x) for x in entering - open_ones if isinstance(x, Expression)}
    order = [v for v in order if v in open_ones]

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        if len(tensors) != len(holes):
            raise TypeError(f"this function takes {len(holes)} tensors, but {len(tensors)} were given")
        made = {**{x: wrap(a) for x, a in fixed.items()}, **dict(zip(holes, tensors, strict=True))}
        for v in order:
            operands = tuple(made[x] if isinstance(x, Value) else x for x in v.inputs)
            made[v] = detach(operands[0]) if v.op is DETACH else apply(v.op, operands, v.params)
        return tuple(made[v] for v in results)

    return function


def equations_to(values: Sequence[Value], stop: Container[Value]) -> list[Value]:
    """The values that lead to these, operands first, but for those in `stop` and what leads to them alone."""
    order: list[Value] = []
    done: set[Value] = set()
    stack = [(value, False) for value in reversed(values)]
    while stack:
        value, ready = stack.pop()
        if ready:
            order.append(value)
        elif value not in done and value not in stop:
            done.add(value)
            stack.append((value, True))
            stack.extend((x, False) for x in value.operands)
    return order
