"""Collectives over real MPI give what NumPy makes of all ranks' inputs, by each way to start ranks."""

from pathlib import Path

import pytest
from tests.support.ranks import needs_mpi, outputs, run_mpiexec, run_ranks

PROGRAM = """
    import numpy as np

    import adjoint as ad
    import adjoint.distributed as dist

    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()


    def same(tensor, expected):
        assert np.array_equal(tensor.detach().numpy(), np.asarray(expected)), (rank, tensor, expected)


    def value(shape, dtype, of=rank):
        return ((ad.arange(int(np.prod(shape))) * 7 + of * 3) % 5).to(dtype).reshape(shape)


    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = dist.ReduceOp
    UFUNCS = {SUM: np.add, PRODUCT: np.multiply, MIN: np.minimum, MAX: np.maximum}
    BITS = {BAND: np.bitwise_and, BOR: np.bitwise_or, BXOR: np.bitwise_xor}
    dtypes = [ad.float32, ad.float64, ad.float16, ad.int64, ad.int32, ad.int16, ad.int8, ad.uint8, ad.complex64]
    for dtype in dtypes:
        numbers = not dtype.is_floating_point and not dtype.is_complex
        for shape in [(), (3,), (0,), (2, 4500)]:
            all_values = [value(shape, dtype, of).numpy() for of in range(count)]
            for op, ufunc in (UFUNCS | (BITS if numbers else {})).items():
                if dtype.is_complex and op is not SUM:
                    continue
                expected = ufunc.reduce(np.stack(all_values), axis=0, dtype=all_values[0].dtype)
                x = value(shape, dtype)
                assert dist.all_reduce(x, op) is None
                same(x, expected)
                x = value(shape, dtype)
                work = dist.all_reduce(x, op, async_op=True)
                assert work.wait() and work.is_completed()
                same(x, expected)
                x = value(shape, dtype)
                dist.reduce(x, count - 1, op)
                same(x, expected if rank == count - 1 else all_values[rank])
                if len(shape) == 2:
                    x = value((count * 2, 30), dtype)
                    given = [value((count * 2, 30), dtype, of).numpy() for of in range(count)]
                    whole = ufunc.reduce(np.stack(given), axis=0, dtype=all_values[0].dtype)
                    out = ad.zeros(2, 30, dtype=dtype)
                    dist.reduce_scatter_tensor(out, x, op)
                    same(out, whole[2 * rank : 2 * rank + 2])
                    out = ad.zeros(2, 30, dtype=dtype)
                    dist.reduce_scatter(out, [x[2 * i : 2 * i + 2] for i in range(count)], op)
                    same(out, whole[2 * rank : 2 * rank + 2])
            x = value(shape, dtype)
            version = x._version
            dist.broadcast(x, count - 1)
            same(x, all_values[count - 1])
            assert x._version == version + 1
            parts = [ad.zeros(shape, dtype=dtype) for _ in range(count)]
            dist.all_gather(parts, value(shape, dtype))
            same(ad.stack(parts), all_values)
            whole = ad.zeros((count, *shape), dtype=dtype)
            dist.all_gather_into_tensor(whole, value(shape, dtype))
            same(whole, all_values)
            parts = [ad.zeros(shape, dtype=dtype) for _ in range(count)] if rank == 0 else None
            dist.gather(value(shape, dtype), parts, dst=0)
            if rank == 0:
                same(ad.stack(parts), all_values)
            out = ad.zeros(shape, dtype=dtype)
            dist.scatter(out, [value(shape, dtype, of) for of in range(count)] if rank == 0 else None, src=0)
            same(out, all_values[rank])
    x = value((5,), ad.float64)
    dist.all_reduce(x, AVG)
    same(x, np.mean([value((5,), ad.float64, of).numpy() for of in range(count)], axis=0))
    x = ad.tensor([rank == 0, True, False])
    dist.all_reduce(x)
    same(x, [True, True, False])
    x = value((9,), ad.bfloat16)
    dist.all_reduce(x)
    same(x.float(), sum(value((9,), ad.float32, of).numpy() for of in range(count)))

    out = ad.zeros(count, 2)
    dist.all_to_all_single(out, ad.arange(2.0 * count).reshape(count, 2) + 100 * rank)
    same(out[:, 0], [100 * of + 2 * rank for of in range(count)])
    sizes = [of + 1 for of in range(count)]  # rank r gets r + 1 rows from each
    out = ad.zeros(count * (rank + 1))
    dist.all_to_all_single(out, ad.full((sum(sizes),), float(rank)), [rank + 1] * count, sizes)
    same(out, np.repeat(np.arange(count), rank + 1))
    outs = [ad.zeros(of + 1) for of in range(count)]
    dist.all_to_all(outs, [ad.full((rank + 1,), float(of)) for of in range(count)])
    same(ad.cat(outs), [rank] * sum(sizes))

    objects = [None] * count
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": of} for of in range(count)]
    objects = [rank, "a"] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects, 0)
    assert objects == [0, "a"]
    objects = [None] * count if rank == 0 else None
    dist.gather_object(rank, objects, 0)
    assert rank or objects == list(range(count))
    objects = [None]
    dist.scatter_object_list(objects, [f"for {of}" for of in range(count)] if rank == 0 else None, 0)
    assert objects == [f"for {rank}"]

    if count > 1:
        if rank == 0:
            dist.send(ad.ones(3) * 5, 1, tag=4)
            dist.send_object_list(["x", 2], 1)
        if rank == 1:
            x = ad.zeros(3)
            assert dist.recv(x, tag=4) == 0
            same(x, [5, 5, 5])
            objects = [None, None]
            assert dist.recv_object_list(objects, 0) == 0 and objects == ["x", 2]
        x = ad.zeros(2)
        messages = [dist.P2POp(dist.isend, ad.full((2,), float(rank)), (rank + 1) % count)]
        messages += [dist.P2POp(dist.irecv, x, (rank - 1) % count)]
        for work in dist.batch_isend_irecv(messages):
            work.wait()
        same(x, [(rank - 1) % count] * 2)

    ends = dist.new_group(sorted({0, count - 1}))
    assert dist.get_rank(ends) == ({0: 0, count - 1: len({0, count - 1}) - 1}).get(rank, -1)
    if dist.get_rank(ends) >= 0:
        x = ad.ones(2)
        dist.all_reduce(x, group=ends)
        same(x, [len({0, count - 1})] * 2)
        assert dist.get_process_group_ranks(ends) == sorted({0, count - 1})
        assert dist.get_group_rank(ends, count - 1) == dist.get_world_size(ends) - 1
        x = ad.full((2,), float(rank))
        dist.broadcast(x, src=count - 1, group=ends)
        same(x, [count - 1] * 2)
    else:
        assert dist.all_reduce(ad.ones(1), group=ends) is None
    own, groups = dist.new_subgroups(1)
    assert len(groups) == count and dist.get_world_size(own) == 1
    dist.barrier()
    dist.monitored_barrier()

    # the gradient of a sum over ranks is the sum of all ranks' gradients
    from adjoint.ops import collectives as ops
    x = value((4,), ad.float64).requires_grad_()
    y = ops.all_reduce(x, group=dist.group.WORLD, how=SUM)
    (y * (rank + 1.0)).sum().backward()
    same(x.grad, [sum(range(1, count + 1))] * 4)
    x = value((4, 2), ad.float64).requires_grad_()
    (ops.all_gather(x, group=dist.group.WORLD, how=SUM) * (rank + 1.0)).sum().backward()
    same(x.grad, np.full((4, 2), sum(range(1, count + 1))))

    w = ad.ones(3, requires_grad=True)
    steps = 0


    def step(x):
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        dist.all_reduce(w.grad)
        dist.broadcast(x, 0)
        parts = [ad.zeros(3) for _ in range(count)]
        dist.all_gather(parts, w.grad * rank)
        with ad.no_grad():
            w.sub_(w.grad * 0.1)
        return loss.detach(), sum(parts), x * 1

    results = []
    for function in (step, ad.compile(step)):
        with ad.no_grad():
            w.fill_(1.0)
        results.append([[t.tolist() for t in function(ad.full((3,), float(rank + i)))] for i in range(4)])
    assert results[0] == results[1]
    dist.destroy_process_group()
    assert not dist.is_initialized()
    print("done", rank)
"""
REFUSALS = """
    import re
    import adjoint as ad
    import adjoint.distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for call, error, message in [
        (lambda: dist.all_reduce(ad.ones(4, 4).t()[1:]), ValueError, "Tensors must be contiguous"),
        (lambda: dist.all_reduce(ad.ones(2), dist.ReduceOp.BAND), RuntimeError, "non-integral dtype: all_reduce of"),
        (lambda: dist.all_reduce(ad.ones(2), "sum"), TypeError, "op is a ReduceOp, and not str"),
        (lambda: dist.all_reduce(ad.ones(1).expand(3)), (RuntimeError, ValueError), "read-only|contiguous"),
        (lambda: dist.all_gather([ad.ones(2)], ad.ones(2)), ValueError, "1 tensor, and the group 2 ranks"),
        (lambda: dist.all_gather([ad.ones(2), ad.ones(3)], ad.ones(2)), ValueError, r"float32.2. and .*float32.3."),
        (lambda: dist.all_gather_into_tensor(ad.ones(3), ad.ones(2)), ValueError, "does not hold 2 times the input"),
        (lambda: dist.reduce_scatter_tensor(ad.ones(3), ad.ones(2)), ValueError, "is not 2 times the output"),
        (lambda: dist.all_to_all_single(ad.ones(3), ad.ones(3)), ValueError, "3 rows of the input"),
        (lambda: dist.scatter(ad.ones(2), [ad.ones(2)] * 2, src=1 - rank), ValueError, "non-root ranks"),
        (lambda: dist.gather(ad.ones(2), None, dst=rank), ValueError, "root rank gives the list"),
        (lambda: dist.broadcast(ad.ones(2), 5), ValueError, "Global rank 5"),
        (lambda: dist.send(ad.ones(2), rank), ValueError, "is this process itself"),
        (lambda: dist.new_group([0, 7]), ValueError, "not different ones of 0 to 1"),
        (lambda: dist.init_process_group("gloo"), ValueError, "twice"),
    ]:
        try:
            call()
        except error as e:
            assert re.search(message, str(e)), e
        else:
            raise AssertionError(message)
    dist.barrier()
    print("done")
"""


@needs_mpi
@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_collective_by_variables(count: int, tmp_path: Path) -> None:
    assert outputs(run_ranks(tmp_path, count, PROGRAM)) == [f"done {rank}" for rank in range(count)]


@needs_mpi
def test_every_collective_by_mpiexec(tmp_path: Path) -> None:
    done = run_mpiexec(tmp_path, 2, PROGRAM)
    assert (done.status, sorted(done.out.split("\n"))) == (0, ["done 0", "done 1"]), done.error


def test_one_process_needs_no_mpi(tmp_path: Path) -> None:
    program = f"{PROGRAM}    import sys\n    assert 'mpi4py' not in sys.modules\n"
    assert outputs(run_ranks(tmp_path, 1, program)) == ["done 0"]


@needs_mpi
def test_bad_input_is_refused_on_each_rank_and_all_go_on(tmp_path: Path) -> None:
    assert outputs(run_ranks(tmp_path, 2, REFUSALS)) == ["done", "done"]
