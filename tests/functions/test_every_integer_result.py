"""Integers that functions return have the type of every platform, also where NumPy's positions and counts are int32."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.function_calls import DEPENDING, PUBLISHED, TESTED, arguments, calls_of, step

import adjoint as ad

# LAPACK's statuses and pivots, and exponents, are int32 in PyTorch
INT32 = {"cholesky_ex", "frexp", "inv_ex", "ldl_factor", "ldl_factor_ex", "lu", "lu_factor", "lu_factor_ex", "solve_ex"}
CALLS = [(name, call) for name in TESTED for call in calls_of(name)]
CALLS += [(name, call) for name, calls in DEPENDING.items() for call in calls.split(" | ")]


@pytest.mark.skipif(np.dtype(np.intp) == np.int64, reason="of NumPy in a browser, whose positions have 32 bits")
@pytest.mark.parametrize(("name", "call"), CALLS)
def test_integers_have_64_bits(name: str, call: str) -> None:
    found = [x.dtype for x in step(name, PUBLISHED[name], call)(*arguments(call)) if isinstance(x, ad.Tensor)]
    assert name in INT32 or ad.int32 not in found
