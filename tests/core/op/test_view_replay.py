"""Repeated calls of view functions do what the first one did, and check what it checked."""

import threading

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.tensor.storage import CreationMeta

CALLS = {
    "view": lambda x: x.view(-1, 2),
    "view of a tuple": lambda x: x.view((3, 2, 4)),
    "reshape": lambda x: x.reshape(4, -1),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(-1, 0),
    "movedim": lambda x: x.movedim(0, -1),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.narrow(0, 1, 1).squeeze(0),
    "expand": lambda x: x.unsqueeze(0).expand(5, -1, -1, -1),
    "broadcast_to": lambda x: ad.broadcast_to(x, (2, 2, 3, 4)),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "select": lambda x: x.select(1, -1),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "integers": lambda x: x[1, -1],
    "slices": lambda x: x[:, 1:, ::2],
}


def facts_of(out):
    view = out.storage_
    node = out.grad_fn
    return (
        out.tolist(), tuple(out.shape), out.stride(), out._version, out.requires_grad, out._base is not None,
        [(step.op, step.params, step.before, step.after) for step in view.steps], view.creation_meta,
        node and (node.name(), node.op, node.params, node.shapes, node.shape, len(node.next_functions)),
    )  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("grad", [True, False])
def test_later_calls_are_as_the_first(call, grad):
    base = ad.arange(24.0).reshape(2, 3, 4).clone().requires_grad_(grad)
    x = base * 1
    first = facts_of(call(x))
    assert facts_of(call(x)) == facts_of(call(x)) == first
    with ad.no_grad():
        outside = facts_of(call(x))
        assert facts_of(call(x)) == outside
    assert facts_of(call(x)) == first
    if grad:
        (call(x) * 2).sum().backward()
        assert base.grad.shape == base.shape


def test_a_line_of_each_call_is_the_user_s():
    x = ad.ones(2, 3, requires_grad=True) * 1
    lines = [x.unsqueeze(0).grad_fn.site.line, x.unsqueeze(0).grad_fn.site.line]
    lines.append(x.unsqueeze(0).grad_fn.site.line)
    assert lines[0] == lines[1] == lines[2] - 1


def test_memory_that_allows_no_view_is_noticed_after_a_call_that_did():
    x = ad.arange(6.0).reshape(2, 3)
    assert x.view(6).tolist() == x.reshape(6).tolist()
    turned = ad.arange(6.0).reshape(3, 2).t()
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        turned.view(6)
    copy = turned.reshape(6)
    copy.zero_()
    assert turned.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_arguments_equal_to_integers_are_still_refused():
    x = ad.ones(1, 2)
    x.unsqueeze(1)
    x.view(1, 2)
    for call in (lambda: x.unsqueeze(1.0), lambda: x.view(1.0, 2), lambda: x.transpose(0.0, 1)):
        with pytest.raises(TypeError):
            call()


def test_writes_go_through_views_of_later_calls():
    for _ in range(3):
        x = ad.zeros(2, 2)
        x.view(4)[1] = 5.0
        x.t().unsqueeze(0).add_(1)
        assert x.tolist() == [[1, 6], [1, 1]]
    y = ad.zeros(2, 2, requires_grad=True) * 1
    for _ in range(2):
        y.view(4).mul_(2)
    assert y._version == 2


def test_modes_see_each_call():
    x = ad.arange(6.0).reshape(2, 3)
    for _ in range(2):
        x.unsqueeze(1)
    assert ad.vmap(lambda row: row.unsqueeze(1))(x).shape == (2, 3, 1)
    assert ad.compile(lambda t: t.unsqueeze(1) * 2)(x).tolist() == (2 * x.unsqueeze(1)).tolist()
    with ad.inference_mode():
        assert x.unsqueeze(1).storage_.creation_meta is CreationMeta.INFERENCE_MODE
    assert x.unsqueeze(1).storage_.creation_meta is CreationMeta.NORMALLY


def test_the_first_function_of_a_thread_may_be_a_view():
    x = ad.ones(2, 3, requires_grad=True) * 1
    x.unsqueeze(0)
    thread = threading.Thread(target=x.unsqueeze, args=(0,))
    thread.start()
    thread.join()
    assert np.array_equal(x.unsqueeze(0).detach().numpy(), np.ones((1, 2, 3)))
