"""Names of PyTorch's private modules that programs use to write modules and losses, and to choose among kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from adjoint.core.typing import StateDict

__all__ = ["consume_prefix_in_state_dict_if_present", "get_enum", "legacy_get_enum", "legacy_get_string"]
NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return 0 for "none", 1 for "mean", 2 for "sum". Raises ValueError for another name."""
    if reduction not in NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2)
    return NUMBERS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """Return the reduction that two flags ask for, each True where it is None. Warns."""
    is_reduced, is_mean = (flag is None or flag for flag in (reduce, size_average))
    name = "none" if not is_reduced else "mean" if is_mean else "sum"
    if emit_warning:
        message = f"size_average and reduce args will be deprecated, please use reduction='{name}' instead."
        warnings.warn(message, stacklevel=2)
    return name


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """Return the number of the reduction that two flags ask for."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that repeats a number n times, and makes a tuple of anything iterable."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def consume_prefix_in_state_dict_if_present(state_dict: StateDict, prefix: str) -> None:
    """Remove the prefix, such as "module.", from the names that have it, in place."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    for key in list(metadata):
        if key.startswith(prefix) or key == prefix.removesuffix("."):
            metadata[key.removeprefix(prefix) if key.startswith(prefix) else ""] = metadata.pop(key)


class SDPBackend(IntEnum):
    """PyTorch's implementations of attention. There is one here, so each choice computes the same."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Context that changes nothing. Raises TypeError unless `backends` is a `SDPBackend`, or a list of them."""
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(chosen, (list, tuple, set)) or not all(isinstance(each, SDPBackend) for each in chosen):
        raise TypeError(f"sdpa_kernel expects an SDPBackend or a list of them, got {backends!r}")
    yield


def _list_with_default(out_size: Sequence[int | None] | int, defaults: Sequence[int]) -> Sequence[int] | int:
    """Return the sizes, with the last of the defaults in the place of None."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    known = defaults[-len(out_size) :]
    return [default if size is None else size for size, default in zip(out_size, known, strict=True)]


def _reverse_repeat_tuple(t: Sequence[int], n: int) -> tuple[int, ...]:
    """Return the numbers from the last on, each n times."""
    return tuple(number for number in reversed(t) for _ in range(n))
