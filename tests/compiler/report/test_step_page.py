"""The page of a compiled step: what it holds, of steps of all kinds; tests/browser looks at it in a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.compiler.report import step_reports

pytest.importorskip("llvmlite")


def read_document(page: Any) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="document">(.*?)</script>', page.html, re.DOTALL)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    return document


@pytest.fixture(scope="module")
def step() -> Any:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @ad.compile
    def step(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = ad.randn(32, 8), ad.randint(0, 3, (32,))
    step(x, y)
    return step, x, y


def test_the_last_graph_has_the_kernels_as_boxes_around_their_equations(step: Any) -> None:
    compiled, _, _ = step
    document = read_document(compiled.page())
    graph = document["graphs"][document["first"]]
    assert graph["title"] == "kernels"
    explanation = compiled.explain()
    boxes = [group for group in graph["groups"] if group["kind"] in ("kernel", "call")]
    assert [box["label"].split(" · ")[0] for box in boxes] == [str(entry.number) for entry in explanation.entries]
    for box, entry in zip(boxes, explanation.entries, strict=True):
        assert box["reason"] == "; ".join(entry.reasons())
        inside = [dict(node["details"])["equation"] for node in graph["nodes"] if node.get("group") == box["key"]]
        assert {equation.text for equation in entry.equations} <= set(inside)
    times = [dict(box["details"]).get("time", "") for box in boxes if box["kind"] == "kernel"]
    assert all(re.fullmatch(r"[\d.,]+ µs, [\d.]+% of a call", time) for time in times), times


def test_panes_name_nodes_that_exist(step: Any) -> None:
    compiled, _, _ = step
    document = read_document(compiled.page())
    graph = document["graphs"][document["first"]]
    known = {item["key"] for item in (*graph["nodes"], *graph["groups"])}
    assert [pane["title"] for pane in document["panes"]] == ["Kernels", "Memory", "Code"]
    for pane in document["panes"][:2]:
        named = [keys.split() for keys in re.findall(r'data-keys="([^"]*)"', pane["html"])]
        assert named
        assert all(set(keys) <= known for keys in named), pane["title"]
    kernels = re.findall(r'<li data-keys="(\S+) ', document["panes"][0]["html"])
    assert len(kernels) == len(compiled.explain().entries)


def test_the_memory_pane_tells_the_peak_and_what_lives_there(step: Any) -> None:
    compiled, _, _ = step
    html = read_document(compiled.page(profile=False))["panes"][1]["html"]
    memory = compiled.memory()
    inside = [value for value in memory.values if value.kind == "arena"]
    needed = [
        sum(v.nbytes for v in inside if v.first <= i <= v.last) for i in range(len(compiled.explain().entries) + 1)
    ]
    peak = needed.index(max(needed))
    assert f">{max(needed):,} bytes at [{peak}]<" in html
    assert html.count("<rect") == len(inside)
    held = html.split("The peak")[1].split("Saved for backward")[0]
    assert held.count("<tr data-keys") == sum(v.first <= peak <= v.last for v in inside)
    assert "loss = " not in held, "lines are told by file and number; the source is beside it"


def test_without_times_the_bars_are_bytes_and_the_reason_is_told(step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, _, _ = step
    quiet = read_document(compiled.page(profile=False))
    assert "no times were measured" in quiet["panes"][0]["html"]
    assert "µs" not in quiet["panes"][0]["html"]

    def refuse(*_: object) -> None:
        raise RuntimeError("there is no clock")

    monkeypatch.setattr(step_reports.StepReports, "_measure", refuse)
    document = read_document(compiled.page())
    assert "there is no clock." in document["graphs"][-1]["note"]


def test_given_arguments_are_those_of_the_measured_call(step: Any) -> None:
    compiled, x, y = step
    assert "with the arguments given" in read_document(compiled.page(x, y))["panes"][0]["html"]


def test_halves_follow_one_another() -> None:
    model = ad.compile(nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)))
    x = ad.ones(6, 5)
    model(x).sum().backward()
    document = read_document(model.page())
    titles = [graph["title"] for graph in document["graphs"]]
    assert [title for title in titles if "kernels" in title] == ["forward kernels", "backward kernels"]
    assert titles[document.get("first", 0)] == "forward kernels"
    assert len(document["panes"]) == 6


def test_a_step_that_asks_is_several_programs() -> None:
    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        y = x.exp()
        return y * 2 if y.sum().item() > 0 else y

    x = ad.ones(4)
    step(x)
    step(x)
    document = read_document(step.page())
    titles = [graph["title"] for graph in document["graphs"]]
    assert len(titles) == len(step._latest_entry().programs) > 1
    assert titles[0] == "program 1 kernels"
    assert "several programs" in document["graphs"][0]["note"]


def test_names_are_text_and_not_markup() -> None:
    compiled = ad.compile(lambda x: x.exp())
    x = ad.ones(3)
    compiled(x)
    html = compiled.page().html
    assert "<lambda>" not in html.replace("\\u003clambda>", "")
    assert "compiled &lt;lambda&gt;" in html


def test_a_step_without_an_arena_or_not_called_yet() -> None:
    compiled = ad.compile(lambda x: x + 1)
    with pytest.raises(RuntimeError, match="was not called yet"):
        compiled.page()
    x = ad.ones(3)
    compiled(x)
    assert "The arena is empty." in read_document(compiled.page())["panes"][1]["html"]


def test_visualize_shows_the_same_page(step: Any, tmp_path: Path) -> None:
    compiled, _, _ = step
    ad.visualize(compiled, path=tmp_path / "step.html")
    written = (tmp_path / "step.html").read_text(encoding="utf-8")
    assert written.count("<title>compiled step</title>") == 1
    assert '"kernels"' in written
