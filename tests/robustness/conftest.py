"""What the tests of this folder begin with, where they count what a loop leaves behind."""

import numpy as np
import pytest

from adjoint.core.op.elementwise_kernels import ADD, DIVIDE, MAX_CALLS_WITHOUT_KERNEL, MULTIPLY


@pytest.fixture(scope="session", autouse=True)
def _native_arithmetic() -> None:
    """Load the native functions of eager arithmetic, which otherwise come after many calls, with objects that stay."""
    x = np.ones(3, np.float32)
    for kernel in (ADD, MULTIPLY, DIVIDE):
        for _ in range(MAX_CALLS_WITHOUT_KERNEL + 1):
            kernel.call(x, x)
