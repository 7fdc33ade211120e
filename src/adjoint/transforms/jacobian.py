"""Whole derivatives: Jacobians by rows in reverse mode, by columns in forward mode, and Hessians."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from adjoint.core.runtime.mode import ModeScope, mode
from adjoint.core.runtime.pytree import flatten, tree_map, unflatten
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Function, Operand
from adjoint.ops.movement.movement import cat, permute, reshape, select, slice
from adjoint.transforms import argnums as given
from adjoint.transforms.grad import Argnums, pullback, pushforward
from adjoint.transforms.vmap.vmap import vmap


def jacrev(
    func: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """Return the function that computes the Jacobian of `func` in reverse mode, all rows in one pass.

    Reverse mode suits functions with fewer outputs than inputs.

    Args:
        func: function of real tensors, or of trees of them.
        argnums: index of the argument, or tuple of them for a tuple of Jacobians. Default: 0.
        has_aux: True if `func` returns (output, aux). The result is then (Jacobian, aux). Default: False.
        chunk_size: number of rows to compute at once. Default: None, all of them.

    Shapes: input (*in), output (*out) -> Jacobian (*out, *in).

    Raises: RuntimeError for complex inputs or outputs; ValueError unless `chunk_size` is positive.

    Example:
        >>> ad.func.jacrev(lambda x: x ** 2)(ad.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @wraps(func, updated=())
    def call(*args: object) -> Any:
        given.check_real("jacrev", flatten(args)[0], "inputs")
        output, pull, aux, origin = pullback(func, args, argnums, has_aux)
        outputs, structure = flatten(output)
        given.check_real("jacrev", outputs, "outputs")
        inputs, shape = flatten(given.select_args(args, argnums))

        def rows(*basis: Tensor) -> tuple[Tensor, ...]:
            return tuple(flatten(pull(unflatten(structure, iter(basis))))[0])

        with ModeScope(recording=mode.recording and origin.is_differentiated_further([*outputs])):
            parts = [
                loop_over_rows(rows, basis) if chunk_size == 1 and basis[0].shape[0] else vmap(rows)(*basis)
                for basis in unit_vector_chunks(outputs, chunk_size)
            ]
        stacked = [_join_rows(column) for column in zip(*parts, strict=True)]
        inside = [unflatten(shape, iter(blocks)) for blocks in split_rows(stacked, outputs, inputs)]
        result = unflatten(structure, iter([x[0] for x in inside] if isinstance(argnums, int) else inside))
        return (result, aux) if has_aux else result

    return call


def jacfwd(func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Function:
    """Return the function that computes the Jacobian of `func` in forward mode, all columns in one pass.

    Forward mode suits functions with fewer inputs than outputs.

    Args:
        func: function of real tensors, or of trees of them.
        argnums: index of the argument, or tuple of them for a tuple of Jacobians. Default: 0.
        has_aux: True if `func` returns (output, aux). The result is then (Jacobian, aux). Default: False.
        randomness: random numbers in the columns: "error", "same" or "different", as for `vmap`. Default: "error".

    Shapes: input (*in), output (*out) -> Jacobian (*out, *in).

    Raises: RuntimeError for complex inputs or outputs.

    Example:
        >>> ad.func.jacfwd(lambda x: x ** 2)(ad.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    @wraps(func, updated=())
    def call(*args: object) -> Any:
        given.check_real("jacfwd", flatten(args)[0], "inputs")
        inputs, shape = flatten(given.select_args(args, argnums))

        def columns(*basis: Tensor) -> Operand:
            _, slope, aux = pushforward(func, args, unflatten(shape, iter(basis)), argnums, False, has_aux)
            given.check_real("jacfwd", flatten(slope)[0], "outputs")
            return (slope, aux) if has_aux else slope

        (basis,) = unit_vector_chunks(inputs)
        result = vmap(columns, randomness=randomness)(*basis)
        result, aux = result if has_aux else (result, None)
        if has_aux:
            aux = tree_map(lambda x: select(x, axis=0, at=0), aux)
        outputs, structure = flatten(result)
        inside = [unflatten(shape, iter(split_columns(g, inputs))) for g in outputs]
        whole = unflatten(structure, iter([x[0] for x in inside] if isinstance(argnums, int) else inside))
        return (whole, aux) if has_aux else whole

    return call


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """Return the function that computes the second derivatives of `func`, forward over reverse.

    Args:
        func: function of real tensors.
        argnums: index of the argument, or tuple of them for a tuple of tuples of Hessians. Default: 0.

    Shapes: input (*in), output (*out) -> Hessian (*out, *in, *in).

    Example:
        >>> ad.func.hessian(lambda x: (x ** 3).sum())(ad.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def loop_over_rows(rows: Callable[..., tuple[object, ...]], basis: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return what `vmap(rows)(*basis)` does, one row after another."""
    results = [rows(*[select(b, axis=0, at=n) for b in basis]) for n in range(basis[0].array.shape[0])]
    columns = [[reshape(g, shape=(1, *g.array.shape)) for g in column] for column in zip(*results, strict=True)]
    return tuple(_join_rows(column) for column in columns)


def _join_rows(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else cat(*parts, axis=0)


def unit_vector_chunks(tensors: Sequence[Tensor], size: int | None = None) -> Iterator[list[Tensor]]:
    """Yield the unit vectors of all elements of the tensors together, `size` at a time: for each tensor (n, *shape)."""
    spans = _spans(tensors)
    total = spans[-1][1]
    for first in range(0, max(total, 1), size or max(total, 1)):
        n = min(size or total, total - first)  # without an element at all one chunk of no rows
        yield [
            constant(np.eye(n, stop - start, first - start, x.array.dtype).reshape(n, *x.array.shape))
            for x, (start, stop) in zip(tensors, spans, strict=True)
        ]


def split_rows(rows: Sequence[Tensor], outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[list[Tensor]]:
    """Return for each output, for each input, the Jacobian (*out, *in); `rows`: for each input (N, *in)."""
    return [
        [
            reshape(_slice_axis(g, 0, *span), shape=(*out.array.shape, *x.array.shape))
            for g, x in zip(rows, inputs, strict=True)
        ]
        for out, span in zip(outputs, _spans(outputs), strict=True)
    ]


def split_columns(columns: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return for each input the Jacobian (*out, *in) of one output; `columns`: its derivatives (N, *out)."""
    last = permute(columns, axes=(*range(1, columns.ndim), 0))
    return [
        reshape(_slice_axis(last, columns.ndim - 1, *span), shape=(*columns.array.shape[1:], *x.array.shape))
        for x, span in zip(inputs, _spans(inputs), strict=True)
    ]


def _spans(tensors: Sequence[Tensor]) -> list[tuple[int, int]]:
    """Return where each tensor's elements begin and end among those of all."""
    return list(pairwise(accumulate((x.numel() for x in tensors), initial=0)))


def _slice_axis(g: Tensor, axis: int, start: int, stop: int) -> Tensor:
    bounds = [(0, n, 1) for n in g.array.shape]
    bounds[axis] = (start, stop, 1)
    return slice(g, bounds=tuple(bounds))
