"""Pages of `ad.visualize` in a browser: boxes open, lines and nodes light up, the slider moves, keys and search go."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.core.viewer.document import DrawnEdge, DrawnGraph, DrawnGroup, DrawnNode, GraphDocument, Pane
from adjoint.core.viewer.page import render_document

Show = Callable[..., Any]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return self.rest(self.first(x))


@pytest.fixture
def net_page(tmp_path: Path) -> Path:
    net, path = Net(), tmp_path / "net.html"
    loss = net(ad.ones(3, 4)).square().sum()
    ad.visualize(loss, path=path, backward=True)
    return path


def names(page: Any, selector: str = ".item") -> list[str]:
    """Return the labels of what is drawn, from above."""
    read = "items => items.map(e => [e.getBoundingClientRect().y, e.querySelector('text.label').textContent])"
    return [name for _, name in sorted(page.locator(selector).evaluate_all(read))]


def box(page: Any, label: str) -> Any:
    return page.locator(".item", has=page.locator("text.label", has_text=label)).last


def test_the_graph_is_drawn_with_boxes_edges_and_lines(show: Show, net_page: Path) -> None:
    page = show(net_page)
    assert names(page, ".group") == ["net", "first", "rest"]
    assert page.locator(".line").count() >= 4
    assert page.locator(".line text", has_text="f32[3,8] · 96 bytes").count() == 1
    assert page.locator("#panel-source li.maker").count() == 2
    assert page.locator("#panel-details").inner_text().startswith("loss f32[]")


def test_a_click_opens_a_box_and_its_header_folds_it(show: Show, net_page: Path) -> None:
    page = show(net_page)
    assert "linear" not in names(page)
    box(page, "first").click()
    assert {"linear", "weight", "bias"} <= set(names(page))
    page.locator(".group.open .header").last.click()
    assert "linear" not in names(page)
    page.locator("#unfold-all").click()
    assert names(page).count("weight") == 2
    page.locator("#fold-all").click()
    assert names(page, ".group") == ["net"]


def test_details_tell_shapes_and_saved_bytes(show: Show, net_page: Path) -> None:
    page = show(net_page)
    box(page, "rest").click()
    box(page, "relu").click()
    details = page.locator("#panel-details").inner_text()
    assert "ReluBackward0" in details
    assert "f32[3,8]" in details
    assert "saved for backward" in details
    page.locator("#path button", has_text="rest").click()
    assert "Sequential" in page.locator("#panel-details").inner_text()


def test_the_kinds_of_nodes_have_colours_and_are_found(show: Show, net_page: Path) -> None:
    page = show(net_page)
    chip = page.locator("#panel-details .chip.kind", has_text="matrix 2")
    chip.hover()
    assert {"first", "rest"} <= set(names(page, ".item.lit"))
    chip.click()
    assert page.locator("#hits li").count() == 2


def test_a_line_lights_up_its_nodes_and_a_node_its_lines(show: Show, net_page: Path) -> None:
    page = show(net_page)
    line = page.locator("#panel-source li.maker", has_text="self.rest(self.first(x))")
    line.hover()
    assert page.locator(".item.lit").count() >= 2
    assert page.locator(".line.lit").count() >= 2
    page.locator("h1").hover()
    assert page.locator(".item.lit").count() == 0
    box(page, "square").hover()
    assert "square().sum()" in page.locator("#panel-source li.lit").inner_text()
    line.click()
    assert "nodes from this line" in page.locator("#panel-details").inner_text()
    page.locator("#panel-details .links button", has_text="relu").click()
    assert "relu" in names(page)


def test_search_finds_and_shows_a_node_in_a_folded_box(show: Show, net_page: Path) -> None:
    page = show(net_page)
    page.keyboard.press("/")
    page.keyboard.type("relu")
    assert page.locator("#hits li").count() == 1
    page.keyboard.press("Enter")
    assert "relu" in names(page)
    assert page.locator(".item.selected text.label").text_content() == "relu"
    page.locator("#search").fill("nowhere")
    assert page.locator("#hits").inner_text() == "nothing has this name"


def test_keys_go_along_edges_and_open_boxes(show: Show, net_page: Path) -> None:
    page = show(net_page)
    page.locator("#canvas").focus()
    box(page, "first").click()
    page.keyboard.press("Enter")
    assert "linear" not in names(page)
    page.keyboard.press("ArrowDown")
    assert page.locator(".item.selected text.label").text_content() == "rest"
    page.keyboard.press("Enter")
    assert "relu" in names(page)
    page.keyboard.press("Backspace")
    assert page.locator(".item.selected text.label").first.text_content() == "net"
    page.keyboard.press("Escape")
    assert page.locator(".item.selected").count() == 0
    page.keyboard.press("?")
    assert page.locator("dialog[open]").is_visible()


def test_the_slider_steps_through_backward(show: Show, net_page: Path) -> None:
    page = show(net_page)
    page.locator("#unfold-all").click()
    slider = page.locator("#walk-slider")
    count = int(slider.get_attribute("max"))
    assert page.locator("#walk-title").inner_text() == f"backward: {count} steps"
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#walk-title").inner_text() == f"1 of {count}: sum runs"
    assert page.locator(".node[data-state=running] text.label").text_content() == "sum"
    page.keyboard.press(".")
    assert page.locator(".node[data-state=done] text.label").text_content() == "sum"
    assert "norm" in page.locator("#panel-details .moment").inner_text()
    assert page.locator(".node[data-state=running] .note").text_content().startswith("‖∇‖ ")
    slider.fill(str(count))
    assert page.locator(".node[data-state=waiting]:not(.kind-output)").count() == 0
    assert "becomes .grad" in page.locator("#panel-details .moment").inner_text()
    page.locator("#fold-all").click()
    assert page.locator(".group[data-state=done]").count() >= 1
    page.get_by_label("Step back (,)").click()
    assert page.locator("#walk-title").inner_text().startswith(f"{count - 1} of {count}")


def test_the_graph_moves_and_zooms(show: Show, net_page: Path) -> None:
    page = show(net_page)

    def view() -> str:
        return page.locator("#world").get_attribute("transform")

    before = view()
    page.mouse.move(60, 300)
    page.mouse.wheel(0, 100)
    moved = view()
    assert moved != before
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    assert view().split("scale")[1] != moved.split("scale")[1]
    dragged = view()
    page.mouse.down()
    page.mouse.move(160, 350, steps=4)
    page.mouse.up()
    assert view() != dragged
    page.locator("#fit").click()
    assert view() == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_everything_fits_at_every_width_in_both_colours(show: Show, net_page: Path, width: int, scheme: str) -> None:
    page = show(net_page, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 200) == (scheme == "dark")
    assert page.locator("#scene").bounding_box()["height"] > 250
    if width == 390:
        page.get_by_role("tab", name="Source").click()
    assert page.locator("#panel-source li.maker").first.is_visible()
    for name in ("Fold", "Unfold", "Fit"):
        right = page.get_by_role("button", name=name, exact=True).bounding_box()
        assert right["x"] + right["width"] <= width


def test_two_thousand_nodes_fold_and_open(show: Show, tmp_path: Path) -> None:
    x = w = ad.ones(3, requires_grad=True)
    for _ in range(2000):
        x = x * w
    ad.visualize(x.sum(), path=tmp_path / "loop.html")
    page = show(tmp_path / "loop.html")
    assert page.locator(".item").count() < 60
    while page.locator(".folded").count() and page.locator(".node", has_text="mul").count() < 2:
        page.locator(".folded").first.click()
    assert page.locator(".node", has_text="mul").count() > 2
    assert page.locator(".tag", has_text="w").count() > 2


def test_a_document_with_several_graphs_and_panes(show: Show, tmp_path: Path) -> None:
    nodes = (DrawnNode("a", "first"), DrawnNode("b", "second", group="k"))
    groups = (DrawnGroup("k", "kernel 1", "kernel", reason="begins here: a reduction ends the loop", is_open=True),)
    edges = (DrawnEdge("a", "b", "f32[3]", 12),)
    graphs = (DrawnGraph("as traced", nodes, groups, edges), DrawnGraph("simplified", nodes[:1], note="b is dead"))
    pane = Pane("Memory", '<p data-keys="b">block of b</p><p data-keys="a">block of a</p>')
    render_document(GraphDocument("step", graphs, (pane,))).write(tmp_path / "step.html")
    page = show(tmp_path / "step.html")
    assert page.locator("#graph-title").inner_text() == "1 of 2: as traced"
    page.get_by_role("tab", name="Memory").click()
    page.get_by_text("block of b").hover()
    assert page.locator(".item.lit text.label").text_content() == "second"
    box(page, "second").hover()
    assert page.get_by_text("block of b").get_attribute("class") == "lit"
    page.get_by_role("tab", name="Details").click()
    page.locator(".group.open .shape").click(position={"x": 8, "y": 60})
    assert "a reduction ends the loop" in page.locator("#panel-details").inner_text()
    page.get_by_label("Next graph").click()
    assert names(page) == ["first"]
    assert "b is dead" in page.locator("#panel-details").inner_text()


def test_boxes_that_use_values_of_each_other_are_drawn(show: Show, tmp_path: Path) -> None:
    nodes = tuple(DrawnNode(key, key, group=group) for key, group in (("a", "A"), ("b", "B"), ("c", "A")))
    edges = (DrawnEdge("a", "b", "f32[3]"), DrawnEdge("b", "c", "f32[7]"))
    graph = DrawnGraph("g", nodes, (DrawnGroup("A", "A"), DrawnGroup("B", "B")), edges)
    render_document(GraphDocument("g", (graph,))).write(tmp_path / "graph.html")
    page = show(tmp_path / "graph.html")
    assert page.locator(".line path[marker-end]").count() == 1
    assert page.locator(".line path[marker-start]").count() == 1
    page.locator("#unfold-all").click()
    assert sorted(names(page, ".node")) == ["a", "b", "c"]


def test_a_notebook_frame_shows_the_page(show: Show, tmp_path: Path) -> None:
    x = ad.ones(3, requires_grad=True)
    frame = ad.visualize(x.sin().sum(), path=tmp_path / "graph.html")._repr_html_()
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<html data-ready='true'><meta charset='utf-8'>{frame}", encoding="utf-8")
    page = show(notebook)
    inside = page.frame_locator("iframe")
    inside.locator(".node", has_text="sin").click()
    assert "SinBackward0" in inside.locator("#panel-details").inner_text()
