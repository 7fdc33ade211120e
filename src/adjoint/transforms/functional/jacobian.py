"""Jacobians and Hessians: a row at a time, all rows at once, or by columns in forward mode."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Function
from adjoint.ops.movement.movement import reshape
from adjoint.transforms.functional import inputs as texts
from adjoint.transforms.functional.inputs import (
    Tensors,
    as_tuple,
    call_function,
    call_scalar_function,
    check_strict,
    compute_vjp,
    fill_missing_with_zeros,
    prepare_inputs,
    restore_structure,
)
from adjoint.transforms.grad import zeros
from adjoint.transforms.jacobian import loop_over_rows, split_columns, split_rows, unit_vector_chunks
from adjoint.transforms.vmap.vmap import vmap_dim0

TensorOrTuple = Tensor | tuple[Tensor, ...]
Blocks = list[list[Tensor]]  # for each output, for each input: ∂output/∂input, of shape (*output, *input)
STRATEGIES = ("forward-mode", "reverse-mode")


def jacobian(
    func: Function,
    inputs: TensorOrTuple,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return ∂func/∂inputs: a tensor of shape (*output, *input), or for tuples a tuple of them, outputs outside.

    "reverse-mode" takes a backward pass for each element of the outputs, or one for all with `vectorize`.
    "forward-mode" takes a direction for each element of the inputs. Reverse mode gives the dtype of the input, forward
    mode that of the output. `create_graph` and `strict` are those of `vjp`.

    Raises: RuntimeError for `strict` with `vectorize` or forward mode.
    """
    if strategy not in STRATEGIES:
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
        xs = prepare_inputs(xs, create_graph, requires_grad=not forward)
        if forward:
            blocks, outputs_several = _jacobian_by_columns(func, xs, vectorize)
        else:
            ys, outputs_several = call_function(func, xs, strict, "jacobian")
            blocks = _jacobian_by_rows(ys, xs, create_graph, strict, vectorize)
    result = tuple(restore_structure(block, several, create_graph) for block in blocks)
    return result if outputs_several else result[0]


def hessian(
    func: Function,
    inputs: TensorOrTuple,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Tensor | tuple[tuple[Tensor, ...], ...]:
    """Return ∂²func/∂inputs²: a tensor of shape (*input, *input), or for tuples a tuple of tuples of them.

    It is the Jacobian, by `outer_jacobian_strategy`, of the gradient by reverse mode. The other arguments are those of
    `jacobian`.

    Raises: RuntimeError if `func` returns anything but one tensor of one element.
    """
    several = as_tuple(inputs, "inputs", "hessian")[1]
    if outer_jacobian_strategy not in STRATEGIES:
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def gradient(*xs: Tensor) -> Tensor | tuple[Tensor, ...]:
        if outer_jacobian_strategy == "forward-mode":
            xs = tuple(x.requires_grad_() for x in xs)  # or they would be detached, and with that their tangents lost
        slopes: Tensors = jacobian(
            lambda *xs: reshape(call_scalar_function(func, xs, strict, "hessian"), shape=()), xs, create_graph=True
        )
        if strict:
            check_strict(slopes, texts.UNUSED, texts.CONSTANT_SLOPE)
        return slopes if several else slopes[0]

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def _jacobian_by_rows(ys: Tensors, xs: Tensors, create_graph: bool, strict: bool, vectorize: bool) -> Blocks:
    """Return the Jacobians of all outputs: a backward pass for each element, or one for all."""
    blocks: Blocks = []
    for i, outputs in enumerate([ys] if vectorize else [(y,) for y in ys]):
        missing = texts.UNUSED_BY_OUTPUT.replace("{output}", str(i))

        def rows(*seeds: Tensor, outputs: Tensors = outputs, missing: str = missing) -> Tensors:
            strict_texts = (missing, texts.CONSTANT_JACOBIAN) if strict else None
            retain_graph = None if vectorize else True
            products = compute_vjp(outputs, xs, seeds, create_graph, strict_texts, retain_graph)
            return fill_missing_with_zeros(products, xs)

        if any(y.numel() for y in outputs):
            (basis,) = unit_vector_chunks(outputs)
            stacked = vmap_dim0(rows, basis) if vectorize else loop_over_rows(rows, basis)
            blocks += split_rows(stacked, outputs, xs)
        else:
            blocks += [[zeros(x, y.array.shape) for x in xs] for y in outputs]
    return blocks


def _jacobian_by_columns(func: Function, xs: Tensors, vectorize: bool) -> tuple[Blocks, bool]:
    """Return the Jacobians of all outputs, and whether they are several, by derivatives along each input element."""
    from adjoint.transforms.forward.forward_ad import dual_level, make_dual, unpack_dual

    several = False

    def columns(*directions: Tensor) -> Tensors:
        nonlocal several
        with dual_level():
            duals = tuple(make_dual(x, direction) for x, direction in zip(xs, directions, strict=True))
            ys, several = call_function(func, duals, False, "jacobian")
            parts = [unpack_dual(y) for y in ys]
            return tuple(zeros(primal) if tangent is None else tangent for primal, tangent in parts)

    (basis,) = unit_vector_chunks(xs)
    stacked = vmap_dim0(columns, basis) if vectorize else loop_over_rows(columns, basis)
    return [split_columns(g, xs) for g in stacked], several


def _construct_standard_basis_for(tensors: Sequence[Tensor], tensor_numels: Sequence[int]) -> Tensors:
    """Return the identity matrix of all elements of the tensors, cut into columns: for each, (N, numel)."""
    total = sum(tensor_numels)
    ends = accumulate(tensor_numels)
    return tuple(
        constant(np.eye(total, count, k=count - end, dtype=x.array.dtype))
        for x, count, end in zip(tensors, tensor_numels, ends, strict=True)
    )
