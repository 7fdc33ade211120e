"""Whole Jacobians and Hessians, a row at a time, all rows at once, or by columns in forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.ops.movement import movement
from adjoint.transforms.functional import inputs as complaint
from adjoint.transforms.functional.inputs import (
    OUTPUTS,
    Tensors,
    as_tuple,
    compute_batched_vjp,
    compute_vjp,
    prepare_inputs,
    restore_structure,
    stack_tensors,
    zeros,
)

TensorOrTuple = Tensor | tuple[Tensor, ...]
Blocks = list[Tensors]  # for each output, for each input: ∂output/∂input, of shape (*output, *input)


def jacobian(
    func: Callable[..., Any],
    inputs: TensorOrTuple,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """∂func/∂inputs: a tensor of shape (*output, *input), or for tuples a tuple of them, outputs outside.

    "reverse-mode" takes a backward pass for each element of the outputs, `vectorize` all of them as one batch;
    "forward-mode" takes a direction for each element of the inputs. Reverse mode gives the dtype of the input, forward
    mode that of the output. `create_graph` and `strict` as for `vjp`; RuntimeError for `strict` with `vectorize` or
    forward mode.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    forward = strategy == "forward-mode"
    if strict and (forward or vectorize):
        refused, instead = "vectorize=True", "vectorize=False"
        if forward:
            refused, instead = 'strategy="forward-mode"', 'strategy="reverse-mode"'
        raise RuntimeError(
            f"adjoint.autograd.functional.jacobian: `strict=True` and `{refused}` are not supported together. "
            f"Please either set `strict=False` or `{instead}`."
        )
    xs, several = as_tuple(inputs, "inputs", "jacobian")
    forward = forward and any(x.numel() for x in xs)  # without an element there is no direction
    with enable_grad():
        xs = prepare_inputs(xs, create_graph, wanted=not forward)
        if forward:
            blocks, outputs_several = _jacobian_by_columns(func, xs, vectorize)
        else:
            ys, outputs_several = as_tuple(func(*xs), OUTPUTS, "jacobian")
            if strict:
                complaint.check_strict(ys, complaint.NO_HISTORY, complaint.NO_HISTORY)
            if vectorize:
                blocks = _jacobian_batched(ys, xs, create_graph)
            else:
                blocks = [_jacobian_by_rows(i, y, xs, create_graph, strict) for i, y in enumerate(ys)]
    result = tuple(restore_structure(block, several, create_graph) for block in blocks)
    return result if outputs_several else result[0]


def hessian(
    func: Callable[..., Any],
    inputs: TensorOrTuple,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """∂²func/∂inputs²: a tensor of shape (*input, *input), or for tuples a tuple of tuples of them.

    The Jacobian, by `outer_jacobian_strategy`, of the gradient by reverse mode; the other arguments and errors are
    those of `jacobian`. RuntimeError if `func` returns anything but one tensor of one element.
    """
    several = as_tuple(inputs, "inputs", "hessian")[1]
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def value(*xs: Tensor) -> Tensor:
        ys, outputs_several = as_tuple(func(*xs), OUTPUTS, "hessian")
        if strict:
            complaint.check_strict(ys, complaint.NO_HISTORY, complaint.NO_HISTORY)
        if outputs_several:
            raise RuntimeError("The function given to hessian should return a single Tensor")
        if ys[0].numel() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        return movement.reshape(ys[0], shape=())

    def gradient(*xs: Tensor) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            xs = tuple(x.requires_grad_() for x in xs)  # or they would be detached, and with that their tangents lost
        slopes: Tensors = jacobian(value, xs, create_graph=True)
        if strict:
            complaint.check_strict(slopes, complaint.UNUSED, complaint.CONSTANT_SLOPE)
        return slopes if several else slopes[0]

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def _jacobian_by_rows(i: int, y: Tensor, xs: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """The Jacobians of the i-th output, y: one backward pass for each element."""
    rows: list[Tensors] = []
    for place in np.ndindex(*y.array.shape):
        unit = np.zeros(y.array.shape, y.array.dtype)
        unit[place] = 1
        found = compute_vjp((y,), xs, (constant(unit),), create_graph, retain_graph=True)
        if strict:
            missing = complaint.UNUSED_BY_OUTPUT.replace("{output}", str(i))
            complaint.check_strict(found, missing, complaint.CONSTANT_JACOBIAN if create_graph else None)
        rows.append(tuple(zeros(x) if g is None else g for g, x in zip(found, xs, strict=True)))
    if not rows:
        return tuple(zeros(x, y.array.shape) for x in xs)
    columns = zip(*rows, strict=True)
    return tuple(_block(stack_tensors(column), y.array.shape, x) for column, x in zip(columns, xs, strict=True))


def _jacobian_batched(ys: Tensors, xs: Tensors, create_graph: bool) -> Blocks:
    """The Jacobians of all outputs: one backward pass, whose gradients have a leading dimension, the row."""
    if not any(y.numel() for y in ys):
        return [tuple(zeros(x, y.array.shape) for x in xs) for y in ys]
    weights = _unit_basis(ys)  # one row for each element of all outputs
    found = compute_batched_vjp(ys, xs, weights, create_graph)
    rows = [zeros(x, weights[0].array.shape[:1]) if g is None else g for g, x in zip(found, xs, strict=True)]
    return [
        tuple(_block(_slice_axis(g, 0, *span), y.array.shape, x) for g, x in zip(rows, xs, strict=True))
        for y, span in zip(ys, _spans(ys), strict=True)
    ]


def _jacobian_by_columns(func: Any, xs: Tensors, vectorize: bool) -> tuple[Blocks, bool]:
    """The Jacobians of all outputs, and whether they are several: the derivative along each element of the inputs."""
    from adjoint.transforms.forward.forward_ad import dual_level, make_dual, unpack_dual

    structure: list[Any] = []  # of the outputs, known when the function has run

    def along(*directions: Tensor) -> Tensors:
        with dual_level():
            duals = [make_dual(x, direction) for x, direction in zip(xs, directions, strict=True)]
            ys, several = as_tuple(func(*duals), OUTPUTS, "jacobian")
            parts = [unpack_dual(y) for y in ys]
            structure[:] = [several, [tuple(primal.shape) for primal, _ in parts]]
            return tuple(zeros(primal) if tangent is None else tangent for primal, tangent in parts)

    columns = _map_rows(along, _unit_basis(xs), vectorize)
    several, shapes = structure
    blocks = []
    for g, shape in zip(columns, shapes, strict=True):  # g: (N, *y)
        rows = movement.permute(g, axes=(*range(1, g.ndim), 0))  # (*y, N)
        parts = [_slice_axis(rows, len(shape), *span) for span in _spans(xs)]
        blocks.append(tuple(_block(part, shape, x) for part, x in zip(parts, xs, strict=True)))
    return blocks, several


def _map_rows(along: Callable[..., Tensors], basis: Tensors, vectorize: bool) -> Tensors:
    """`along` of each row of the basis, the results stacked."""
    if vectorize:
        from adjoint.transforms.vmap.vmap import vmap_dim0

        return vmap_dim0(along, basis)
    results = [along(*[movement.select(b, axis=0, at=n) for b in basis]) for n in range(basis[0].array.shape[0])]
    return tuple(stack_tensors(column) for column in zip(*results, strict=True))


def _construct_standard_basis_for(tensors: Sequence[Tensor], tensor_numels: Sequence[int]) -> Tensors:
    """The identity matrix of all elements of the tensors, cut into columns: for each, (N, numel) of its dtype."""
    total = sum(tensor_numels)
    ends = accumulate(tensor_numels)
    return tuple(
        constant(np.eye(total, count, k=count - end, dtype=x.array.dtype))
        for x, count, end in zip(tensors, tensor_numels, ends, strict=True)
    )


def _unit_basis(tensors: Tensors) -> Tensors:
    """The unit vectors of all elements of the tensors together: for each tensor (N, *shape)."""
    flat = _construct_standard_basis_for(tensors, [x.numel() for x in tensors])
    return tuple(
        movement.reshape(b, shape=(b.array.shape[0], *x.array.shape)) for b, x in zip(flat, tensors, strict=True)
    )


def _spans(tensors: Tensors) -> list[tuple[int, int]]:
    """Where each tensor's elements begin and end among those of all."""
    ends = list(accumulate(x.numel() for x in tensors))
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _slice_axis(g: Tensor, axis: int, start: int, stop: int) -> Tensor:
    bounds = [(0, n, 1) for n in g.array.shape]
    bounds[axis] = (start, stop, 1)
    return movement.slice(g, bounds=tuple(bounds))


def _block(elements: Tensor, shape: tuple[int, ...], x: Tensor) -> Tensor:
    return movement.reshape(elements, shape=(*shape, *x.array.shape))
