"""Writes to views by slices of the base, against `put_view`, which writes to the memory."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op.op import op_of
from adjoint.core.tensor.storage import ViewStep
from adjoint.ops.movement.as_strided import diagonal
from adjoint.ops.movement.movement import expand, permute, reshape, select, slice
from adjoint.ops.mutation.view_slice import ViewSlice
from adjoint.ops.mutation.view_update import Steps, put_steps, put_view, replay_view


def step(op: Any, before: tuple[int, ...], **params: Any) -> ViewStep:
    after = op_of(op).spec(np.empty(before), **params).shape
    return ViewStep(op_of(op), params, before, after)


def split(draw: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape of as many elements: dimensions split, merged, and some of size 1 put between."""
    sizes: list[int] = []
    for n in shape:
        factors = [d for d in range(1, n + 1) if n % d == 0]
        outer = draw.choice(factors)
        sizes += [outer, n // outer]
    while len(sizes) > 1 and draw.random() < 0.6:
        at = draw.randrange(len(sizes) - 1)
        sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
    return tuple(sizes)


def draw_step(draw: random.Random, shape: tuple[int, ...]) -> ViewStep:
    kind = draw.choice(["slice", "select", "permute", "reshape", "reshape", "expand"] if shape else ["reshape"])
    if kind == "slice":
        bounds = []
        for n in shape:
            start = draw.randrange(n)
            bounds.append(draw.choice([(0, n, 1), (start, draw.randint(start + 1, n), draw.choice([1, 1, 2]))]))
        return step(slice, shape, bounds=tuple(bounds))
    if kind == "select":
        axis = draw.randrange(len(shape))
        return step(select, shape, axis=axis, at=draw.randrange(shape[axis]))
    if kind == "permute":
        return step(permute, shape, axes=tuple(draw.sample(range(len(shape)), len(shape))))
    if kind == "expand":
        return step(expand, shape, shape=(1, *shape))
    return step(reshape, shape, shape=split(draw, shape))


@pytest.mark.parametrize("seed", range(150))
def test_a_write_to_a_view_is_one_to_slices(seed: int) -> None:
    draw = random.Random(seed)
    shape = tuple(draw.choice([1, 2, 3, 4, 6]) for _ in range(draw.randint(1, 4)))
    steps: Steps = ()
    now = shape
    for _ in range(draw.randint(1, 6)):
        steps += (draw_step(draw, now),)
        now = steps[-1].after
    x = ad.arange(math.prod(shape)).reshape(shape).double()
    value = -1 - ad.arange(math.prod(now)).reshape(now).double()
    expected = put_view(x, value, steps=steps)
    assert ad.equal(put_steps(x, value, steps), expected)
    assert ad.equal(put_steps(x, 0.0, steps), put_view(x, ad.zeros_like(value), steps=steps))


def test_steps_are_one_slice_where_they_can_be() -> None:
    part = ViewSlice((8, 64, 5))
    x = np.arange(8 * 64 * 5).reshape(8, 64, 5)
    view = x
    for at in range(3):  # every second row, and of these every second
        sizes = (8, view.shape[1] // 2, 2, 5)
        assert part.follow(step(reshape, view.shape, shape=sizes))
        assert part.follow(step(select, sizes, axis=2, at=1))
        view = view.reshape(sizes)[:, :, 1]
        assert len(part.shape) == 4 + at
    region = x.reshape(part.shape)[tuple(np.s_[a:b:c] for a, b, c in part.part)]
    assert region.shape == part.part_shape
    assert np.array_equal(region.reshape(view.shape), view)


def test_what_is_no_slice_leaves_the_steps_so_far() -> None:
    part = ViewSlice((4, 6))
    assert part.follow(step(slice, (4, 6), bounds=((1, 3, 1), (0, 6, 2))))
    before = part.shape, part.part, part.kept_dims
    assert not part.follow(step(reshape, (2, 3), shape=(6,)))
    assert not part.follow(ViewStep(op_of(diagonal), {}, (2, 3), (2,)))
    assert (part.shape, part.part, part.kept_dims) == before


def test_a_view_of_a_part_that_is_no_slice_is_written_in_turn() -> None:
    x = ad.arange(24.0).reshape(4, 6)
    steps = (step(slice, (4, 6), bounds=((1, 3, 1), (0, 6, 2))), step(reshape, (2, 3), shape=(6,)))
    expected = x.numpy().copy()
    expected[1:3, ::2] = -np.arange(6.0).reshape(2, 3)
    assert np.array_equal(put_steps(x, -ad.arange(6.0), steps).numpy(), expected)
    assert replay_view(x, steps).shape == (6,)
