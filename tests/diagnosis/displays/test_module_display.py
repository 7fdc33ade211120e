"""Displays of tensors and modules in notebooks."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import adjoint as ad
from adjoint import nn

OPEN_TAGS = {"img", "path", "rect", "br"}


def parse(text: str) -> str:
    """Return the words of HTML whose tags all close."""
    words: list[str] = []
    stack: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: stack.append(tag) if tag not in OPEN_TAGS else None
    parser.handle_startendtag = lambda tag, attrs: None
    parser.handle_data = lambda data: words.append(data)

    def close(tag: str) -> None:
        assert stack.pop() == tag

    parser.handle_endtag = close
    parser.feed(text)
    assert not stack
    return " ".join(words)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (40,), (3, 4), (40, 50), (3, 9, 9), (2, 1, 8, 8), (2, 0)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "complex64", "uint8"])
def test_a_tensor_shows_its_type_shape_and_values_and_stays_as_it_is(shape: tuple[int, ...], dtype: str) -> None:
    x = ad.ones(shape, dtype=getattr(ad, dtype))
    before, version = repr(x), x._version
    words = parse(x._repr_html_())
    assert dtype in words
    assert str(list(shape)) in words
    assert repr(x) == before
    assert x._version == version


def test_values_that_are_not_finite_are_counted() -> None:
    assert "2 NaN · 1 infinite" in parse(ad.tensor([1.0, ad.nan, ad.inf, ad.nan])._repr_html_()).replace("  ", " ")


def test_what_has_no_values_of_its_own_shows_its_text() -> None:
    class Own(nn.Linear):
        def __repr__(self) -> str:
            return "mine"

    assert ad.ones(2, device="meta")._repr_html_() is None
    assert Own(1, 1)._repr_html_() is None


def test_a_module_is_a_tree_with_counts_and_escaped_names() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    model.add_module("<b>", nn.Linear(2, 1).requires_grad_(False))
    words = parse(model._repr_html_())
    assert "11 parameters" in words
    assert "3 of them frozen" in words
    assert "(<b>):" in words


def test_an_image_is_a_png_of_its_values() -> None:
    image = ad.arange(192, dtype=ad.uint8).reshape(3, 8, 8)
    assert "data:image/png;base64," in image._repr_html_()
    assert "data:image/png;base64," in (image / 255.0)._repr_html_()
