"""What a compiled function says of its kernels: equations, lines, costs, and the reason of each boundary."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.compiler.report.explain import Explanation, explain

pytest.importorskip("llvmlite")


@pytest.fixture
def compiled() -> Any:
    def attend(x: Any, w: Any) -> Any:
        scores = x @ w
        return ad.special.bessel_j1(ad.softmax(scores, -1))

    compiled = ad.compile(attend)
    compiled(ad.ones(90, 80), ad.ones(80, 70))
    return compiled


@pytest.fixture(scope="module")
def training() -> Explanation:
    """That of a whole training step."""
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    optimizer = optim.Adam(model.parameters(), lr=0.1)

    @ad.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step(ad.randn(6, 5), ad.tensor([0, 1, 2, 0, 1, 2]))
    return explain(step._program())


def test_every_step_says_kind_ops_results_lines_and_reason(compiled: Any) -> None:
    steps = compiled.kernels
    assert [s["kind"] for s in steps] == ["kernel", "kernel", "call"]
    assert steps[0]["ops"] == ["mm"]
    assert steps[0]["name"].startswith("product_")
    assert steps[0]["results"] == ["f32[90,70]"]
    assert steps[0]["reason"] == "mm has a kernel of its own kind"
    assert "max" in steps[1]["ops"]
    assert steps[1]["name"].startswith("nest_")
    assert steps[1]["reason"] == "max folds what mm makes block by block"
    assert steps[2]["name"] == "bessel_j1"
    assert steps[2]["reason"] == "bessel_j1 is computed by NumPy"
    assert all(len(s["lines"]) == 1 and s["lines"][0].startswith("test_explain.py:") for s in steps)
    assert str(steps[0]) == "mm kernel over f32[90,70]\n  %2 = mm(%0, %1)\n  store %2"
    assert str(steps[2]).startswith("call %")


def test_the_text_names_every_step_once(compiled: Any) -> None:
    text = str(compiled.explain())
    head, titles, *rest = text.splitlines()
    count = len(compiled.graph.equations)
    assert head.startswith(f"attend: {count} equations in 2 kernels and 1 NumPy call; arena of ")
    assert titles.split() == ["#", "kind", "read", "written", "flops", "line", "ops"]
    assert [line.split()[0] for line in rest[:-1] if line[0] != " "] == ["0", "1", "2"]
    assert sum(" begins here, at test_explain.py:" in line for line in rest) == 3
    assert "→ f32[90,70]" in text
    assert repr(compiled.explain()) == text


def test_columns_stand_below_their_titles(compiled: Any) -> None:
    _, titles, *rest = str(compiled.explain()).splitlines()
    at = titles.index("line")
    assert all(line[at - 2 : at] == "  " and line[at] != " " for line in rest[:-1])


def test_before_the_first_call_there_is_nothing_to_say() -> None:
    with pytest.raises(RuntimeError, match="was not called yet"):
        ad.compile(lambda x: x).explain()


def test_the_same_program_says_the_same(compiled: Any) -> None:
    text = str(compiled.explain())
    compiled(ad.from_numpy(np.zeros((90, 80), np.float32)), ad.ones(80, 70))
    assert str(compiled.explain()) == text


def test_bytes_and_flops_of_each_entry(compiled: Any) -> None:
    product, softmax, total = explain(compiled._program()).entries
    x, w, scores = 90 * 80 * 4, 80 * 70 * 4, 90 * 70 * 4
    assert (product.read, product.written, product.flops) == (x + w, scores, 2 * 90 * 70 * 80)
    assert (softmax.read, softmax.written, softmax.flops) == (scores, scores, 5 * 90 * 70)  # max, sub, exp, sum, div
    assert (total.read, total.written, total.flops) == (scores, scores, 90 * 70)


def costs(step: Any, *arguments: Any) -> tuple[int, int, int]:
    compiled = ad.compile(step)
    compiled(*arguments)
    told = explain(compiled._program())
    return told.read, told.written, told.flops


def test_what_is_read_is_what_a_view_sees_and_no_element_twice() -> None:
    x = ad.ones(10, 8)
    assert costs(lambda x: x[2:4].neg(), x) == (2 * 8 * 4, 2 * 8 * 4, 16)
    assert costs(lambda x: x[:, :1] + x, x) == (80 * 4, 80 * 4, 80)
    assert costs(lambda x: x[0] * 2 + x[1], x) == (16 * 4, 8 * 4, 16)
    assert costs(lambda x: x[:1].expand(10, 8).neg(), x) == (8 * 4, 80 * 4, 80)
    assert costs(lambda x: x.to(ad.float64), x) == (80 * 4, 80 * 8, 0)


def test_a_write_in_place_moves_what_it_replaces_alone() -> None:
    memory = ad.zeros(40, 1000)

    def put_rows(x: Any) -> None:
        memory[3] = x * 2.0

    def put_indices(x: Any) -> None:
        memory.index_put_((ad.tensor([5, 7]),), x * 2.0)

    for step, rows in ((put_rows, 1), (put_indices, 2)):
        compiled = ad.compile(step)
        compiled(ad.ones(1000))
        write = explain(compiled._program()).entries[-1]
        assert write.written == rows * 4000
        assert 4000 <= write.read <= 4000 + rows * 8

    def write_copy(x: Any, whole: Any) -> Any:
        copy = whole.clone()
        copy[3] = x
        return copy

    compiled = ad.compile(write_copy)
    compiled(ad.ones(1000), memory)
    write = explain(compiled._program()).entries[-1]  # into memory of its own
    assert (write.read, write.written) == (4000 + memory.nbytes, memory.nbytes)


def test_flops_of_a_convolution_and_of_its_gradients() -> None:
    weight = ad.ones(6, 4, 3, 3, requires_grad=True)
    x = ad.ones(2, 4, 7, 7, requires_grad=True)

    @ad.compile
    def step() -> Any:
        return ad.autograd.grad(F.conv2d(x, weight).sum(), (x, weight))

    step()
    entries = explain(step._program()).entries
    each = 2 * (2 * 6 * 5 * 5) * (4 * 3 * 3)
    found = {equation.op: equation.flops for e in entries for equation in e.equations if "convolution" in equation.op}
    assert found == {"convolution_input": each, "convolution_weight": each}


def test_what_linear_algebra_costs_is_not_known() -> None:
    compiled = ad.compile(lambda x: ad.linalg.inv(x))
    compiled(ad.eye(3))
    entries = explain(compiled._program()).entries
    assert None in [entry.flops for entry in entries]
    assert " – " in str(compiled.explain())


@pytest.mark.claim("U5")
def test_every_entry_and_every_boundary_has_a_reason_and_a_line(training: Explanation) -> None:
    assert len(training.entries) > 10
    for entry in training.entries:
        assert entry.reason
        assert entry.origin.site.file == __file__
        for boundary in entry.boundaries:
            assert boundary.entry < entry.number
            assert boundary.values
            assert boundary.nbytes > 0
            assert boundary.reason
            assert boundary.origin.site.file == __file__


def test_boundaries_are_all_the_ways_in_which_values_pass_between_entries(training: Explanation) -> None:
    made = {equation.name: entry.number for entry in training.entries for equation in entry.equations}
    for entry in training.entries:
        for boundary in entry.boundaries:
            assert {made[name] for name in boundary.values} == {boundary.entry}
    passed = {name for entry in training.entries for boundary in entry.boundaries for name in boundary.values}
    assert len(passed) > 10


def test_reasons_beyond_the_first(training: Explanation) -> None:
    for entry in training.entries:
        first, *others = entry.reasons()
        assert first.startswith("begins here, at test_explain.py:")
        assert first.endswith(entry.reason)
        told = {int(number) for other in others for number in re.findall(r"\[(\d+)\]", other.partition(", at ")[0])}
        assert told == {boundary.entry for boundary in entry.boundaries if boundary.reason != entry.reason}


def test_equations_tell_line_module_and_direction(training: Explanation) -> None:
    origins = [equation.origin for entry in training.entries for equation in entry.equations]
    assert {o.module for o in origins if o is not None} == {"", "Sequential.0", "Sequential.1", "Sequential.2"}
    assert {o.backward for o in origins if o is not None} == {False, True}
    assert all("= " in e.text and e.text.startswith(e.name) for entry in training.entries for e in entry.equations)


def test_an_equation_that_a_pass_made_has_the_line_of_its_neighbour() -> None:
    compiled = ad.compile(lambda x: (x, x.exp()))
    compiled(ad.ones(3))
    untold = ad.compile(lambda x: x[0:2])
    untold(ad.ones(3))
    for step in (compiled, untold):
        for entry in explain(step._program()).entries:
            for equation in entry.equations:
                assert equation.origin is None or equation.origin.site.file == __file__


def test_a_backward_outside_has_entries_of_its_own() -> None:
    model = ad.compile(nn.Linear(5, 4))
    model(ad.ones(3, 5)).sum().backward()
    told = explain(model._program())
    assert all(e.origin is not None and e.origin.backward for entry in told.backward.entries for e in entry.equations)
    assert str(told).endswith("\n\n" + str(told.backward))
    assert len(model.kernels) == len(told.entries) + len(told.backward.entries)


def test_a_notebook_gets_a_table(training: Explanation) -> None:
    shown = training._repr_html_()
    assert shown.count("<tr>") == len(training.entries) + 1
    assert "<script" not in shown


def test_the_turns_of_a_loop_are_printed_once() -> None:
    net = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 5))

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        for _ in range(40):
            x = x + 0.1 * net(x)
        loss = x.square().mean()
        loss.backward()
        return loss

    step(ad.ones(3, 5))
    told = step.explain()
    parts = [*told.turns()]
    folded = [(times, entries) for times, entries in parts if times > 1]
    assert sum(times * len(entries) for times, entries in parts) == len(told.entries)
    assert {times for times, _ in folded} & {*range(30, 41)}
    for times, entries in folded:
        first = entries[0].number
        assert f"{times} times, as {first} to {first + times * len(entries) - 1}:" in str(told)
        assert all(
            [e.name for e in entries]
            == [e.name for e in told.entries[first + k * len(entries) : first + (k + 1) * len(entries)]]
            for k in range(times)
        )
    assert str(told).count("kernel ") < len(told.entries)
