"""Tensors of the device "meta": shapes and types without values, in factories, modules, ops, backward and files."""

from __future__ import annotations

import copy
import gc
import warnings
from typing import Any

import pytest
from tests.support.checks import raises

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.core.runtime.mode import mode, nondefault

META = ad.device("meta")


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
    )


@pytest.mark.parametrize("make", [ad.empty, ad.zeros, ad.ones, ad.rand, ad.randn])
def test_factories_with_the_device(make: Any) -> None:
    x = make(10**6, 10**6, device="meta")
    assert x.is_meta
    assert not x.is_cpu
    assert x.device == META
    assert x.shape == (10**6, 10**6)
    assert x.numel() == 10**12
    assert x.nbytes == 4 * 10**12
    assert x.dtype == ad.float32


def test_it_prints_its_size() -> None:
    assert str(ad.empty(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"
    made = nn.Parameter(ad.ones(2, device="meta", dtype=ad.float64))
    expected = "Parameter containing:\ntensor(..., device='meta', size=(2,), dtype=adjoint.float64, requires_grad=True)"
    assert " ".join(repr(made).split()) == " ".join(expected.split())


def test_a_draw_moves_no_generator() -> None:
    ad.manual_seed(3)
    expected = ad.rand(2)
    ad.manual_seed(3)
    ad.randn(4, device="meta")
    nn.Linear(4, 4, device="meta")
    assert ad.equal(ad.rand(2), expected)


def test_values_cannot_be_read() -> None:
    x = ad.ones(2, device="meta")
    for read in (lambda: x.sum().item(), lambda: bool(x.sum()), lambda: float(x.sum())):
        raises(RuntimeError, "cannot be called on meta tensors", read)
    for read in (x.tolist, x.cpu, lambda: x.to("cpu"), lambda: ad.zeros(2).copy_(x), lambda: x[x > 0]):
        raises(NotImplementedError, "no data", read)
    raises(TypeError, "can't convert meta device type tensor to numpy", x.numpy)


def test_a_block_of_the_device() -> None:
    with ad.device("meta"):
        a, rows = ad.arange(4.0), ad.tensor([[1.0, 2.0]])
        real = ad.linspace(0, 1, 3, device="cpu")
        table = ad.outer(a, ad.arange(3.0)).cos()
        with ad.device("cpu"):
            inner = ad.zeros(2)
        assert ad.get_default_device() == META
    assert a.is_meta
    assert rows.is_meta
    assert table.is_meta
    assert table.shape == (4, 3)
    assert real.tolist() == [0.0, 0.5, 1.0]
    assert inner.tolist() == [0.0, 0.0]
    assert not ad.zeros(2).is_meta
    assert ad.get_default_device() == ad.device("cpu")
    assert mode.interpreter is None


def test_the_default_device() -> None:
    ad.set_default_device("meta")
    try:
        assert ad.ones(2).is_meta
    finally:
        ad.set_default_device("cpu")
    assert not ad.ones(2).is_meta


def test_a_module_made_without_values_gets_them() -> None:
    with META:
        empty = convolutional()
    assert sum(p.numel() for p in empty.parameters()) == 224 + 16 + 1290
    assert all(t.is_meta for t in empty.state_dict().values())
    filled = convolutional()
    given = filled.state_dict()
    assigned = copy.deepcopy(empty)
    assert assigned[0].weight.is_meta
    assigned.load_state_dict(given, assign=True)
    copied = empty.to_empty(device="cpu")
    copied.load_state_dict(given)
    x = ad.randn(2, 3, 8, 8)
    for module in (assigned, copied):
        assert all(p.requires_grad for p in module.parameters())
        assert ad.equal(module(x), filled(x))
        module(x).sum().backward()
        assert module[0].weight.grad.device == ad.device("cpu")


def test_a_module_moves_there_and_not_back() -> None:
    module = nn.Linear(3, 2)
    weight = module.weight
    assert module.to("meta").weight is weight
    assert weight.is_meta
    assert weight.requires_grad
    raises(NotImplementedError, r"to_empty\(\) instead of torch.nn.Module.to\(\)", module.to, "cpu")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module.load_state_dict(nn.Linear(3, 2).state_dict())
    assert "for weight: copying from a non-meta parameter" in str(caught[0].message)
    assert weight.is_meta


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(4, 4, device="meta"), lambda: nn.Conv2d(2, 2, 3, device="meta"),
        lambda: nn.BatchNorm2d(3, device="meta"), lambda: nn.LayerNorm(3, device="meta"),
        lambda: nn.GroupNorm(1, 3, device="meta"), lambda: nn.Embedding(3, 3, device="meta"),
        lambda: nn.MultiheadAttention(4, 2, device="meta"), lambda: nn.GRUCell(2, 3, device="meta"),
        lambda: nn.LSTM(2, 3, device="meta"), lambda: nn.Bilinear(2, 2, 2, device="meta"),
        lambda: nn.TransformerEncoderLayer(4, 2, device="meta"),
    ],
)  # fmt: skip
def test_modules_with_the_device(make: Any) -> None:
    state = make().state_dict()
    assert state
    assert all(t.is_meta for t in state.values())


@pytest.mark.parametrize("initialise", ["orthogonal_", "trunc_normal_", "dirac_", "xavier_uniform_", "zeros_"])
def test_initialisation_does_nothing(initialise: str) -> None:
    weight = nn.Conv2d(4, 4, 3, device="meta").weight
    assert getattr(nn.init, initialise)(weight).is_meta


def test_ops_tell_shapes_and_types() -> None:
    x = ad.empty(4, 8, device="meta", requires_grad=True)
    places = ad.zeros(4, 2, dtype=ad.int64, device="meta")
    cases: list[tuple[Any, tuple[int, ...], Any]] = [
        (x + 1, (4, 8), ad.float32), (x > 0, (4, 8), ad.bool), (x @ x.t(), (4, 4), ad.float32),
        (x.view(2, 2, 8).transpose(1, 2), (2, 8, 2), ad.float32), (x[1:3, ::2], (2, 4), ad.float32),
        (x.sort(1)[1], (4, 8), ad.int64), (x.topk(3)[0], (4, 3), ad.float32), (x.gather(1, places), (4, 2), ad.float32),
        (ad.einsum("ij,kj->ik", x, x), (4, 4), ad.float32), (x.half(), (4, 8), ad.float16),
        (F.embedding(places, x), (4, 2, 8), ad.float32), (F.dropout(x, 0.5), (4, 8), ad.float32),
        (F.softmax(x, 0).sum(), (), ad.float32), (ad.cat([x, x], 1), (4, 16), ad.float32),
        (ad.zeros_like(x), (4, 8), ad.float32), (x.new_zeros(3), (3,), ad.float32), (x.to(ad.int32), (4, 8), ad.int32),
    ]  # fmt: skip
    for found, shape, dtype in cases:
        assert (found.is_meta, found.shape, found.dtype) == (True, shape, dtype)
    assert x.view(2, 2, 8).transpose(1, 2).stride() == (16, 1, 8)
    raises(RuntimeError, "shapes cannot be multiplied", lambda: x @ x)


@pytest.mark.parametrize(
    ("make", "sizes", "out"),
    [
        (lambda: nn.TransformerEncoderLayer(16, 4, batch_first=True), (2, 7, 16), (2, 7, 16)),
        (lambda: nn.LSTM(4, 8, 2), (5, 2, 4), (5, 2, 8)),
        (lambda: nn.Linear(10**5, 10**5), (3, 10**5), (3, 10**5)),
        (convolutional, (2, 3, 8, 8), (2, 10)),
    ],
)
def test_modules_tell_shapes(make: Any, sizes: tuple[int, ...], out: tuple[int, ...]) -> None:
    with META:
        found = make()(ad.empty(*sizes))
    assert (found[0] if isinstance(found, tuple) else found).shape == out


def test_a_training_step_without_values() -> None:
    with META:
        module = convolutional()
        x, y = ad.empty(2, 3, 8, 8), ad.zeros(2, dtype=ad.int64)
    optimizer = ad.optim.AdamW(module.parameters())
    F.cross_entropy(module(x), y).backward()
    optimizer.step()
    gradient = module[0].weight.grad
    assert gradient.is_meta
    assert gradient.shape == (8, 3, 3, 3)
    assert len(optimizer.state) == 6


def test_writes_in_place_keep_nothing() -> None:
    x = ad.zeros(3, 3, device="meta")
    x[0] = 1
    assert x.add_(1).mul_(2).fill_(3).is_meta
    assert x.copy_(ad.ones(3, 3)).is_meta


def test_others_pay_nothing_once_none_is_left() -> None:
    gc.collect()
    before = nondefault.count, nondefault.meta_tensors
    x = ad.ones(2, device="meta") + 1
    assert (nondefault.meta_tensors, x.is_meta) == (before[1] + 1, True)
    del x
    gc.collect()
    assert (nondefault.count, nondefault.meta_tensors) == before


def test_nothing_lies_at_address_zero() -> None:
    torch = pytest.importorskip("torch")
    assert [library.ones(2, device="meta").data_ptr() for library in (ad, torch)] == [0, 0]
