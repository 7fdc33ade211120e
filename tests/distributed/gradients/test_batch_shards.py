"""Shards of a batch give the same bits, however many of them a rank computes."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.ranks import needs_mpi, outputs, run_ranks

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.core.runtime.text_table import pluralize
from adjoint.distributed.gradients.batch_shards import call_by_shards, count_own_shards

SHARDS, ROWS = 4, 12
RANKS = (1, 2, 4, 8) if os.environ.get("ADJOINT_NIGHTLY") == "1" else (1, 4)


class Tied(nn.Module):
    """A model that uses one weight twice, and returns a loss besides."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(10, 8), nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: ad.Tensor) -> ad.Tensor:
        x = self.norm(self.embedding(tokens))
        mixed, _ = self.attention(x, x, x, need_weights=False)
        return self.head(x + mixed).mean(1)


MODELS = {
    "two layers": lambda: nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 10)),
    "norm": lambda: nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 10)),
    "images": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 5)), nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
        nn.Linear(40, 10),
    ),
    "tied": Tied,
}  # fmt: skip


def gradients_by_shards(name: str, count: int, *, compiled: bool) -> list[np.ndarray]:
    """The sums of all ranks' gradients, where each computes `count` shards, as ranks add them; and the results."""
    ad.manual_seed(1)
    net = MODELS[name]()
    trained, losses = list(net.named_parameters()), list[np.ndarray]()
    data = ad.randint(0, 10, (ROWS * SHARDS, 10)) if name == "tied" else ad.randn(ROWS * SHARDS, 10)
    labels = ad.randint(0, 10, (ROWS * SHARDS,))

    def step(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        net.zero_grad()
        z = call_by_shards(net, trained, count, 0, (x,), {})
        F.cross_entropy(z, y).backward()
        return z

    run = ad.compile(step) if compiled else step
    own, sums = ROWS * count, list[list[np.ndarray]]()
    for begin in range(0, ROWS * SHARDS, own):
        losses.append(run(data[begin : begin + own], labels[begin : begin + own]).detach().numpy())
        sums.append([p.grad.numpy() * np.float32(count) for _, p in trained])
    while len(sums) > 1:
        sums = [[x + y for x, y in zip(a, b, strict=True)] for a, b in zip(sums[::2], sums[1::2], strict=True)]
    return [np.concatenate(losses), *sums[0]]


@pytest.mark.parametrize("compiled", [False, pytest.param(True, id="compiled")])
@pytest.mark.parametrize("name", MODELS)
def test_each_share_of_the_shards_gives_the_same_bits(name: str, compiled: bool) -> None:
    if compiled:
        pytest.importorskip("llvmlite")
    expected = gradients_by_shards(name, 1, compiled=compiled)
    for count in (2, 4):
        for a, b in zip(expected, gradients_by_shards(name, count, compiled=compiled), strict=True):
            assert a.tobytes() == b.tobytes()


def test_gradients_are_those_of_the_whole_batch() -> None:
    ad.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    x = ad.randn(8, 3, dtype=ad.float64)
    net(x).square().mean().backward()
    expected = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    call_by_shards(net, list(net.named_parameters()), 4, 0, (x,), {}).square().mean().backward()
    for p, grad in zip(net.parameters(), expected, strict=True):
        ad.testing.assert_close(p.grad, grad, rtol=1e-12, atol=1e-14)


def test_arguments_are_cut_and_results_are_joined() -> None:
    seen: list[Any] = []

    class Recorder(nn.Module):
        def forward(self, x: ad.Tensor, scale: Any, *, parts: Any, name: str) -> Any:
            seen.append((x.tolist(), scale.item(), parts["a"].tolist(), name))
            return {"rows": x + scale, "loss": x.mean(), "name": name, "nothing": None}

    out = call_by_shards(
        Recorder(), [], 2, 0, (ad.arange(4.0), ad.tensor(0.5)), {"parts": {"a": ad.arange(4)}, "name": "x"}
    )
    assert seen == [([0.0, 1.0], 0.5, [0, 1], "x"), ([2.0, 3.0], 0.5, [2, 3], "x")]
    assert out["rows"].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert (out["loss"].item(), out["name"], out["nothing"]) == (1.5, "x", None)
    with pytest.raises(ValueError, match=r"computes 4 shards, and dimension 0 of \(6, 3\) is not divided by 4"):
        call_by_shards(nn.Linear(3, 1), [], 4, 0, (ad.ones(6, 3),), {})


def test_shards_that_ranks_cannot_share_are_refused() -> None:
    assert [count_own_shards(12, ranks) for ranks in (3, 6, 12)] == [4, 2, 1]
    for shards, ranks in ((8, 3), (6, 2), (2, 4), (0, 1)):
        with pytest.raises(ValueError, match=f"shards={shards} for {pluralize(ranks, 'rank')}:"):
            count_own_shards(shards, ranks)


TRAIN = """
    import hashlib
    import sys

    import adjoint as ad
    import adjoint.distributed as dist
    import adjoint.nn.functional as F
    from adjoint import nn

    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    data = ad.data.TensorDataset(ad.arange(64.0).reshape(32, 2).sin(), ad.arange(32) % 3)


    def train(dtype, is_compiled, asks=False):
        ad.manual_seed(rank)
        net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3)).to(dtype)
        model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=3e-4, shards=8)
        optimizer = ad.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        sampler = ad.data.DistributedSampler(data, batch_size=16 // count)
        batches = list(ad.data.DataLoader(data, 16 // count, sampler=sampler))

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(dtype)), y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if asks and norm.item() > 0.5:
                loss = loss * 2
            optimizer.step()

        run = ad.compile(step) if is_compiled else step
        for x, y in batches:
            run(x, y)
        bits = b"".join(p.detach().view(ad.uint8).numpy().tobytes() for p in model.parameters())
        return hashlib.sha256(bits).hexdigest()[:8]


    ad.manual_seed(0)
    print(train(ad.float32, False), train(ad.bfloat16, False), train(ad.float32, True, sys.argv[1] == "asks"))
"""


@needs_mpi
@pytest.mark.parametrize("how", ["asks", "does not"] if len(RANKS) == 4 else ["asks"])
def test_training_has_the_same_bits_on_any_number_of_ranks(how: str, tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    where = {"ADJOINT_CACHE_DIR": str(tmp_path / "cache"), "ADJOINT_NO_CACHE": ""}  # kernels are compiled once
    found = {line for count in RANKS for line in outputs(run_ranks(tmp_path, count, TRAIN, how, **where))}
    assert len(found) == 1
