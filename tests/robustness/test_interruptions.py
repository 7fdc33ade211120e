"""After an exception, Ctrl-C or a refused allocation all is as it was before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.checks import raises
from tests.support.scripts import output_of

import adjoint as ad
from adjoint import nn
from adjoint.autograd import Function, gradcheck
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.ops.elementwise.transcendental import sin

SOURCE = Path(ad.__file__).parents[1]


class Oops(Exception):
    pass


def fail(*_: Any, **__: Any) -> Any:
    raise Oops


class FailsForward(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        raise Oops

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


class FailsBackward(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        with ad.enable_grad():
            raise Oops


def in_tensor_hook(x: Any) -> None:
    y = x * 2.0
    y.register_hook(fail)
    (y * y + x).sum().backward()


def in_leaf_hook(x: Any) -> None:
    handle = x.register_hook(fail)
    try:
        (x * x).sum().backward()
    finally:
        handle.remove()


def in_node_hook(x: Any) -> None:
    y = x * 2.0
    y.grad_fn.register_hook(fail)
    (y + x).sum().backward()


def in_node_prehook(x: Any) -> None:
    y = x * 2.0
    y.grad_fn.register_prehook(fail)
    (y + x).sum().backward(create_graph=True)


def in_rule(x: Any) -> None:
    op = sin.op  # type: ignore[attr-defined]
    y = ad.sin(x).sum() + x.sum()
    before, op.rules = op.rules, (fail,)
    try:
        y.backward()
    finally:
        op.rules = before


def in_function_forward(x: Any) -> None:
    FailsForward.apply(x * 1.0)


def in_function_backward(x: Any) -> None:
    (FailsBackward.apply(x) + x).sum().backward()


def in_recorded_backward(x: Any) -> None:
    ad.autograd.grad((FailsBackward.apply(x) + x).sum(), x, create_graph=True)


def in_evaluation(x: Any) -> None:
    try:
        x @ ad.ones(7)
    except RuntimeError as error:
        raise Oops from error


def in_no_grad(x: Any) -> None:
    with ad.no_grad(), ad.enable_grad(), ad.inference_mode():
        fail()


def in_decorated(x: Any) -> None:
    ad.no_grad()(fail)()


def in_generator(x: Any) -> None:
    @ad.no_grad()
    def numbers() -> Iterator[int]:
        yield 1
        raise Oops

    for _ in numbers():
        assert ad.is_grad_enabled()


def thrown_into_generator(x: Any) -> None:
    @ad.no_grad()
    def numbers() -> Iterator[int]:
        yield 1

    running = numbers()
    next(running)
    running.throw(Oops)  # type: ignore[attr-defined]


def in_pack_hook(x: Any) -> None:
    with ad.autograd.graph.saved_tensors_hooks(fail, lambda t: t):
        x * x


def in_unpack_hook(x: Any) -> None:
    with ad.autograd.graph.saved_tensors_hooks(lambda t: t, fail):
        y = x * x
    (y + x).sum().backward()


def in_checkpoint(x: Any) -> None:
    calls: list[int] = []

    def part(x: Any) -> Any:
        calls.append(1)
        return x.exp() if len(calls) == 1 else fail()

    (ad.utils.checkpoint.checkpoint(part, x, use_reentrant=False) + x).sum().backward()


def in_transform(x: Any) -> None:
    ad.func.vmap(lambda row: fail())(x.detach().reshape(2, 2))


def in_jvp(x: Any) -> None:
    ad.func.jvp(fail, (x.detach(),), (x.detach(),))


def in_anomaly(x: Any) -> None:
    with ad.autograd.detect_anomaly(check_nan=True):
        in_function_backward(x)


def in_compiled(x: Any) -> None:
    ad.compile(lambda t: fail())(x)


def in_module_hook(x: Any) -> None:
    layer = nn.Linear(4, 4)
    layer.register_full_backward_hook(fail)
    layer(x).sum().backward()


def in_post_accumulate_hook(x: Any) -> None:
    leaf = x.detach().clone().requires_grad_()
    leaf.register_post_accumulate_grad_hook(fail)
    (leaf * leaf).sum().backward()


FAILURES: list[Callable[[Any], None]] = [
    in_tensor_hook, in_leaf_hook, in_node_hook, in_node_prehook, in_rule, in_function_forward, in_function_backward,
    in_recorded_backward, in_evaluation, in_no_grad, in_decorated, in_generator, thrown_into_generator, in_pack_hook,
    in_unpack_hook, in_checkpoint, in_transform, in_jvp, in_anomaly, in_compiled, in_module_hook,
    in_post_accumulate_hook,
]  # fmt: skip


def state(x: Any) -> tuple[Any, ...]:
    """All that a failed call might have left changed."""
    counts = nondefault.count, threading.active_count()
    return x.tolist(), x._version, x.requires_grad, x.grad.tolist(), dict(mode.__dict__), counts


def numbers_of(x: Any) -> bytes:
    """What a graph of many ops gives for x, to the last bit."""
    y = ad.sin(x * 1.7).exp() / (x * x + 1.0)
    y[1:].mul_(0.3)
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = ad.autograd.grad((g * g).sum(), x)
    return g.detach().numpy().tobytes() + gg.numpy().tobytes()


@pytest.mark.claim("P27")
@pytest.mark.parametrize("failure", FAILURES, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected in", "ignore:Traceback of")
def test_after_a_failure_all_is_as_before(failure: Callable[[Any], None]) -> None:
    x = ad.tensor([0.1, 0.2, 0.3, 0.4], requires_grad=True)
    (x * 3.0).sum().backward()
    before, expected = state(x), numbers_of(x)
    for _ in range(3):
        raises(Oops, None, lambda: failure(x))
        assert state(x) == before
    assert numbers_of(x) == expected
    gradcheck(lambda x: x.sin() * x, [ad.ones(2, dtype=ad.float64, requires_grad=True)])


@pytest.mark.claim("P27")
def test_after_a_failure_the_same_graph_again() -> None:
    x = ad.tensor([0.1, 0.2], requires_grad=True)
    y = x.exp() * x
    ad.autograd.backward(y.sum(), retain_graph=True)
    expected, x.grad = x.grad.numpy().tobytes(), None
    handle = y.grad_fn.next_functions[0][0].register_prehook(fail)
    raises(Oops, None, lambda: y.sum().backward(retain_graph=True))
    assert x.grad is None
    handle.remove()
    y.sum().backward()
    assert x.grad.numpy().tobytes() == expected


INTERRUPTED = """
import signal, time
import numpy as np
import adjoint as ad
from adjoint.core.runtime.mode import mode, nondefault

x = ad.ones({size}, dtype=ad.float64, requires_grad=True)
def program():
    y = x * 1.0
    for _ in range({depth}):
        y = y * 1.0
    return y.sum()
def once():
    started = time.perf_counter()
    program().backward()
    return time.perf_counter() - started
length = min(once() for _ in range(3))
x.grad = None
modes, count = dict(mode.__dict__), nondefault.count
delivered = whole = 0
signal.signal(signal.SIGALRM, signal.default_int_handler)  # what Ctrl-C does, at a time of ours
noise = np.random.default_rng(0)
while delivered < 40:
    loss = program()
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-4, float(noise.uniform(0.0, length / 2))))
            loss.backward(retain_graph=True)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        delivered += 1
    assert dict(mode.__dict__) == modes and nondefault.count == count
    assert ad.is_grad_enabled() and not ad.is_inference_mode_enabled()
    if x.grad is not None:
        assert len(set(x.grad.tolist())) == 1, "half a gradient"
    x.grad = None
    loss.backward()  # the graph is still whole
    assert set(x.grad.tolist()) == {{1.0}}
    x.grad = None
    whole += 1
    if whole > 2000:
        break
print(delivered >= 40)
"""


@pytest.mark.claim("P28")
@pytest.mark.parametrize(("size", "depth"), [(16, 2000), (100_000, 40)])
def test_control_c_during_backward(size: int, depth: int) -> None:
    assert output_of(INTERRUPTED.format(size=size, depth=depth), OPENBLAS_NUM_THREADS="1") == "True"


REFUSED = """
import resource
import adjoint as ad
from adjoint import nn
ad.ones(3, requires_grad=True).sum().backward()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 300_000_000,) * 2)
column = ad.ones(20_000, 1, requires_grad=True)
row = ad.ones(1, 20_000, requires_grad=True)
large = ad.zeros(45_000_000, requires_grad=True)
taken = {
    "made": lambda: ad.zeros(10**10),
    "filled": lambda: ad.full((10**5, 10**5), 2.0),
    "random": lambda: ad.randn(10**10),
    "range": lambda: ad.arange(10**10),
    "broadcast": lambda: column * row,
    "product": lambda: column @ row,
    "copied": lambda: ad.ones(1).expand(10**10).contiguous(),
    "repeated": lambda: ad.ones(10**5).repeat(10**5),
    "exponential": lambda: column.expand(20_000, 20_000).exp(),
    "backward": lambda: large[0].backward(),
    "layer": lambda: nn.Linear(10**5, 10**5),
    "written": lambda: ad.zeros(3).resize_(10**10),
}
for what, take in taken.items():
    for _ in range(3):
        try:
            take()
        except (MemoryError, RuntimeError) as error:
            assert "alloc" in str(error).lower(), (what, error)
        else:
            raise AssertionError(f"no error: {what}")
        assert column.grad is None and large.grad is None and row.grad is None and ad.is_grad_enabled(), what
    x = ad.ones(1000, requires_grad=True)
    (x * x).sum().backward()
    assert set(x.grad.tolist()) == {2.0}, what
print("usable")
"""


@pytest.mark.claim("P29")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux alone says how much memory is in use")
def test_an_impossible_allocation() -> None:
    assert output_of(REFUSED, OPENBLAS_NUM_THREADS="1") == "usable"
