"""Leading (batch) sizes that change: few programs, and always eager's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.steps import mlp, same_state, training

import adjoint as ad
from adjoint import optim

pytest.importorskip("llvmlite")


def pairs(x: Any, y: Any) -> Any:
    """A step on two batches of one size."""
    return (x * y).sum(1).mean()


def test_ever_new_sizes_are_no_stream_of_compilations() -> None:
    compiled = ad.compile(pairs)
    for n in range(1, 30):
        x, y = ad.randn(n, 3), ad.randn(n, 3)
        np.testing.assert_allclose(compiled(x, y).item(), pairs(x, y).item(), rtol=1e-5, atol=1e-6)
    assert compiled.compilations == 2
    assert compiled.sizes == dict.fromkeys(range(1, 30), 1)


def test_a_size_that_comes_again_is_compiled_up_to_a_limit() -> None:
    compiled = ad.compile(pairs)

    def go_through() -> None:
        for n in [*range(1, 13), *range(1, 13)]:
            x = ad.randn(n, 3)
            np.testing.assert_allclose(compiled(x, x).item(), pairs(x, x).item(), rtol=1e-5)

    with pytest.warns(RuntimeWarning, match="was compiled for 8 leading sizes .* such as 9"):
        go_through()
    assert compiled.compilations == 8
    before = compiled.compilations
    for n in (3, 11, 8, 2):
        x = ad.randn(n, 3)
        compiled(x, x)
    assert compiled.compilations == before


def test_a_last_smaller_batch_in_training() -> None:
    models = [mlp(), mlp()]
    models[1].load_state_dict(models[0].state_dict())
    steps = [training(m, optim.SGD(m.parameters(), lr=0.1, momentum=0.9)) for m in models]
    compiled = ad.compile(steps[0])
    ad.manual_seed(0)
    for n in (16, 16, 16, 5, 16, 16, 5, 7, 16):
        x, y = ad.randn(n, 12), ad.randint(0, 3, (n,))
        np.testing.assert_allclose(compiled(x, y).item(), steps[1](x, y).item(), rtol=1e-4)
    same_state(*models, rough=1e-5)
    assert compiled.compilations == 2


def test_other_dimensions_are_signatures() -> None:
    compiled = ad.compile(pairs)
    for width in (3, 4, 5, 6):
        x = ad.randn(2, width)
        np.testing.assert_allclose(compiled(x, x).item(), pairs(x, x).item(), rtol=1e-5)
    assert compiled.compilations == 4
