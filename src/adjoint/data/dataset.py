"""Datasets: samples by index, or in a stream."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import accumulate
from math import floor, isclose
from typing import Any, Generic, TypeVar, cast

import numpy as np

from adjoint.core.random.generator import Generator, default_generator
from adjoint.core.runtime.notebook import show_in_notebook
from adjoint.core.tensor.tensor import Tensor, wrap

Sample_co = TypeVar("Sample_co", covariant=True)


class Dataset(Generic[Sample_co]):
    """Base class of datasets with samples by index.

    A subclass defines `__getitem__`, and `__len__` for most uses. It may define `__getitems__(indices)` to fetch a list
    of samples at once.

    Raises: NotImplementedError where a subclass has no `__getitem__`.

    Example:
        >>> class Squares(ad.data.Dataset):
        ...     def __getitem__(self, i):
        ...         return i, i * i
        >>> Squares()[3]
        (3, 9)
    """

    _repr_html_ = show_in_notebook

    def __getitem__(self, index: Any) -> Sample_co:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__, which a Dataset needs")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample_co], Iterable[Sample_co]):
    """Base class of datasets with samples in a stream.

    A subclass defines `__iter__`. With several workers each iterates over its own copy; `get_worker_info` tells them
    apart.

    Example:
        >>> class Count(ad.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(3))
        >>> list(ad.data.DataLoader(Count(), batch_size=2))
        [tensor([0, 1]), tensor([2])]
    """

    def __add__(self, other: Dataset[Any]) -> ChainDataset[Any]:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Dataset of tensors of equal length: sample i holds row i of each tensor.

    Args:
        tensors: one or more tensors.

    Raises: ValueError for no tensors, AssertionError for different lengths.

    Example:
        >>> dataset = ad.data.TensorDataset(ad.arange(3), ad.tensor([0.0, 0.5, 1.0]))
        >>> dataset[1]
        (tensor(1), tensor(0.5000))
        >>> len(dataset)
        3
    """

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors:
            raise ValueError("TensorDataset needs at least one tensor")
        kinds = {type(t).__name__ for t in tensors} & {"list", "tuple"}
        if kinds:
            raise TypeError(f"TensorDataset(): argument 'tensors' must be Tensor, not {min(kinds)}")
        lengths = [len(t) for t in tensors]
        if len(set(lengths)) != 1:
            sizes = ", ".join(map(str, lengths))
            raise AssertionError(f"Size mismatch between tensors: the first dimensions are {sizes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset[Sample_co]):
    """Dataset of the samples of another dataset at given indices.

    Args:
        dataset: Dataset.
        indices: sequence of indices.

    Example:
        >>> subset = ad.data.Subset(["a", "b", "c"], [2, 0])
        >>> subset[0], len(subset)
        ('c', 2)
    """

    def __init__(self, dataset: Dataset[Sample_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Sample_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Sample_co]:
        if type(self).__getitem__ is not Subset.__getitem__:
            return [self[i] for i in indices]
        return _fetch_many(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


class StackDataset(Dataset[Any]):
    """Dataset of several datasets side by side: sample i is the tuple of their samples i, or a dict for named ones.

    Raises: ValueError for no datasets, for some of both kinds, and for different lengths.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("Supported either datasets by position, or by name, but both types are given")
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = args or kwargs
        self._length = len(self._parts()[0])
        if any(len(part) != self._length for part in self._parts()):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> Any:
        return self._sample([part[index] for part in self._parts()])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = [_fetch_many(part, indices) for part in self._parts()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}")
        return [self._sample(list(parts)) for parts in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _sample(self, parts: list[Any]) -> Any:
        return dict(zip(self.datasets, parts, strict=True)) if isinstance(self.datasets, dict) else tuple(parts)


class ConcatDataset(Dataset[Sample_co]):
    """Dataset of the samples of several datasets, one after another.

    Args:
        datasets: iterable of datasets; `a + b` makes one of two.

    Raises: AssertionError for no datasets, and for iterable ones.

    Example:
        >>> both = ad.data.ConcatDataset([["a", "b"], ["c"]])
        >>> both[2], len(both)
        ('c', 3)
    """

    def __init__(self, datasets: Iterable[Dataset[Sample_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(len(cast("Sized", each)) for each in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Sample_co:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        if index >= len(self):
            raise IndexError(f"index {index} is out of range for a ConcatDataset of length {len(self)}")
        which = bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]


class ChainDataset(IterableDataset[Sample_co]):
    """Dataset of several iterable datasets, one after another.

    Raises: AssertionError in a pass, at a dataset of another kind.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Sample_co]:
        for dataset in self._iterate_datasets():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._iterate_datasets())

    def _iterate_datasets(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset


def random_split(
    dataset: Dataset[Sample_co], lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[Sample_co]]:
    """Return disjoint random subsets of a dataset.

    Args:
        dataset: Dataset.
        lengths: sizes of the subsets, or fractions that sum to 1.
        generator: source of the random order. Default: the global one.

    Raises: ValueError if the lengths do not sum to the dataset's, TypeError if they do and are no whole numbers.

    Example:
        >>> train, test = ad.data.random_split(ad.data.TensorDataset(ad.arange(10)), [0.8, 0.2])
        >>> len(train), len(test)
        (8, 2)
    """
    count = len(cast("Sized", dataset))
    sizes = _split_by_fractions(count, lengths) if isclose(sum(lengths), 1) and sum(lengths) <= 1 else [*lengths]
    if sum(sizes) != count:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    odd = next((size for size in sizes if not hasattr(size, "__index__")), None)
    if odd is not None:
        raise TypeError(f"random_split: lengths are whole numbers, or fractions that sum to 1, got {odd}")
    order = (generator or default_generator).randperm(count).tolist()
    whole = [int(size) for size in sizes]
    return [Subset(dataset, order[end - size : end]) for end, size in zip(accumulate(whole), whole, strict=True)]


def _fetch_many(dataset: Any, indices: list[Any]) -> list[Any]:
    fetch_many = getattr(dataset, "__getitems__", None)
    return fetch_many(indices) if callable(fetch_many) else [dataset[i] for i in indices]


def _split_by_fractions(count: int, fractions: Sequence[float]) -> list[float]:
    """Return whole numbers near count · fraction: rounded down, with the rest dealt out from the first on."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    sizes: list[float] = [floor(count * fraction) for fraction in fractions]
    for i in range(int(count - sum(sizes))):
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if size == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=3)
    return sizes


def fetch_rows(dataset: Any, indices: list[Any]) -> list[Tensor] | None:
    """Return the collated samples of a TensorDataset, or of a subset of one, by one look-up for each tensor.

    Return None where the result could differ: other datasets, subclasses, recorded tensors, and indices other than
    integers.
    """
    while type(dataset) is Subset:
        indices = [dataset.indices[i] for i in indices]
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset or any(t.node is not None for t in dataset.tensors):
        return None
    if not indices or any(type(i) is not int for i in indices):
        return None
    at = np.array(indices)
    return [wrap(t.numpy_view("DataLoader")[at]) for t in dataset.tensors]
