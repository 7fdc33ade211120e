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
from adjoint.ops.movement.movement import cat, permute, reshape, select, slice
from adjoint.transforms import argnums as given
from adjoint.transforms.grad import Argnums, Function, pullback, pushforward
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
    def call(*args: Any) -> Any:
        given.check_real("jacrev", flatten(args)[0], "inputs")
        output, pull, aux, origin = pullback(func, args, argnums, has_aux)
        outputs, structure = flatten(output)
        given.check_real("jacrev", outputs, "outputs")
        inputs, shape = flatten(given.select_args(args, argnums))

        def rows(*basis: Tensor) -> tuple[Any, ...]:
            return tuple(flatten(pull(unflatten(structure, iter(basis))))[0])

        with ModeScope(recording=mode.recording and origin.is_differentiated_further([*outputs])):
            parts = [_map_basis(rows, basis, chunk_size) for basis in _basis_chunks(outputs, chunk_size)]
        stacked = [column[0] if len(column) == 1 else cat(*column, axis=0) for column in zip(*parts, strict=True)]
        found = []
        for out, (start, stop) in zip(outputs, _spans(outputs), strict=True):
            blocks = [
                reshape(_slice_axis(g, 0, start, stop), shape=(*out.array.shape, *x.array.shape))
                for g, x in zip(stacked, inputs, strict=True)
            ]
            inside = unflatten(shape, iter(blocks))
            found.append(inside[0] if isinstance(argnums, int) else inside)
        result = unflatten(structure, iter(found))
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
    def call(*args: Any) -> Any:
        given.check_real("jacfwd", flatten(args)[0], "inputs")
        inputs, shape = flatten(given.select_args(args, argnums))

        def columns(*basis: Tensor) -> Any:
            _, slope, aux = pushforward(func, args, unflatten(shape, iter(basis)), argnums, False, has_aux)
            given.check_real("jacfwd", flatten(slope)[0], "outputs")
            return (slope, aux) if has_aux else slope

        (basis,) = _basis_chunks(inputs, None)
        result = vmap(columns, randomness=randomness)(*basis)
        result, aux = result if has_aux else (result, None)
        if has_aux:
            aux = tree_map(lambda x: select(x, axis=0, at=0), aux)
        outputs, structure = flatten(result)
        found = []
        for g in outputs:  # (N, *output)
            last = permute(g, axes=(*range(1, g.ndim), 0))
            blocks = [
                reshape(_slice_axis(last, g.ndim - 1, *span), shape=(*g.array.shape[1:], *x.array.shape))
                for span, x in zip(_spans(inputs), inputs, strict=True)
            ]
            inside = unflatten(shape, iter(blocks))
            found.append(inside[0] if isinstance(argnums, int) else inside)
        whole = unflatten(structure, iter(found))
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


def _map_basis(
    rows: Callable[..., tuple[Any, ...]], basis: Sequence[Tensor], chunk_size: int | None
) -> tuple[Any, ...]:
    """`rows` of each row of the basis; one by one, if that was asked for, without `vmap`."""
    if chunk_size != 1:
        return tuple(vmap(rows)(*basis))
    found = rows(*[select(b, axis=0, at=0) for b in basis])
    return tuple(reshape(g, shape=(1, *g.array.shape)) for g in found)


def _basis_chunks(tensors: Sequence[Tensor], size: int | None) -> Iterator[list[Tensor]]:
    """The unit vectors of all elements of the tensors together, `size` at a time: for each tensor (n, *shape)."""
    spans = _spans(tensors)
    total = spans[-1][1]
    for first in range(0, max(total, 1), size or max(total, 1)):
        n = min(size or total, total - first)  # without an element at all one chunk of no rows
        yield [
            constant(np.eye(n, stop - start, first - start, x.array.dtype).reshape(n, *x.array.shape))
            for x, (start, stop) in zip(tensors, spans, strict=True)
        ]


def _spans(tensors: Sequence[Tensor]) -> list[tuple[int, int]]:
    """Where each tensor's elements begin and end among those of all."""
    return list(pairwise(accumulate((x.numel() for x in tensors), initial=0)))


def _slice_axis(g: Tensor, axis: int, start: int, stop: int) -> Tensor:
    bounds = [(0, n, 1) for n in g.array.shape]
    bounds[axis] = (start, stop, 1)
    return slice(g, bounds=tuple(bounds))
