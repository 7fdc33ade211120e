"""Writing into a tensor: the second half of every op whose name ends in an underscore."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtype import DTYPES
from adjoint.core.mode import mode, unusual
from adjoint.core.node import Leaf, Node
from adjoint.core.site import user_site
from adjoint.core.storage import mark_written, storage_of
from adjoint.core.tensor import Tensor
from adjoint.core.writes import writes
from adjoint.ops.assignment import put_slice
from adjoint.ops.selection import cast

ndarray = np.ndarray


def write(x: Tensor, out: Tensor, called: str, since: int | None = None) -> Tensor:
    """Let `x` hold the values and the history of `out`, as `x.called(…)` does once it has computed `out`.

    `since`: the tick at which computing `out` from `x` began; what that computation kept of `x` is kept as a copy.
    Raises RuntimeError, and changes nothing, for a leaf that requires grad, a shape or type that `x` cannot take,
    memory that repeats elements, and (for now) memory whose views are part of the recorded graph.
    """
    recording = not unusual.count or mode.recording
    history = recording and (x.node is not None or out.node is not None)
    if history and type(x.node) is Leaf:
        raise RuntimeError(f"{called}: a leaf Variable that requires grad is being used in an in-place operation.")
    _check_fits(x, out, called)
    if history and any(t is not x and t.node is not None for t in storage_of(x).living()):
        raise RuntimeError(
            f"{called}: this tensor shares memory with another one in the recorded graph (a view, or what it is a view "
            "of); writing through views is not differentiable here yet: clone() it first, or use the op without the "
            "underscore"
        )
    if out.array.dtype != x.array.dtype:
        out = cast(out, dtype=x.array.dtype)
    if recording and x.node is not None and out.node is None:
        # x is replaced by what does not depend on it: it stays in the graph, with a gradient of zero
        out = put_slice(x, out, bounds=tuple((0, n, 1) for n in x.array.shape))
    if unusual.count and mode.tracer is not None:
        _rebind(x, out, called)
    else:
        if not x.array.flags.writeable:
            raise RuntimeError(
                f"{called}: unsupported operation: more than one element of the written-to tensor refers to a single "
                "memory location, or its memory is read-only. Please clone() the tensor before performing the "
                "operation."
            )
        if history and since is not None:
            _keep_what_goes(x, out.node, since)
        np.copyto(x.array, out.array)
    mark_written(x, user_site())
    if recording and out.node is not None:
        x.node = out.node
    return x


def _keep_what_goes(x: Tensor, made_by: Any, since: int) -> None:
    """Copies in place of the memory of `x` wherever nodes recorded since then have kept it."""
    stack, seen = [made_by], set()
    while stack:
        node = stack.pop()
        if type(node) is not Node or node.order < since or node in seen:
            continue
        seen.add(node)
        stack.extend(node.parents)
        if node.saved:
            node.saved = tuple(_copied(kept, x.array) for kept in node.saved)


def _copied(kept: Any, memory: Any) -> Any:
    return kept.copy() if type(kept) is ndarray and np.may_share_memory(kept, memory) else kept


def _check_fits(x: Tensor, out: Tensor, called: str) -> None:
    if out.array.shape != x.array.shape:
        raise RuntimeError(
            f"{called}: output with shape {list(x.array.shape)} doesn't match the broadcast shape "
            f"{list(out.array.shape)}"
        )
    have, got = DTYPES[x.array.dtype], DTYPES[out.array.dtype]
    if got.rank > have.rank:
        raise RuntimeError(f"{called}: result type {got.name} can't be cast to the desired output type {have.name}")


def _rebind(x: Tensor, out: Tensor, called: str) -> None:
    """Tracing: the tensor, and every tensor of exactly the same memory, stands for the new value from now on."""
    tracer: Any = mode.tracer
    tracer.adopt(x)
    tracer.adopt(out)
    before = x.array
    writes.record(before, user_site())
    for alias in storage_of(x).living():
        if alias is x:
            continue
        if type(alias.array) is ndarray:
            tracer.adopt(alias)
        if alias.array is before:
            alias.array = out.array
        elif alias.array is not out.array:
            tracer.refuse_write(called)
    x.array = out.array
