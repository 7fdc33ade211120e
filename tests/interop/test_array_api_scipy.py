"""SciPy in its array-API mode, on tensors: it asks the namespace for a little more than the standard has."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("scipy")

PROGRAM = """
import numpy as np
from scipy import interpolate, signal
import adjoint as ad

ad.manual_seed(0)
points, values, asked = (ad.rand(*shape, dtype=ad.float64) for shape in ((12, 2), (12,), (5, 2)))
for kernel in ("thin_plate_spline", "linear", "cubic", "gaussian"):
    found = interpolate.RBFInterpolator(points, values, kernel=kernel, epsilon=1.0)(asked)
    wanted = interpolate.RBFInterpolator(points.numpy(), values.numpy(), kernel=kernel, epsilon=1.0)(asked.numpy())
    assert isinstance(found, ad.Tensor)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9)
x, y = ad.tensor([1.0, 2.0, 3.0, 4.0]), ad.tensor([0.0, 1.0, 0.5])
np.testing.assert_allclose(signal.convolve(x, y).numpy(), signal.convolve(x.numpy(), y.numpy()), atol=1e-6)
"""


def test_interpolation_by_radial_functions() -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
