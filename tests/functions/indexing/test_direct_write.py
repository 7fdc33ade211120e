"""In-place writes at positions write what the functions return, and nothing where they raise."""

import numpy as np
import pytest

import adjoint as ad

COLUMNS, ROWS = [[0, 2, 2], [1, 0, 3]], [[0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]]
CALLS = {
    "scatter": lambda x, y: (1, ad.tensor(COLUMNS), y[:, :3].contiguous()),
    "scatter of the last dimension": lambda x, y: (-1, ad.tensor(COLUMNS), y[:, :3].contiguous()),
    "scatter of a number": lambda x, y: (1, ad.tensor(COLUMNS), 2.5),
    "scatter of a part": lambda x, y: (1, ad.tensor(COLUMNS), y),
    "scatter of rows": lambda x, y: (0, ad.tensor(ROWS), y[:1].expand(3, 4)),
    "scatter out of range": lambda x, y: (1, ad.tensor(COLUMNS) + 1, y[:, :3].contiguous()),
    "scatter of int32": lambda x, y: (1, ad.tensor(COLUMNS, dtype=ad.int32), y[:, :3].contiguous()),
    "scatter_add": lambda x, y: (1, ad.tensor(COLUMNS), y[:, :3].contiguous()),
    "scatter_add to rows": lambda x, y: (0, ad.tensor([1, 0, 1])[:, None].expand(3, 4), y[:1].expand(3, 4)),
    "scatter_add out of range": lambda x, y: (0, ad.tensor(ROWS) + 1, y[:1].expand(3, 4)),
    "scatter_add too wide": lambda x, y: (0, ad.zeros(2, 5, dtype=ad.long), ad.ones(2, 5, dtype=x.dtype)),
    "index_add": lambda x, y: (0, ad.tensor([1, 1, 0]), y[[0, 1, 0]]),
    "index_add of columns": lambda x, y: (1, ad.tensor([1, 3]), y[:, :2]),
    "index_add out of range": lambda x, y: (0, ad.tensor([1, 2]), y),
    "index_copy": lambda x, y: (0, ad.tensor([1]), y[:1]),
    "index_copy from the end": lambda x, y: (0, ad.tensor([-1]), y[:1]),
    "index_fill": lambda x, y: (0, ad.tensor([-1]), 3),
    "index_fill out of range": lambda x, y: (0, ad.tensor([0, 2]), 3.5),
    "index_put": lambda x, y: ((ad.tensor([0, 1]), ad.tensor([-1, 2])), y[:, 0]),
    "index_put of a row": lambda x, y: ((ad.tensor([1, 0]),), y[0]),
    "index_put added": lambda x, y: ((ad.tensor([1, 1]),), y, True),
    "index_put out of range": lambda x, y: ((ad.tensor([0, 2]),), y),
    "index_put of another shape": lambda x, y: ((ad.tensor([0, 1]),), y[:, :3]),
}


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.int64, ad.float16])
@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize("recorded", [False, True])
def test_a_method_writes_what_the_function_returns(case, dtype, recorded):
    name = case.partition(" ")[0]
    x = ad.arange(8).reshape(2, 4).to(dtype)
    y = (10 * ad.arange(1, 9)).reshape(2, 4).to(dtype)
    arguments = CALLS[case](x, y)
    if recorded:
        if dtype is not ad.float64:
            pytest.skip("gradients are the same for all")
        x.requires_grad_()
    try:
        expected = getattr(ad, name)(x * 1, *arguments)
    except (RuntimeError, IndexError) as error:
        target = x.detach().clone()
        with pytest.raises(type(error)):
            getattr(target, f"{name}_")(*arguments)
        assert target.tolist() == x.tolist()
        assert target._version == 0
        return
    target = x * 1
    before = target._version
    assert getattr(target, f"{name}_")(*arguments) is target
    assert target.tolist() == expected.tolist()
    assert target.requires_grad is recorded
    assert target._version == before + 1


def test_views_detached_twins_and_the_log_see_the_writes():
    x = ad.zeros(3, 4)
    x.t()[:2].t().scatter_(1, ad.tensor([[1], [0], [1]]), 1.0)
    twin = x.detach()
    x.index_add_(0, ad.tensor([0, 0]), ad.ones(2, 4))
    assert twin.tolist() == x.tolist() == [[2, 3, 2, 2], [1, 0, 0, 0], [0, 1, 0, 0]]
    w = ad.ones(3, requires_grad=True)
    saved = ad.ones(3)
    out = w * saved
    saved.index_fill_(0, ad.tensor([0]), 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_operands_in_the_written_memory_are_refused():
    i, f = ad.arange(3), ad.ones(3)
    for call in (
        lambda: i.index_put_((i,), ad.zeros(3, dtype=ad.long)),
        lambda: f.scatter_(0, i, f[:3]),
        lambda: f.scatter_add_(0, i, f),
        lambda: i.index_copy_(0, i, ad.zeros(3, dtype=ad.long)),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            call()
    assert np.array_equal(i.numpy(), [0, 1, 2])
