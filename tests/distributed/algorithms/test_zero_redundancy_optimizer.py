"""Optimizers with divided state train as the plain ones, eager and compiled, and their state dicts are the same."""

from pathlib import Path

import pytest
from tests.support.ranks import needs_mpi, outputs, run_ranks

import adjoint as ad
import adjoint.distributed as dist
from adjoint import nn

TRAIN = """
    import sys

    import adjoint.run

    adjoint.run.stand_in()
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch import nn
    from torch.distributed.optim import ZeroRedundancyOptimizer

    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    torch.set_default_dtype(torch.float64)


    def train(divided, compiled=False, view=False, names=False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
        model[2].float()
        model.insert(2, Cast(torch.float32))
        model.insert(4, Cast(torch.float64))
        model = nn.parallel.DistributedDataParallel(model)
        parameters = list(model.named_parameters() if names else model.parameters())
        groups = [{"params": parameters[:2], "lr": 3e-3}, {"params": parameters[2:4]}]
        if divided:
            optimizer = ZeroRedundancyOptimizer(groups, torch.optim.AdamW, parameters_as_bucket_view=view, lr=1e-2)
        else:
            optimizer = torch.optim.AdamW(groups, lr=1e-2)
        optimizer.add_param_group({"params": parameters[4:], "weight_decay": 0.1})
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        torch.manual_seed(7)
        data, labels = torch.randn(24, 6), torch.randint(0, 3, (24,))
        own = slice(rank * 24 // count, (rank + 1) * 24 // count)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        train_step = torch.compile(step) if compiled else step
        losses = []
        for _ in range(6):
            losses.append(train_step(data[own], labels[own]).item())
            schedule.step()
        assert not compiled or train_step.compilations == 1
        return losses, model, optimizer


    class Cast(nn.Module):
        def __init__(self, dtype):
            super().__init__()
            self.dtype = dtype

        def forward(self, x):
            return x.to(self.dtype)


    def same(a, b):
        if isinstance(a, torch.Tensor):
            return torch.allclose(a, b, rtol=1e-4, atol=1e-12)
        if isinstance(a, dict):
            return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
        return a == b


    every = [{"view": True}, {"view": True, "compiled": True}, {"compiled": True}]
    for names in (False, True) if count == 2 else (False,):
        losses, model, plain = train(False, names=names)
        for options in ({},) if names else every[count - 2 :]:
            own_losses, own_model, divided = train(True, names=names, **options)
            assert max(abs(a - b) for a, b in zip(losses, own_losses)) < 1e-6, (losses, own_losses)
            assert all(torch.allclose(a, b, rtol=1e-5) for a, b in zip(model.parameters(), own_model.parameters()))
            kept = sum(entry["exp_avg"].numel() for entry in divided.optim.state.values())
            divided.consolidate_state_dict(to=count - 1)
            if rank == count - 1:
                found, expected = divided.state_dict(), plain.state_dict()
                assert list(found["state"]) == list(expected["state"]) and same(found, expected), (found, expected)
            else:
                try:
                    divided.state_dict()
                except RuntimeError as error:
                    assert f"`consolidate_state_dict(to={rank})` on all ranks" in str(error)
    # a plain optimizer's state goes on divided, and the divided one's plain
    _, model, other = train(True)
    _, twin, expected = train(False)
    other.load_state_dict(expected.state_dict())
    for m, o in ((model, other), (twin, expected)):
        o.zero_grad()
        m(torch.ones(2, 6)).sum().backward()
        o.step()
    assert all(torch.allclose(a, b, rtol=1e-5) for a, b in zip(model.parameters(), twin.parameters()))
    total = [None] * count
    dist.all_gather_object(total, kept)
    print(*total)
"""


@needs_mpi
@pytest.mark.parametrize(("count", "kept"), [(2, "272 163"), (4, "64 96 19 256")])
def test_losses_and_state_are_those_of_the_plain_optimizer(count: int, kept: str, tmp_path: Path) -> None:
    assert sorted(outputs(run_ranks(tmp_path, count, TRAIN))[0].split()) == sorted(kept.split())


def test_one_process_and_bad_arguments() -> None:
    dist.init_process_group(rank=0, world_size=1)
    try:
        model = nn.Linear(2, 1)
        with pytest.raises(NotImplementedError, match="overlap_with_ddp"):
            dist.optim.ZeroRedundancyOptimizer(model.parameters(), ad.optim.SGD, overlap_with_ddp=True, lr=0.1)
        with pytest.raises(ValueError, match="empty parameter list"):
            dist.optim.ZeroRedundancyOptimizer([], ad.optim.SGD, lr=0.1)
        optimizer = dist.optim.ZeroRedundancyOptimizer(model.parameters(), ad.optim.SGD, lr=0.1, momentum=0.9)
        assert optimizer.param_groups[0]["momentum"] == 0.9
        optimizer.param_groups[0]["lr"] = 0.5
        before = model.weight.detach().clone()
        model(ad.ones(1, 2)).sum().backward()
        assert optimizer.step(lambda: 3.0) == 3.0
        assert ad.equal(model.weight, before - 0.5)
        optimizer.consolidate_state_dict()
        saved = optimizer.state_dict()
        with pytest.raises(ValueError, match="different number of parameter groups"):
            optimizer.load_state_dict({**saved, "param_groups": []})
        with pytest.raises(ValueError, match=r"Invalid learning rate: -1\.0"):
            optimizer.add_param_group({"params": [nn.Parameter(ad.ones(1))], "lr": -1.0})
        assert len(optimizer.param_groups) == len(optimizer.optim.param_groups) == 1
        optimizer.load_state_dict(saved)
        assert optimizer.optim.param_groups[0]["lr"] == 0.5
        assert not optimizer.state
    finally:
        dist.destroy_process_group()
