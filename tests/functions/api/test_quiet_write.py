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
from adjoint.functions.api.quiet_write import quiet_array
from adjoint.optim import adam

Write = Callable[[Any, Any, Any], Any]


def _assign(key: Callable[[Any], Any], value: Callable[[Any, Any], Any]) -> Write:
    def write(x: Any, y: Any, m: Any) -> Any:
        x[key(m)] = value(x, y)
        return x

    return write


PLACES = ad.tensor([2, 0, 2])
WRITES: dict[str, Write] = {
    "number at positions": _assign(lambda m: PLACES, lambda x, y: 0.5),
    "rows at positions": _assign(lambda m: PLACES[:2], lambda x, y: y[:2]),
    "row at positions": _assign(lambda m: PLACES, lambda x, y: y[0]),
    "number at pairs": _assign(lambda m: (PLACES, PLACES), lambda x, y: -1),
    "column at pairs": _assign(lambda m: (PLACES[:2, None], PLACES[1:]), lambda x, y: y[:2, :1]),
    "positions counted from the end": _assign(lambda m: PLACES - 3, lambda x, y: 2.0),
    "number where true": _assign(lambda m: m, lambda x, y: 7),
    "number of no dimensions where true": _assign(lambda m: m, lambda x, y: y[0, 0]),
    "number in rows": _assign(lambda m: m[:, 0], lambda x, y: 7.5),
    "part of itself at positions": _assign(lambda m: PLACES[:2], lambda x, y: x[1:3]),
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


@pytest.mark.parametrize("key", ["x[PLACES + 3]", "x[PLACES, PLACES + 9]", "x[PLACES]", "x[y[:1] > 0]"])
def test_an_assignment_that_does_not_fit_writes_nothing(key: str) -> None:
    x, y, _ = operands((3, 4), "float32")
    before, version = x.clone(), x._version
    value = "y[:2]" if key == "x[PLACES]" else "1.0"
    with pytest.raises((IndexError, RuntimeError)):
        exec(f"{key} = {value}", {"x": x, "y": y, "PLACES": PLACES})
    assert ad.equal(x, before)
    assert x._version == version


@pytest.mark.parametrize("values", [[True, False], [3, -(2**63)]])
def test_numbers_are_written_into_tensors_of_integers_and_truths(values: list[Any]) -> None:
    x = ad.tensor([values[1]] * 4)
    x[PLACES] = values[0]
    assert x.tolist() == [values[0], values[1], values[0], values[1]]
    x[x == ad.tensor(values[0])] = values[1]
    assert x.tolist() == [values[1]] * 4


LARGE_WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "lerp_": lambda x, y: x.lerp_(y, 0.25),
    "lerp_ from the other end": lambda x, y: x.lerp_(y, 0.75),
    "addcmul_": lambda x, y: x.addcmul_(y, y, value=0.5),
    "addcdiv_": lambda x, y: x.addcdiv_(y, y + 4.0, value=-0.5),
    "addcmul_ of the tensor itself": lambda x, y: x.addcmul_(x, x, value=2),
    "lerp_ of memory that overlaps": lambda x, y: x[1:].lerp_(x[:-1], 0.25),
    "clamp_": lambda x, y: x.clamp_(-0.5, 0.25),
}


@pytest.mark.parametrize("name", LARGE_WRITES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_kernel_that_writes_into_its_operand_gives_the_same(name: str, dtype: str) -> None:
    x, y, _ = operands((200, 100), dtype)
    wanted = x * ad.ones((), dtype=x.dtype, requires_grad=True)
    for _ in range(2):  # the second time, the kernel is there
        address = x.data_ptr()
        LARGE_WRITES[name](wanted, y)
        LARGE_WRITES[name](x, y)
        assert x.data_ptr() == address
        np.testing.assert_array_equal(x.numpy(), wanted.detach().numpy())


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


def test_writes_stay_quiet_after_inference_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    with ad.inference_mode():
        made = ad.ones(3)
    normal, part = ad.ones(3), ad.ones(4)[1:]
    with ad.no_grad():
        assert quiet_array(normal) is normal.array
        assert quiet_array(made) is None
        assert quiet_array(part) is None
    with ad.inference_mode():
        assert quiet_array(normal) is None
    p = ad.ones(3, requires_grad=True)
    optimizer = ad.optim.Adam([p])
    p.grad = ad.ones(3)
    monkeypatch.setattr(adam, "apply_update", lambda native, tensors, numbers, facts: given.extend(numbers))
    given: list[object] = []
    optimizer.step()
    assert {type(number) for number in given} <= {int, float}


@pytest.mark.parametrize("dtype", [ad.int8, ad.int16, ad.int32, ad.int64])
def test_small_numbers_are_added_to_integers_of_any_width(dtype: ad.dtype) -> None:
    x = ad.tensor([1, 2, 100], dtype=dtype)
    x += 27
    x[1] -= 3
    x *= -1
    assert x.tolist() == [-28, -26, -127]
    assert x.dtype is dtype
    assert x._version == 4
