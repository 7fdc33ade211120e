"""Training on several ranks has the losses of one process, eager, compiled and mixed, and ranks stay alike."""

from pathlib import Path

import pytest
from tests.support.mirror_ranks import mirror_ranks
from tests.support.ranks import needs_mpi, outputs, run_ranks

import adjoint as ad
from adjoint import nn

TRAIN = """
    import sys

    import adjoint as ad
    import adjoint.distributed as dist
    import adjoint.nn.functional as F
    from adjoint import nn

    how = sys.argv[1]
    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    ad.manual_seed(rank)  # rank 0's parameters are those of all
    ad.set_default_dtype(ad.float64)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)
    optimizer = ad.optim.AdamW(model.parameters(), 1e-2)
    ad.manual_seed(7)
    data, labels = ad.randn(24, 6), ad.randint(0, 3, (24,))
    own = slice(rank * 24 // count, (rank + 1) * 24 // count)


    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()


    train = ad.compile(step) if how == "compiled" or how == "mixed" and rank else step
    for _ in range(20):
        loss = train(data[own], labels[own]).clone()
        dist.all_reduce(loss, dist.ReduceOp.AVG)
    if how == "compiled" and count > 1:
        text = str(train.explain())
        assert "start_all_reduce" in text and "finish_all_reduce" in text
    everywhere = [None] * count
    dist.all_gather_object(everywhere, [p.detach().numpy().tobytes() for p in model.parameters()])
    assert how == "mixed" or all(each == everywhere[0] for each in everywhere)  # eager and compiled round apart
    print(repr(loss.item()), repr(sum(float(p.detach().sum()) for p in model.parameters())))
    assert list(model.state_dict())[0] == "module.0.weight"
"""
MODEL = """
    import adjoint as ad
    import adjoint.distributed as dist
    from adjoint import nn

    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    DDP = nn.parallel.DistributedDataParallel
"""


def losses(done: list[str]) -> list[list[float]]:
    return [[float(word) for word in line.split()] for line in done]


@needs_mpi
@pytest.mark.parametrize(("how", "overlap"), [("eager", "0"), ("eager", "1"), ("compiled", "1"), ("mixed", "0")])
def test_losses_are_those_of_one_process(how: str, overlap: str, tmp_path: Path) -> None:
    alone = losses(outputs(run_ranks(tmp_path, 1, TRAIN, "eager")))
    for each in losses(outputs(run_ranks(tmp_path, 2, TRAIN, how, ADJOINT_OVERLAP=overlap))):
        assert each == pytest.approx(alone[0], rel=1e-10)


@needs_mpi
def test_gradients_are_accumulated_without_exchange_and_averaged_with_the_next(tmp_path: Path) -> None:
    program = MODEL + """
    model = DDP(nn.Linear(2, 1, bias=False))
    with model.no_sync():
        model(ad.full((1, 2), float(rank + 1))).sum().backward()
    assert model.module.weight.grad.tolist() == [[rank + 1.0] * 2]
    model(ad.full((1, 2), float(rank + 1))).sum().backward()
    assert model.module.weight.grad.tolist() == [[3.0] * 2]
    model.require_backward_grad_sync = False
    model.zero_grad()
    model(ad.full((1, 2), float(rank + 1))).sum().backward()
    assert model.module.weight.grad.tolist() == [[rank + 1.0] * 2]
    print("done")
    """
    assert outputs(run_ranks(tmp_path, 2, program)) == ["done"] * 2


@needs_mpi
def test_parameters_that_take_no_part_are_named_or_count_as_zero(tmp_path: Path) -> None:
    program = MODEL + """
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.never = (nn.Linear(2, 1, bias=False) for _ in range(3))

        def forward(self, x, branch):
            return (self.a, self.b)[branch](x)

    model = DDP(Branches(), find_unused_parameters=True)
    model(ad.ones(1, 2), rank).sum().backward()
    assert model.module.a.weight.grad.tolist() == model.module.b.weight.grad.tolist() == [[0.5, 0.5]]
    assert model.module.never.weight.grad is None
    model = DDP(Branches())
    try:
        model(ad.ones(1, 2), 0).sum().backward()
    except RuntimeError as error:
        named = "took no part in the loss: never.weight (1, 2), b.weight (1, 2)."
        assert f"2 parameters of rank {rank} {named}" in str(error)
        print("told")
    """
    assert outputs(run_ranks(tmp_path, 2, program)) == ["told"] * 2


@needs_mpi
def test_buffers_are_rank_0s_before_each_forward_and_hooks_average_buckets(tmp_path: Path) -> None:
    program = MODEL + """
    model = DDP(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    model.module[1].running_mean.fill_(float(rank))
    model.eval()
    model.train()
    ad.manual_seed(rank)
    model(ad.randn(4, 2))
    means = [None] * count
    model(ad.ones(4, 2))  # gives rank 0's statistics to all, then each moves its own
    dist.all_gather_object(means, model.module[1].num_batches_tracked.item())
    assert means == [2, 2]

    seen = []

    def hook(state, bucket):
        seen.append((bucket.index(), bucket.is_last(), [tuple(p.shape) for p in bucket.parameters()]))
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0] / count * state)

    model = DDP(nn.Linear(2, 1, bias=False))
    model.register_comm_hook(10.0, hook)
    model(ad.full((1, 2), float(rank + 1))).sum().backward()
    assert model.module.weight.grad.tolist() == [[15.0, 15.0]]
    assert seen == [(0, True, [(1, 2)])]
    try:
        DDP(nn.Linear(2 + rank, 1))
    except RuntimeError as error:
        assert "the parameters of rank 1 are not those of rank 0: ('weight', (1, 3)" in str(error)
        print("done")
    """
    assert outputs(run_ranks(tmp_path, 2, program)) == ["done"] * 2


def test_what_is_ignored_and_what_is_refused() -> None:
    with mirror_ranks() as comm:
        net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
        DDP = nn.parallel.DistributedDataParallel
        DDP._set_params_and_buffers_to_ignore_for_model(net, ["0.weight", "0.bias", "1.running_mean"])
        model = DDP(net)
        names = {name for _, name in model.reducer.names.values()}
        assert names == {"1.weight", "1.bias", "2.weight", "2.bias"}
        assert comm.calls == ["allgather", *["Bcast"] * 6]  # four parameters and two buffers
        comm.calls.clear()
        assert model.will_sync_module_buffers()
        model(ad.ones(3, 2)).sum().backward()
        assert comm.calls == ["Bcast", "Bcast", "Allgather"]
        model.register_comm_hook(None, lambda state, bucket: None)
        with pytest.raises(RuntimeError, match="can only be called once"):
            model.register_comm_hook(None, lambda state, bucket: None)
        for options, kind, told in (
            ({"device_ids": [0, 1]}, ValueError, "contain a single element"),
            ({"process_group": model.process_group, "device_mesh": object()}, RuntimeError, "Cannot specify both"),
            ({"shards": 3}, ValueError, "shards=3 for 2 ranks"),
        ):
            with pytest.raises(kind, match=told):
                DDP(nn.Linear(1, 1), **options)
        with pytest.raises(RuntimeError, match="Run a dummy forward pass"):
            DDP(nn.LazyLinear(1))
        with pytest.raises(RuntimeError, match="doesn't have any parameter"):
            DDP(nn.ReLU())
