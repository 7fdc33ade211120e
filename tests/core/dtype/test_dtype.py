"""Element types and promotion, against PyTorch over all pairs."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises
from tests.support.oracle import torch

import adjoint as ad
from adjoint.core.dtype.dtype import DTYPES, as_dtype, promote

WIDE = ("uint16", "uint32", "uint64")  # PyTorch promotes them with floats only
NAMES = sorted({*(d.name for d in DTYPES.values()), "bfloat16"} - set(WIDE))


@pytest.mark.parametrize("left", WIDE)
@pytest.mark.parametrize("right", [*WIDE, "bool", "uint8", "int8", "int64", "float32", "complex64"])
def test_promotion_of_wide_unsigned_integers(left: str, right: str) -> None:
    kinds = [getattr(ad, name) for name in (left, right)]
    if left == "uint64" and right.startswith("int"):
        raises(RuntimeError, "no integer type holds both", lambda: ad.promote_types(*kinds))
        return
    expected = right if right in ("float32", "complex64") else np.promote_types(left, right).name
    assert ad.promote_types(*kinds).name == ad.promote_types(*kinds[::-1]).name == expected


@pytest.mark.parametrize("left", NAMES)
@pytest.mark.parametrize("right", NAMES)
def test_promote_types(left: str, right: str) -> None:
    expected = torch.promote_types(getattr(torch, left), getattr(torch, right))
    got = ad.promote_types(getattr(ad, left), getattr(ad, right))
    assert f"torch.{got.name}" == str(expected)


@pytest.mark.parametrize("left", NAMES)
@pytest.mark.parametrize("right", [*NAMES, True, 2, 2.5, 2j])
@pytest.mark.parametrize("shapes", [((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())])
def test_result_type(left: str, right: Any, shapes: Any) -> None:
    if "float16" in (left, right) and ("complex" in f"{left}{right}" or right == 2j):
        pytest.skip("PyTorch's complex32, which NumPy lacks; ours is complex64")

    def made(library: Any) -> Any:
        x = library.ones(shapes[0], dtype=getattr(library, left))
        y = library.ones(shapes[1], dtype=getattr(library, right)) if isinstance(right, str) else right
        return library.result_type(x, y)

    assert f"torch.{made(ad).name}" == str(made(torch))


@pytest.mark.parametrize("name", [*NAMES, *WIDE])
def test_properties(name: str) -> None:
    ours, theirs = getattr(ad, name), getattr(torch, name)
    for fact in ("is_floating_point", "is_complex", "is_signed", "itemsize"):
        assert getattr(ours, fact) == getattr(theirs, fact)
    assert repr(ours) == f"adjoint.{name}"
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert ours == np.dtype(name)
    assert ours == ours.numpy.type
    assert hash(ours) == hash(np.dtype(name))
    assert ours != "float"
    assert ours != np.dtype("U3")


@pytest.mark.parametrize("given", [float, int, bool, complex])
def test_python_types(given: Any) -> None:
    assert f"torch.{as_dtype(given).name}" == str(torch.tensor([1], dtype=given).dtype)


def test_aliases() -> None:
    for short in ("float", "double", "half", "short", "int", "long"):
        assert f"torch.{getattr(ad, short).name}" == str(getattr(torch, short))


@pytest.mark.parametrize("given", ["U3", "M8[s]", np.float128 if hasattr(np, "float128") else "S2", object])
def test_types_that_no_tensor_has(given: Any) -> None:
    raises(TypeError, "no tensor can hold elements of type", lambda: as_dtype(given))


def test_promote_wants_numbers() -> None:
    raises(TypeError, "expected a tensor or a number, got str", lambda: promote((np.ones(2), "a")))
