"""Programs that are traced do what they did, and print as PyTorch prints them."""

from __future__ import annotations

import copy
import importlib
import pickle
import warnings
from typing import Any

import pytest
from adjoint.fx.passes.shape_prop import ShapeProp
from tests.support.fx_programs import PROGRAMS, make_input

import adjoint as ad
from adjoint import fx

NAMES = list(PROGRAMS)
DECIDED_BY_VALUES = {"losses"}


def leaves_of(value: Any) -> list[Any]:
    return ad.utils._pytree.tree_leaves(value)


def assert_equal(ours: Any, expected: Any) -> None:
    ours, expected = leaves_of(ours), leaves_of(expected)
    assert len(ours) == len(expected)
    for x, y in zip(ours, expected, strict=True):
        if isinstance(y, ad.Tensor):
            assert x.dtype == y.dtype
            assert x.tolist() == y.tolist() or ad.allclose(x, y, atol=1e-6, equal_nan=True)
        else:
            assert x == y


@pytest.mark.parametrize("name", NAMES)
class TestTraced:
    def test_its_values_are_those_of_the_program(self, name: str) -> None:
        ad.manual_seed(0)
        program = PROGRAMS[name](ad)
        traced = fx.symbolic_trace(program)
        x = make_input(ad, name)
        expected = program(copy.deepcopy(x))
        assert_equal(traced(copy.deepcopy(x)), expected)
        assert_equal(fx.Interpreter(traced).run(copy.deepcopy(x)), expected)

    def test_its_code_traces_to_itself(self, name: str) -> None:
        traced = fx.symbolic_trace(PROGRAMS[name](ad))
        traced.graph.lint()

        class LeavesOnly(fx.Tracer):
            def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
                return True

        assert str(LeavesOnly().trace(traced)) == str(traced.graph)

    def test_copies_have_its_code_and_state(self, name: str) -> None:
        traced = fx.symbolic_trace(PROGRAMS[name](ad))
        x = make_input(ad, name)
        expected = copy.deepcopy(traced)(copy.deepcopy(x))
        for other in (copy.deepcopy(traced), copy.copy(traced), pickle.loads(pickle.dumps(traced))):
            assert other.code == traced.code
            assert list(other.state_dict()) == list(traced.state_dict())
            assert_equal(other.eval()(copy.deepcopy(x)), traced.eval()(copy.deepcopy(x)))
        assert_equal(fx.Transformer(traced).transform().train()(copy.deepcopy(x)), expected)

    def test_shapes_of_all_values_are_found(self, name: str) -> None:
        traced = fx.symbolic_trace(PROGRAMS[name](ad))
        ShapeProp(traced).propagate(make_input(ad, name))
        (x, *_) = traced.graph.nodes
        assert x.meta["tensor_meta"].shape == make_input(ad, name).shape
        assert all("type" in node.meta for node in traced.graph.nodes)
        assert f'{x.target}: "f32{list(make_input(ad, name).shape)}"' in traced.print_readable(print_output=False)


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
def test_code_and_graph_are_printed_as_by_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    importlib.import_module("torch.fx")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = torch.fx.symbolic_trace(PROGRAMS[name](torch))
        torch.fx.passes.shape_prop.ShapeProp(expected).propagate(make_input(torch, name))
    traced = fx.symbolic_trace(PROGRAMS[name](ad))
    ShapeProp(traced).propagate(make_input(ad, name))
    for ours, theirs in (
        (traced.code, expected.code),
        (str(traced.graph), str(expected.graph)),
        (traced.print_readable(print_output=False), expected.print_readable(print_output=False)),
        (str(traced), str(expected)),
    ):
        assert ours.replace("adjoint.", "torch.") == theirs
    for ours, theirs in zip(traced.graph.nodes, expected.graph.nodes, strict=True):
        assert (ours.name, ours.op, list(ours.users), ours.is_impure()) == (
            theirs.name, theirs.op, list(ours.users), theirs.is_impure(),
        )  # fmt: skip
