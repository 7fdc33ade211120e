"""Batch normalisation over ranks is that of their batches together, forward and backward, with unequal batches too."""

from pathlib import Path

import pytest
from tests.support.ranks import needs_mpi, outputs, run_ranks

PROGRAM = """
    import sys

    import adjoint as ad
    import adjoint.distributed as dist
    from adjoint import nn

    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    momentum = eval(sys.argv[1])
    ad.manual_seed(0)
    whole = ad.randn(7, 3, 4, dtype=ad.float64)
    own = slice(0, 2) if rank == 0 else slice(2, 7)
    gradient = ad.randn(7, 3, 4, dtype=ad.float64)

    plain = nn.BatchNorm1d(3, momentum=momentum).double()
    together = nn.Sequential(nn.BatchNorm1d(3, momentum=momentum).double())
    for layer in (plain, together[0]):
        with ad.no_grad():
            layer.weight.copy_(ad.tensor([1.0, 2.0, 3.0]))
    together = nn.SyncBatchNorm.convert_sync_batchnorm(together)
    for _ in range(2):
        x = whole.clone().requires_grad_()
        y = plain(x)
        (y * gradient).sum().backward()
        part = whole[own].clone().requires_grad_()
        out = together(part)
        (out * gradient[own]).sum().backward()
    assert ad.allclose(out, y[own], rtol=1e-12)
    assert ad.allclose(part.grad, x.grad[own], rtol=1e-9)
    for p, q in zip(plain.parameters(), together.parameters()):
        dist.all_reduce(q.grad)
        assert ad.allclose(p.grad, q.grad, rtol=1e-10)
    for p, q in zip(plain.buffers(), together.buffers()):
        assert ad.allclose(p, q, rtol=1e-12), (p, q)
    together.eval()
    assert ad.allclose(together(whole), plain.eval()(whole))
    print("done")
"""


@needs_mpi
@pytest.mark.parametrize("momentum", ["0.1", "None"])
def test_ranks_normalise_as_one_process_with_all_batches(momentum: str, tmp_path: Path) -> None:
    assert outputs(run_ranks(tmp_path, 2, PROGRAM, momentum)) == ["done"] * 2
