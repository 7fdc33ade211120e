"""Subclasses of Tensor and Parameter that define `__new__`, `__init__` or both, as programs for PyTorch do."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")


def forwarded(t: Any) -> Any:
    class Forwarded(t.Tensor):
        @staticmethod
        def __new__(cls: Any, data: Any, note: str, **options: Any) -> Any:
            return super().__new__(cls, data, **options)

        def __init__(self, data: Any, note: str, **options: Any) -> None:
            self.note = note

    return Forwarded([1.0, 2.0], "n")


def seen(t: Any) -> Any:
    class Seen(t.Tensor):
        def __new__(cls, data: Any, *, note: str) -> Any:
            made = t.as_tensor(data).as_subclass(cls)
            made.note = note
            return made

    return Seen([1.0, 2.0], note="n")


def made(t: Any) -> Any:
    class Made(t.Tensor):
        @staticmethod
        def __new__(cls: Any, data: Any, note: str) -> Any:
            return t.Tensor._make_subclass(cls, data, True)

        def __init__(self, data: Any, note: str) -> None:
            super().__init__()
            self.note = note

    return Made(t.ones(2), "n")


def parameter(t: Any) -> Any:
    class Kept(t.nn.Parameter):
        def __new__(cls, data: Any, requires_grad: bool = True, *, note: str = "") -> Any:
            return super().__new__(cls, data, requires_grad=requires_grad)

        def __init__(self, data: Any, requires_grad: bool = True, *, note: str = "") -> None:
            self.note = note

    return Kept(t.ones(2), note="n")


@pytest.mark.parametrize("make", [forwarded, seen, made, parameter])
def test_whatever_is_defined(make: Any) -> None:
    ours, theirs = make(ad), make(torch)
    assert (ours.note, ours.requires_grad, ours.is_leaf) == (theirs.note, theirs.requires_grad, theirs.is_leaf)
    assert (ours * 2).tolist() == (theirs * 2).tolist()
    assert type(ours + 1).__name__ == type(theirs + 1).__name__


def test_new_makes_a_whole_tensor() -> None:
    for t in (ad, torch):
        assert t.Tensor.__new__(t.Tensor, 2, 3).shape == (2, 3)
        assert t.Tensor.__new__(t.Tensor, [1.0]).tolist() == [1.0]


class Plain(ad.Tensor):
    """A subclass that defines nothing."""


def test_one_that_defines_nothing() -> None:
    x = Plain([1.0, 2.0])
    assert type(x * 2) is Plain
    assert pickle.loads(pickle.dumps(x)).tolist() == [1.0, 2.0]
