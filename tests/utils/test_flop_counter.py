"""`FlopCounterMode`: counts of products and convolutions, forward and backward, as PyTorch's."""

from typing import Any

import pytest

import adjoint as ad
from adjoint.utils.flop_counter import FlopCounterMode

torch: Any = pytest.importorskip("torch")
Theirs: Any = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode


def network(t: Any) -> Any:
    class Net(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.images = t.nn.Sequential(t.nn.Conv2d(3, 4, 3), t.nn.ReLU(), t.nn.ConvTranspose2d(4, 6, 3, stride=2))
            self.wide, self.narrow = t.nn.Linear(8, 24), t.nn.Linear(24, 2, bias=False)

        def forward(self, x: Any, y: Any) -> Any:
            pairs = (y @ y.transpose(1, 2)).sum() + t.einsum("bij,bkj->bik", y, y).sum()
            pairs = pairs + t.addmm(y[0], y[0], t.ones(8, 8)).sum()
            return self.images(x).sum() + self.narrow(self.wide(y)).sum() + pairs

    return Net()


def counted(t: Any, mode: Any, backward: bool) -> dict[str, dict[str, int]]:
    x, y = t.ones(2, 3, 8, 8, requires_grad=True), t.ones(2, 5, 8, requires_grad=True)
    with mode(display=False) as counter:
        loss = network(t)(x, y)
        if backward:
            loss.backward()
    assert counter.get_total_flops() == sum(counter.get_flop_counts()["Global"].values())
    return {name: {str(op): n for op, n in ops.items()} for name, ops in counter.get_flop_counts().items()}


def test_forward() -> None:
    assert counted(ad, FlopCounterMode, False) == counted(torch, Theirs, False)


def test_backward() -> None:
    ours, theirs = counted(ad, FlopCounterMode, True), counted(torch, Theirs, True)
    assert (ours["Global"], ours["Net.images.2"]) == (theirs["Global"], theirs["Net.images.2"])


def test_attention() -> None:
    q, k, v = (ad.ones(2, 3, n, 4, requires_grad=True) for n in (5, 7, 7))
    with FlopCounterMode(display=False) as counter:
        ad.nn.functional.scaled_dot_product_attention(q, k, v).sum().backward()
    assert counter.get_total_flops() == (2 + 5) * 2 * 6 * 5 * 7 * 4


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with FlopCounterMode() as counter:
        ad.nn.Linear(100, 50)(ad.ones(10, 100))
    assert capsys.readouterr().out.rstrip("\n") == counter.get_table()
    lines = [line.split() for line in counter.get_table().splitlines()]
    assert (lines[0], lines[2]) == (["Module", "FLOP", "%", "Total"], ["Linear", "100.000K", "100.00%"])
    assert lines[3] == ["-", "aten.addmm", "100.000K", "100.00%"]


def test_nothing_is_counted_after_it() -> None:
    layer = ad.nn.Linear(2, 2)
    with FlopCounterMode(display=False) as counter:
        pass
    layer(ad.ones(1, 2))
    assert counter.get_total_flops() == 0
    with pytest.raises(NotImplementedError, match="custom_mapping"):
        FlopCounterMode(custom_mapping={"op": len})
