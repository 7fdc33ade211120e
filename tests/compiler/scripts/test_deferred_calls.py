"""Calls that only keep books, which a region leaves to the program."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from tests.support.training_regions import STEP, split

import adjoint as ad
from adjoint import nn, optim
from adjoint.compiler.scripts.deferred_calls import reaches_training_state


@pytest.mark.parametrize("append", ["seen.append({})", "seen += [{}]"])
def test_appends_are_left_to_the_program(append: str) -> None:
    inside, behind = split(STEP.replace("loss.backward()", f"{append.format('loss.item()')}\nloss.backward()"))
    (name,) = {line.split()[0] for line in inside if "item" in line}
    assert f"{name} = loss.item()" in inside
    assert behind == [append.format(name)]


@pytest.mark.parametrize(
    ("step", "around"),
    [
        ("seen.append(loss.item())\nloss.backward()\nplan.step(seen)", ""),
        ("seen.append(loss.item())\nloss.backward()\nopt.step()", "def g():\n    return seen[-1]\n"),
        ("seen.append(loss.item())\nif bad(loss):\n    continue\nloss.backward()\nopt.step()", ""),
    ],
)
def test_appends_to_a_list_that_something_looks_at_stay(step: str, around: str) -> None:
    inside, behind = split(f"loss = f(x, y)\n{step}", around)
    assert "seen.append(loss.item())" in inside
    assert behind == []


@pytest.mark.parametrize(
    "call",
    [
        "meter.update({}, x.size(0))",
        "meter.update(loss=out.mean(), n=len(x))",
        "log.add_scalar('loss', {}, step)",
        "bar.set_postfix(loss={}, size=x.shape[0])",
    ],
)
def test_averages_and_logs_are_left_to_the_program(call: str) -> None:
    call = call.format("loss.item()")
    inside, behind = split(STEP.replace("loss.backward()", f"{call}\nloss.backward()"))
    (computation,) = [line for line in inside if line.startswith("__adjoint_metric")]
    name, _, values = computation.partition(" = ")
    given = ast.parse(values, mode="eval").body
    assert isinstance(given, ast.Tuple)
    texts = {f"{name}[{i}]": ast.unparse(value) for i, value in enumerate(given.elts)}
    (moved,) = behind
    for place, text in texts.items():
        moved = moved.replace(place, text)
    assert moved == call


@pytest.mark.parametrize("key", ["epoch", "f'{epoch}/{step}'", "epoch, 'loss'", "-1"])
def test_entries_are_left_to_the_program(key: str) -> None:
    inside, behind = split(STEP.replace("loss.backward()", f"history[{key}] = loss.item()\nloss.backward()"))
    (computation,) = [line for line in inside if line.startswith("__adjoint_metric")]
    name, _, values = computation.partition(" = ")
    if key == "-1":
        assert (values, behind) == ("loss.item()", [f"history[-1] = {name}"])
    else:
        assert ast.dump(ast.parse(values)) == ast.dump(ast.parse(f"(loss.item(), ({key}))"))
        assert behind == [f"history[{name}[1]] = {name}[0]"]


@pytest.mark.parametrize(
    "entry",
    [
        "bank[i] = out.detach()",  # which the model may look at
        "x[i] = loss.item()",
        "history[make_key()] = loss.item()",
        "history[i] = self.history[i] = loss.item()",
        "lr_of_epoch[i] = loss.item()",
    ],
)
def test_entries_that_may_be_looked_at_stay(entry: str) -> None:
    inside, behind = split(STEP.replace("loss.backward()", f"{entry}\nloss.backward()"))
    assert entry in inside
    assert behind == []


@pytest.mark.parametrize(
    "call",
    [
        "ema.update(loss.item())",  # of what the update may depend on
        "average.update(model)",
        "meter.update(weight)",  # which the region reads
        "meter.update(draw(loss))",
        "meter.update(loss.item())\nshow()",  # may look at it
        "meter.update(loss.item())\nif bad:\n    print(loss)",
        "meter.update(1)",
        "meter.close(loss.item())",
    ],
)
def test_calls_that_may_do_more_stay(call: str) -> None:
    step = STEP.replace("loss.backward()", f"{call}\nloss.backward()").replace("f(out, y)", "f(out, y, weight)")
    inside, behind = split(step)
    assert ast.unparse(ast.parse(call).body[0]) in inside
    assert behind == []


def test_a_name_that_other_functions_have_for_their_own_is_no_reason_to_stay() -> None:
    others = "def test():\n    seen = []\n    seen.append(1)\ndef show(seen):\n    print(seen)\n"
    step = STEP.replace("loss.backward()", "seen.append(loss.item())\nloss.backward()")
    assert split(step, others)[1] == ["seen.append(__adjoint_metric_of_line_9_0__)"]
    others = "def show():\n    print(seen)\n"
    assert split(step, others)[1] == []


class Meter:
    """A book: it holds numbers, and a list of tensors with a graph."""

    def __init__(self) -> None:
        self.values: list[object] = []

    def update(self, value: object) -> None:
        self.values.append(value)


def test_an_average_reaches_no_training_state() -> None:
    model = nn.Linear(2, 1)
    meter = Meter()
    meter.update(model(ad.ones(1, 2)).sum())
    assert not reaches_training_state(meter)
    assert not reaches_training_state([model])


def test_what_holds_an_optimizer_is_no_book() -> None:
    model = nn.Linear(2, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    meter = Meter()
    meter.values.append({"callbacks": [lambda: optimizer]})
    assert reaches_training_state(meter)
    for state in (optimizer, model, model.weight):
        other = Meter()
        other.update((state,))
        assert reaches_training_state(other)


def test_a_method_that_names_an_optimizer_is_no_book() -> None:
    program = """
class Tuner:
    def update(self, value):
        optimizer.param_groups[0]["lr"] = value
"""
    names: dict[str, Any] = {"optimizer": optim.SGD([ad.ones(1, requires_grad=True)], lr=0.1)}
    exec(program, names)
    assert reaches_training_state(names["Tuner"]())


def test_an_object_of_which_nothing_is_known_is_no_book() -> None:
    class Proxy:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("no object is bound")

    assert reaches_training_state(Proxy())
