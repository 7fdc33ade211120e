"""Progress bars around loaders: tqdm as it is, which asks for the length and iterates."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import adjoint as ad

tqdm = pytest.importorskip("tqdm", reason="tqdm is not installed").tqdm


class Stream(ad.data.IterableDataset[int]):
    """Seven samples, whose number nobody knows before."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(7))


class CountedStream(Stream):
    """Seven samples that tell their number."""

    def __len__(self) -> int:
        return 7


SAMPLES = ad.data.TensorDataset(ad.arange(7))
SAMPLER = ad.data.SubsetRandomSampler([1, 3, 5])
LOADERS: dict[str, tuple[Callable[[], ad.data.DataLoader[Any]], int | None, int]] = {
    "in order": (lambda: ad.data.DataLoader(SAMPLES, 3), 3, 3),
    "shuffled, without the last": (lambda: ad.data.DataLoader(SAMPLES, 3, True, drop_last=True), 2, 2),
    "with workers": (lambda: ad.data.DataLoader(SAMPLES, 3, num_workers=2), 3, 3),
    "with workers that stay": (lambda: ad.data.DataLoader(SAMPLES, 3, num_workers=1, persistent_workers=True), 3, 3),
    "with a sampler": (lambda: ad.data.DataLoader(SAMPLES, 2, sampler=SAMPLER), 2, 2),
    "with a sampler of batches": (lambda: ad.data.DataLoader(SAMPLES, batch_sampler=[[0, 1], [2], [3]]), 3, 3),
    "by samples": (lambda: ad.data.DataLoader(SAMPLES, None), 7, 7),
    "of a stream": (lambda: ad.data.DataLoader(Stream(), 3), None, 3),
    "of a stream that tells its length": (lambda: ad.data.DataLoader(CountedStream(), 3), 3, 3),
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_bar_knows_the_number_of_batches_and_counts_each(name: str) -> None:
    make, total, count = LOADERS[name]
    loader, written = make(), io.StringIO()
    for _ in range(2):  # as many passes as one likes
        bar = tqdm(loader, file=written)
        assert bar.total == total
        assert len(list(bar)) == bar.n == count
    assert f"{count}/{total}" in written.getvalue() or total is None


def test_a_training_loop_shows_its_loss() -> None:
    model = ad.nn.Linear(1, 1)
    optimizer = ad.optim.SGD(model.parameters(), lr=0.01)
    written = io.StringIO()
    with tqdm(ad.data.DataLoader(SAMPLES, 3), unit="batch", file=written, mininterval=0) as bar:
        for epoch_step, (x,) in enumerate(bar):
            optimizer.zero_grad()
            loss = model(x[:, None].float()).square().mean()
            loss.backward()
            optimizer.step()
            bar.set_postfix(loss=loss.item(), text=f"{loss:.3f}", tensor=loss.detach(), step=epoch_step)
    assert f"loss={loss.item():.3g}, step=2, tensor=tensor(" in written.getvalue()
    assert f"text={loss:.3f}" in written.getvalue()


WRAPPERS = [lambda x: tqdm(enumerate(x), total=len(x)), lambda x: tqdm(zip(x, x, strict=True))]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_bar_around_what_goes_around_a_loader(wrap: Callable[..., Any]) -> None:
    bar = wrap(ad.data.DataLoader(SAMPLES, 3))
    bar.disable = True
    assert len(list(bar)) == 3


def test_a_bar_over_an_iterator_a_tensor_or_a_module_list() -> None:
    loader = ad.data.DataLoader(SAMPLES, 3)
    for value, count in ((iter(loader), 3), (ad.ones(4, 2), 4), (ad.nn.ModuleList([ad.nn.ReLU()]), 1), (SAMPLES, 7)):
        bar = tqdm(value, file=io.StringIO())
        assert bar.total == count
        assert len(list(bar)) == count


def test_a_bar_in_a_compiled_step_or_its_loop() -> None:
    step = ad.compile(lambda x: x * 2)
    found = [step(x) for (x,) in tqdm(ad.data.DataLoader(SAMPLES, 7), file=io.StringIO())]
    assert found[0].tolist() == [0, 2, 4, 6, 8, 10, 12]
