"""The memory of a program whose sizes are symbols: it is planned anew where a size is larger than all before."""

from __future__ import annotations

from itertools import pairwise

import pytest

import adjoint as ad
from adjoint.compiler.program.buffer_binding import Binding

pytest.importorskip("llvmlite")


def test_memory_for_the_largest_sizes_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, int]] = []
    resize = Binding.resize

    def note(binding: Binding, values: tuple[int, ...], names: dict[str, object]) -> None:
        resize(binding, values, names)
        seen.append(dict(binding.capacity))

    monkeypatch.setattr(Binding, "resize", note)
    compiled = ad.compile(lambda x, y: (x.exp() * 2).cumsum(0).sum() + (y.tanh() * 3).cumsum(0).sum(), dynamic=True)
    for sizes in ((4, 40), (40, 4), (5, 60), (100, 6), (7, 70)):  # where one grows the other shrinks
        assert compiled(*map(ad.ones, sizes)).isfinite()
    for before, capacity in pairwise(seen):
        assert all(capacity[name] >= n for name, n in before.items())
    assert sorted(seen[-1].values()) >= [70, 100]
