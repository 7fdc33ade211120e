"""Compiled functions of regions, bound to the objects that the calls have in common."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.compile import CompiledFunction
from adjoint.compiler.ir.graph import TraceError
from adjoint.compiler.scripts import region_binding
from adjoint.compiler.scripts.region_binding import BoundRegion, find_common_names, holds_array

pytest.importorskip("llvmlite")


def scale(layer, x, factor, losses):
    y = layer(x).sum() * factor
    losses.append(y.item())
    return (y,)


def apply(layer, x):
    return (layer(x),)


def test_names_that_are_the_same_objects_in_all_calls() -> None:
    layer, x = ad.nn.Linear(2, 1), ad.ones(2)
    calls = [{"layer": layer, "x": x, "n": 512, "lr": 0.1, "old": 1}, {"layer": layer, "x": x, "n": 512, "lr": 0.1}]
    assert find_common_names(calls) == {"layer", "n"}  # a tensor, and a float, are arguments
    assert find_common_names([{"n": 1}, {"n": 2}]) == set()


def test_a_list_that_is_bound_is_appended_to() -> None:
    layer, losses = ad.nn.Linear(2, 1), []
    region = BoundRegion(scale, {"layer", "losses", "factor"}, compile_function=CompiledFunction)
    results = [region(layer, ad.full((3, 2), 1.0 * i), 2, losses)[0].item() for i in range(4)]
    assert (
        losses == pytest.approx(results) == [scale(layer, ad.full((3, 2), 1.0 * i), 2, [])[0].item() for i in range(4)]
    )
    assert region.compilations == 1


def test_objects_that_take_turns_have_their_own_and_numbers_that_change_become_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layers, losses, x = [ad.nn.Linear(2, 1) for _ in range(3)], [], ad.ones(3, 2)
    region = BoundRegion(scale, {"layer", "losses", "factor"}, compile_function=CompiledFunction)
    for turn in range(6):
        factor = 1 + turn // 4
        assert region(layers[turn % 2], x, factor, losses)[0] == scale(layers[turn % 2], x, factor, [])[0]
    assert [region.names[i] for i in region.bound] == ["layer", "losses"]  # the factor has changed
    before = region.compilations
    monkeypatch.setattr(region_binding, "MAX_BINDINGS", 1)
    region(layers[2], x, 2, losses)
    region(layers[0], x, 2, losses)
    assert (len(region._known), region.compilations) == (1, before + 2)
    monkeypatch.setattr(region_binding, "MAX_BINDINGS_MADE", 0)
    region = BoundRegion(apply, {"layer"}, compile_function=CompiledFunction)
    assert region(layers[0], x)[0].equal(layers[0](x))
    assert region.bound == []


def test_error_within_a_region_comes_from_its_function() -> None:
    region = BoundRegion(scale, {"layer", "losses"}, compile_function=CompiledFunction)
    with pytest.raises(RuntimeError, match="shapes") as caught:
        region(ad.nn.Linear(2, 1), ad.ones(3), 1, [])
    assert "scale" in {entry.name for entry in caught.traceback}


def test_array_that_is_an_index_is_taken_as_a_tensor_and_no_other() -> None:
    def pick(x, rows):
        return (x[rows].sum(),)

    x, rows = ad.arange(6.0), np.array([1, 4])
    region = BoundRegion(pick, {"x"}, {"rows"}, compile_function=CompiledFunction)
    assert [region(x, rows[:n])[0].item() for n in (2, 1)] == [5.0, 1.0]
    with pytest.raises(TraceError, match="'rows' is a NumPy array"):
        BoundRegion(pick, {"x"}, compile_function=CompiledFunction)(x, rows)
    with pytest.raises(TraceError, match="'rows' is a NumPy array"):
        region(x, np.ones(2))
    assert holds_array((x, [1, {"rows": rows}]))
    assert not holds_array((x, [1]))


def test_models_that_take_turns_are_common_names() -> None:
    a, b, x = ad.nn.Linear(2, 2), ad.nn.Linear(2, 2), ad.ones(2)
    assert find_common_names([{"m": a, "x": x, "n": 1}, {"m": b, "x": x, "n": 2}]) == {"m"}
    assert find_common_names([{"m": a}, {}]) == find_common_names([{"m": a}, {"m": None}]) == set()
