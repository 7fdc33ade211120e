"""Settings that programs make for PyTorch are taken, and told again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

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
    with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
        ad.set_deterministic_debug_mode("loud")


def test_other_settings_are_told_again() -> None:
    ad.set_warn_always(True)
    assert ad.is_warn_always_enabled()
    ad.set_num_interop_threads(3)
    assert ad.get_num_interop_threads() == 3
    with pytest.raises(RuntimeError, match="positive"):
        ad.set_num_interop_threads(0)
    assert not ad.set_flush_denormal(True)


def test_device_is_the_cpu() -> None:
    ad.set_default_device("cpu")
    assert ad.get_default_device() == ad.device("cpu")
    with pytest.raises(RuntimeError):
        ad.set_default_device("cuda")
