"""The further promises with tests of their own: U13, U14, U20 (U7 to U10, U18 and U29 stand where their subject is)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd import Function, backward_steps

SOURCE = Path(ad.__file__).parents[1]


def printed(program: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_u13_training_needs_nothing_but_numpy() -> None:
    program = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("llvmlite", "torch", "jax", "scipy", "cffi", "ctypes.util"):
            raise ImportError(name)
sys.meta_path.insert(0, Nothing())
import adjoint as ad
from adjoint import nn, optim
ad.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = optim.SGD(model.parameters(), lr=0.1)
x = ad.randn(16, 4)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(losses[-1] < losses[0] / 2, "llvmlite" in sys.modules)
"""
    assert printed(program) == "True False"


def test_u13_the_eager_package_holds_no_machine_code() -> None:
    kinds = {p.suffix for p in (SOURCE / "adjoint").rglob("*")}
    assert kinds.isdisjoint({".so", ".pyd", ".dylib", ".c", ".pyx"})


def test_u14_import_costs_little_beyond_numpy() -> None:
    """Modules are counted, not milliseconds, which the machine decides: none that is costly and of no use yet."""
    program = "import sys, numpy; n = set(sys.modules); import adjoint; print(*sorted(set(sys.modules) - n))"
    loaded = printed(program).split()
    costly = {
        "adjoint.compiler", "asyncio", "concurrent.futures", "ctypes.util", "doctest", "email", "http", "json",
        "logging", "multiprocessing", "numpy.testing", "pdb", "pydoc", "socket", "sqlite3", "ssl", "tkinter",
        "llvmlite", "unittest", "urllib", "xml",
    }  # fmt: skip
    assert costly.isdisjoint(loaded)
    assert len([name for name in loaded if not name.startswith("adjoint")]) < 40


def test_u20_every_node_queue_count_and_gradient() -> None:
    x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    a = x * 3.0
    b = a.exp()
    loss = (a * b + b).sum()
    seen = []
    for step in backward_steps(loss):
        seen.append(step.node.name())
        assert step.counts[step.node] == 0
        assert all(step.counts[node] == 0 for node in step.queue)
        assert step.node not in step.queue
        assert all(count >= 0 for count in step.counts.values())
        assert x.grad is None
        assert step.node.name() in repr(step)
    assert seen == ["SumBackward0", "AddBackward0", "MulBackward0", "ExpBackward0", "MulBackward0"]
    by_steps, x.grad = x.grad.tolist(), None
    a = x * 3.0
    b = a.exp()
    (a * b + b).sum().backward()
    assert by_steps == x.grad.tolist()


def test_u20_a_node_with_several_outputs_and_a_gradient_of_ones_own() -> None:
    class Parts(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * 2 + grads[1] * 3

    x = ad.ones(2, requires_grad=True)
    first, second = Parts.apply(x)
    steps = list(backward_steps(first * 1.0 + second * 1.0, ad.full((2,), 2.0)))
    assert steps[0].gradient.tolist() == [2.0, 2.0]
    (both,) = [step.gradient for step in steps if type(step.node).__name__ == "PartsBackward"]
    assert [g.tolist() for g in both] == [[2.0, 2.0], [2.0, 2.0]]
    assert x.grad.tolist() == [10.0, 10.0]


def test_u20_frees_as_backward_does() -> None:
    x = ad.ones(2, requires_grad=True)
    loss = x.exp().sum()
    for _ in backward_steps(loss, retain_graph=True):
        pass
    for _ in backward_steps(loss):
        pass
    assert x.grad.tolist() == pytest.approx([2 * 2.718281828] * 2)
    with pytest.raises(RuntimeError, match="second time"):
        list(backward_steps(loss))
