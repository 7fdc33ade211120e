"""Trials carry a line out again without an effect on the program, and edits are told only where the line then runs."""

from __future__ import annotations

import ast
import sys
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.diagnosis.remedies.trials.options import _choose_nearest
from adjoint.diagnosis.repairs.trial import MAX_COPIED_ELEMENTS, Trial, UntriableError, compute, is_safe, running


def parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def try_text(text: str, **names: Any) -> Any:
    """Return the value of an expression of these names, carried out on copies."""
    namespace = {"names": names, "Trial": Trial, "parse": parse, "text": text, "sys": sys}
    namespace |= names
    exec("result = Trial(parse(text), sys._getframe()).run(parse(text))", namespace)
    return namespace["result"]


def remedy_of(error: BaseException) -> str:
    lines = "\n".join(getattr(error, "__notes__", ())).split("\n")
    return next((each.removeprefix("try: ") for each in lines if each.startswith("try: ")), "")


def test_a_trial_leaves_operands_as_they_are() -> None:
    x, batch_norm = ad.ones(4, 3), nn.BatchNorm1d(3)
    assert try_text("x.add_(1)", x=x).tolist() == [[2.0] * 3] * 4
    try_text("norm(x)", norm=batch_norm, x=x)
    assert x.tolist() == [[1.0] * 3] * 4
    assert batch_norm.running_mean is not None
    assert batch_norm.running_mean.tolist() == [0.0] * 3


def test_a_trial_leaves_the_random_stream_where_it_is() -> None:
    ad.manual_seed(0)
    wanted = ad.rand(3)
    ad.manual_seed(0)
    try_text("make(5)", make=ad.rand)
    assert ad.rand(3).tolist() == wanted.tolist()


def test_a_trial_copies_lists_arrays_and_parameters() -> None:
    items, array, weight = [ad.ones(2)], np.ones(2), nn.Parameter(ad.ones(2))
    try_text("items[0].zero_()", items=items)
    try_text("array.fill(3)", array=array)
    assert items[0].tolist() == [1.0, 1.0]
    assert array.tolist() == [1.0, 1.0]
    assert try_text("weight.detach() * 2", weight=weight).tolist() == [2.0, 2.0]


def test_none_of_the_users_code_runs() -> None:
    calls = []

    class Holder:
        def __add__(self, other: object) -> None:
            calls.append(other)

    def make() -> ad.Tensor:
        calls.append(1)
        return ad.ones(2)

    for text in ("holder + x", "make() + x", "x + holder"):
        with pytest.raises(UntriableError):
            try_text(text, holder=Holder(), make=make, x=ad.ones(2))
    assert calls == []


def test_modules_with_hooks_and_of_the_users_are_not_called() -> None:
    hooked = nn.Linear(2, 2)
    hooked.register_forward_hook(lambda module, inputs, output: None)

    class Own(nn.Module):
        def forward(self, x: ad.Tensor) -> ad.Tensor:
            return x

    for module in (hooked, nn.Sequential(Own())):
        with pytest.raises(UntriableError):
            try_text("module(x)", module=module, x=ad.ones(1, 2))


@pytest.mark.parametrize("text", ["loss.backward()", "print(loss)", "open('x')", "(lambda: loss)()", "loss.__class__"])
def test_what_has_an_effect_is_not_tried(text: str) -> None:
    with pytest.raises(UntriableError):
        try_text(text, loss=ad.ones(()))


def test_large_values_are_not_copied() -> None:
    with pytest.raises(UntriableError):
        try_text("x + 1", x=ad.zeros(1).expand(MAX_COPIED_ELEMENTS + 1))


def test_functions_of_the_library_numpy_and_pure_python_are_safe() -> None:
    assert all(map(is_safe, (ad.cat, np.stack, len, nn.Linear, ad.Tensor.sum)))
    assert not any(map(is_safe, (print, open, exec, ad.save, ad.manual_seed, nn.Linear(1, 1), lambda: 0)))


def test_a_value_is_computed_of_copies_or_missing() -> None:
    x = ad.ones(2, 3)
    frame = sys._getframe()
    assert compute(parse("x.shape[0] + 1"), frame) == 3
    assert type(compute(parse("unknown + 1"), frame)) is object
    assert x.shape == (2, 3)
    assert not running.active


def test_shapes_that_would_broadcast_to_more_are_not_told() -> None:
    a, b = ad.ones(2, 5, 3), ad.ones(2, 4, 3)
    with pytest.raises(RuntimeError) as caught:
        a + b
    assert "unsqueeze" not in remedy_of(caught.value)


def test_a_remedy_is_the_line_that_runs() -> None:
    scores, mask = ad.zeros(3, 6, 5), ad.zeros(3, 5, dtype=ad.bool)
    with pytest.raises(RuntimeError) as caught:
        scores.masked_fill(mask, 1.0)
    assert remedy_of(caught.value).startswith("scores.masked_fill(mask.unsqueeze(1), 1.0), where")


@pytest.mark.parametrize(
    ("value", "options", "wanted"),
    [
        ("average", ["sum", "mean"], "mean"),
        ("minimum", ["max", "min"], "min"),
        ("linear", ["nearest", "bilinear"], "bilinear"),
        ("sames", ["valid", "same"], "same"),
        ("xyz", ["valid", "same"], None),
    ],
)
def test_an_option_is_found_by_another_word(value: str, options: list[str], wanted: str | None) -> None:
    assert _choose_nearest(value, options) == wanted
