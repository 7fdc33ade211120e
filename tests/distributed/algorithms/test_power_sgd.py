"""Communication hooks give the gradients that PyTorch's give, step after step, eager and in compiled steps."""

from pathlib import Path

import pytest
from tests.support.ranks import needs_mpi, outputs, run_ranks

PROGRAM = """
    import adjoint.run

    adjoint.run.stand_in()
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as default
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powerSGD

    dist.init_process_group("gloo")
    rank = dist.get_rank()


    def run(name, hook, state=None, compiled=False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 10), nn.Tanh(), nn.Linear(10, 1))
        model = nn.parallel.DistributedDataParallel(model)
        if isinstance(hook, DDPCommHookType):
            register_ddp_comm_hook(hook, model, state)
        else:
            model.register_comm_hook(state, hook)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(5 + rank)

        def step(x):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        step = torch.compile(step) if compiled else step
        for _ in range(6):
            step(torch.randn(4, 12))
        print(name, *[round(float(p.detach().double().sum()), 5) for p in model.parameters()], flush=True)


    def state(**options):
        return powerSGD.PowerSGDState(None, start_powerSGD_iter=2, **options)


    run("plain", default.allreduce_hook)
    run("plain", DDPCommHookType.ALLREDUCE)
    run("float16", default.fp16_compress_hook)
    run("float16", default.fp16_compress_wrapper(default.allreduce_hook))
    run("power", powerSGD.powerSGD_hook, state(min_compression_rate=1))
    run("power 2", powerSGD.powerSGD_hook, state(matrix_approximation_rank=2, use_error_feedback=False))
    run("power cold", powerSGD.powerSGD_hook, state(warm_start=False))
    run("power float16", default.fp16_compress_wrapper(powerSGD.powerSGD_hook), state())
"""
# what PyTorch 2.13 prints on 2 ranks, with gloo
EXPECTED = """
plain -2.23478 -0.83452 0.48486 -0.23411 1.71262 0.03972
float16 -2.23479 -0.83452 0.48485 -0.23411 1.71263 0.03971
power -2.23501 -0.83449 0.48791 -0.23382 1.71196 0.0399
power 2 -2.23339 -0.83452 0.48512 -0.23409 1.71256 0.03973
power cold -2.23266 -0.8345 0.48479 -0.23394 1.71232 0.03983
power float16 -2.23501 -0.83449 0.4879 -0.23381 1.71197 0.03989
"""
COMPILED = """
    run("plain", default.allreduce_hook, compiled=True)
    run("bfloat16", DDPCommHookType.BF16_COMPRESS)
    run("bfloat16", default.bf16_compress_wrapper(default.allreduce_hook))
    run("bfloat16", default.bf16_compress_hook, compiled=True)
    run("power", powerSGD.powerSGD_hook, state(min_compression_rate=1), compiled=True)
    run("batched", powerSGD.batched_powerSGD_hook, state(matrix_approximation_rank=30))
    run("own", DDPCommHookType.NOOP)
    try:
        powerSGD.PowerSGDState(None, start_powerSGD_iter=1)
    except ValueError as error:
        print(error)
"""


@needs_mpi
def test_hooks_average_as_pytorchs(tmp_path: Path) -> None:
    first, second = (done.splitlines() for done in outputs(run_ranks(tmp_path, 2, PROGRAM + COMPILED)))
    assert first[:-2] == second[:-2]
    assert first[-2] != second[-2]  # each rank kept its own gradients
    assert "Expect `start_powerSGD_iter` > 1" in first[-1]
    expected = read_sums(EXPECTED.strip().splitlines())
    expected["bfloat16"] = expected["batched"] = expected["plain"]  # PyTorch refuses one and fails in the other
    for name, sums in read_sums(first[:-2]).items():
        # the square has at most 30 columns, and loses nothing
        assert sums == pytest.approx(expected[name], abs=2e-2 if "16" in name else 5e-5), name


def read_sums(lines: list[str]) -> dict[str, list[float]]:
    return {" ".join(line.split()[:-6]): [float(word) for word in line.split()[-6:]] for line in lines}
