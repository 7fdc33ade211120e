"""The steps of a backward pass for the slider: what runs, arrives, is added and is freed."""

from typing import Any

import pytest

import adjoint as ad
from adjoint.diagnosis.visualization.backward_frames import GRADIENT_BYTES, record_backward
from adjoint.diagnosis.visualization.graph_contents import SAVED_BYTES, GraphContents
from adjoint.diagnosis.visualization.user_names import UserNames, name_leaves


def contents_of(root: ad.Tensor, **leaves: ad.Tensor) -> GraphContents:
    names = UserNames()
    names.read_variables(leaves)
    contents = GraphContents([("loss", root)], {})
    contents.leaf_names = name_leaves(contents.leaves, [], names)
    return contents


def diamond() -> tuple[ad.Tensor, ad.Tensor]:
    w = ad.tensor([3.0, 4.0], requires_grad=True)
    h = w * 1.0
    return w, (h * 2 + h * 3).sum()


def test_each_node_has_a_frame_and_the_leaves_one_together() -> None:
    w, loss = diamond()
    walk = record_backward(contents_of(loss, w=w))
    assert [frame.title for frame in walk.frames] == [
        "sum runs", "add runs", "mul runs", "mul runs", "mul runs", "leaves accumulate",
    ]  # fmt: skip
    assert walk.is_backward


def test_frames_tell_what_arrives_and_what_is_added() -> None:
    w, loss = diamond()
    frames = record_backward(contents_of(loss, w=w)).frames
    assert dict(frames[0].rows)["arrives"] == "f32[], 1"
    assert dict(frames[1].rows)["arrives"] == "f32[2], norm 1.414"
    given = [frame.tables[0].rows for frame in frames[2:5]]
    assert given == [
        (("mul", "f32[2]", "4.243", "first to arrive"),),
        (("mul", "f32[2]", "7.071", "added to what had arrived"),),
        (("w", "f32[2]", "7.071", "first to arrive"),),
    ]
    assert frames[5].tables[0].rows == (("w", "f32[2]", "7.071", "becomes .grad"),)


def test_frames_tell_what_is_freed_and_what_gradients_take() -> None:
    x = ad.ones(4, requires_grad=True)
    loss = (x.exp() * 2).sum()
    frames = record_backward(contents_of(loss, x=x)).frames
    assert [frame.amounts[SAVED_BYTES] for frame in frames] == [16, 16, 0, 0]
    assert [frame.amounts[GRADIENT_BYTES] for frame in frames] == [16, 16, 16, 16]
    assert dict(frames[2].rows)["frees"] == "1 value, 16 bytes"


def test_states_go_from_waiting_to_done() -> None:
    w, loss = diamond()
    contents = contents_of(loss, w=w)
    states: dict[str, str] = {}
    for frame in record_backward(contents).frames[:-1]:
        states.update(frame.states)
        assert states[frame.node] == "running"
    states.update(record_backward(contents).frames[-1].states)
    assert set(states.values()) == {"done"}
    assert len(states) == 6


def test_a_node_waits_until_all_has_arrived() -> None:
    w, loss = diamond()
    frames = record_backward(contents_of(loss, w=w)).frames
    assert [dict(frame.rows).get("ready") for frame in frames[:5]] == [
        "nothing else", "nothing else", "mul", "nothing else", "nothing else",
    ]  # fmt: skip


def test_the_graph_and_the_gradients_stay_as_they_were() -> None:
    w, loss = diamond()
    record_backward(contents_of(loss, w=w))
    assert w.grad is None
    loss.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [5.0, 5.0]
    again = diamond()[1]
    w.grad = ad.ones(2)
    total = (w * again).sum()
    frames = record_backward(contents_of(total, w=w)).frames
    assert "added to .grad of norm 1.414" in {row[3] for row in frames[-1].tables[0].rows}


class Pair(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, g: ad.Tensor, h: ad.Tensor) -> ad.Tensor:
        return g * 2 + h * 3


def test_a_node_with_several_outputs_gets_a_gradient_for_each() -> None:
    x = ad.ones(2, requires_grad=True)
    first, second = Pair.apply(x)
    frames = record_backward(contents_of((first + second * 2).sum(), x=x)).frames
    assert dict(frames[-2].rows)["arrives"] == "f32[2], norm 1.414; f32[2], norm 2.828"
    assert {row[0] for frame in frames for row in frame.tables[0].rows} >= {"Pair, output 0", "Pair, output 1"}
    only = record_backward(contents_of(Pair.apply(x)[1].sum(), x=x)).frames
    assert dict(only[-2].rows)["arrives"] == "nothing; f32[2], norm 1.414"


def test_leaves_with_hooks_keep_their_grad() -> None:
    w, loss = diamond()
    seen: list[str] = []
    w.register_hook(lambda g: seen.append("arrives"))
    w.register_post_accumulate_grad_hook(lambda leaf: seen.append("accumulated"))
    record_backward(contents_of(loss, w=w))
    assert w.grad is None
    assert seen == []
    loss.backward()
    assert seen == ["arrives", "accumulated"]


def test_hooks_run_and_complex_gradients_have_norms() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x * 1j
    y.register_hook(lambda g: g * 10)
    frames = record_backward(contents_of(ad.view_as_real(y).sum(), x=x)).frames
    assert dict(frames[-2].rows)["arrives"] == "c64[2], norm 20"


def test_what_is_no_scalar_and_what_was_freed_is_refused() -> None:
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"starts at scalars, as backward\(\) does, and loss has shape \[2\]"):
        record_backward(contents_of(x.exp(), x=x))
    loss = x.exp().sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        record_backward(contents_of(loss, x=x))
