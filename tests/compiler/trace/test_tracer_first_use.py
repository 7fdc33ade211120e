"""What a compiled step is the first in its process to use: parts of the library are imported while it is traced."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.support.function_calls import DATA, PLACES, PUBLISHED, TESTED, calls_of, named_in
from tests.support.scripts import output_of

HEAD = """
import sys
import numpy as np
import adjoint as ad
import adjoint.nn.functional as F

x = ad.from_numpy(np.ones((4, 4), np.float32))
"""


def run(program: str) -> str:
    return output_of(HEAD + program, strict=False)


@pytest.mark.parametrize("function", ["F.linear(x, x).tanh()", "F.interpolate(x[None], 8)", "F.gelu(x) @ ad.eye(4)"])
def test_the_first_call_of_a_process(function: str) -> None:
    run(f"result = ad.compile(lambda x: {function})(x)\nassert ad.allclose(result, {function}, atol=1e-6)")


def test_a_random_draw_in_the_first_call() -> None:
    run("step = ad.compile(lambda x: F.dropout(x, 0.5))\nassert set(step(x).flatten().tolist()) <= {0.0, 2.0}")


def test_a_name_of_a_module_brings_in_no_modules_of_another_kind() -> None:
    run("""
before = set(sys.modules)
ad.compile(lambda x: F.relu(x))(x)
others = ("adjoint.functions.signal", "adjoint.distributions", "adjoint.optim", "adjoint.data")
assert not any(name.startswith(others) for name in before), "nothing would be shown"
assert not any(name.startswith(others) for name in set(sys.modules) - before)
""")


NAMES = {"": "ad", "F.": "F", "L.": "ad.linalg", "S.": "ad.special", "T.": "ad.fft"}
SWEEP = """
import json
import os

told = json.load(sys.stdin)
numbers = {name: np.array(values, kind) for name, (values, kind) in told["data"].items()}
failed = []
for path, call, names in told["calls"]:
    reading, writing = os.pipe()
    if not os.fork():
        try:
            given = [ad.from_numpy(numbers[name].copy()) for name in names]
            step = eval(f"lambda {', '.join(names)}: {path}({call})", {"ad": ad, "F": F, "t": ad})
            ad.compile(step)(*given)
        except BaseException as error:
            os.write(writing, f"{path}({call}): {type(error).__name__}: {error}".encode()[:2000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        failed += [answer.read()]
    os.wait()
print("\\n".join(filter(None, failed)))
"""


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_every_function_may_be_the_first_of_a_process() -> None:
    calls = []
    for name in TESTED:
        bare = name.rpartition(".")[2]
        place = next((p for p, module in PLACES.items() if getattr(module, bare, None) is PUBLISHED[name]), None)
        if place is not None and bare != "as_strided_":  # which reshapes what was there before
            calls += [(f"{NAMES[place]}.{bare}", call, named_in(call)) for call in calls_of(name)]
    data = {name: (x.tolist(), x.dtype.str) for name, x in DATA.items() if x.dtype.kind != "c"}
    calls = [call for call in calls if data.keys() >= set(call[2])]
    assert len(calls) > 600
    done = subprocess.run(
        [sys.executable, "-c", HEAD + SWEEP], input=json.dumps({"data": data, "calls": calls}),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
