"""Batching rules: an op for all examples of a batch at once, by family or by op, and a loop where there is none.

A rule takes operands that have the batch in front, or are the same for all examples. Its result has the batch in front.
Rules that fill a file of their own register themselves; the package imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjoint.core.op.op import Op, op_of
from adjoint.core.op.spec import Spec
from adjoint.core.tensor.as_strided import memory_span
from adjoint.core.tensor.storage import ViewStep
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Operand, Params
from adjoint.ops.indexing import indexing, scatter, sort
from adjoint.ops.linalg import inverse_det_solve, lstsq, matmul, triangular
from adjoint.ops.movement import as_strided, memory_format, movement, sliding_windows
from adjoint.ops.movement.movement import cat, expand, permute, reshape, select
from adjoint.ops.mutation import view_update
from adjoint.ops.reduction import reduction, scan


class BatchOperand(NamedTuple):
    """An input of an op: a tensor, an array, a number or None. `batched`: its first dimension is the batch."""

    value: Operand
    batched: bool


BatchOperands = Sequence[BatchOperand]
Rule = Callable[[Op, BatchOperands, dict[str, Any], int], Tensor]
FamilyRule = Callable[[Op, BatchOperands, dict[str, Any], int, str], tuple[Tensor, bool]]
FAMILY_RULES: dict[str, FamilyRule] = {}  # how a whole family is done, whatever is batched


def apply_batching_rule(
    op: Op, operands: BatchOperands, params: Params, size: int, randomness: str
) -> tuple[Tensor, bool]:
    """Return the op's result, and whether its first dimension is the batch, of `size` examples."""
    family_rule = FAMILY_RULES.get(op.family)
    if family_rule is not None:
        return family_rule(op, operands, params, size, randomness)
    if not any(operand.batched for operand in operands):
        return op.public(*[operand.value for operand in operands], **params), False
    if op.family == "check":
        return _check_rule(op, operands, params), False
    rule = find_rule(op) if size else loop_fallback
    return rule(op, operands, params, size), True


def find_rule(op: Op) -> Rule:
    """Return the batching rule of an op."""
    if op in DIM_SHIFTING_OPS or op.batch_leading:
        return shift_dims
    if op.family in ("unary", "binary", "elementwise"):
        return broadcast
    return RULES.get(op, loop_fallback)


def register_rule(*functions: object) -> Callable[[Rule], Rule]:
    """Return a decorator which makes a rule that of the functions' ops."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(_ops(*functions), rule))
        return rule

    return register


def register_family_rule(family: str) -> Callable[[FamilyRule], FamilyRule]:
    """Return a decorator which makes a rule that of all ops of a family: it is told of the randomness too."""

    def register(rule: FamilyRule) -> FamilyRule:
        FAMILY_RULES[family] = rule
        return rule

    return register


def loop_fallback(op: Op, operands: BatchOperands, params: Params, size: int) -> Tensor:
    """Apply an op without a rule to each example, and stack the results."""
    if size:
        return stack_rows([op.public(*take_example(operands, i), **params) for i in range(size)])
    arrays = [getattr(o.value, "array", o.value) for o in operands]
    specs = [
        None if a is None else Spec(example_shape(o), a.dtype if hasattr(a, "dtype") else np.dtype(type(a)))
        for o, a in zip(operands, arrays, strict=True)
    ]
    spec = op.spec(*specs, **params)
    return constant(np.zeros((0, *spec.shape), spec.dtype))


def example_shape(operand: BatchOperand) -> tuple[int, ...]:
    """Return the shape of one example."""
    shape = tuple(getattr(operand.value, "shape", ()))
    return shape[1:] if operand.batched else shape


def pad_example_rank(operand: BatchOperand, rank: int) -> Operand:
    """Return the operand with examples of `rank` dimensions, the first ones of size 1, so that batches meet batches."""
    shape = example_shape(operand)
    if not operand.batched or len(shape) >= rank:
        return operand.value
    return reshape(operand.value, shape=(operand.value.shape[0], *(1,) * (rank - len(shape)), *shape))


def batch_to_front(operand: BatchOperand, size: int) -> Operand:
    """Return the operand with the batch in front, repeated where all examples share it. Numbers and None stay."""
    if operand.batched or not hasattr(operand.value, "shape"):
        return operand.value
    shape = tuple(operand.value.shape)
    return expand(reshape(operand.value, shape=(1, *shape)), shape=(size, *shape))


def move_dim(x: Tensor, source: int, target: int) -> Tensor:
    """Return `x` with dimension `source` at `target`."""
    if source == target:
        return x
    axes = [d for d in range(x.ndim) if d != source]
    axes.insert(target, source)
    return permute(x, axes=tuple(axes))


def stack_rows(rows: Sequence[Tensor]) -> Tensor:
    """Return tensors of one shape along a new first dimension."""
    return cat(*[reshape(row, shape=(1, *row.array.shape)) for row in rows], axis=0)


def take_example(operands: BatchOperands, i: int) -> list[Operand]:
    """Return the operands of the i-th example."""
    return [select(o.value, axis=0, at=i) if o.batched else o.value for o in operands]


def broadcast(op: Op, operands: BatchOperands, params: Params, size: int) -> Tensor:
    """Elements, or matrices, of an example meet those of the same example, whatever their leading dimensions."""
    rank = max(len(example_shape(o)) for o in operands)
    out: Tensor = op.public(*[pad_example_rank(o, rank) for o in operands], **params)
    return out


ParameterShifts = dict[str, Callable[[Any, int], Any]]
PARAMETER_SHIFTS: ParameterShifts = {
    "axis": lambda axis, _: axis + 1,
    "dimension": lambda dimension, _: dimension + 1,
    "axes": lambda axes, _: tuple(axis + 1 for axis in axes),
    "shape": lambda shape, size: (size, *shape),
    "bounds": lambda bounds, size: ((0, size, 1), *bounds),
    "widths": lambda widths, _: ((0, 0), *widths),
}


_DIAGONAL_SHIFTS: ParameterShifts = {"at": lambda at, _: (at[0], at[1] + 1, at[2] + 1)}
PARAMETER_SHIFTS_BY_OP: dict[Op, ParameterShifts] = {  # of ops to which a name means something else
    op_of(movement.permute): {"axes": lambda axes, _: (0, *(axis + 1 for axis in axes))},
    op_of(memory_format.copy_in_order): {
        "order": lambda order, _: (0, *(d + 1 for d in order)),
        "back": lambda back, _: (0, *(d + 1 for d in back)) if back else (),
    },
    op_of(as_strided.diagonal): _DIAGONAL_SHIFTS,
    op_of(as_strided.diagonal_back): _DIAGONAL_SHIFTS,
}


def shift_params(op: Op, params: Params, size: int) -> dict[str, Any]:
    """Parameters that name dimensions, when there is one more in front."""
    changes = PARAMETER_SHIFTS | PARAMETER_SHIFTS_BY_OP.get(op, {})
    return {name: changes[name](p, size) if name in changes else p for name, p in params.items()}


def shift_dims(op: Op, operands: BatchOperands, params: Params, size: int) -> Tensor:
    """Apply a movement: the dimensions of the example are those behind the batch."""
    arrays = [batch_to_front(o, size) for o in operands]
    shifted = shift_params(op, params, size)
    if "axis" not in params:
        return op.public(*arrays, **shifted)
    # A source without dimensions is for all positions; an example without dimensions has one position along its axis.
    rank = max(len(a.shape) for a in arrays if hasattr(a, "shape"))
    whole = max(rank, 2)
    arrays = [
        reshape(a, shape=(a.shape[0], *(1,) * (whole - len(a.shape)), *a.shape[1:]))
        if hasattr(a, "shape") and len(a.shape) < whole
        else a
        for a in arrays
    ]
    if rank == 1 and "shape" in params:
        shifted["shape"] = (size, 1)
    out: Tensor = op.public(*arrays, **shifted)
    return reshape(out, shape=(size,)) if rank == 1 and len(out.shape) == 2 else out


def _mm_rule(op: Op, operands: BatchOperands, params: Params, size: int) -> Tensor:
    """x[b] y[b]; with one matrix y for all, the rows of all x[b] are those of one matrix."""
    x, y = operands
    n, k = example_shape(x)
    if not y.batched and n * size:
        rows = matmul.mm(reshape(x.value, shape=(size * n, k)), y.value)
        return reshape(rows, shape=(size, n, y.value.shape[1]))
    return matmul.bmm(x.value, y.value)


def _put_slice_rule(op: Op, operands: BatchOperands, params: Params, size: int) -> Tensor:
    x, value = operands
    whole = batch_to_front(x, size)
    bounds = ((0, size, 1), *params["bounds"])
    return view_update.put_slice(whole, pad_example_rank(value, len(example_shape(x))), bounds=bounds)


def _put_view_rule(op: Op, operands: BatchOperands, params: Params, size: int) -> Tensor:
    """Apply the steps of a view to all examples, if each step has a rule."""
    x, value = operands
    steps = params["steps"]
    if any(step.op not in DIM_SHIFTING_OPS for step in steps):
        for step in steps:
            if step.op is op_of(as_strided.as_strided) and not as_strided.sees_only(step.before, **step.params):
                raise RuntimeError(
                    "vmap: an in-place op writes through as_strided() into memory between the elements of an example, "
                    "which belongs to others: clone() the tensor first"
                )
        return loop_fallback(op, operands, params, size)
    along = tuple(
        ViewStep(step.op, shift_params(step.op, step.params, size), (size, *step.before), (size, *step.after))
        for step in steps
    )
    return view_update.put_view(batch_to_front(x, size), pad_example_rank(value, len(steps[-1].after)), steps=along)


def _as_strided_rule(op: Op, operands: BatchOperands, params: Params, size: int) -> Tensor:
    """View the memory of all examples, where it lies as that of the first was said to."""
    whole = operands[0].value
    strides, first = geometry = as_strided.geometry_of(whole)
    if (strides[1:], first) != params["geometry"]:
        return loop_fallback(op, operands, params, size)
    inside, along = (size, *params["size"]), (strides[0], *params["stride"])
    start = first if params["storage_offset"] is None else params["storage_offset"]
    if memory_span(inside, along, start) > as_strided.storage_size(whole):
        raise RuntimeError(
            f"as_strided: sizes {list(inside[1:])}, strides {list(along[1:])} and storage offset {start} can access "
            f"memory outside of the batch, for the last of its {size} examples"
        )
    return op.public(whole, size=inside, stride=along, storage_offset=start, geometry=geometry)


def _check_rule(op: Op, operands: BatchOperands, params: Params) -> Tensor:
    """Apply an effect: its condition must hold for all examples."""
    holds, subject = operands
    every = holds.value
    if holds.batched:
        every = reduction.all(every, axes=tuple(range(len(every.shape))), keepdims=False)
    return op.public(every, subject.value, **params)


def _ops(*functions: Any) -> list[Op]:
    return [function.op for function in functions]


DIM_SHIFTING_OPS = frozenset(
    _ops(
        movement.reshape, movement.permute, movement.flip, movement.slice, movement.unslice, movement.select,
        movement.pad, movement.cat, reduction.sum, reduction.mean, reduction.max, reduction.min, reduction.prod,
        reduction.any, reduction.all, reduction.xor, reduction.argmax, reduction.argmin, reduction.cumsum,
        indexing.gather, indexing.scatter_add, indexing.argsort, sort.leading, sort.median_index,
        sort.index_at_rank,
        scan.cumprod, scan.logcumsumexp, scan.where_extreme, scatter.scatter, scatter.scatter_reduce,
        as_strided.diagonal, as_strided.diagonal_back, as_strided.unfold, as_strided.unfold_back,
        sliding_windows.windows, sliding_windows.fold,
        view_update.replace_content, memory_format.copy_in_order,
    )
)  # fmt: skip
RULES: dict[Op, Rule] = {
    op_of(movement.expand): lambda op, operands, params, size: expand(
        pad_example_rank(operands[0], len(params["shape"])), shape=(size, *params["shape"])
    ),
    op_of(matmul.mm): _mm_rule,
    op_of(matmul.bmm): broadcast,
    op_of(inverse_det_solve.solve): broadcast,
    op_of(lstsq.lstsq): broadcast,
    op_of(triangular.solve_triangular): broadcast,
    op_of(view_update.put_slice): _put_slice_rule,
    op_of(view_update.put_view): _put_view_rule,
    op_of(as_strided.as_strided): _as_strided_rule,
}
