import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint import data


class Numbers(data.Dataset[ad.Tensor]):
    """0, 1, …: a dataset as users write them."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __getitem__(self, index: int) -> ad.Tensor:
        return ad.tensor([index, -index])

    def __len__(self) -> int:
        return self.count


class Stream(data.IterableDataset[int]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))

    def __len__(self) -> int:
        return self.count


def pair(count: int = 23) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(count, 2, 3)).astype(np.float32), rng.integers(0, 9, count)


def assert_same_batches(ours: Any, theirs: Any) -> None:
    ours, theirs = list(ours), list(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert type(a) is type(b)
        for x, y in zip(a, b, strict=True):
            assert x.numpy().dtype == y.numpy().dtype
            np.testing.assert_array_equal(x.numpy(), y.numpy())


OPTIONS: list[dict[str, Any]] = [
    {}, {"batch_size": 5}, {"batch_size": 5, "drop_last": True}, {"batch_size": 23, "shuffle": True},
    {"batch_size": 4, "shuffle": True, "drop_last": True}, {"batch_size": 100, "shuffle": True},
    {"batch_sampler": [[3, 1], [0], [-1, 5, 5]]}, {"batch_size": 2, "sampler": [9, 8, 7]},
    {"batch_size": None, "shuffle": True}, {"batch_size": None},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("own_generator", [False, True])
def test_same_batches_as_pytorch_over_epochs(options: dict[str, Any], own_generator: bool) -> None:
    torch = pytest.importorskip("torch")
    x, y = pair()
    loaders = []
    for library, module in ((ad, data), (torch, torch.utils.data)):
        lib: Any = library
        lib.manual_seed(11)
        generator = lib.Generator().manual_seed(5) if own_generator else None
        dataset = module.TensorDataset(lib.from_numpy(x), lib.from_numpy(y))
        loaders.append(module.DataLoader(dataset, generator=generator, **options))
    ours, theirs = loaders
    assert len(ours) == len(theirs)
    for _ in range(3):
        assert_same_batches(ours, theirs)
        assert ad.rand(1).item() == torch.rand(1).item()  # the default streams are at the same place


@pytest.mark.parametrize(
    "options", [{}, {"replacement": True}, {"num_samples": 57}, {"replacement": True, "num_samples": 70}]
)
@pytest.mark.parametrize("own_generator", [False, True])
def test_random_sampler_is_pytorchs(options: dict[str, Any], own_generator: bool) -> None:
    torch = pytest.importorskip("torch")
    orders = []
    for library, module in ((ad, data), (torch, torch.utils.data)):
        lib: Any = library
        lib.manual_seed(2)
        generator = lib.Generator().manual_seed(8) if own_generator else None
        sampler = module.RandomSampler(range(23), generator=generator, **options)
        orders.append([*sampler, *sampler, len(sampler), lib.rand(1).item()])
    assert orders[0] == orders[1]


def test_subset_random_sampler_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    ours = data.SubsetRandomSampler([5, 7, 9, 11], ad.Generator().manual_seed(1))
    theirs = torch.utils.data.SubsetRandomSampler([5, 7, 9, 11], torch.Generator().manual_seed(1))
    assert [*ours, *ours, len(ours)] == [*theirs, *theirs, len(theirs)]


@pytest.mark.parametrize("lengths", [[10, 8, 5], [0.5, 0.3, 0.2], [0.34, 0.33, 0.33]])
def test_random_split_is_pytorchs(lengths: list[float]) -> None:
    torch = pytest.importorskip("torch")
    ours = data.random_split(Numbers(23), lengths, ad.Generator().manual_seed(1))
    theirs = torch.utils.data.random_split(range(23), lengths, torch.Generator().manual_seed(1))
    assert [part.indices for part in ours] == [list(part.indices) for part in theirs]
    ad.manual_seed(4)
    torch.manual_seed(4)
    reference = torch.utils.data.random_split(range(9), [4, 5])
    assert data.random_split(Numbers(9), [4, 5])[0].indices == reference[0].indices


def test_random_split_refusals() -> None:
    with pytest.raises(ValueError, match="does not equal the length of the input dataset"):
        data.random_split(Numbers(5), [2, 2])
    with pytest.raises(ValueError, match="Fraction at index 1 is not between 0 and 1"):
        data.random_split(Numbers(5), [0.5, -0.5, 1.0])
    with pytest.raises(TypeError, match="whole numbers, or fractions that sum to 1"):
        data.random_split(Numbers(5), [4.0, 1])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(Numbers(5), [0.99, 0.01])


class Slow(data.TensorDataset):
    """A subclass goes sample by sample."""


@pytest.mark.parametrize("options", OPTIONS)
def test_fast_path_gives_what_the_slow_path_gives(options: dict[str, Any]) -> None:
    tensors = [ad.from_numpy(a) for a in pair()]
    tensors.append(tensors[0].transpose(1, 2))  # not contiguous
    loaders = [data.DataLoader(kind(*tensors), **options) for kind in (data.TensorDataset, Slow)]
    batches = []
    for loader in loaders:
        ad.manual_seed(3)
        batches.append([*loader, *loader])
    assert_same_batches(*batches)


def test_fast_path_for_subsets_and_its_memory() -> None:
    x, y = (ad.from_numpy(a) for a in pair())
    order = [4, 2, 2, 19, -1]
    nested = data.Subset(data.Subset(data.TensorDataset(x, y), order), [3, 0, 4])
    slow = data.Subset(data.Subset(Slow(x, y), order), [3, 0, 4])
    assert_same_batches(data.DataLoader(nested, 2), data.DataLoader(slow, 2))
    (batch,) = data.DataLoader(data.TensorDataset(x), len(x))
    batch[0].zero_()
    assert x.abs().sum().item() > 0


def test_no_sample_is_made_on_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("a sample was made")

    class Samples(data.Dataset[Any]):  # code that has not run: Python 3.13 keeps to a method that a class had before
        def __getitem__(self, i: int) -> Any:
            return x[i], y[i]

        def __len__(self) -> int:
            return len(x)

    x, y = (ad.from_numpy(a) for a in pair())
    monkeypatch.setattr(ad.Tensor, "__getitem__", refuse)
    assert len([*data.DataLoader(data.TensorDataset(x, y), 5, shuffle=True)]) == 5
    assert_raises(AssertionError, "a sample was made", lambda: list(data.DataLoader(Samples(), 5)))


def test_tensors_that_record_keep_recording() -> None:
    x = ad.ones(4, 2, requires_grad=True)
    for (batch,) in data.DataLoader(data.TensorDataset(x), 3):
        batch.sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0]] * 4


def test_datasets_of_the_users_own() -> None:
    loader = data.DataLoader(Numbers(5), 2)
    assert [batch.tolist() for batch in loader] == [[[0, 0], [1, -1]], [[2, -2], [3, -3]], [[4, -4]]]
    assert len(loader) == 3
    gathered = data.DataLoader(Numbers(5), 3, collate_fn=lambda samples: [int(s[0]) for s in samples])
    assert list(gathered) == [[0, 1, 2], [3, 4]]


def test_many_at_once() -> None:
    class Many(Numbers):
        def __getitems__(self, indices: list[int]) -> list[int]:
            asked.append(indices)
            return [10 * i for i in indices]

    asked: list[Any] = []
    assert [b.tolist() for b in data.DataLoader(Many(3), 2)] == [[0, 10], [20]]
    assert [b.tolist() for b in data.DataLoader(data.Subset(Many(9), [7, 5]), 2)] == [[70, 50]]
    assert asked == [[0, 1], [2], [7, 5]]


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}])
@pytest.mark.parametrize("count", [0, 6, 7])
def test_streams(options: dict[str, Any], count: int) -> None:
    torch = pytest.importorskip("torch")

    class Theirs(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[int]:
            return iter(range(count))

        def __len__(self) -> int:
            return count

    ours = data.DataLoader(Stream(count), **options)
    theirs = torch.utils.data.DataLoader(Theirs(), **options)
    assert len(ours) == len(theirs)
    for _ in range(2):
        a, b = list(ours), list(theirs)
        assert [getattr(x, "tolist", lambda x=x: x)() for x in a] == [getattr(x, "tolist", lambda x=x: x)() for x in b]


@pytest.mark.parametrize(
    ("dataset", "options", "error", "message"),
    [
        (Numbers(3), {"num_workers": 1, "prefetch_factor": -1}, ValueError, "should be non-negative"),
        (Numbers(3), {"num_workers": 1, "multiprocessing_context": "x"}, ValueError, "a valid start method in"),
        (Numbers(3), {"num_workers": 1, "multiprocessing_context": 3}, TypeError, "a valid context object or a string"),
        (Numbers(3), {"num_workers": -1}, ValueError, "should be non-negative"),
        (Numbers(3), {"timeout": -1}, ValueError, "timeout option should be non-negative"),
        (Numbers(3), {"prefetch_factor": 2}, ValueError, "prefetch_factor"),
        (Numbers(3), {"persistent_workers": True}, ValueError, "needs num_workers > 0"),
        (Numbers(3), {"multiprocessing_context": "spawn"}, ValueError, "multiprocessing_context"),
        (Numbers(3), {"shuffle": True, "sampler": [0]}, ValueError, "mutually exclusive with shuffle"),
        (Numbers(3), {"batch_sampler": [[0]], "batch_size": 2}, ValueError, "batch_sampler option is mutually"),
        (Numbers(3), {"batch_size": None, "drop_last": True}, ValueError, "disables auto-batching"),
        (Numbers(3), {"batch_size": 0}, ValueError, "positive integer value, but got batch_size=0"),
        (Numbers(3), {"drop_last": 1}, ValueError, "drop_last should be a boolean value"),
        (Numbers(0), {"shuffle": True}, ValueError, "positive integer value, but got num_samples=0"),
        (Stream(3), {"shuffle": True}, ValueError, "unspecified shuffle option, but got shuffle=True"),
        (Stream(3), {"sampler": [1]}, ValueError, "unspecified sampler option"),
        (Stream(3), {"batch_sampler": [[1]]}, ValueError, "unspecified batch_sampler option"),
    ],
)
def test_refusals(dataset: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    assert_raises(error, message, data.DataLoader, dataset, **options)


def test_what_is_fixed_once_made() -> None:
    loader = data.DataLoader(Numbers(3))
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader is initialized"):
        loader.batch_size = 4
    assert loader.batch_size == 1


def test_samplers_refuse() -> None:
    with pytest.raises(TypeError, match="replacement should be a boolean value, but got replacement=1"):
        data.RandomSampler(range(3), replacement=1)  # type: ignore[arg-type]
    assert_raises(ValueError, "num_samples=-2", lambda: data.RandomSampler(range(3), num_samples=-2))
    assert_raises(ValueError, "batch_size=True", lambda: data.BatchSampler(range(3), True, False))
    with pytest.raises(NotImplementedError):
        iter(data.Sampler())


def test_weighted_random_sampler_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    weights = [0.1, 2.0, 0.0, 5.0, 1.0]
    for options in ({}, {"replacement": False}):
        ours = data.WeightedRandomSampler(weights, 4, generator=ad.Generator().manual_seed(1), **options)
        theirs = torch.utils.data.WeightedRandomSampler(
            weights, 4, generator=torch.Generator().manual_seed(1), **options
        )
        assert [*ours, *ours, len(ours)] == [*theirs, *theirs, len(theirs)]
    assert_raises(ValueError, "num_samples=True", data.WeightedRandomSampler, weights, True)
    assert_raises(ValueError, r"weights have shape \(1, 5\)", data.WeightedRandomSampler, [weights], 2)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("count", "replicas"), [(10, 3), (9, 3), (2, 5), (11, 4)])
def test_distributed_sampler_is_pytorchs(count: int, replicas: int, shuffle: bool, drop_last: bool) -> None:
    torch = pytest.importorskip("torch")
    for rank in range(replicas):
        both = [
            module.DistributedSampler(range(count), replicas, rank, shuffle=shuffle, seed=3, drop_last=drop_last)
            for module in (data, torch.utils.data)
        ]
        for sampler in both:
            sampler.set_epoch(2)
        assert [*both[0], len(both[0])] == [*both[1], len(both[1])]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("count", "replicas", "size"), [(24, 2, 4), (23, 4, 2), (26, 3, 4), (5, 4, 3)])
def test_batches_of_replicas_are_the_batches_of_one(count: int, replicas: int, size: int, drop_last: bool) -> None:
    parts = []
    for rank in range(replicas):
        sampler = data.DistributedSampler(range(count), replicas, rank, seed=3, drop_last=drop_last, batch_size=size)
        parts.append(list(data.BatchSampler(sampler, size, False)))
        assert len(list(sampler)) == len(sampler)
    order = list(data.DistributedSampler(range(count), 1, 0, seed=3))
    total = len(sampler) * replicas
    whole = data.BatchSampler((order * 2)[:total], size * replicas, False)
    assert [[i for batch in batches for i in batch] for batches in zip(*parts, strict=True)] == list(whole)


def test_distributed_sampler_of_one_process_and_its_refusal() -> None:
    assert list(data.DistributedSampler(range(4), shuffle=False)) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"Invalid rank 2, rank should be in the interval \[0, 1\]"):
        data.DistributedSampler(range(4), 2, 2)


def test_a_stream_longer_than_it_said_warns() -> None:
    class Short(Stream):
        def __len__(self) -> int:
            return 1

    loader = data.DataLoader(Short(2))
    assert len(loader) == 1
    with pytest.warns(UserWarning, match=r"was reported to be 1 \(when accessing len\(dataloader\)\), but 2 samples"):
        list(loader)


def test_a_pass_goes_on_after_an_error() -> None:
    def fails(samples: list[Any]) -> int:
        if int(samples[0][0]) == 1:
            raise ValueError("one")
        return int(samples[0][0])

    passing = iter(data.DataLoader(Numbers(3), collate_fn=fails))
    assert next(passing) == 0
    assert_raises(ValueError, "one", next, passing)
    assert list(passing) == [2]


def test_the_names_where_pytorch_has_them() -> None:
    from adjoint.utils.data import DataLoader, _utils, dataloader, sampler
    from adjoint.utils.data.dataset import Subset
    from adjoint.utils.data.distributed import DistributedSampler

    assert DataLoader is data.DataLoader is dataloader.DataLoader
    assert (Subset, DistributedSampler) == (data.Subset, data.DistributedSampler)
    assert sampler.Sampler is data.Sampler
    assert _utils.collate.default_collate is data.default_collate


def test_more_workers_than_cpus_are_told() -> None:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with pytest.warns(UserWarning, match=f"This DataLoader will create {count + 1} worker processes in total. Our"):
        data.DataLoader(range(3), num_workers=count + 1)
    data.DataLoader(range(3), num_workers=count)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_another_class_may_stand_in_for_the_loader(num_workers: int) -> None:
    from adjoint.utils.data import dataloader

    class Own:
        """What PyTorch's passes read of a loader: fastai's own loader has no more."""

        dataset: Any = property(lambda self: self)
        _IterableDataset_len_called, _auto_collation, drop_last, in_order = None, False, False, True
        _dataset_kind, _index_sampler = dataloader._DatasetKind.Iterable, range(100)
        generator, prefetch_factor, timeout, worker_init_fn = None, 2, 0, None
        multiprocessing_context, persistent_workers, pin_memory = None, False, False

        def __init__(self) -> None:
            self.num_workers = num_workers

        def collate_fn(self, sample: Any) -> Any:
            return -sample

        def __iter__(self) -> Iterator[int]:
            return iter([1, 2, 3])

    kinds = (dataloader._MultiProcessingDataLoaderIter, dataloader._SingleProcessDataLoaderIter)
    assert list(kinds[num_workers == 0](Own())) == [-1, -2, -3]
    assert data.DataLoader(Numbers(2))._dataset_kind == dataloader._DatasetKind.Map
