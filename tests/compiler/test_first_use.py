"""What a compiled step is the first in its process to use: parts of the library are imported while it is traced."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAD = """
import sys
import numpy as np
import adjoint as ad
import adjoint.nn.functional as F

x = ad.from_numpy(np.ones((4, 4), np.float32))
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", HEAD + program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("function", ["F.linear(x, x).tanh()", "F.interpolate(x[None], 8)", "F.gelu(x) @ ad.eye(4)"])
def test_the_first_call_of_a_process(function: str) -> None:
    run(f"result = ad.compile(lambda x: {function})(x)\nassert ad.allclose(result, {function}, atol=1e-6)")


def test_a_random_draw_in_the_first_call() -> None:
    run("step = ad.compile(lambda x: F.dropout(x, 0.5))\nassert set(step(x).flatten().tolist()) <= {0.0, 2.0}")


def test_a_name_of_a_module_brings_in_no_others() -> None:
    run("""
before = set(sys.modules)
ad.compile(lambda x: F.relu(x))(x)
new = {name for name in set(sys.modules) - before if name.startswith("adjoint.functions.")}
assert not any("resampling" in name or "losses" in name or "spectral" in name for name in new), new
""")
