"""What every call of an op does: evaluate, wrap, record."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import FLOATING, default
from adjoint.core.graph.node import Node, Saved, tick
from adjoint.core.graph.not_implemented import Undifferentiable
from adjoint.core.graph.source_location import user_place
from adjoint.core.op import bfloat16
from adjoint.core.op.evaluation import compute, evaluate, promoted
from adjoint.core.op.op import Op
from adjoint.core.op.op_errors import FAULTS, again
from adjoint.core.op.recorder import make
from adjoint.core.runtime.mode import Scope, mode, unrecorded, unusual
from adjoint.core.tensor.external_aliases import apart, exposed
from adjoint.core.tensor.meta import any_absent
from adjoint.core.tensor.shape_tracer import without
from adjoint.core.tensor.storage import InferenceLeaf, is_inference
from adjoint.core.tensor.tensor import Tensor, restored, wrap

ndarray = np.ndarray
NO_PARAMS: dict[str, Any] = {}
new = object.__new__


def apply(op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
    """The general call: any number of inputs (tensors, arrays, numbers, None), promotion, tracing, recording."""
    if unusual.count or default.narrow:
        return _apply_in_modes(op, inputs, params)
    given, recorded = [], False
    for x in inputs:  # a loop, twice as fast as a comprehension in Python 3.11
        known = isinstance(x, Tensor)
        given.append(x.array if known else x)
        recorded = recorded or (known and x.node is not None)
    arrays = tuple(given)
    operands = arrays if op.promotion is None else promoted(op, arrays)
    if op.native is None:
        try:
            data = op.evaluate(*operands, **params)  # as `evaluate` does it, which would be one more call
        except FAULTS as error:
            data = again(op, operands, params, error)
        if type(data) is not ndarray:
            data = np.asarray(data)
    else:
        data = compute(op, operands, params)
    out = new(Tensor)
    out.array = data
    out.node = out._grad = out.memory = None
    if recorded:
        _record(op, inputs, arrays, params, out)
    return out


def computed(op: Op, inputs: tuple[Any, ...], params: dict[str, Any], data: Any) -> Tensor:
    """What a call of the op gives in default modes where its result has been found already."""
    out = wrap(data)
    for x in inputs:
        if isinstance(x, Tensor) and x.node is not None:
            arrays = tuple([x.array if isinstance(x, Tensor) else x for x in inputs])
            _record(op, inputs, arrays, params, out)
            break
    return out


def _apply_in_modes(op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
    """The same where this thread or another has left the default modes, or where arrays may be bfloat16."""
    modes = mode.__dict__ if unusual.count else None  # this thread's: 13 ns against 33 for one attribute of it
    special = modes is not None and modes["special"]
    if special and mode.duals is not None:
        pushed = mode.duals.call(op, inputs, params)
        if pushed is not None:
            return pushed
    if default.narrow:
        op = bfloat16.in_float32(op, inputs)
    tracer = mode.tracer if special else None
    if tracer is None and unusual.absent and any_absent(inputs):
        return without(_apply_in_modes, op, inputs, params)
    if tracer is not None:
        if op.composite is None:
            data = tracer.emit(op, inputs, params)
            if data is None:  # it leaves to NumPy what it need not see
                with Scope(tracer=None, recording=False):
                    data = apply(op, inputs, params).array
        elif (op.family == "fused" or op is op.wide) and mode.recording:
            with unrecorded():
                data = _composed(op, inputs, params, tracer).array
        else:
            return _composed(op, inputs, params, tracer)
        arrays = tracer.symbols(inputs)
    else:
        arrays = tuple([x.array if isinstance(x, Tensor) else x for x in inputs])
        operands = arrays if op.promotion is None else promoted(op, arrays)
        data = evaluate(op, operands, params) if op.native is None else compute(op, operands, params)
    out = wrap(data)
    if modes is not None and tracer is None and modes["cut"] is not None:
        out._cut = modes["cut"]
        out.memory = modes["cut"].memory
    if modes is None or modes["recording"]:
        _record(op, inputs, arrays, params, out)
    if special and mode.watcher is not None:
        mode.watcher.look(op, inputs, out)
    return out


def _composed(op: Op, inputs: tuple[Any, ...], params: dict[str, Any], tracer: Any) -> Tensor:
    """What a traced op is made of."""
    assert op.composite is not None
    composed: Tensor = op.composite(*inputs, **params)
    if not op.keeps_order and (op.family == "fused" or op.native is not None) and hasattr(tracer, "composed"):
        tracer.composed(composed)
    return composed


def _record(op: Op, inputs: tuple[Any, ...], arrays: tuple[Any, ...], params: dict[str, Any], out: Tensor) -> None:
    """Give `out` its node."""
    found = []
    for x in inputs:
        found.append(x.node if isinstance(x, Tensor) else None)  # noqa: PERF401  a comprehension takes twice the time
    nodes = tuple(found)
    if unusual.count and mode.floor >= 0:
        nodes = tuple([None if n is None or n.order < mode.floor else n for n in nodes])
    if not any(nodes):
        return
    mixed = unusual.inferred and not mode.transformed and not all(nodes) and any(is_inference(x) for x in inputs)
    if mixed:
        nodes = tuple(x.memory.leaf if n is None and _is_leaf(x) else n for x, n in zip(inputs, nodes, strict=True))
    data = out.array
    if data.dtype.kind not in FLOATING:
        return
    parents = nodes
    for i in op.unruled:
        if op.variadic or nodes[i] is not None:
            parents = _refusing(op, nodes, arrays)
            break
    saved = None
    if op.saves:
        keeps = op.kept(tuple(map(bool, parents)))
        if keeps is not None:
            if mixed and any(kept and is_inference(x) for kept, x in zip(keeps, inputs, strict=False)):
                raise RuntimeError(NOT_SAVED)
            saved = _kept(keeps, inputs, arrays, data)
    shapes = tuple([getattr(a, "shape", ()) for a in arrays]) if op.kept_shapes else None
    make.note(out, op, parents, params, shapes, saved)
    if saved is not None and unusual.count and mode.packers:
        node: Any = out.node
        node.saved = _packed(node, inputs)


NOT_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `no_grad()` instead of `inference_mode()`."
)


def _refusing(op: Op, nodes: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([
        n if n is None or op.rule(i) is not None else Undifferentiable(op, n, arrays[i]) for i, n in enumerate(nodes)
    ])  # fmt: skip


def _is_leaf(x: Any) -> bool:
    return isinstance(x, Tensor) and type(x.memory) is InferenceLeaf


def bare_node(
    op: Op,
    parents: tuple[Any, ...],
    params: dict[str, Any],
    shapes: tuple[tuple[int, ...], ...] | None,
    like: Any,
    shape: tuple[int, ...] | None = None,
) -> Any:
    """A node of an op whose rules need no values, recorded without evaluating; None if no parent wants a gradient.

    Its output has the type of `like`, and its shape unless one is given.
    """
    if not any(parents):
        return None
    node = Node()  # 49 ns, where `object.__new__(Node)` takes 75
    node.op, node.parents, node.params, node.shapes = op, parents, params, shapes
    node.shape, node.dtype = like.shape if shape is None else shape, like.dtype
    node.code, node.at = user_place(2)
    node.saved = node.hooks = None
    node.order = tick()
    return node


def _kept(keeps: tuple[bool, ...], inputs: tuple[Any, ...], arrays: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    kept = []
    for keep, a, given in zip(keeps, arrays, inputs):  # noqa: B905  the last of `keeps` is for `data`
        if not keep:
            a = None
        elif a is given and type(a) is ndarray:
            a = a.copy()  # the user's, who may write it
        kept.append(a)
    kept.append(data if keeps[-1] else None)
    return tuple([apart(a) for a in kept] if exposed else kept)


def _packed(node: Node, inputs: tuple[Any, ...]) -> Saved:
    """What is kept, handed to the innermost hooks that pack saved values."""
    packer = mode.packers[-1]
    tensors = [*inputs, None]
    return Saved(
        packer.pack(restored(kept, maker) if not isinstance(given, Tensor) else given)
        if type(kept) is ndarray
        else kept
        for kept, given, maker in zip(node.saved, tensors, (*node.parents, None), strict=True)
    )
