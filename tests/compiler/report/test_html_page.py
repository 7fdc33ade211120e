"""The page about a program: one file that needs nothing else, with every kernel, line, equation and value in it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.compiler.report.html_page import page
from adjoint.compiler.report.memory_report import report_memory

pytest.importorskip("llvmlite")
VOID = {"meta", "br", "path", "rect"}


class Reader(HTMLParser):
    """Checks that elements close in order; collects ids, links and what would be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.fetched: list[str] = []
        self.counts: dict[str, int] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "href" and (value or "").startswith("#"):
                self.links.add((value or "")[1:])
            elif name in ("href", "src", "srcset", "data", "action"):
                self.fetched.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def model() -> Any:
    model = ad.compile(nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)))
    model(ad.ones(6, 5)).sum().backward()
    return model


def test_it_is_sound_html_and_needs_nothing_from_elsewhere(model: Any) -> None:
    text = page(model._program())
    read = Reader(text)
    assert read.open == []
    assert read.fetched == []
    assert not {"script", "link", "img", "iframe", "object"} & set(read.counts)
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text


def test_every_link_leads_somewhere_and_every_name_is_used_once(model: Any) -> None:
    read = Reader(page(model._program()))
    assert len(read.ids) == len(set(read.ids))
    assert read.links <= set(read.ids)
    assert {"entry-0", "value-0", "backward-entry-0", "backward-value-0"} <= set(read.ids)


def test_everything_is_there(model: Any) -> None:
    program = model._program()
    text = page(program)
    read = Reader(text)
    for half in (program, program.backward.program):
        for kernel in half.kernels.values():
            assert text.count(f"define void @{kernel.name}(") == 1
        assert half.graph.equations
    assert sum(name.startswith("entry-") for name in read.ids) == len(program.fusion.order)
    assert read.counts["rect"] == sum(
        v.kind == "arena" for half in (program, program.backward.program) for v in report_memory(half).values
    )
    assert "model(ad.ones(6, 5)).sum().backward()" in text  # the line itself, not only its number
    assert "Sequential.1" in text


def test_names_are_text_and_not_markup() -> None:
    compiled = ad.compile(lambda x: x.exp())
    compiled(ad.ones(3))
    text = page(compiled._program())
    assert "&lt;lambda&gt;" in text
    assert "<lambda>" not in text
    Reader(text)


def test_a_program_without_an_arena_has_no_picture() -> None:
    compiled = ad.compile(lambda x: x + 1)
    compiled(ad.ones(3))
    text = page(compiled._program())
    assert "<svg" not in text
    assert "The arena is empty." in text
