"""Displays of notebooks in a browser: on a page like a notebook's, light and dark, with nothing fetched."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn

THEMES = {"light": ("#ffffff", "#000000"), "dark": ("#111111", "#e0e0e0")}
WIDTHS = (1200, 420)
# As notebooks style what cells show: tables without borders and flush right, every second row shaded, wide lists.
NOTEBOOK_STYLE = """
body { background: PAPER; color: INK; font: 14px system-ui, sans-serif; margin: 0 8px }
table { border-collapse: collapse; border-spacing: 0; border: none; color: INK; font-size: 12px; table-layout: fixed;
  margin-left: auto; margin-right: auto; margin-bottom: 1em }
td, th, tr { text-align: right; vertical-align: middle; padding: .5em; line-height: normal; white-space: normal;
  max-width: none; border: none }
tbody tr:nth-child(odd) { background: rgba(127, 127, 127, .12) } thead { border-bottom: 1px solid }
pre, code { background: rgba(127, 127, 127, .12); font-size: 13px } p { margin-bottom: 1em } img { max-width: 100% }
"""


def displayed_values() -> dict[str, Any]:
    """Return one value of each kind that has a display, made by one small training."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    body, head = list(model[0].parameters()), list(model[3].parameters())
    optimizer = ad.optim.Adam([{"params": body}, {"params": head, "lr": 0.1}], amsgrad=True)
    dataset = ad.data.TensorDataset(ad.randn(10, 3), ad.randn(10, 1))
    loader = ad.data.DataLoader(dataset, batch_size=4, shuffle=True)

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    @ad.compile
    def asks(x: ad.Tensor) -> ad.Tensor:
        return x * 2 if x.sum() > 0 else x + 1

    step(ad.randn(8, 3))
    step(ad.randn(7, 3))
    asks(ad.ones(3))
    unused = nn.Linear(3, 3)
    found = ad.optim.SGD([*model.parameters(), *unused.parameters()], lr=0.0)
    with ad.doctor(file=io.StringIO()) as report:
        for x, _ in loader:
            model(x).mean().backward()
            found.step()
    loss = model(ad.randn(4, 3)).square().mean()
    shown: dict[str, Any] = {"tensor": ad.randn(4, 5), "image": ad.rand(3, 16, 16), "module": model}
    shown |= {"node": loss.grad_fn, "leaf": head[0].t().grad_fn.next_functions[0][0]}
    shown |= {"memory": ad.autograd.memory_report(loss), "optimizer": optimizer, "dataset": dataset, "loader": loader}
    shown |= {"report": report, "step": step, "cuts": asks, "graph": step.graph, "program memory": step.memory()}
    return shown | {"uncalled step": ad.compile(lambda x: x)}


def make_page(shown: dict[str, str], theme: str) -> str:
    """Return a page like a notebook's: a cell for each display."""
    style = NOTEBOOK_STYLE.replace("PAPER", THEMES[theme][0]).replace("INK", THEMES[theme][1])
    cells = "".join(f'<h4>{name}</h4><div id="{name.replace(" ", "-")}">{html}</div>' for name, html in shown.items())
    head = f'<meta charset="utf-8"><title>displays</title><style>{style}</style>'
    return f"<!doctype html><html><head>{head}</head><body>{cells}</body></html>"


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    return {name: value._repr_html_() for name, value in displayed_values().items()}


@pytest.fixture
def open_page(browser: Any) -> Callable[..., Any]:
    """Give a function that opens HTML in the browser, with the list of errors and requests that it brings."""

    def open_page(html: str, width: int) -> tuple[Any, list[str]]:
        page, troubles = browser.new_page(viewport={"width": width, "height": 900}), []
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: troubles.append(request.url[:80]))
        page.set_content(html)
        return page, [trouble for trouble in troubles if not trouble.startswith("data:image/png")]

    return open_page


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_displays_fit_the_page_and_ask_for_nothing(
    open_page: Callable[..., Any], shown: dict[str, str], theme: str, width: int
) -> None:
    page, troubles = open_page(make_page(shown, theme), width)
    assert troubles == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for name in shown:
        cell = page.locator(f"#{name.replace(' ', '-')} .adjoint")
        assert cell.first.is_visible(), name
        assert cell.first.bounding_box()["height"] > 10, name
    colors = page.evaluate("[...document.querySelectorAll('.adjoint td')].map(e => getComputedStyle(e).color)")
    assert set(colors) == {page.evaluate("getComputedStyle(document.body).color")}
    page.close()


def test_folded_parts_open_by_a_click(open_page: Callable[..., Any], shown: dict[str, str]) -> None:
    page, _ = open_page(make_page(shown, "light"), WIDTHS[0])
    row = page.locator("#graph td").first
    assert not row.is_visible()
    page.locator("#graph summary").first.click()
    assert row.is_visible()
    page.locator("#node summary").first.click()
    assert not page.locator("#node details details").first.is_visible()
    page.close()


def test_numbers_are_flush_right_and_text_left(open_page: Callable[..., Any], shown: dict[str, str]) -> None:
    page, _ = open_page(make_page(shown, "light"), WIDTHS[0])
    align = "e => getComputedStyle(e).textAlign"
    assert page.locator("#memory td").first.evaluate(align) == "right"
    assert page.locator("#optimizer td").first.evaluate(align) == "left"
    page.close()
