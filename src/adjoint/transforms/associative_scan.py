"""Scans with any associative function: what stands before each place, joined with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from adjoint.core.runtime.pytree import flatten, unflatten
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.shape.flip_roll import flip
from adjoint.functions.shape.join import cat
from adjoint.transforms.vmap.vmap import vmap

Tree = TypeVar("Tree")  # of tensors
COMBINE_MODES = "pointwise", "generic"


def associative_scan(
    combine_fn: Callable[[Tree, Tree], Tree], xs: Tree, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Tree:
    """y[0] = x[0], y[i] = combine_fn(y[i - 1], x[i]) along `dim`, of tensors or a tree of them, in log₂ n calls.

    `combine_fn` sees slices without `dim`. Raises ValueError for what is no such tree, dimension or mode.
    """
    if combine_mode not in COMBINE_MODES:
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, structure = flatten(xs)
    if not leaves or not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise ValueError("associative_scan: xs must be a tensor or a tree of tensors")
    dim = dim if dim >= 0 else dim + leaves[0].dim()
    if len({leaf.shape[dim] for leaf in leaves}) > 1:
        raise ValueError("associative_scan: all tensors must have the same size along dim")
    combine = vmap(combine_fn, in_dims=dim, out_dims=dim)

    def join_slices(before: list[Tensor], after: list[Tensor]) -> list[Tensor]:
        return flatten(combine(unflatten(structure, iter(before)), unflatten(structure, iter(after))))[0]

    done = _scan(join_slices, [flip(leaf, dim) for leaf in leaves] if reverse else leaves, dim)
    return unflatten(structure, iter([flip(leaf, dim) for leaf in done] if reverse else done))


def _scan(
    join_slices: Callable[[list[Tensor], list[Tensor]], list[Tensor]], xs: list[Tensor], dim: int
) -> list[Tensor]:
    """Each place joined with the one that is 1, then 2, then 4, ... before it."""
    step, size = 1, xs[0].shape[dim]
    while step < size:
        before = [x.narrow(dim, 0, size - step) for x in xs]
        after = [x.narrow(dim, step, size - step) for x in xs]
        xs = [cat([x.narrow(dim, 0, step), new], dim) for x, new in zip(xs, join_slices(before, after), strict=True)]
        step *= 2
    return xs
