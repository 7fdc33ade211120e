"""`out=`: results written where the caller says, with PyTorch's errors and warnings."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import equal

import adjoint as ad

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("call", [
    "exp(x, out=o)", "mul(x, y, out=o)", "add(x, y, alpha=2, out=o)", "sub(x, 1.0, out=o)", "div(x, y, out=o)",
    "div(x, y, rounding_mode='floor', out=o)", "pow(x, 2, out=o)", "clamp(x, 0, 1, out=o)", "sum(x, 0, out=o)",
    "matmul(x, y, out=o)", "mm(x, y, out=o)", "cat([x, y], out=o)", "cumsum(x, 0, out=o)",
    "where(x > 0, x, y, out=o)", "addcmul(x, x, y, out=o)", "lerp(x, y, 0.3, out=o)", "tril(x, out=o)",
    "nn.functional.logsigmoid(x, out=o)", "nn.functional.softplus(x, out=o)", "nn.functional.softshrink(x, out=o)",
    "nn.functional.normalize(x, 1.0, 0, out=o)",
    "eq(x, y, out=o)", "norm(x, 2, 1, out=o)", "atan2(x, y, out=o)", "mean(x, dim=1, keepdim=True, out=o)",
])  # fmt: skip
def test_results_are_written(call: str) -> None:
    given = {"x": np.cos(np.arange(4.0)).reshape(2, 2), "y": np.sin(np.arange(4.0)).reshape(2, 2)}
    outs = []
    for library in (ad, torch):
        names = {name: library.tensor(array) for name, array in given.items()}
        names["o"] = library.zeros(0, dtype=library.float64)
        found = eval(f"t.{call}", {"t": library, **names})
        assert found is names["o"]
        outs.append(found)
    equal(outs[0], outs[1])


def test_two_results() -> None:
    values, indices = ad.zeros(0), ad.zeros(0, dtype=ad.int64)
    found = ad.max(ad.tensor([[1.0, 2.0], [3.0, 0.0]]), 1, out=(values, indices))
    assert found[0] is values
    assert (values.tolist(), indices.tolist()) == ([2.0, 3.0], [1, 0])


def test_it_is_written_in_place() -> None:
    o = ad.zeros(4)
    part = o[:2]
    ad.add(ad.ones(2), 1, out=part)
    assert (o.tolist(), o._version) == ([2.0, 2.0, 0.0, 0.0], 1)


@pytest.mark.parametrize("of", ["x", "o"])
def test_gradients_are_refused(of: str) -> None:
    for library in (ad, torch):
        x, o = library.ones(2), library.zeros(2)
        {"x": x, "o": o}[of].requires_grad_()
        with pytest.raises(RuntimeError, match=r"functions with out=... arguments don't support automatic diff"):
            library.mul(x, x, out=o)
        with library.no_grad():
            library.mul(x, x, out=o)
        assert o.tolist() == [1.0, 1.0]


def test_a_result_of_another_type_is_refused() -> None:
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        ad.mul(ad.ones(2), 2.0, out=ad.zeros(2, dtype=ad.int64))
    with pytest.raises(TypeError, match="argument 'out' must be Tensor, not int"):
        ad.mul(ad.ones(2), 2.0, out=3)


def test_another_shape_is_told() -> None:
    for library in (ad, torch):
        o: Any = library.zeros(3)
        with pytest.warns(UserWarning, match="An output with one or more elements was resized since it had shape"):
            library.exp(library.zeros(2), out=o)
        assert o.tolist() == [1.0, 1.0]
