"""In-place writes without history: NumPy's shortcut gives what the whole path gives, and counts as a write."""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad

Write = Callable[[Any, Any, Any], Any]
WRITES: dict[str, Write] = {
    "relu_": lambda x, y, m: x.relu_(),
    "neg_": lambda x, y, m: x.neg_(),
    "zero_": lambda x, y, m: x.zero_(),
    "clamp_": lambda x, y, m: x.clamp_(-0.5, 0.5),
    "clamp_ of one bound": lambda x, y, m: x.clamp_(max=0.25),
    "clamp_min_": lambda x, y, m: x.clamp_min_(0),
    "clamp_max_": lambda x, y, m: x.clamp_max_(0.5),
    "lerp_": lambda x, y, m: x.lerp_(y, 0.75),
    "addcmul_": lambda x, y, m: x.addcmul_(y, y, value=-0.5),
    "addcdiv_": lambda x, y, m: x.addcdiv_(y, y + 4.0),
    "addcmul_ of the tensor itself": lambda x, y, m: x.addcmul_(x, x, value=2),
    "masked_fill_": lambda x, y, m: x.masked_fill_(m, -7),
    "add_ with alpha": lambda x, y, m: x.add_(y, alpha=-0.125),
}


def operands(shape: tuple[int, ...], dtype: str) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    x, y = (ad.tensor(rng.normal(size=shape).astype(dtype)) for _ in range(2))
    return x, y, y > 0


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_the_shortcut_gives_what_the_whole_path_gives(name: str, dtype: str) -> None:
    found = []
    for recorded in (False, True):
        x, y, mask = operands((5, 7), dtype)
        if recorded:  # the history of a product, which the shortcut leaves to the whole path
            x = x * ad.ones((), dtype=x.dtype, requires_grad=True)
        before = x._version
        assert WRITES[name](x, y, mask) is x
        assert x._version == before + 1
        found.append(x.detach().numpy())
    np.testing.assert_array_equal(*found, strict=True)


@pytest.mark.parametrize("name", WRITES)
def test_a_node_notices_the_write(name: str) -> None:
    x, y, mask = operands((3, 4), "float32")
    weight = ad.ones(3, 4, requires_grad=True)
    out = weight * x  # saves x
    WRITES[name](x, y, mask)
    assert_raises(RuntimeError, "modified by an inplace operation", lambda: out.sum().backward())


def test_numbers_and_shapes_that_are_not_plain_are_refused_as_before() -> None:
    x, y, mask = operands((3, 4), "float32")
    before = x.clone()
    assert_raises(RuntimeError, "only supports boolean masks", lambda: x.masked_fill_(y, 1.0))
    assert_raises(RuntimeError, "must not be None", lambda: x.clamp_())
    assert_raises(TypeError, "argument", lambda: x.clamp_(0.0, 1.0, 2.0))
    assert_raises(RuntimeError, "expected dtype", lambda: x.lerp_(y.double(), 0.5))
    assert ad.equal(x, before)
    assert x.masked_fill_(mask[:1], 2.0)[0].eq(2.0).equal(mask[0])  # a mask that broadcasts


def test_the_old_form_of_addcmul_warns() -> None:
    x, y, _ = operands((2, 2), "float32")
    expected = x + 3 * y * y
    with pytest.warns(UserWarning, match="deprecated"):
        x.addcmul_(3, y, y)
    assert ad.allclose(x, expected)


def test_a_view_is_written_in_its_place() -> None:
    base = ad.arange(12, dtype="float32").reshape(3, 4)
    base[1].neg_()
    assert base.tolist() == [[0, 1, 2, 3], [-4, -5, -6, -7], [8, 9, 10, 11]]
    assert base._version == 1


def test_a_leaf_is_written_only_where_nothing_is_recorded() -> None:
    leaf = ad.tensor([-1.0, 2.0], requires_grad=True)
    assert_raises(RuntimeError, "a leaf Variable that requires grad", leaf.relu_)
    with ad.no_grad():
        leaf.relu_()
    assert leaf.tolist() == [0.0, 2.0]


@pytest.mark.needs_threads
@pytest.mark.parametrize("name", ["add_", "neg_", "zero_", "__iadd__"])
def test_a_write_may_be_the_first_call_of_a_thread(name: str) -> None:
    x = ad.ones(3)
    _thread.start_new_thread(getattr(x, name), (2.0,) if "add" in name else ())
    until = time.monotonic() + 10
    while not x._version and time.monotonic() < until:
        time.sleep(0.001)
    assert x.tolist() == {"neg_": [-1.0] * 3, "zero_": [0.0] * 3}.get(name, [3.0] * 3)
