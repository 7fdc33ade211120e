"""Sobol's sequence has PyTorch's points, in all of its dimensions."""

from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint.quasirandom import SobolEngine


@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_points_are_those_of_pytorch(kind: str, scramble: bool) -> None:
    torch = pytest.importorskip("torch")

    def drawn(lib: Any) -> list[Any]:
        engine = lib.quasirandom.SobolEngine(37, scramble=scramble, seed=5)
        parts = [engine.draw(1, dtype=getattr(lib, kind)), engine.draw(30, dtype=getattr(lib, kind))]
        engine.fast_forward(7)
        parts.append(engine.draw(2, dtype=getattr(lib, kind)))
        parts.append(engine.reset().fast_forward(3).draw(5, dtype=getattr(lib, kind)))
        out = lib.empty(0, dtype=getattr(lib, kind))
        assert engine.reset().draw_base2(3, out=out, dtype=getattr(lib, kind)) is out
        assert engine.num_generated == 8
        return [*parts, out, engine.quasi, engine.shift, engine.sobolstate]

    for ours, theirs in zip(drawn(ad), drawn(torch), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
        assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]


def test_points_of_all_dimensions() -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = SobolEngine(SobolEngine.MAXDIM), torch.quasirandom.SobolEngine(SobolEngine.MAXDIM)
    np.testing.assert_array_equal(ours.sobolstate.numpy(), theirs.sobolstate.numpy())
    np.testing.assert_array_equal(ours.draw(9).numpy(), theirs.draw(9).numpy())


def test_every_interval_gets_its_points() -> None:
    points = SobolEngine(8, scramble=True, seed=0).draw_base2(6)
    assert (np.sort((points.numpy() * 64).astype(int), axis=0) == np.arange(64)[:, None]).all()


def test_the_first_points_and_how_an_engine_prints() -> None:
    engine = SobolEngine(2)
    assert engine.draw(4).tolist() == [[0, 0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]
    assert repr(engine) == "SobolEngine(dimension=2)"
    assert repr(SobolEngine(3, True, 4)) == "SobolEngine(dimension=3, scramble=True, seed=4)"


def test_what_is_refused() -> None:
    for dimension in (0, SobolEngine.MAXDIM + 1):
        with pytest.raises(ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 21201\]"):
            SobolEngine(dimension)
    engine = SobolEngine(1)
    engine.draw(3)
    assert_raises(ValueError, r"then: n=3\+2\*\*1=5", engine.draw_base2, 1)
    assert_raises(NotImplementedError, "float16", engine.draw, 1, dtype=ad.float16)
