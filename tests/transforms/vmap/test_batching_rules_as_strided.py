"""`as_strided` of an example of a batch sees the memory that the example would see alone, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

BATCHES: dict[str, Callable[[], tuple[Any, int]]] = {
    "whole": lambda: (ad.arange(24.0).view(2, 12), 0),
    "at an offset": lambda: (ad.arange(30.0)[6:].view(2, 12), 0),
    "with gaps": lambda: (ad.arange(40.0).view(2, 20)[:, 4:16], 0),
    "transposed": lambda: (ad.arange(24.0).view(12, 2).t(), 0),
    "behind": lambda: (ad.arange(24.0).view(12, 2), 1),
    "shared": lambda: (ad.arange(12.0).expand(2, 12), 0),
    "blocks": lambda: (ad.arange(48.0).view(2, 6, 4)[:, 1:5], 0),
}
READS: dict[str, Callable[[Any], Any]] = {
    "from the first element": lambda x: x.as_strided((2, 2), (1, 2)) * 1,
    "windows": lambda x: x.as_strided((3, 2), (1, 1)).sum(0),
    "of a view": lambda x: x[1:].as_strided((2,), (1,)) * 1,
    "of what was made": lambda x: (x * 2).as_strided((2,), (1,)),
    "the offset": lambda x: x.as_strided((2,), (1,), x.storage_offset()) * 1,
    "after a movement": lambda x: x.unsqueeze(0).as_strided((1, 2), (1, 1)) * 1,
}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("read", READS)
def test_reads(read: str, batch: str) -> None:
    x, dim = BATCHES[batch]()
    if read == "of what was made" and batch in ("transposed", "behind"):
        pytest.skip("what is made of a batch lies in its order")
    found = ad.vmap(READS[read], in_dims=dim)(x)
    assert found.tolist() == [READS[read](example).tolist() for example in x.unbind(dim)]


@pytest.mark.parametrize("batch", BATCHES)
def test_an_offset_counts_from_the_beginning_of_the_memory(batch: str) -> None:
    """It is that of the first example; the others are as far on as they lie behind it."""
    x, dim = BATCHES[batch]()
    found = ad.vmap(lambda v: v.as_strided((2,), (2,), 1) * 1, in_dims=dim)(x)
    first = x.select(dim, 0).storage_offset()
    starts = [1 + example.storage_offset() - first for example in x.unbind(dim)]
    assert found.tolist() == [x.as_strided((2,), (2,), start).tolist() for start in starts]


def test_gradients_and_writes() -> None:
    x = ad.arange(30.0)[6:].view(2, 12)
    slopes = ad.vmap(ad.func.grad(lambda v: v.as_strided((3, 2), (1, 1)).sum()))(x)
    assert slopes.tolist() == [[1.0, 2.0, 2.0, 1.0] + [0.0] * 8] * 2

    def write(v: Any) -> Any:
        y = v * 1
        y[1:].as_strided((2,), (1,)).add_(100)
        return y

    assert ad.vmap(write)(x).tolist() == [write(example).tolist() for example in x]


def test_what_belongs_to_other_examples_is_not_written() -> None:
    def write(v: Any) -> Any:
        v.as_strided((2,), (1,)).add_(1)
        return v

    with pytest.raises(RuntimeError, match="between the elements of an example"):
        ad.vmap(write, in_dims=1)(ad.arange(24.0).view(12, 2))


def test_memory_beyond_the_batch_is_refused() -> None:
    with pytest.raises(RuntimeError, match="outside of the batch, for the last of its 2 examples"):
        ad.vmap(lambda v: v.as_strided((2,), (1,), 11))(ad.arange(24.0).view(2, 12))
