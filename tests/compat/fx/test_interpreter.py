"""Interpreters run graphs node by node, and transformers make others of them."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import fx, nn


def traced() -> fx.GraphModule:
    return fx.symbolic_trace(lambda x, y=2: ad.relu(x).neg() + y)


def test_kinds_of_nodes_can_be_overridden() -> None:
    class Shifted(fx.Interpreter):
        def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
            return super().call_method(target, args, kwargs) + 10

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return ad.sigmoid(*args) if target is ad.relu else super().call_function(target, args, kwargs)

    assert Shifted(traced()).run(ad.tensor(0.0)).item() == 11.5


def test_values_are_kept_if_asked_and_known_ones_not_computed() -> None:
    interpreter = fx.Interpreter(traced(), garbage_collect_values=False)
    interpreter.run(ad.tensor(3.0))
    (relu, *_) = interpreter.graph.find_nodes(op="call_function")
    assert interpreter.env[relu].item() == 3.0
    assert fx.Interpreter(traced().eval()).run(ad.tensor(3.0)).item() == -1.0
    assert interpreter.run(ad.tensor(3.0), initial_env={relu: ad.tensor(5.0)}).item() == -3.0


def test_errors_name_the_node() -> None:
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x") as caught:
        fx.Interpreter(traced()).run()
    assert "While executing %x" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match=r"expected 2 arguments for placeholders but received 1 \(missing"):
        fx.Interpreter(traced()).boxed_run([1])
    given = [ad.tensor(1.0), 5]
    assert fx.Interpreter(traced()).boxed_run(given).item() == 4.0
    assert given == []


def test_a_transformer_makes_another_module() -> None:
    class Swapped(fx.Transformer):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return -ad.exp(args[0]) if target is ad.relu else super().call_function(target, args, kwargs)

        def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
            return args[0].abs() if target == "neg" else super().call_method(target, args, kwargs)

    assert Swapped(traced()).transform().code.strip() == (
        "def forward(self, x, y = 2):\n"
        "    exp = adjoint.exp(x);  x = None\n"
        "    neg = -exp;  exp = None\n"
        "    abs_1 = neg.abs();  neg = None\n"
        "    add = abs_1 + y;  abs_1 = y = None\n"
        "    return add"
    )
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    assert fx.Transformer(fx.symbolic_trace(model)).transform().code == fx.symbolic_trace(model).code
