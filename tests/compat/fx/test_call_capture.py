"""Calls with proxies are recorded while there are proxies, and by no longer."""

from __future__ import annotations

import gc
import inspect
import threading
from typing import Any

import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import fx
from adjoint.compat.fx import call_capture


def test_proxies_without_a_trace_record_functions_as_long_as_they_live() -> None:
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    y = ad.einsum("ij,jk->ik", x, x[0].T) + ad.broadcast_tensors(x, x)[0]
    y = ad.tensor(1.0).add(y)
    graph.output(y.node)
    del x, y
    gc.collect()
    assert ad.relu(ad.tensor(-1.0)).item() == 0
    assert not call_capture.is_capturing()
    assert [*inspect.signature(ad.cdist).parameters][:2] == ["x1", "x2"]
    names = [node.name for node in graph.nodes]
    assert names[:6] == ["x", "getitem", "getattr_1", "einsum", "broadcast_tensors", "getitem_1"]


def test_an_error_while_tracing_restores_all() -> None:
    before = (F.softmax, ad.Tensor.add, ad.nn.Module.__call__, ad.nn.Module.__getattr__, ad.relu.__code__)
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: ad.relu(x) / 0 if x else None)
    gc.collect()
    ad.relu(ad.ones(1))
    after = (F.softmax, ad.Tensor.add, ad.nn.Module.__call__, ad.nn.Module.__getattr__, ad.relu.__code__)
    assert after == before


def test_functions_work_as_before_during_a_trace() -> None:
    found: list[Any] = []

    def function(x: Any) -> Any:
        w = ad.linspace(0, 1, 3, requires_grad=True)
        (F.softmax(w, 0) * w.exp()).sum().backward()
        found.append(w.grad)
        return x + w

    traced = fx.symbolic_trace(function)
    w = ad.linspace(0, 1, 3, requires_grad=True)
    (F.softmax(w, 0) * w.exp()).sum().backward()
    assert found[0].tolist() == w.grad.tolist()  # type: ignore[union-attr]
    assert traced(ad.zeros(3)).shape == (3,)


def test_other_threads_go_on_computing() -> None:
    stop, wrong = threading.Event(), []

    def compute() -> None:
        while not stop.is_set():
            if ad.relu(ad.tensor([-1.0, 2.0])).sum().item() != 2.0:
                wrong.append(1)

    thread = threading.Thread(target=compute)
    thread.start()
    for _ in range(5):
        fx.symbolic_trace(lambda x: ad.relu(x).sum())
    stop.set()
    thread.join()
    assert wrong == []


def test_traces_inside_of_traces() -> None:
    def outer(x: Any) -> Any:
        inner = fx.symbolic_trace(lambda y: ad.relu(y) + 1)
        return inner.forward(ad.tanh(x))

    assert [node.name for node in fx.symbolic_trace(outer).graph.nodes] == ["x", "tanh", "relu", "add", "output"]


def test_proxies_of_a_program_see_the_calls() -> None:
    seen = []

    class Seeing(fx.Proxy):
        @classmethod
        def __torch_function__(cls, orig_method: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(orig_method)
            return super().__torch_function__(orig_method, types, args, kwargs)

    class SeeingTracer(fx.Tracer):
        def proxy(self, node: fx.Node) -> fx.Proxy:
            return Seeing(node, self)

    graph = SeeingTracer().trace(lambda x: F.gelu(ad.relu(x)) + 1)
    assert seen == [ad.relu, F.gelu]
    assert [node.name for node in graph.nodes] == ["x", "relu", "gelu", "add", "output"]
