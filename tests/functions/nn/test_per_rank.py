"""Functions of one, two and three dimensions, made from one of any rank."""

import inspect
import pickle
import traceback

import pytest

import adjoint as ad
import adjoint.nn.functional as F


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_each_looks_like_a_function_of_its_own(rank: int) -> None:
    name = f"max_pool{rank}d"
    pool = getattr(F, name)
    assert (pool.__name__, pool.__qualname__, pool.__module__) == (name, name, "adjoint.functions.nn.pooling")
    assert pickle.loads(pickle.dumps(pool)) is pool
    assert list(inspect.signature(pool).parameters)[:3] == ["input", "kernel_size", "stride"]
    sizes = {1: "L", 2: "H, W", 3: "D, H, W"}[rank]
    assert f"input (N, C, {sizes}) -> (N, C, " in (inspect.getdoc(pool) or "")


def test_a_traceback_shows_the_public_name() -> None:
    with pytest.raises(RuntimeError) as error:
        F.conv2d(ad.zeros(1), ad.zeros(1))
    assert "conv2d" in [frame.name for frame in traceback.extract_tb(error.value.__traceback__)]


def test_arguments_are_taken_by_name() -> None:
    x = ad.arange(4.0).reshape(1, 1, 4)
    assert F.max_pool1d(input=x, kernel_size=2).tolist() == [[[1.0, 3.0]]]
    with pytest.raises(TypeError):
        F.max_pool1d(x, 2, rank=2)  # type: ignore[call-arg]
