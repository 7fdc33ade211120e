"""Containers that a step changes hold after each call what the eager step leaves in them."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

CONTAINERS: dict[str, Callable[[], Any]] = {
    "empty list": list, "list": lambda: [ad.tensor(float(i)) for i in range(3)],
    "empty deque": lambda: deque(maxlen=3), "deque": lambda: deque([ad.tensor(float(i)) for i in range(3)], maxlen=4),
    "one": lambda: deque(maxlen=1), "unbounded": deque,
}  # fmt: skip


def trim(held: Any) -> None:
    while len(held) > 3:
        del held[0]


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "append": lambda held, y: held.append(y), "extend": lambda held, y: held.extend([y, y + 1]),
    "first": lambda held, y: held.insert(0, y) if isinstance(held, list) else held.appendleft(y),
    "append, trim": lambda held, y: (held.append(y), trim(held)), "reverse": lambda held, y: held.reverse(),
    "append, reverse": lambda held, y: (held.append(y), held.reverse()),
    "append, pop": lambda held, y: (held.append(y), held.pop()),
    "clear": lambda held, y: (held.clear(), held.append(y)),
    "set": lambda held, y: held.__setitem__(0, y) if held else held.append(y),
    "count": lambda held, y: held.append(y * len(held)), "sum": lambda held, y: held.append(sum(held) + y),
    "exchange": lambda held, y: (held.append(y), held.__setitem__(0, held[-1])),
}  # fmt: skip


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_container_holds_what_it_holds_eagerly(container: str, change: str) -> None:
    def contents(wrap: Callable[[Any], Any]) -> list[list[float]]:
        held = CONTAINERS[container]()

        def step(x: Any) -> Any:
            y = x * 2
            CHANGES[change](held, y)
            return y

        run, seen = wrap(step), []
        for k in range(7):
            run(ad.ones(()) * k)
            seen.append([float(v) for v in held])
        return seen

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of steps that are traced for each length
        assert contents(ad.compile) == contents(lambda step: step)


def test_what_is_appended_to_a_full_deque_needs_one_trace() -> None:
    recent: deque[Any] = deque(maxlen=2)
    step = ad.compile(lambda x: recent.append(x * 2))
    for k in range(6):
        step(ad.tensor(float(k)))
    assert [v.item() for v in recent] == [8.0, 10.0]
    assert step.compilations == 1
