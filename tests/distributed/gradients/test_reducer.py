"""Gradients are averaged as one process computes them, whatever the model, its options and the mode of each rank."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.support.data_parallel_cases import run_case
from tests.support.mirror_ranks import MirrorCommunicator, mirror_ranks
from tests.support.ranks import needs_mpi, outputs, run_ranks

import adjoint as ad
from adjoint import nn
from adjoint.distributed.gradients.gradient_bucket import make_buckets
from adjoint.utils.checkpoint import checkpoint

NIGHTLY = os.environ.get("ADJOINT_NIGHTLY") == "1"
DDP = nn.parallel.DistributedDataParallel


@pytest.fixture
def comm() -> Iterator[MirrorCommunicator]:
    with mirror_ranks() as made:
        yield made


@pytest.mark.parametrize("seed", range(120 if NIGHTLY else 12))
@pytest.mark.filterwarnings("ignore:compiled function")
def test_any_program_trains_as_one_process(comm: MirrorCommunicator, seed: int) -> None:
    run_case(seed, are_alike=True)


CASES = """
    import sys
    import warnings

    warnings.simplefilter("ignore")  # of steps that run eagerly

    import adjoint.distributed as dist
    from tests.support.data_parallel_cases import run_case

    dist.init_process_group("gloo")
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        run_case(seed)
    print("done")
"""


@needs_mpi
@pytest.mark.parametrize("count", [2, 3] if NIGHTLY else [2])
def test_any_program_trains_on_several_ranks_as_one_process(count: int, tmp_path: Path) -> None:
    seeds = ("0", "100") if NIGHTLY else ("5", "9")
    done = run_ranks(tmp_path, count, CASES, *seeds, ADJOINT_DISTRIBUTED_DEBUG="1")
    assert outputs(done) == ["done"] * count


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.never = (nn.Linear(2, 1, bias=False) for _ in range(3))

    def forward(self, x: ad.Tensor, branch: int = 0) -> ad.Tensor:
        return (self.a, self.b)[branch](x)


@pytest.mark.parametrize("compiled", [False, True])
def test_parameters_without_a_gradient_are_named_with_their_indices(comm: MirrorCommunicator, compiled: bool) -> None:
    model = DDP(Branches())

    def step(x: ad.Tensor) -> None:
        model(x).sum().backward()

    run = ad.compile(step) if compiled else step
    with pytest.raises(RuntimeError) as raised:
        run(ad.ones(1, 2))
    told = str(raised.value)
    assert "2 parameters of rank 0 took no part in the loss: never.weight (1, 2), b.weight (1, 2). " in told
    assert told.endswith("Parameter indices which did not receive grad for rank 0: 1 2")
    model.reducer.find_unused_parameters = True
    step(ad.ones(1, 2))  # the pass that failed has left nothing behind
    assert model.module.a.weight.grad.tolist() == [[2.0, 2.0]]


@pytest.mark.parametrize("static", [False, True])
def test_gradients_that_nobody_has_stay_as_they_were_in_compiled_steps(comm: MirrorCommunicator, static: bool) -> None:
    model = DDP(Branches(), find_unused_parameters=not static, static_graph=static)
    branch = 0

    @ad.compile
    def step(x: ad.Tensor) -> None:
        model.zero_grad()
        model(x, branch).sum().backward()

    for branch in (0, 1, 0, 1):
        step(ad.ones(1, 2))
        net = model.module
        found = [net.a.weight.grad, net.b.weight.grad]
        assert found[branch].tolist() == [[1.0, 1.0]]
        assert found[1 - branch] is None
        assert net.never.weight.grad is None


class Twice(nn.Module):
    """Blocks with one weight, each computed again for its gradient: the weight's comes in two parts."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2, bias=False)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        for _ in range(2):
            x = checkpoint(self.linear, x, use_reentrant=True)
        return x


def test_a_gradient_in_parts_is_exchanged_at_the_end_or_refused(comm: MirrorCommunicator) -> None:
    x = ad.ones(1, 2, requires_grad=True)
    model = DDP(Twice())
    with pytest.raises(RuntimeError, match=r"ready only once: the gradient of parameter linear.weight \(index 0\)"):
        model(x).sum().backward()
    alone = Twice()
    alone.load_state_dict(model.module.state_dict())
    alone(x).sum().backward()
    net = Twice()
    net.load_state_dict(alone.state_dict())
    for options in ({"static_graph": True}, {}):
        model = DDP(net, **options)  # the former wrapper is gone, and its hooks with it
        model._set_static_graph()
        model.zero_grad()
        comm.calls.clear()
        model(x).sum().backward()
        assert net.linear.weight.grad.tolist() == alone.linear.weight.grad.tolist()
        assert len(comm.calls) == 2  # the gradients, and what was used


def test_gradients_are_the_memory_of_buckets_where_they_are_asked_to_be(comm: MirrorCommunicator) -> None:
    model = DDP(nn.Linear(3, 2), gradient_as_bucket_view=True)
    (bucket,) = model.reducer.buckets
    for set_to_none in (True, False):
        for _ in range(2):
            model(ad.ones(1, 3)).sum().backward()
            for p in model.parameters():
                assert np.shares_memory(p.grad.numpy(), bucket.memory)
        assert model.module.bias.grad.tolist() == [2.0, 2.0]
        model.zero_grad(set_to_none=set_to_none)
    with model.no_sync():
        model(ad.ones(1, 3)).sum().backward()
    model(ad.ones(1, 3)).sum().backward()
    assert model.module.bias.grad.tolist() == [2.0, 2.0]

    @ad.compile
    def step(x: ad.Tensor) -> None:
        model.zero_grad()
        model(x).sum().backward()

    for _ in range(3):
        step(ad.ones(1, 3))
        assert model.module.bias.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("finds", [False, True])
def test_a_rank_without_inputs_answers_with_zeros_and_means_are_over_the_others(
    comm: MirrorCommunicator, finds: bool
) -> None:
    model = DDP(nn.Linear(2, 1), find_unused_parameters=finds)
    out = model(ad.ones(1, 2)).sum()
    model.reducer.active = ad.tensor(1)  # a forward tells it anew
    out.backward()
    assert model.module.bias.grad.tolist() == [2.0]  # two ranks' mean, of which one has inputs
    calls = list(comm.calls)
    comm.calls.clear()
    model.zero_grad()
    model.reducer.answer(model.reducer.finds_unused())
    assert calls[-len(comm.calls) :] == comm.calls  # the exchanges of a pass
    found = model.module.bias.grad
    assert found is None if finds else found.tolist() == [0.0]


def test_buckets_hold_one_type_each_and_start_in_the_order_in_which_they_are_full() -> None:
    group: Any = None
    small, wide = ad.float32, ad.float64
    parameters = [nn.Parameter(ad.zeros(4, dtype=kind)) for kind in (small, wide, small, wide, small)]
    buckets = make_buckets(parameters, group, 1 << 20, 1 << 20)
    found = [[next(i for i, p in enumerate(parameters) if p is q) for q in b.parameters()] for b in buckets]
    assert found == [[3, 1], [4, 2, 0]]
    assert [bucket.is_last() for bucket in buckets] == [False, True]
    buckets = make_buckets(parameters, group, 16, 40)
    assert [[p.dtype for p in b.parameters()] for b in buckets] == [[small], [wide], [wide], [small, small]]


def test_mixed_types_autocast_and_loss_scaling(comm: MirrorCommunicator) -> None:
    class Cast(nn.Sequential):
        def forward(self, x: ad.Tensor) -> ad.Tensor:
            with ad.autocast("cpu", dtype=ad.bfloat16):
                h = self[1](self[0](x))
            return self[2](h.double())

    results = []
    for compiled, wrap in ((False, lambda net: net), (False, DDP), (True, DDP)):
        ad.manual_seed(0)
        net = Cast(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2).double())
        model: Any = wrap(net)
        optimizer, scaler = ad.optim.SGD(net.parameters(), 0.1), ad.amp.GradScaler("cpu", init_scale=8.0)

        def step(x: ad.Tensor, model: Any = model, optimizer: Any = optimizer, scaler: Any = scaler) -> None:
            optimizer.zero_grad()
            scaler.scale(model(x).square().mean()).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()

        run = ad.compile(step) if compiled else step
        for i in range(3):
            run(ad.full((3, 4), 0.1 * i))
        results.append([p.detach().numpy() for p in net.parameters()])
    for found in results[1:]:
        for a, b in zip(results[0], found, strict=True):
            assert a == pytest.approx(b, rel=2e-2, abs=1e-3)
