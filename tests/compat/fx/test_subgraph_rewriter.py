"""Patterns in graphs are replaced."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import fx, nn


def code_of(traced: fx.GraphModule) -> str:
    return "; ".join(line.split(";")[0].strip() for line in traced.code.strip().splitlines()[1:])


def test_each_match_is_replaced_once() -> None:
    traced = fx.symbolic_trace(lambda x, w: ad.relu(ad.relu(x) + w) + w + ad.relu(x))
    matches = fx.replace_pattern(traced, lambda a, b: ad.relu(a) + b, lambda a, b: ad.sigmoid(a) * b)
    assert len(matches) == 2
    traced.graph.lint()
    assert code_of(traced) == (
        "sigmoid = adjoint.sigmoid(x); mul = sigmoid * w; relu_2 = adjoint.relu(x); sigmoid_1 = adjoint.sigmoid(mul); "
        "mul_1 = sigmoid_1 * w; add_2 = mul_1 + relu_2; return add_2"
    )


def test_constants_and_keywords_must_agree() -> None:
    def function(x: Any) -> Any:
        return ad.sum(x, dim=0) + ad.sum(x, dim=1) + x[0] + x[1]

    traced = fx.symbolic_trace(function)
    assert len(fx.replace_pattern(traced, lambda x: ad.sum(x, dim=1), lambda x: ad.mean(x, dim=1))) == 1
    assert len(fx.replace_pattern(traced, lambda x: x[1], lambda x: x[2])) == 1
    assert len(fx.replace_pattern(traced, lambda x: x[7], lambda x: x[2])) == 0


def test_a_value_used_elsewhere_stays() -> None:
    def function(x: Any) -> Any:
        y = ad.relu(x)
        return y + 1, y

    assert fx.replace_pattern(fx.symbolic_trace(function), lambda x: ad.relu(x) + 1, lambda x: x) == []


def test_modules_of_the_replacement_come_along() -> None:
    class Replacement(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.scale = nn.Parameter(ad.ones(2))

        def forward(self, x: Any) -> Any:
            return self.layer(x) * self.scale

    traced = fx.symbolic_trace(lambda x: ad.relu(x) + 1)
    assert len(fx.replace_pattern(traced, lambda x: ad.relu(x), Replacement())) == 1
    assert sorted(traced.state_dict()) == ["layer.bias", "layer.weight", "scale"]
    assert traced(ad.ones(1, 2)).shape == (1, 2)
