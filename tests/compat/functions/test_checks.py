"""Conditions: the errors, and the texts, of PyTorch."""

from typing import Any

import pytest
from tests.support.errors import assert_raises

import adjoint as ad

ERRORS = {
    "_check": RuntimeError, "_check_index": IndexError, "_check_value": ValueError, "_check_type": TypeError,
    "_check_not_implemented": NotImplementedError,
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_a_condition_that_does_not_hold(name: str) -> None:
    torch = pytest.importorskip("torch")
    for lib in (ad, torch):
        check: Any = getattr(lib, name)
        check(True)
        assert_raises(ERRORS[name], r"^Expected cond to be True, but got False\.", check, False)
        with pytest.raises(ERRORS[name], match=r"^tensor\(\[0, 1\]\)$"):
            check(False, lambda lib=lib: lib.arange(2))
        assert_raises(TypeError, "cond must be a bool, but got", check, 1)
        assert_raises(TypeError, "message must be a callable", check, False, "text")


def test_sizes_are_not_negative() -> None:
    ad._check_is_size(0)
    assert_raises(RuntimeError, "few", lambda: ad._check_is_size(-1, lambda: "too few"))
