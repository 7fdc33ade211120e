"""Pages of compiled steps in a browser: the slider over passes, kernels and lines that light up, memory, two widths."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn, optim

pytest.importorskip("llvmlite")
Show = Callable[..., Any]


def train(layers: int) -> tuple[Any, ad.Tensor, ad.Tensor]:
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(layers)), nn.ReLU(), nn.Linear(8, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @ad.compile
    def step(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = ad.randn(32, 8), ad.randint(0, 3, (32,))
    step(x, y)
    return step, x, y


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of a small step, a larger one, and a model whose `backward()` is outside."""
    folder = tmp_path_factory.mktemp("pages")
    pages = {}
    for name, layers in (("small", 1), ("large", 9)):
        step, x, y = train(layers)
        pages[name] = step.page(x, y)
    model = ad.compile(nn.Sequential(nn.Linear(8, 4), nn.LayerNorm(4)))
    x = ad.randn(6, 8)
    model(x).sum().backward()
    pages["halves"] = model.page()
    for name, page in pages.items():
        page.write(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in pages}


def open_tab(page: Any, name: str) -> Any:
    page.locator(f"#tabs [data-tab='{name}']").click()
    return page.locator(".panel.shown")


def lit_lines(page: Any) -> list[str]:
    lines: list[str] = page.locator("#panel-source li.lit code").all_inner_texts()
    return [line.strip() for line in lines]


def test_the_slider_goes_through_the_passes(show: Show, files: dict[str, Path]) -> None:
    page = show(files["small"])
    title, slider = page.locator("#graph-title"), page.locator("#graph-slider")
    assert title.inner_text().endswith(": kernels"), "the page opens with the kernels"
    assert page.locator(".group.kind-kernel").count() > 0
    count = int(slider.get_attribute("max")) + 1
    titles = []
    for i in range(count):
        slider.fill(str(i))
        titles.append(title.inner_text().split(": ")[1])
        assert page.locator(".item").count() > 0
    assert titles[:2] == ["as traced", "after apply_rules"]
    assert titles[-1] == "kernels"
    slider.fill("0")
    assert page.locator(".group.kind-lines").count() > 0, "before fusion, boxes are lines"


def test_what_is_selected_stays_so_and_in_view_from_graph_to_graph(show: Show, files: dict[str, Path]) -> None:
    page = show(files["small"])
    open_tab(page, "Kernels").locator(".kernels li", has_text="mm add").first.click()
    page.locator(".node", has=page.locator("text.label", has_text="mm")).first.click()
    for i in range(int(page.locator("#graph-slider").get_attribute("max")), -1, -1):
        page.locator("#graph-slider").fill(str(i))
        selected, canvas = (page.locator(what).first.bounding_box() for what in (".item.lit", "#canvas"))
        assert canvas["x"] <= selected["x"] <= canvas["x"] + canvas["width"] - selected["width"], i
        assert canvas["y"] <= selected["y"] <= canvas["y"] + canvas["height"] - selected["height"], i


def test_a_kernel_lights_up_its_box_its_bar_and_its_lines(show: Show, files: dict[str, Path]) -> None:
    page = show(files["small"])
    pane = open_tab(page, "Kernels")
    assert "a call takes" in pane.inner_text()
    row = pane.locator(".kernels li", has_text="mm add").first
    row.hover()
    assert page.locator(".item.lit").count() >= 1
    assert "logits = model(x)" in lit_lines(page)
    assert pane.locator(".flame .lit").count() >= 1
    row.click()
    selected = page.locator(".group.selected text.label").text_content()
    assert "mm add" in selected
    open_tab(page, "Details")
    assert "begins here" in page.locator("#panel-details .reason").inner_text()
    assert "% of a call" in page.locator("#panel-details").inner_text()


def test_a_line_lights_up_its_equations_kernels_and_memory(show: Show, files: dict[str, Path]) -> None:
    page = show(files["small"])
    open_tab(page, "Memory")
    page.locator("#panel-source li.maker", has_text="logits = model(x)").hover()
    assert page.locator(".node.lit").count() >= 1
    assert page.locator(".arena .lit").count() >= 1
    open_tab(page, "Kernels")
    page.locator("#panel-source li.maker", has_text="loss = nn.functional").hover()
    assert page.locator(".kernels li.lit").count() >= 1
    assert page.locator(".kernels li.lit").count() < page.locator(".kernels li").count()


def test_a_value_of_the_arena_leads_to_its_equation(show: Show, files: dict[str, Path]) -> None:
    page = show(files["small"])
    open_tab(page, "Memory").locator(".arena g[data-keys] rect").first.click()
    assert page.locator(".node.selected").count() == 1
    open_tab(page, "Details")
    assert "needed from [" in page.locator("#panel-details").inner_text()


def test_a_large_step_opens_in_parts(show: Show, files: dict[str, Path]) -> None:
    page = show(files["large"])
    labels = page.locator(".group text.label").all_text_contents()
    assert {"forward", "backward", "state"} <= set(labels)
    before = page.locator(".item").count()
    page.locator(".item", has=page.locator("text.label", has_text="forward")).last.click()
    assert page.locator(".item").count() > before
    page.locator("#unfold-all").click()
    assert page.locator(".group.kind-kernel").count() >= 9


def test_both_halves_are_there_with_their_panes(show: Show, files: dict[str, Path]) -> None:
    page = show(files["halves"])
    tabs = page.locator("#tabs button").all_inner_texts()
    assert {"Forward kernels", "Backward kernels", "Backward memory"} <= set(tabs)
    assert page.locator("#graph-title").inner_text().endswith("forward kernels")
    open_tab(page, "Backward kernels").locator(".kernels li").first.click()
    assert page.locator("#graph-title").inner_text().endswith("backward kernels"), "a click leads to the other graph"
    assert page.locator(".item.selected").count() == 1
    open_tab(page, "Forward memory").locator(".arena g[data-keys] rect").first.click()
    assert page.locator("#graph-title").inner_text().endswith("forward kernels")
    assert page.locator(".node.selected").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("tab", ["Details", "Kernels", "Memory", "Code"])
def test_nothing_is_wider_than_the_screen(
    show: Show, files: dict[str, Path], tab: str, width: int, scheme: str
) -> None:
    page = show(files["large"], width=width, height=844, scheme=scheme)
    panel = open_tab(page, tab)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    inside = "e => [...e.querySelectorAll('*')].filter(x => !x.closest('.wide, pre') && x.offsetWidth > e.clientWidth)"
    assert panel.evaluate(f"e => ({inside})(e).length") == 0
    ground, ink = (
        panel.evaluate(f"e => getComputedStyle(e{place}).{name}")
        for place, name in ((".closest('aside')", "backgroundColor"), ("", "color"))
    )
    brightness = [sum(map(int, colour[4:-1].split(","))) for colour in (ground, ink)]
    assert (brightness[0] > brightness[1]) is (scheme == "light")
