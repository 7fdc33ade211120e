"""Settings that programs make for PyTorch are taken, and told again."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad

KINDS = ("bool", "uint8", "int8", "int64", "float16", "bfloat16", "float64", "complex64", "complex128")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    ad.set_deterministic_debug_mode(0)
    ad.set_warn_always(False)
    ad.set_num_interop_threads(1)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(KINDS, KINDS)))
def test_can_cast_as_pytorch(source: str, target: str) -> None:
    torch = pytest.importorskip("torch")
    assert ad.can_cast(getattr(ad, source), getattr(ad, target)) == torch.can_cast(
        getattr(torch, source), getattr(torch, target)
    )


def test_determinism_is_told_again() -> None:
    assert not ad.are_deterministic_algorithms_enabled()
    ad.use_deterministic_algorithms(True, warn_only=True)
    assert ad.are_deterministic_algorithms_enabled()
    assert ad.is_deterministic_algorithms_warn_only_enabled()
    ad.set_deterministic_debug_mode("error")
    assert ad.get_deterministic_debug_mode() == 2
    assert not ad.is_deterministic_algorithms_warn_only_enabled()
    with pytest.raises(RuntimeError, match="invalid value of debug_mode, expected one of `default`, `warn`, `error`"):
        ad.set_deterministic_debug_mode("loud")
    with pytest.raises(RuntimeError, match="invalid value of debug_mode, expected 0, 1, or 2, but got 5"):
        ad.set_deterministic_debug_mode(5)
    assert_raises(TypeError, "debug_mode must be str or int", ad.set_deterministic_debug_mode, None)
    ad.use_deterministic_algorithms(False, warn_only=True)
    assert ad.is_deterministic_algorithms_warn_only_enabled()
    assert ad.get_deterministic_debug_mode() == 0
    with pytest.raises(TypeError, match=r"argument 'mode' \(position 1\) must be bool, not int"):
        ad.use_deterministic_algorithms(1)  # type: ignore[arg-type]


NEW: list[Callable[[Any], Any]] = [
    lambda lib: lib.empty(2, 3), lambda lib: lib.empty(3, dtype=lib.int32), lambda lib: lib.empty(3, dtype=lib.bool),
    lambda lib: lib.empty(2, 3, out=lib.zeros(0)), lambda lib: lib.empty_like(lib.zeros(2, dtype=lib.float64)),
    lambda lib: lib.empty_strided((2, 2), (1, 2)), lambda lib: lib.empty_permuted((2, 3), (1, 0)),
    lambda lib: lib.zeros(2).new_empty(3), lambda lib: lib.zeros(2).resize_(4),
    lambda lib: lib.empty(1, 2, 2, 2, memory_format=lib.channels_last), lambda lib: lib.zeros(2),
]  # fmt: skip


@pytest.mark.parametrize("make", NEW)
def test_new_memory_is_filled_where_results_are_to_be_deterministic(make: Callable[[Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    assert not (make(ad) != 0).any()
    found = []
    for lib in (ad, torch):
        lib.use_deterministic_algorithms(True)
        try:
            found.append(make(lib))
        finally:
            lib.use_deterministic_algorithms(False)
    np.testing.assert_array_equal(found[0].numpy(), found[1].numpy())
    assert found[0].stride() == found[1].stride()


def test_new_memory_may_stay_as_it_is() -> None:
    ad.use_deterministic_algorithms(True)
    ad.utils.deterministic.fill_uninitialized_memory = False
    try:
        assert not ad.utils.deterministic.fill_uninitialized_memory
        assert ad.empty(3).tolist() == [0.0, 0.0, 0.0]
    finally:
        ad.utils.deterministic.fill_uninitialized_memory = True
    with pytest.raises(RuntimeError, match="expected a bool, but got int"):
        ad.utils.deterministic.fill_uninitialized_memory = 1  # type: ignore[assignment]


UNORDERED: dict[str, Callable[[], Any]] = {
    "put_": lambda: ad.zeros(4).put_(ad.tensor([0, 0]), ad.ones(2)),
    "max_unpooling2d_forward_out": lambda: ad.nn.MaxUnpool1d(3, 1)(ad.ones(1, 1, 7), ad.zeros(1, 1, 7).long()),
    "max_unpooling3d_forward_out": lambda: ad.nn.MaxUnpool3d(1)(ad.ones(1, 1, 1, 1, 1), ad.zeros(1, 1, 1, 1, 1).long()),
}


@pytest.mark.parametrize("called", UNORDERED)
def test_what_depends_on_an_order_is_refused(called: str) -> None:
    UNORDERED[called]()
    ad.use_deterministic_algorithms(True)
    with pytest.raises(RuntimeError, match=f"{called} does not have a deterministic implementation, but you set"):
        UNORDERED[called]()
    ad.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match=f"{called} does not have a deterministic implementation"):
        UNORDERED[called]()
    assert ad.zeros(4).put_(ad.tensor([0, 0]), ad.ones(2), accumulate=True)[0] == 2


def test_other_settings_are_told_again() -> None:
    ad.set_warn_always(True)
    assert ad.is_warn_always_enabled()
    ad.set_num_interop_threads(3)
    assert ad.get_num_interop_threads() == 3
    assert_raises(RuntimeError, "positive", ad.set_num_interop_threads, 0)
    assert not ad.set_flush_denormal(True)


def test_device_is_the_cpu() -> None:
    ad.set_default_device("cpu")
    assert ad.get_default_device() == ad.device("cpu")
    with pytest.raises(RuntimeError):
        ad.set_default_device("cuda")
