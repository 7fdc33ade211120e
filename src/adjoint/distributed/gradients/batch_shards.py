"""Shards of a global batch: the same bits for any number of ranks, as the same parts are added in one order.

A rank computes its shards one after another, each with aliases of the parameters. The aliases of a parameter are the
leaves of a binary tree, so that backward adds the gradients of shards pairwise, neighbours first: the lower part of the
tree in which ranks add theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from adjoint.autograd.grad_mode import is_grad_enabled
from adjoint.core.runtime import pytree
from adjoint.core.runtime.mode import has_interpreter
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.functions.shape.join import cat
from adjoint.nn.module.module import Module
from adjoint.ops import collectives as ops
from adjoint.transforms.functional_call import reparametrize_module


def count_own_shards(shards: int, ranks: int) -> int:
    """Return how many of the shards each rank computes. Raises ValueError where ranks cannot share them evenly."""
    count, rest = divmod(shards, ranks)
    if rest or count < 1 or count & (count - 1):
        raise ValueError(f"shards={shards} for {pluralize(ranks, 'rank')}: each rank computes 1, 2, 4, 8, … of them")
    return count


def call_by_shards(
    module: Module, parameters: Sequence[tuple[str, Tensor]], count: int, dim: int, args: Operands, kwargs: Operand
) -> Any:
    """Call the module on `count` equal parts of its tensors along `dim`, and join the results.

    Tensors of no dimension and whatever is no tensor are given to each part as they are. Results are joined along
    `dim`; of those without a dimension the mean is returned.

    Raises: ValueError for a tensor that cannot be divided.
    """
    leaves, structure = pytree.flatten((args, kwargs))
    cut = [[_separate(part) for part in _cut(x, count, dim)] for x in leaves]
    aliases: list[dict[str, Tensor]] = [{} for _ in range(count)]
    if is_grad_enabled():
        for name, parameter in parameters:
            for shard, alias in zip(aliases, _make_aliases(parameter, count), strict=True):
                shard[name] = _separate(alias)
    outcomes = []
    for shard, given in zip(aliases, zip(*cut, strict=True), strict=True):
        own, named = pytree.unflatten(structure, iter(given))
        with reparametrize_module(module, shard, tie_weights=True):
            outcomes.append(pytree.flatten(module(*own, **named)))
    outcomes = [([_separate(x) for x in found], made) for found, made in outcomes]
    results = [_join(parts, dim) for parts in zip(*(found for found, _ in outcomes), strict=True)]
    return pytree.unflatten(outcomes[0][1], iter(results))


def _separate(x: Operand) -> Operand:
    """In a step that is being traced, keep a shard apart: it is computed alike, whatever else is in the program."""
    if has_interpreter() and isinstance(x, Tensor):
        return cast("Tensor", ops.separate_shard(x))
    return x


def _cut(x: Operand, count: int, dim: int) -> Sequence[Operand]:
    if not isinstance(x, Tensor) or x.ndim == 0:
        return [x] * count
    size, rest = divmod(x.shape[dim], count)
    if rest:
        raise ValueError(
            f"DistributedDataParallel: this rank computes {pluralize(count, 'shard')}, and dimension {dim} of "
            f"{tuple(x.shape)} is "
            f"not divided by {count}"
        )
    return [x.narrow(dim, i * size, size) for i in range(count)]


def _make_aliases(parameter: Tensor, count: int) -> list[Tensor]:
    """Return aliases of a parameter whose gradients are added pairwise, neighbours first."""
    alias = parameter.view_as(parameter)
    if count == 1:
        return [alias]
    half = count // 2
    return [*_make_aliases(alias, half), *_make_aliases(alias, half)]


def _join(parts: Sequence[Operand], dim: int) -> Operand:
    if not isinstance(parts[0], Tensor):
        return parts[0]
    if parts[0].ndim:
        return cat(parts, dim)
    sums = list(parts)
    while len(sums) > 1:
        sums = [a + b for a, b in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0] / len(parts)
