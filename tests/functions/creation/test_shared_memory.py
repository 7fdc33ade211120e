"""`share_memory_()`: what one process writes, the others see."""

import copy
from multiprocessing import get_all_start_methods
from typing import Any

import pytest

import adjoint as ad
from adjoint import multiprocessing, nn, optim


def _write(x: Any) -> None:
    x[1] += 5
    x.view(-1)[2:].mul_(3)


def _train(model: nn.Module, answers: Any) -> None:
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        model(ad.arange(6.0).reshape(2, 3)).pow(2).mean().backward()
        optimizer.step()
    answers.put([p.is_shared() for p in model.parameters()])


@pytest.mark.parametrize("method", get_all_start_methods())
def test_processes_see_each_others_writes(method: str) -> None:
    x = ad.ones(4)
    part, twin = x[1:], x.detach()
    assert x.share_memory_() is x
    process = multiprocessing.get_context(method).Process(target=_write, args=(x,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert x.tolist() == twin.tolist() == [1, 6, 3, 3]
    assert part.tolist() == [6, 3, 3]


@pytest.mark.parametrize("method", get_all_start_methods())
def test_a_process_trains_a_shared_model(method: str) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Tanh())
    weight = model[0].weight
    assert model.share_memory() is model
    before = copy.deepcopy(model.state_dict())
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    process = context.Process(target=_train, args=(model, answers))
    process.start()
    assert all(answers.get(timeout=60))
    process.join()
    after = model.state_dict()
    assert weight is model[0].weight
    assert int(after["1.num_batches_tracked"]) == 2
    assert not ad.equal(after["1.weight"], before["1.weight"])


def test_what_is_shared() -> None:
    x = ad.arange(6.0).reshape(2, 3).t()
    assert not x.is_shared()
    kept = (x.tolist(), x.stride())
    assert x.share_memory_().is_shared()
    assert (x.tolist(), x.stride()) == kept
    assert [y.is_shared() for y in (x[0], x.detach(), x.unsqueeze(0))] == [True] * 3
    assert [y.is_shared() for y in (x.clone(), copy.deepcopy(x))] == [False] * 2
    memory = x.data_ptr()
    assert x.share_memory_().data_ptr() == memory
    assert ad.empty(0).share_memory_().shape == (0,)


def test_a_part_brings_along_the_whole() -> None:
    x = ad.zeros(2, 3)
    x[1].share_memory_()
    assert x.is_shared()
    x[1] += 1
    assert x.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_gradients_go_on() -> None:
    w = ad.tensor([1.0, 2.0], requires_grad=True)
    y = (w * w).sum()
    w.share_memory_()
    y.backward()
    assert w.grad.tolist() == [2, 4]
    assert w.is_leaf
    assert w.requires_grad


def test_a_compiled_step_writes_the_shared_memory() -> None:
    w = ad.zeros(3)
    w.share_memory_()
    memory = w.data_ptr()

    @ad.compile
    def step() -> None:
        w.add_(1)

    step()
    step()
    assert (w.tolist(), w.is_shared(), w.data_ptr()) == ([2, 2, 2], True, memory)


def test_storages_tell_that_they_are_shared() -> None:
    x = ad.ones(2)
    assert not x.storage().is_shared()
    x.share_memory_()
    assert x.storage().is_shared()
    assert x[1:].untyped_storage().is_shared()
