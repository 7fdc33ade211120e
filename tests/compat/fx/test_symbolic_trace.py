"""Tracing: inputs, leaves, wrapped functions, and what cannot be traced."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
from adjoint.fx.proxy import TraceError

import adjoint as ad
from adjoint import fx, nn
from adjoint.nn.functional import relu as imported_relu

ACTIVATIONS = {"tanh": ad.tanh}


@fx.wrap
def decide(x: Any, scale: Any = 1) -> Any:
    return x * scale if x.sum() > 0 else x


def count(x: Any) -> Any:
    return len(x)


fx.wrap("len")


class Pair(NamedTuple):
    left: Any
    right: Any


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x: Any) -> Any:
        return self.layers(x) + 1


def nodes_of(function: Any, **options: Any) -> list[tuple[str, Any]]:
    return [(node.op, node.target) for node in fx.symbolic_trace(function, **options).graph.nodes]


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (lambda x: x if x.sum() > 0 else -x, TraceError, "symbolically traced variables cannot be used as inputs to"),
        (lambda x: list(x), TraceError, "Proxy object cannot be iterated"),
        (lambda x: range(x), TypeError, "'Proxy' object cannot be interpreted as an integer"),
        (lambda x: x.__len__(), RuntimeError, "'len' is not supported in symbolic tracing by default"),
        (lambda x: x.take(object()), NotImplementedError, "argument of type: <class 'object'>"),
        (lambda x: x.use({x: 1}), RuntimeError, "Keys for dictionaries used as an argument cannot contain a Node"),
    ],
)
def test_what_depends_on_values_is_refused(function: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text.replace("(", r"\(")):
        fx.symbolic_trace(function)
    assert ad.relu(ad.tensor(-1.0)).item() == 0


def test_functions_are_recorded_however_they_are_reached() -> None:
    assert [target for _, target in nodes_of(lambda x: imported_relu(ACTIVATIONS["tanh"](x)))][1:3] == [
        ad.tanh, ad.nn.functional.relu,
    ]  # fmt: skip


def test_wrapped_functions_and_those_of_math_are_one_call() -> None:
    traced = fx.symbolic_trace(lambda x: decide(x, scale=math.sqrt(count(x))))
    assert [node.target for node in traced.graph.nodes][1:-1] == [len, math.sqrt, decide]
    assert traced(ad.tensor([1.0, 2.0, 3.0, 6.0])).tolist() == [2.0, 4.0, 6.0, 12.0]
    assert decide(ad.tensor([-1.0]), 3).tolist() == [-1.0]
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap("decide")


def test_modules_are_leaves_as_the_tracer_says() -> None:
    class BlocksAreLeaves(fx.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return isinstance(m, Block) or super().is_leaf_module(m, module_qualified_name)

    model = nn.Sequential(Block(), Block())
    assert [node.target for node in fx.Tracer().trace(model).nodes][1:4] == ["0.layers.0", "0.layers.1", ad_add()]
    assert [node.target for node in BlocksAreLeaves().trace(model).nodes][1:-1] == ["0", "1"]
    (node, *_) = fx.Tracer().trace(model).find_nodes(op="call_module")
    assert list(node.meta["nn_module_stack"]) == ["0", "0.layers", "0.layers.0"]


def ad_add() -> Any:
    import operator

    return operator.add


def test_concrete_arguments_choose_a_branch_and_take_trees_apart() -> None:
    def function(x: Any, flag: bool, table: Any) -> Any:
        return x + table["a"] if flag else (x - table["b"], {"x": x})

    traced = fx.symbolic_trace(function, concrete_args={"flag": False, "table": {"a": fx.PH, "b": fx.PH}})
    assert traced(ad.tensor(3.0), False, {"a": 1.0, "b": 2.0})[0].item() == 1.0
    assert list(traced(ad.tensor(3.0), False, {"b": 1.0, "a": 2.0})[1]) == ["x"]
    with pytest.raises(AssertionError, match="flag has been specialized to have value False"):
        traced(ad.tensor(3.0), True, {"a": 1.0, "b": 2.0})
    with pytest.raises(RuntimeError, match="Tracing expected 3 arguments but got 1 concrete arguments"):
        fx.symbolic_trace(function, concrete_args=(1,))


def test_unpacking_asserts_and_named_tuples_are_recorded() -> None:
    class Asserting(fx.Tracer):
        trace_asserts = True

    names: dict[str, Any] = {"ad": ad, "Pair": Pair}
    source = "def function(x):\n    a, b = x\n    assert a.sum() > 0\n    return ad.stack(Pair(a, b))\n"
    exec(source, names)  # pytest rewrites the asserts of this file
    graph = Asserting().trace(names["function"])
    assert [getattr(node.target, "__name__", node.target) for node in graph.nodes][1:] == [
        "getitem", "getitem", "sum", "gt", "assert_fn", "Pair", "stack", "output",
    ]  # fmt: skip


def test_variadic_parameters_are_inputs() -> None:
    def function(x, *rest, key=3, **others):  # type: ignore[no-untyped-def]
        return x + rest[0] * key + others["z"]

    traced = fx.symbolic_trace(function)
    assert "def forward(self, x, key = 3, *rest, **others):" in traced.code
    assert traced(ad.tensor(1.0), 2, 5.0, z=4.0).item() == 15.0


def test_parameters_keep_their_shapes_if_asked_to() -> None:
    tracer = fx.Tracer(param_shapes_constant=True)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(ad.ones(3))

        def forward(self, x: Any) -> Any:
            return x * self.weight if self.weight.shape[0] == 3 and self.weight.dim() == 1 else x

    assert [node.op for node in tracer.trace(Scaled()).nodes] == ["placeholder", "get_attr", "call_function", "output"]


def test_stack_traces_name_the_line() -> None:
    class Tracing(fx.Tracer):
        record_stack_traces = True

    graph = Tracing().trace(Block())
    (node,) = graph.find_nodes(op="call_function")
    assert "return self.layers(x) + 1" in (node.stack_trace or "")
    assert "code: return self.layers(x) + 1" in graph.python_code("self", verbose=True).src


def test_classes_whose_construction_is_recorded() -> None:
    traced = fx.symbolic_trace(lambda x: Both(x, x).total())
    assert traced(ad.tensor(2.0)).item() == 4.0
    assert Both(1, 2).total() == 3


class Both(metaclass=fx.ProxyableClassMeta):
    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right

    def total(self) -> Any:
        return self.left + self.right


@pytest.mark.parametrize(
    ("module", "names"),
    [(nn.LeakyReLU(0.2), ["input_1"]), (nn.Softmax(1), ["input_1"]), (nn.MSELoss(), ["input_1", "target"]),
     (nn.TripletMarginLoss(), ["anchor", "positive", "negative"])],
)  # fmt: skip
def test_layers_made_from_functions_have_the_operands_for_inputs(module: Any, names: list[str]) -> None:
    traced = fx.symbolic_trace(module)
    assert [node.name for node in traced.graph.nodes if node.op == "placeholder"] == names
    args = [ad.randn(3, 2) for _ in names]
    assert ad.equal(traced(*args), module(*args))
