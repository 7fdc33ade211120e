"""`vmap`: a function of one example becomes one of a batch, without a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, NamedTuple

from adjoint.core.random.generator import default_generator
from adjoint.core.runtime.pytree import Structure, broadcast_prefix, flatten, unflatten
from adjoint.core.tensor.sparse_array import is_sparse
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand
from adjoint.ops.movement.movement import cat, slice
from adjoint.transforms.vmap.batched_tensor import BatchedArray
from adjoint.transforms.vmap.batching_rules import move_dim
from adjoint.transforms.vmap.custom_function import FunctionVmapLevel
from adjoint.transforms.vmap.random import RANDOMNESS_MODES


class VmapCall(NamedTuple):
    """A function, the structure of its arguments, which dimension of each is mapped, and where those of results go."""

    func: Function
    name: str
    structure: Structure
    dims: list[int | None]
    out_dims: Any
    randomness: str


def vmap(
    func: Function, in_dims: object = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Function:
    """Return `func` mapped over a dimension of its tensors, all examples in one call.

    In the call, each tensor stands for one example and lacks the mapped dimension.

    Args:
        func: function of tensors, or of trees of tensors.
        in_dims: mapped dimension: one integer for all arguments, or a tree like the positional arguments. None marks an
            input that is the same for all examples. Default: 0.
        out_dims: place of the mapped dimension in each result. Default: 0.
        randomness: random numbers in `func`: "error" refuses them, "different" draws for each example, "same" draws
            once. Default: "error".
        chunk_size: number of examples to compute at once. Default: None, all of them.

    Raises: ValueError where dimensions, sizes or structures do not fit; RuntimeError where `func` reads values, as in
    `item`.

    Example:
        >>> dots = ad.func.vmap(ad.dot, in_dims=(0, None))
        >>> dots(ad.tensor([[1.0, 2.0], [3.0, 4.0]]), ad.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    if randomness not in RANDOMNESS_MODES:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @wraps(func, updated=())
    def call_vmapped(*args: object, **kwargs: object) -> Any:
        name = function_name(func)
        check_out_dims(name, out_dims)
        leaves, structure, dims, size = _check_inputs(name, in_dims, args)
        step = chunk_size or max(size, 1)
        mapping = VmapCall(func, name, structure, dims, out_dims, randomness)
        starts = range(0, max(size, 1), step)
        drawn = default_generator.get_state() if randomness == "same" and len(starts) > 1 else None
        chunks = []
        for start in starts:
            if drawn is not None:
                default_generator.set_state(drawn)  # the same for all examples, so for all chunks
            chunks.append(_call_at_level(mapping, _slice_chunk(leaves, dims, start, min(start + step, size)), kwargs))
        return chunks[0] if len(chunks) == 1 else _join_chunks(chunks, out_dims)

    return call_vmapped


def function_name(func: Function) -> str:
    """Return the name of a function in messages."""
    if hasattr(func, "__name__"):
        return str(func.__name__)
    return f"functools.partial({function_name(func.func)}, ...)" if isinstance(func, partial) else repr(func)


def vmap_dim0(func: Callable[..., Sequence[Tensor | None]], tensors: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """Return `func` of the examples along dimension 0 of the tensors, stacked there; None is passed through."""
    size = next(t.array.shape[0] for t in tensors if t is not None)
    level = FunctionVmapLevel(size, "never")
    with level.inside():
        results = func(*[None if t is None else level.enter(t) for t in tensors])
    return tuple(None if t is None else level.unwrap_tensor(t) for t in results)


def _check_inputs(
    name: str, in_dims: object, args: tuple[object, ...]
) -> tuple[list[Any], Structure, list[int | None], int]:
    """Return the leaves of the arguments, their structure, the dimension of each that is mapped, and its size."""
    called = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{called}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, structure = flatten(args)
    dims = broadcast_prefix(in_dims, structure)
    if dims is None:
        raise ValueError(
            f"{called}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{flatten(in_dims)[1]} but inputs has structure {structure}."
        )
    dims = [_check_in_dim(called, dim, leaf) for dim, leaf in zip(dims, leaves, strict=True)]
    sizes = [leaf.array.shape[dim] for dim, leaf in zip(dims, leaves, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return leaves, structure, dims, sizes[0]


def _check_in_dim(called: str, dim: float | None, leaf: Operand) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{called}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
        )
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{called}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
            "non-Tensor arguments, please use None as the respective in_dim"
        )
    if is_sparse(leaf):
        raise NotImplementedError(
            f"{called}: sparse tensors are not mapped over; map over their values, and make the tensors in the function"
        )
    rank = leaf.ndim
    if not -rank <= dim < rank:
        raise ValueError(
            f"{called}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {rank} so "
            f"expected in_dim to satisfy -{rank} <= in_dim < {rank}."
        )
    return dim % rank


def check_out_dims(name: str, out_dims: float | tuple[int | None, ...]) -> None:
    """Raise ValueError unless `out_dims` is a tree of integers and None."""
    if any(not isinstance(dim, (int, type(None))) for dim in flatten(out_dims)[0]):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )


def _slice_chunk(leaves: list[Operand], dims: list[int | None], start: int, stop: int) -> list[Operand]:
    """Return the examples from `start` to `stop`."""
    parts = []
    for leaf, dim in zip(leaves, dims, strict=True):
        if dim is not None and stop - start != leaf.array.shape[dim]:
            bounds = tuple((start, stop, 1) if d == dim else (0, n, 1) for d, n in enumerate(leaf.array.shape))
            leaf = slice(leaf, bounds=bounds)
        parts.append(leaf)
    return parts


def _call_at_level(mapping: VmapCall, leaves: list[Operand], kwargs: dict[str, object]) -> Any:
    """Call the function at a new level, with each leaf mapped over its dimension."""
    dims = mapping.dims
    size = next(leaf.array.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None)
    level = FunctionVmapLevel(size, mapping.randomness)
    physical = [leaf if dim is None else move_dim(leaf, dim, 0) for leaf, dim in zip(leaves, dims, strict=True)]
    with level.inside():
        examples = [p if dim is None else level.enter(p) for p, dim in zip(physical, dims, strict=True)]
        before = [x.array if isinstance(x, Tensor) else None for x in examples]
        result = mapping.func(*unflatten(mapping.structure, iter(examples)), **kwargs)
    for example, was, whole, dim in zip(examples, before, physical, dims, strict=True):
        if dim is not None and example.array is not was:  # it was written in place
            whole.copy_(level.unwrap_tensor(example))
    return _unwrap_outputs(level, mapping.name, mapping.out_dims, result)


def _unwrap_outputs(
    level: FunctionVmapLevel, name: str, out_dims: int | tuple[int | None, ...], result: Operand
) -> Any:
    leaves, structure = flatten(result)
    dims = broadcast_prefix(out_dims, structure)
    if structure.kind is None and isinstance(out_dims, tuple) and len(out_dims) == 1:
        dims = list(out_dims)
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`. out_dims has structure {flatten(out_dims)[1]} but outputs has structure {structure}."
        )
    return unflatten(
        structure, iter([_unwrap_output(level, name, x, dim) for x, dim in zip(leaves, dims, strict=True)])
    )


def _unwrap_output(level: FunctionVmapLevel, name: str, x: Operand, dim: int | None) -> Operand:
    if dim is None:
        value, several = level.physical(x)
        if several:
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return value
    if not isinstance(x, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. Did you mean to set out_dims= "
            "to None for output?"
        )
    if is_sparse(x):
        sparse: Any = x
        out = sparse.stack_examples(*map(level.unwrap_tensor, sparse.all_tensors()))
    else:
        out = level.unwrap_tensor(x)
    rank = out.ndim
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim}): out_dims of "
            f"vmap({name}, ...)"
        )
    dim %= rank
    if is_sparse(out):
        return out.permute(*range(1, dim + 1), 0, *range(dim + 1, rank))
    return move_dim(out, 0, dim)


def _join_chunks(chunks: list[object], out_dims: Any) -> Tensor | tuple[Tensor, Tensor]:
    """Return the results of the chunks, one after another along the dimension of the batch."""
    columns = zip(*(flatten(chunk)[0] for chunk in chunks), strict=True)
    structure = flatten(chunks[0])[1]
    dims = (
        list(out_dims)
        if structure.kind is None and isinstance(out_dims, tuple)
        else broadcast_prefix(out_dims, structure)
    )
    assert dims is not None
    return unflatten(
        structure,
        iter([c[0] if dim is None else cat(*c, axis=dim % c[0].ndim) for c, dim in zip(columns, dims, strict=True)]),
    )


__all__ = ["BatchedArray", "vmap"]
