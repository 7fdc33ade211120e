from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint import data


class Stream(data.IterableDataset[int]):
    def __init__(self, *items: int) -> None:
        self.items = items

    def __iter__(self) -> Iterator[int]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def test_tensor_dataset() -> None:
    dataset = data.TensorDataset(ad.arange(6).reshape(3, 2), ad.arange(3))
    assert len(dataset) == 3
    assert [t.tolist() for t in dataset[1]] == [[2, 3], 1]
    assert [t.tolist() for t in dataset[1:]] == [[[2, 3], [4, 5]], [1, 2]]
    with pytest.raises(AssertionError, match="Size mismatch between tensors: the first dimensions are 3, 4"):
        data.TensorDataset(ad.zeros(3), ad.zeros(4, 2))
    assert_raises(ValueError, "at least one tensor", data.TensorDataset)


def test_subset() -> None:
    dataset = data.TensorDataset(ad.arange(9))
    subset = data.Subset(dataset, [8, 4, 6])
    assert (len(subset), subset[1][0].item(), subset[[2, 0]][0].tolist()) == (3, 4, [6, 8])

    class Doubled(data.Subset[Any]):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index)[0] * 2

    assert [b.tolist() for b in data.DataLoader(Doubled(dataset, [8, 4, 6]), 2)] == [[16, 8], [12]]


def test_concatenation() -> None:
    a, b = data.TensorDataset(ad.arange(3)), data.TensorDataset(ad.arange(10, 14))
    both: data.ConcatDataset[Any] = a + b
    assert len(both) == 7
    assert [both[i][0].item() for i in (0, 2, 3, 6, -1, -7)] == [0, 2, 10, 13, 13, 0]
    assert [x.tolist() for (x,) in data.DataLoader(both, 4)] == [[0, 1, 2, 10], [11, 12, 13]]
    assert_raises(ValueError, "absolute value of index should not exceed dataset length", lambda: both[-8])
    assert_raises(IndexError, "index 7 is out of range", lambda: both[7])
    assert_raises(AssertionError, "empty iterable", data.ConcatDataset, [])
    assert_raises(AssertionError, "does not support IterableDataset", lambda: data.ConcatDataset([a, Stream(1)]))


def test_chain() -> None:
    chain = Stream(1, 2) + Stream(3)
    assert (list(chain), len(chain)) == ([1, 2, 3], 3)
    assert_raises(AssertionError, "only supports IterableDataset", lambda: list(data.ChainDataset([[1]])))


def test_a_dataset_without_getitem() -> None:
    class Nothing(data.Dataset[int]):
        pass

    assert_raises(NotImplementedError, "Nothing has no __getitem__", lambda: Nothing()[0])


class Point(NamedTuple):
    x: Any
    y: Any


Loose = namedtuple("Loose", ["z"])

BATCHES: list[list[Any]] = [
    [1, 2, 3], [True, False], [1.5, 2.0], [np.float32(1.5), np.float32(2)], [np.int16(3), np.int16(4)],
    [np.bool_(True), np.bool_(False)], ["a", "bc"], [b"a", b"bc"], [np.arange(3), np.arange(3) + 1],
    [np.float64(1), np.float64(2)], [{"a": 1, "b": [2.0, np.zeros(2)]}, {"a": 3, "b": [4.0, np.ones(2)]}],
    [OrderedDict(b=1, a=2), OrderedDict(a=3, b=4)], [defaultdict(list, a=1), defaultdict(list, a=2)],
    [(1, "x"), (2, "y")], [[1, (2.0,)], [3, (4.0,)]], [Point(1, 2.0), Point(3, 4.0)],
    [Loose(np.ones(1)), Loose(np.zeros(1))], [range(3), range(3)],
]  # fmt: skip


def plain(value: Any) -> Any:
    """Tensors of either library as arrays, within the structure they stand in."""
    if hasattr(value, "numpy"):
        array = value.numpy()
        return ("tensor", array.dtype, array.shape, array.tolist())
    if isinstance(value, dict):
        return (type(value), [(k, plain(v)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value), [plain(v) for v in value])
    return value


@pytest.mark.parametrize("batch", BATCHES)
def test_collate_as_pytorch_does(batch: list[Any]) -> None:
    torch = pytest.importorskip("torch")
    assert plain(data.default_collate(batch)) == plain(torch.utils.data.default_collate(batch))


@pytest.mark.parametrize("sample", [*(batch[0] for batch in BATCHES), None])
def test_convert_as_pytorch_does(sample: Any) -> None:
    torch = pytest.importorskip("torch")
    assert plain(data.default_convert(sample)) == plain(torch.utils.data.default_convert(sample))


def test_collate_tensors() -> None:
    assert data.default_collate([ad.ones(2), ad.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert data.default_collate([ad.tensor(3), ad.tensor(4)]).tolist() == [3, 4]
    for kept in (ad.ones(2), np.array(["a"])):
        assert data.default_convert(kept) is kept


def test_collate_refusals() -> None:
    for parts in ([ad.zeros(2), ad.zeros(2), ad.zeros(3)], [np.zeros(2), np.zeros(2), np.zeros(3)]):
        with pytest.raises(RuntimeError, match=r"equal size, but got \[2\] at entry 0 and \[3\] at entry 2"):
            data.default_collate(parts)
    assert_raises(RuntimeError, "should be of equal size, but the sizes are 1, 2", data.default_collate, [[1, 2], [3]])
    with pytest.raises(TypeError, match=r"batch must contain tensors.*found <class 'object'>"):
        data.default_collate([object()])
    assert_raises(TypeError, "found <U1", lambda: data.default_collate([np.array(["a"])]))


def test_stack() -> None:
    class Many(data.Dataset[int]):
        def __len__(self) -> int:
            return 3

        def __getitems__(self, indices: list[int]) -> list[int]:
            return [10 * i for i in indices]

    x = data.TensorDataset(ad.arange(3))
    pairs = data.StackDataset(x, Many())
    assert [(int(a[0]), b) for a, b in pairs.__getitems__([2, 0])] == [(2, 20), (0, 0)]
    named = data.StackDataset(x=x, y=[4, 5, 6])
    assert (len(named), named[1]["y"]) == (3, 5)
    (batch,) = data.DataLoader(named, 3)
    assert batch["y"].tolist() == [4, 5, 6]
    for given, named_ones, message in (
        ((), {}, "At least one dataset"), ((x,), {"y": x}, "both types"), ((x, [1]), {}, "Size mismatch"),
    ):  # fmt: skip
        assert_raises(ValueError, message, data.StackDataset, *given, **named_ones)

    class Short(Many):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [0]

    with pytest.raises(ValueError, match=r"size mismatch\. Expected 2, got 1"):
        data.StackDataset(Short()).__getitems__([0, 1])


def test_collate_with_rules_of_ones_own() -> None:
    from adjoint.data.collate import collate, default_collate_fn_map

    class Mine:
        def __init__(self, n: int) -> None:
            self.n = n

    def numbers(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return [mine.n for mine in batch]

    assert collate([(Mine(1), 2), (Mine(3), 4)], collate_fn_map={Mine: numbers, int: max_of})[0] == [1, 3]
    default_collate_fn_map[Mine] = numbers
    try:
        assert data.default_collate([{"a": Mine(1)}, {"a": Mine(2)}]) == {"a": [1, 2]}
    finally:
        del default_collate_fn_map[Mine]


def max_of(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return max(batch)
