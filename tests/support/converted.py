"""What PyTorch's functions are given, in our tensors: the same numbers, in memory that lies and is shared as theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")


class Sample(NamedTuple):
    """What a function is given; `process` leaves of its results what they are determined to."""

    input: Any
    args: tuple[Any, ...]
    named: dict[str, Any]
    process: Callable[[Any], Any]


class Other(Exception):
    """The sample asks for what this library does not have: another layout, device or element type."""


def ours(x: Any, memories: dict[int, Any] | None = None) -> Any:
    """The same arguments with our tensors, types and generators. Raises `Other` where there is nothing like them.

    Tensors that share memory do so here, in `memories`, and one tensor stays one.
    """
    memories = {} if memories is None else memories
    if isinstance(x, torch.Tensor):
        if ~id(x) not in memories:  # addresses are not negative
            memories[~id(x)] = (_tensor(x, memories), x)
        return memories[~id(x)][0]
    if isinstance(x, torch.dtype):
        return looked_up(str(x).removeprefix("torch.")) or _raise()
    if isinstance(x, torch.device):
        return "cpu"
    if isinstance(x, torch.layout | torch.memory_format):
        return getattr(ad, str(x).removeprefix("torch."), None) or _raise()
    if isinstance(x, torch.nn.Module):
        return getattr(ad.nn, type(x).__name__)()
    if callable(x) and getattr(x, "__module__", "") == "torch.nn.functional":
        return getattr(ad.nn.functional, x.__name__)
    if callable(x) and not isinstance(x, type):
        raise Other
    if isinstance(x, torch.Generator):
        return ad.Generator().manual_seed(x.initial_seed())
    if isinstance(x, Sample):
        return x._replace(input=ours(x.input, memories), args=ours(x.args, memories), named=ours(x.named, memories))
    if isinstance(x, tuple):
        return tuple(ours(y, memories) for y in x)
    if isinstance(x, list):
        return [ours(y, memories) for y in x]
    if isinstance(x, dict):
        return {key: ours(y, memories) for key, y in x.items()}
    return x


def _tensor(x: Any, memories: dict[int, Any]) -> Any:
    kind = str(x.dtype).removeprefix("torch.")
    if x.layout != torch.strided or x.device.type != "cpu" or kind not in ad.core.dtype.dtype.__dict__ | {"bool": 0}:
        raise Other
    if x.ndim > 64:  # NumPy's limit
        raise Other
    dtype, source = looked_up(kind), x.detach().resolve_conj().resolve_neg()
    address, size = source.untyped_storage().data_ptr(), source.untyped_storage().nbytes() // x.element_size()
    if not x.numel() and not size:
        made = ad.zeros(tuple(x.shape), dtype=dtype)
    else:
        if address not in memories:  # with its source, so that no other comes to lie there
            flat = ad.from_numpy(elements(source.as_strided((size,), (1,), 0)).copy()).to(dtype)
            memories[address] = (flat, source)
        made = memories[address][0]
        if made.dtype is not dtype:
            raise Other
        made = made.as_strided(tuple(x.shape), source.stride(), source.storage_offset()).detach()
    return made.requires_grad_() if x.requires_grad else made


def elements(x: Any) -> Any:
    """The elements of a tensor of either library, or a number, as an array; bfloat16 as float32."""
    if isinstance(x, torch.Tensor):
        x = x.detach().resolve_conj().resolve_neg()
        return (x.float() if x.dtype == torch.bfloat16 else x).numpy(force=True)
    if isinstance(x, ad.Tensor):
        return (x.detach().float() if x.dtype.name == "bfloat16" else x.detach()).numpy(force=True)
    return np.asarray(x)


def tensors(x: Any) -> list[Any]:
    """All tensors and numbers of a result, in order."""
    if isinstance(x, torch.Tensor | ad.Tensor | float | complex):
        return [x]
    if isinstance(x, list | tuple):
        return [z for y in x for z in tensors(y)]
    return [z for y in x.values() for z in tensors(y)] if isinstance(x, dict) else []


def each(x: Any, change: Callable[[Any], Any]) -> Any:
    """`x` with every tensor in it changed."""
    if isinstance(x, Sample):
        return x._replace(**{k: each(getattr(x, k), change) for k in ("input", "args", "named")})
    if isinstance(x, list | tuple):
        return type(x)(each(y, change) for y in x)
    if isinstance(x, dict):
        return {k: each(y, change) for k, y in x.items()}
    return change(x) if isinstance(x, ad.Tensor) else x


def looked_up(name: str) -> Any:
    """What `adjoint` has under a dotted name; None if nothing."""
    place: Any = ad
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


def _raise() -> Any:
    raise Other
