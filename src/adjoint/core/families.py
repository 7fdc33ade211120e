"""The families of ops. Each decorator turns a NumPy function with rules into a function of tensors that records itself.

The calls for one and two operands are written out: no loop, no `isinstance` chain, no `*args` (benchmarks/overhead.py
holds the cost: a recorded multiply of 16 elements in about 1 µs, of which NumPy takes a quarter).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.mode import mode, unusual
from adjoint.core.node import tick
from adjoint.core.op import INFERENCE, NO_PARAMS, Op, Rule, apply, evaluate
from adjoint.core.site import of_library, user_frame
from adjoint.core.spec import Spec, broadcast_shapes
from adjoint.core.storage import share_view
from adjoint.core.tensor import Tensor

ndarray = np.ndarray
new = object.__new__
caller = sys._getframe
BOOL = np.dtype(np.bool_)
OPERANDS = (Tensor, int, float, bool, complex, np.ndarray, np.generic)
Function = Callable[..., Any]
Declaration = Callable[[Function], Function]
FACETS = {
    "node", "effect", "composite", "promotion", "scalar", "index", "combine", "identity", "linear", "part", "blocks",
}  # fmt: skip


def _elementwise_spec(truth: bool) -> Callable[..., Spec]:
    def spec(*operands: Any) -> Spec:
        shape = operands[0].shape if len(operands) == 1 else broadcast_shapes(*[o.shape for o in operands])
        return Spec(shape, BOOL if truth else operands[0].dtype)

    return spec


def unary(*, promotion: str | None = None, truth: bool = False, scalar: Any = None, **facets: Any) -> Declaration:
    """Declare f(x), element by element. `promotion="float"`: integers become floats; `truth`: the result is bool."""
    rules, facets = _split(facets)

    def declare(function: Function) -> Function:
        op = Op(
            function, rules, family="unary", spec=_elementwise_spec(truth), promotion=promotion, scalar=scalar, **facets
        )
        differentiable = op.rules[0] is not None
        keeps_x, keeps_out = "x" in op.needs[0], "out" in op.needs[0]
        any_kind = promotion is None
        compute, kind = op.evaluate, op.kind(NO_PARAMS, None)

        def call(input: Any) -> Tensor:
            if type(input) is Tensor or isinstance(input, Tensor):
                xd, xn = input.array, input.node
            else:
                xd, xn = input, None
            if (
                type(xd) is not ndarray
                or not (any_kind or xd.dtype.kind == "f")
                or (unusual.count and mode.special)
                or (xn is not None and not differentiable)
            ):
                return apply(op, (input,), NO_PARAMS)
            try:
                data = compute(xd)
            except (RuntimeWarning, FloatingPointError):
                data = evaluate(op, (xd,), NO_PARAMS)
            if type(data) is not ndarray:
                data = np.asarray(data)
            out = new(Tensor)
            out.array = data
            out._grad = out.storage = None
            if xn is None or (unusual.count and not mode.recording):
                out.node = None
                if unusual.count and mode.inference:
                    out.storage = INFERENCE
                return out
            frame = caller(1)
            if of_library(id(frame.f_globals), True):
                frame = user_frame(frame)
            node = new(kind)
            node.op = op
            node.parents = (xn,)
            node.code = frame.f_code
            node.at = frame.f_lasti
            node.shape = data.shape
            node.dtype = data.dtype
            node.saved = (xd if keeps_x else None, data if keeps_out else None) if keeps_x or keeps_out else None
            node.params = node.shapes = node.hooks = None
            node.order = tick()
            out.node = node
            return out

        return publish(call, op)

    return declare


def binary(*, promotion: str = "common", truth: bool = False, scalar: Any = None, **facets: Any) -> Declaration:
    """Declare f(x, y), element by element, with broadcasting and promotion to a common type."""
    rules, facets = _split(facets)

    def declare(function: Function) -> Function:
        op = Op(
            function, rules, family="binary", spec=_elementwise_spec(truth), promotion=promotion, scalar=scalar,
            **facets,
        )  # fmt: skip
        (needs_dx, needs_dy), (has_dx, has_dy) = op.needs, (rule is not None for rule in op.rules)
        dx_x, dx_y, dx_out = "x" in needs_dx, "y" in needs_dx, "out" in needs_dx
        dy_x, dy_y, dy_out = "x" in needs_dy, "y" in needs_dy, "out" in needs_dy
        saves = bool(needs_dx or needs_dy)
        any_kind = promotion == "common"
        compute, kind = op.evaluate, op.kind(NO_PARAMS, None)

        def general(input: Any, other: Any) -> Tensor:
            return apply(op, (input, other), NO_PARAMS)

        def as_operator(input: Any, other: Any) -> Any:
            return general(input, other) if isinstance(other, OPERANDS) else NotImplemented

        def calling(otherwise: Function) -> Function:
            """The call; what it does not do itself is done `otherwise`."""

            def call(input: Any, other: Any) -> Tensor:
                if type(input) is Tensor or isinstance(input, Tensor):
                    xd, xn = input.array, input.node
                else:
                    xd, xn = input, None
                if type(other) is Tensor or isinstance(other, Tensor):
                    yd, yn = other.array, other.node
                else:
                    yd, yn = other, None
                # the general call promotes, traces, and complains
                if type(xd) is not ndarray or (unusual.count and mode.special):
                    return otherwise(input, other)
                if type(yd) is ndarray:
                    if xd.dtype is not yd.dtype or not (any_kind or xd.dtype.kind == "f"):
                        return otherwise(input, other)
                elif type(yd) is not float or xd.dtype.kind != "f":
                    return otherwise(input, other)
                if (xn is not None and not has_dx) or (yn is not None and not has_dy):
                    return otherwise(input, other)
                try:
                    data = compute(xd, yd)
                except (RuntimeWarning, FloatingPointError, ValueError):
                    data = evaluate(op, (xd, yd), NO_PARAMS)
                if type(data) is not ndarray:
                    data = np.asarray(data)
                out = new(Tensor)
                out.array = data
                out._grad = out.storage = None
                if (xn is None and yn is None) or (unusual.count and not mode.recording):
                    out.node = None
                    if unusual.count and mode.inference:
                        out.storage = INFERENCE
                    return out
                frame = caller(1)
                if of_library(id(frame.f_globals), True):
                    frame = user_frame(frame)
                node = new(kind)
                node.op = op
                node.parents = (xn, yn)
                node.code = frame.f_code
                node.at = frame.f_lasti
                node.shape = data.shape
                node.dtype = data.dtype
                if saves:
                    node.saved = (
                        xd if (dx_x and xn is not None) or (dy_x and yn is not None) else None,
                        yd if (dx_y and xn is not None) or (dy_y and yn is not None) else None,
                        data if (dx_out and xn is not None) or (dy_out and yn is not None) else None,
                    )
                else:
                    node.saved = None
                node.params = node.shapes = node.hooks = None
                node.order = tick()
                out.node = node
                return out

            return call

        call = calling(general)
        call.operator = calling(as_operator)  # type: ignore[attr-defined]
        return publish(call, op)

    return declare


def movement(*, spec: Callable[..., Spec], index: Any = None, view: bool = True, **facets: Any) -> Declaration:
    """Declare f(x, **params), which moves elements without computing any.

    `index` maps the loads of a fused kernel; `view`: the NumPy function returns a view where it can.
    """
    rules, facets = _split(facets)

    def declare(function: Function) -> Function:
        op = Op(function, rules, family="movement", spec=spec, index=index, linear=True, **facets)

        def call(x: Any, **params: Any) -> Tensor:
            out = apply(op, (x,), params)
            if view and isinstance(x, Tensor) and _sees(out.array, x.array):
                share_view(x, out, op, params)
            return out

        return publish(call, op)

    return declare


def _sees(result: Any, source: Any) -> bool:
    """True if `result` lies in the memory of `source`; a symbolic view is taken to."""
    if type(result) is not ndarray or result is source:
        return True
    return result.base is not None and (result.base is source or result.base is source.base)


def primitive(*, spec: Callable[..., Spec], family: str = "call", **facets: Any) -> Declaration:
    """Declare any other op: tensors by position, configuration by keyword."""
    rules, facets = _split(facets)

    def declare(function: Function) -> Function:
        op = Op(function, rules, family=family, spec=spec, **facets)
        return publish(op.public, op)

    return declare


def fused(*, composite: Function, **facets: Any) -> Declaration:
    """Declare a function with a quicker eager evaluation of its own than `composite`, which tracing sees instead."""

    def no_spec(*_: Any, **__: Any) -> Spec:
        raise AssertionError("a fused function is never traced itself")

    return primitive(spec=no_spec, family="fused", composite=composite, **facets)


def _split(facets: dict[str, Any]) -> tuple[dict[str, Rule], dict[str, Any]]:
    """The gradient rules (`dx=`, `dy=`, …) and the other facets."""
    rules = {k: v for k, v in facets.items() if k not in FACETS}
    return rules, {k: v for k, v in facets.items() if k in FACETS}


def publish(call: Function, op: Op) -> Function:
    """Give a call the identity of the function it stands for, and tie it to its op."""
    call.__name__ = call.__qualname__ = op.evaluate.__name__
    call.__doc__ = op.evaluate.__doc__
    call.__module__ = op.evaluate.__module__
    call.op = op  # type: ignore[attr-defined]
    op.public = call
    return call
