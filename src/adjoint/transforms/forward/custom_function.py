"""Forward mode through a Function: the tangents of its outputs, as its `jvp` has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from adjoint.autograd.function.context import Context
from adjoint.autograd.function.node import BackwardCFunction
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.storage import view_of
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Operand, Operands
from adjoint.ops.elementwise.select import copy


def function_tangents(
    node: BackwardCFunction,
    args: tuple[object, ...],
    returned: Operands,
    outputs: Operands,
    dirty: tuple[object, ...],
    tangents: Sequence[Tensor | None],
    around: ModeScope,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Each output that gets a tangent, with that, from those of the arguments. The user's `jvp` runs within `around`.

    `returned`: what `forward` itself returned. Raises RuntimeError where `jvp` returns another number of tangents, one
    for what has none, or one that does not share memory as its output does: of an input written in place the same
    tangent, written; of a view a view.
    """
    versions = [0 if t is None else t._version for t in tangents]
    with around:
        pushed = _call_jvp(node, args, tangents, len(outputs))
    for i, (given, out, t) in enumerate(zip(returned, outputs, pushed, strict=True)):
        if not isinstance(out, Tensor) or i in node.no_grad_outputs:
            if t is not None and isinstance(out, Tensor):
                raise RuntimeError(
                    f"Function's jvp returned a gradient at position {i}, but  the corresponding forward output is "
                    "not a differentiable Tensor. You should return None at that position instead."
                )
            continue
        place = next((j for j, a in enumerate(args) if a is given), None)
        if place is not None and any(given is d for d in dirty) and tangents[place] is not None:
            _check_written(t, tangents[place], versions[place])
            continue
        if t is None:
            continue
        if t.array.shape != out.array.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this "
                f"is not supported. Tensor is of size {list(out.array.shape)} while the given forward gradient is "
                f"of size {list(t.array.shape)}. (The jvp of {node._forward_cls.__name__}.)"
            )
        if view_of(out) is not None:
            _check_view(out, t, args, tangents)
        elif any(g is not None and _base(g) is _base(t) for g in tangents):
            t = copy(t)  # the input and the output may go different ways from here
        yield out, t


def _call_jvp(
    node: BackwardCFunction, args: tuple[object, ...], tangents: Sequence[Tensor | None], wanted: int
) -> tuple[Tensor | None, ...]:
    """Return the result of the user's jvp: for each output a tangent, or None."""
    materialize = node.context.attributes.get("materialize_grads", True)
    given = [
        constant(np.zeros(a.array.shape, a.array.dtype))
        if t is None and materialize and isinstance(a, Tensor) and a.array.dtype.kind in "fcV"
        else t
        for a, t in zip(args, tangents, strict=True)
    ]
    result = node._forward_cls.jvp(Context(node), *given)
    pushed = result if isinstance(result, tuple) else (result,)
    if len(pushed) != wanted:
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {wanted} but got {len(pushed)})"
        )
    for i, t in enumerate(pushed):
        if t is not None and not isinstance(t, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(t).__name__}) for grad output {i}.")
    return pushed


def _check_written(t: Operand, given: object, version: int) -> None:
    if t is None or t._version == version:
        raise RuntimeError(
            "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
            "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
        )
    if t is not given:
        raise RuntimeError(
            "An inplace custom Function is not returning the forward mode gradients as-is. If the forward is modifying "
            "an input inplace, then the jvp function must modify the gradient inplace and return it as-is."
        )


def _check_view(out: Tensor, pushed: Tensor, args: tuple[object, ...], tangents: Sequence[Tensor | None]) -> None:
    """Check that a view of an input with a tangent has a view of that tangent for its own."""
    view = view_of(out)
    assert view is not None
    pairs = zip(args, tangents, strict=True)
    source = next((t for a, t in pairs if isinstance(a, Tensor) and _base(a) is view.base), None)
    if source is None:
        return
    seen = view_of(pushed)
    if seen is None:
        raise RuntimeError(
            "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
        )
    if seen.base is not _base(source):
        of = "the given grad input" if view_of(source) is None else "the same base as the given grad input"
        raise RuntimeError(f"A custom Function is returning a view but the jvp is not returning a view of {of}.")


def _base(x: Tensor) -> Tensor:
    view = view_of(x)
    return x if view is None else view.base
