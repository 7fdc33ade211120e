"""Loops that write parameters: which are regions, and with which statements around them."""

from __future__ import annotations

import ast
import textwrap

import pytest

from adjoint.compiler.scripts.region_finder import find_training_regions


def find(source: str) -> list[list[str]]:
    """The regions of a program, each as the first lines of its statements."""
    regions = find_training_regions(ast.parse(textwrap.dedent(source)))
    return [[ast.unparse(statement).split("\n")[0] for statement in region.statements] for region in regions]


@pytest.mark.parametrize(
    "write",
    [
        "b.data.copy_(t * a.data + (1 - t) * b.data)",
        "b.mul_(1 - t).add_(a, alpha=t)",
        "b.data = b.data * t + a.data",
        "if b.dtype.is_floating_point: b.lerp_(a, t)",
    ],
)
def test_loop_that_writes_values(write: str) -> None:
    loop = f"for a, b in zip(net.parameters(), slow.parameters()):\n    {write}"
    assert find(f"def f(net, slow, t):\n{textwrap.indent(loop, '    ')}") == [[loop.split("\n", maxsplit=1)[0]]]
    block = f"with torch.no_grad():\n{textwrap.indent(loop, '    ')}"
    assert find(block) == [["with torch.no_grad():"]]


def test_lists_and_states_belong_to_their_loop() -> None:
    lines = ["goal = slow.state_dict()", "own = net.state_dict()", "for key in own:", "slow.load_state_dict(goal)"]
    body = "    goal[key] = own[key] * t + goal[key] * (1 - t)"
    assert find("\n".join(["t = f()", *lines[:3], body, lines[3], "print(t)"])) == [lines]


@pytest.mark.parametrize(
    "source",
    [
        "for p in net.parameters():\n    p.requires_grad = False",
        "for p in net.parameters():\n    nn.init.normal_(p)",
        "for p in net.parameters():\n    total += p.numel()",
        "for x in data:\n    x.mul_(2)",
        "net.load_state_dict(old.state_dict())",
    ],
)
def test_other_loops_are_no_regions(source: str) -> None:
    assert find(source) == []


def test_loop_in_a_training_step_is_part_of_it() -> None:
    step = "loss = f(net(x))\nloss.backward()\nfor p in net.parameters():\n    p.data.add_(p.grad, alpha=-lr)"
    assert find(step) == [["loss = f(net(x))", "loss.backward()", "for p in net.parameters():"]]
