"""Collectives with gradients, eager and compiled, have PyTorch's values and gradients."""

from pathlib import Path

from tests.support.ranks import needs_mpi, outputs, run_ranks

PROGRAM = """
    import warnings

    import adjoint.run

    adjoint.run.stand_in()
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol
    import torch.distributed.nn.functional as F
    from torch.distributed.device_mesh import init_device_mesh

    warnings.simplefilter("ignore", FutureWarning)
    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (count,))


    def check(name, function, *inputs, compiles=True):
        weight = torch.arange(1.0, 50.0, dtype=torch.float64) * (1 + rank)
        for how in (lambda f: f, torch.compile) if compiles else (lambda f: f,):
            own = [x.clone().requires_grad_() for x in inputs]

            def step():
                out = function(*own)
                outs = list(out) if isinstance(out, (list, tuple)) else [out]
                loss = sum((x.reshape(-1) * weight[: x.numel()]).sum() for x in outs)
                loss.backward()
                return [x.detach() for x in outs]

            outs = how(step)()
            print(name, *(x.flatten().tolist() for x in [*outs, *(x.grad for x in own)]))


    x = torch.arange(4.0, dtype=torch.float64).reshape(2, 2) + 10 * rank
    y = x + 100
    empty = lambda *shape: torch.empty(shape, dtype=torch.float64)
    check("all_reduce", lambda x: F.all_reduce(x * 2), x)
    check("broadcast", lambda x: F.broadcast(x * 2, 1), x)
    check("all_gather", lambda x: F.all_gather(x * 2), x)
    check("reduce_scatter", lambda x, y: F.reduce_scatter(empty(2, 2), [x, y]), x, y)
    check("all_to_all_single", lambda x: F.all_to_all_single(empty(2, 2), x * 2), x)
    sizes = ([1, 2], [1, 1]) if rank == 0 else ([1, 1], [2, 1])
    rows = torch.arange(float(2 + rank), dtype=torch.float64).reshape(-1, 1)
    split = lambda x: F.all_to_all_single(empty(3 - rank, 1), x * 2, *sizes)
    check("split", split, rows, compiles=False)
    check("reduce", lambda x: F.reduce(x * 2, 1), x, compiles=False)
    check("gather", lambda x: F.gather(x * 2, 1), x, compiles=False)
    check("scatter", lambda x, y: F.scatter([x, y], 1), x, y, compiles=False)
    check("all_to_all", lambda x, y: F.all_to_all([empty(2, 2), empty(2, 2)], [x, y]), x, y, compiles=False)
    check("f all_reduce", lambda x: funcol.all_reduce(x * 2, "sum", dist.group.WORLD), x)
    check("f all_gather 0", lambda x: funcol.all_gather_tensor_autograd(x * 2, 0, [0, 1]), x)
    check("f all_gather 1", lambda x: funcol.all_gather_single(x * 2, 1, mesh), x)
    check("f reduce_scatter", lambda x: funcol.reduce_scatter_tensor_autograd(x * 2, "sum", 1, (mesh, 0)), x)
    check("f all_to_all", lambda x: funcol.all_to_all_single_autograd(x * 2, None, None, mesh), x)
    for out in (
        funcol.broadcast(x, 1, mesh), funcol.permute_tensor(x.reshape(-1), [1, 0], mesh), funcol.wait_tensor(x),
        funcol.all_reduce(x, "max", mesh), *funcol.all_reduce_coalesced([x, y], "sum", mesh),
        *funcol.all_gather_into_tensor_coalesced([x], mesh),
        *funcol.reduce_scatter_tensor_coalesced([x], "min", [0], mesh),
    ):
        print(out.tolist())
"""
# what PyTorch 2.13 prints on rank 1 of 2, with gloo
ON_RANK_1 = """
all_reduce [20.0, 24.0, 28.0, 32.0] [6.0, 12.0, 18.0, 24.0]
broadcast [20.0, 22.0, 24.0, 26.0] [6.0, 12.0, 18.0, 24.0]
all_gather [0.0, 2.0, 4.0, 6.0] [20.0, 22.0, 24.0, 26.0] [6.0, 12.0, 18.0, 24.0]
reduce_scatter [210.0, 212.0, 214.0, 216.0] [1.0, 2.0, 3.0, 4.0] [2.0, 4.0, 6.0, 8.0]
all_to_all_single [4.0, 6.0, 24.0, 26.0] [6.0, 8.0, 12.0, 16.0]
split [2.0, 4.0] [4.0, 6.0, 8.0]
reduce [20.0, 24.0, 28.0, 32.0] [4.0, 8.0, 12.0, 16.0]
gather [0.0, 2.0, 4.0, 6.0] [20.0, 22.0, 24.0, 26.0] [4.0, 8.0, 12.0, 16.0]
scatter [110.0, 111.0, 112.0, 113.0] [1.0, 2.0, 3.0, 4.0] [2.0, 4.0, 6.0, 8.0]
all_to_all [100.0, 101.0, 102.0, 103.0] [110.0, 111.0, 112.0, 113.0] [1.0, 2.0, 3.0, 4.0] [2.0, 4.0, 6.0, 8.0]
f all_reduce [20.0, 24.0, 28.0, 32.0] [6.0, 12.0, 18.0, 24.0]
f all_gather 0 [0.0, 2.0, 4.0, 6.0, 20.0, 22.0, 24.0, 26.0] [30.0, 36.0, 42.0, 48.0]
f all_gather 1 [0.0, 2.0, 20.0, 22.0, 4.0, 6.0, 24.0, 26.0] [18.0, 24.0, 42.0, 48.0]
f reduce_scatter [24.0, 32.0] [2.0, 4.0, 4.0, 8.0]
f all_to_all [4.0, 6.0, 24.0, 26.0] [6.0, 8.0, 12.0, 16.0]
[[10.0, 11.0], [12.0, 13.0]]
[0.0, 1.0, 2.0, 3.0]
[[10.0, 11.0], [12.0, 13.0]]
[[10.0, 11.0], [12.0, 13.0]]
[[10.0, 12.0], [14.0, 16.0]]
[[210.0, 212.0], [214.0, 216.0]]
[[0.0, 1.0], [2.0, 3.0], [10.0, 11.0], [12.0, 13.0]]
[[2.0, 3.0]]
"""


@needs_mpi
def test_values_and_gradients_are_pytorchs(tmp_path: Path) -> None:
    expected = ON_RANK_1.strip().splitlines()
    found = outputs(run_ranks(tmp_path, 2, PROGRAM))[1].splitlines()
    assert list(dict.fromkeys(found)) == list(dict.fromkeys(expected))
