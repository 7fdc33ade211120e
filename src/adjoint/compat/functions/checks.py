"""Checks of conditions, each of which raises its kind of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core.tensor.tensor import Tensor

__all__ = [
    "_assert",
    "_assert_async",
    "_check",
    "_check_index",
    "_check_is_size",
    "_check_not_implemented",
    "_check_tensor_all",
    "_check_tensor_all_with",
    "_check_type",
    "_check_value",
    "_check_with",
]

Message = Callable[[], Any] | None


def _assert_async(input: Any, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise RuntimeError if a tensor of one element is zero."""
    if not input:
        raise RuntimeError(assert_msg)


def _assert(condition: Any, message: str) -> None:
    """Assert the condition."""
    assert condition, message


def _check(cond: bool, message: Message = None) -> None:
    """Raise RuntimeError with the text of `message()` unless `cond` is True; TypeError if it is no bool."""
    _require(RuntimeError, cond, message)


def _check_index(cond: bool, message: Message = None) -> None:
    """Raise IndexError with the text of `message()` unless `cond` is True."""
    _require(IndexError, cond, message)


def _check_value(cond: bool, message: Message = None) -> None:
    """Raise ValueError with the text of `message()` unless `cond` is True."""
    _require(ValueError, cond, message)


def _check_type(cond: bool, message: Message = None) -> None:
    """Raise TypeError with the text of `message()` unless `cond` is True."""
    _require(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: Message = None) -> None:
    """Raise NotImplementedError with the text of `message()` unless `cond` is True."""
    _require(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Message = None) -> None:
    """Raise RuntimeError for a negative number."""
    _require(RuntimeError, i >= 0, message)


def _check_with(error_type: type[Exception], cond: bool, message: Message) -> None:
    """Raise an error of this type with the text of `message()` unless `cond` is True."""
    _require(error_type, cond, message)


def _check_tensor_all(cond: object, message: Message = None) -> None:
    """Raise RuntimeError with the text of `message()` unless all elements are True."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_tensor_all_with(error_type: type[Exception], cond: object, message: Message = None) -> None:
    """Raise an error of this type with the text of `message()` unless all elements are True."""
    if not isinstance(cond, Tensor) or str(cond.dtype).rpartition(".")[2] != "bool":
        raise TypeError(f"cond must be a tensor of bools, but got {cond if cond is None else type(cond)}")
    _require(error_type, bool(cond.array.all()), message)


def _require(error: type[Exception], cond: bool, message: Message) -> None:
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error("Expected cond to be True, but got False." if message is None else str(message()))
