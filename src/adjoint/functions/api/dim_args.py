"""Normalization of dimension arguments, which may count from either end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import index

import numpy as np

from adjoint.core.tensor.size import as_size
from adjoint.core.typing import Operand, Operands, Shape

Dims = int | Sequence[int] | None
ALL_DIMS_BY_RANK = tuple(tuple(range(rank)) for rank in range(9))  # all dimensions


def one_dim(dim: int, rank: int) -> int:
    """Count `dim` from the front. Raises IndexError outside [-rank, rank)."""
    if type(dim) is int and 0 <= dim < rank:
        return dim
    bound = rank or 1  # a 0-d tensor is taken as one dimension, as PyTorch does
    if type(dim) is not int:
        dim = index(dim)
    if not -bound <= dim < bound:
        raise IndexError(f"Dimension out of range (expected to be in range of [-{bound}, {bound - 1}], but got {dim})")
    return dim % bound


def all_dims(dim: Dims, rank: int) -> tuple[int, ...]:
    """Return sorted dimensions from the front; all for None or an empty sequence. Raises RuntimeError on repeats."""
    if type(dim) is int and -rank <= dim < rank:
        return (dim % rank,)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return ALL_DIMS_BY_RANK[rank] if rank < len(ALL_DIMS_BY_RANK) else tuple(range(rank))
    return some_dims(dim, rank)


def check_keepdim(name: str, keepdim: object) -> None:
    """Raise TypeError for a number in the place of a truth, such as the second of two dimensions in `x.sum(0, 1)`."""
    if not isinstance(keepdim, (bool, np.bool_)):
        raise TypeError(f"{name}(): argument 'keepdim' (position 2) must be bool, not {type(keepdim).__name__}")


def some_dims(dim: int | Iterable[int], rank: int) -> tuple[int, ...]:
    """Return sorted dimensions from the front, none for an empty sequence. Raises RuntimeError on repeats."""
    if type(dim) is int and -rank <= dim < rank:
        return (dim % rank,)
    dims = sorted(one_dim(d, rank) for d in (dim if isinstance(dim, Iterable) else (dim,)))
    for before, after in pairwise(dims):
        if before == after:
            raise RuntimeError(f"dim {after} appears multiple times in the list of dims")
    return tuple(dims) if rank else ()


def parse_shape(shape: tuple[Operand, ...]) -> Shape:
    """Return a shape that is given as separate integers or as one sequence."""
    if len(shape) == 1 and isinstance(shape[0], tuple):
        shape = tuple(shape[0])
    for n in shape:
        if type(n) is not int:
            break
    else:
        return shape
    lone = shape[0] if len(shape) == 1 else 0
    if type(lone) is not int and isinstance(lone, Iterable) and not (hasattr(lone, "ndim") and lone.ndim == 0):
        shape = tuple(lone)
    return tuple(map(as_size, shape))


def parse_named_size(given: Operands, named: dict[str, object]) -> tuple[int, ...]:
    """Return a shape that is given one by one, as a sequence, or as `size=`, the only keyword allowed."""
    if not named:
        return parse_shape(given)
    shape = named.pop("size", None)
    if named:
        raise TypeError(f"got an unexpected keyword argument {next(iter(named))!r}")
    return parse_shape(given if shape is None else (shape,))


def per_dimension(value: int | Sequence[int], rank: int, what: str) -> tuple[int, ...]:
    """Return a setting for each of `rank` dimensions, from one number for all or one for each."""
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(values) == 1:
        values *= rank
    if len(values) != rank:
        raise RuntimeError(f"{what} must be an int or {rank} ints, got {value!r}")
    return values
