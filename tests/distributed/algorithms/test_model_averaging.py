"""Local SGD averages parameters when PyTorch's does, and its state dict keeps the step."""

from pathlib import Path

import pytest
from tests.support.ranks import needs_mpi, outputs, run_ranks

import adjoint as ad
import adjoint.distributed as dist
from adjoint import nn, optim
from adjoint.distributed.algorithms.model_averaging import PeriodicModelAverager, PostLocalSGDOptimizer

PROGRAM = """
    import adjoint.run

    adjoint.run.stand_in()
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    alone, _ = dist.new_subgroups(1)
    for local in (True, False):
        torch.manual_seed(0)
        model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))
        model.register_comm_hook(PostLocalSGDState(None, alone, 2, local), post_localSGD_hook)
        averager = PeriodicModelAverager(period=3, warmup_steps=2)
        optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), averager)
        torch.manual_seed(5 + rank)
        for _ in range(7):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).square().mean().backward()
            optimizer.step()
            print(*[round(float(p.detach().double().sum()), 5) for p in model.parameters()])
        print(optimizer.state_dict()["step"])
"""
# what PyTorch 2.13 prints on rank 1 of 2, with gloo
EXPECTED = """
-0.52578 0.40645
-0.33507 0.31468
-0.15382 0.19566
0.053 0.03449
0.22204 -0.10996
0.31495 -0.16808
0.40583 -0.26058
7
-0.52578 0.40645
-0.33507 0.31468
-0.15382 0.19566
0.053 0.03449
0.22204 -0.10996
0.31495 -0.16808
0.40583 -0.26058
7
"""


@needs_mpi
def test_parameters_are_averaged_when_pytorch_averages_them(tmp_path: Path) -> None:
    found = outputs(run_ranks(tmp_path, 2, PROGRAM))[1].split()
    assert [float(word) for word in found] == pytest.approx([float(word) for word in EXPECTED.split()], abs=2e-5)


def test_state_dicts_keep_the_step_and_bad_periods_are_refused() -> None:
    dist.init_process_group(rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match="period"):
            PeriodicModelAverager(0)
        with pytest.raises(ValueError, match="warmup_steps"):
            PeriodicModelAverager(2, -1)
        with pytest.warns(UserWarning, match="in each step"):
            PeriodicModelAverager(1)
        model = nn.Linear(2, 1)
        made = [PostLocalSGDOptimizer(optim.Adam(model.parameters()), PeriodicModelAverager(2)) for _ in range(2)]
        model(ad.ones(1, 2)).sum().backward()
        made[0].step()
        saved = made[0].state_dict()
        made[1].load_state_dict(saved)
        assert made[1].averager.step == saved["step"] == 1
        assert len(made[1].state) == 2
        with pytest.warns(UserWarning, match="does not contain a step counter"):
            made[1].load_state_dict(made[0].optim.state_dict())
        assert made[1].averager.step == 0
        made[1].add_param_group({"params": [nn.Parameter(ad.ones(1))]})
        assert len(made[1].param_groups) == 2
    finally:
        dist.destroy_process_group()
