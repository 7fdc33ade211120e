"""Worker processes: the same batches as without and as PyTorch's, errors, deaths, and no process left behind."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint import data
from adjoint.data.worker_pool import _open_connections


class Drawn:
    """Index and draws of all three generators, for either library."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib

    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> Any:
        return index, self.lib.rand(1).item(), float(np.random.rand())  # noqa: NPY002


class Arrays(data.Dataset[Any]):
    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        return np.arange(self.sizes[index], dtype=np.float32) + index


class Odd(data.Dataset[Any]):
    """What its function does with an index."""

    def __init__(self, does: Any) -> None:
        self.does = does

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return self.does(index)


class Stream(data.IterableDataset[int]):
    """0, 1, … shared out among the workers; the first has most."""

    def __iter__(self) -> Iterator[int]:
        info = data.get_worker_info()
        if info is None:
            return iter(range(20))
        assert info.dataset is self
        return iter(range(info.id, 20 if info.id == 0 else 7, info.num_workers))


def lists(batches: Any) -> list[Any]:
    return [[part.tolist() for part in batch] for batch in batches]


def gone(pids: list[int]) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("persistent", [False, True])
def test_same_batches_and_draws_as_pytorch(persistent: bool) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib, module in ((ad, data), (torch, torch.utils.data)):
        library: Any = lib
        library.manual_seed(4)
        loader = module.DataLoader(Drawn(lib), 2, shuffle=True, num_workers=2, persistent_workers=persistent)
        epochs = [lists(loader) for _ in range(2)]
        left = iter(loader)
        next(left)
        found.append((epochs, lists(loader), library.rand(1).item()))
        del left, loader
    assert found[0] == found[1]


def test_streams_are_shared_out_as_by_pytorch() -> None:
    torch = pytest.importorskip("torch")

    class Theirs(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[int]:
            info = torch.utils.data.get_worker_info()
            return iter(range(info.id, 20 if info.id == 0 else 7, info.num_workers))

    for options in ({"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}):
        ours = data.DataLoader(Stream(), num_workers=2, **options)
        theirs = torch.utils.data.DataLoader(Theirs(), num_workers=2, **options)
        assert [np.asarray(b).tolist() for b in ours] == [np.asarray(b).tolist() for b in theirs]
    again = data.DataLoader(Stream(), 4, num_workers=2, persistent_workers=True)
    assert [b.tolist() for b in again] == [b.tolist() for b in again]


def test_large_and_small_arrays_come_as_they_are() -> None:
    sizes = [3, 100_000, 0, 70_000, 1]
    loader = data.DataLoader(Arrays(sizes), None, num_workers=2)
    for index, batch in enumerate(loader):
        expected = np.arange(sizes[index], dtype=np.float32) + index
        np.testing.assert_array_equal(batch.numpy(), expected)
        batch.add_(1)  # it is ours to write


def test_bfloat16_comes_through() -> None:
    pytest.importorskip("ml_dtypes")
    x = ad.arange(70_000.0).to(ad.bfloat16)
    (batch,) = data.DataLoader(data.TensorDataset(x), 70_000, num_workers=1)
    assert batch[0].dtype is ad.bfloat16
    assert (batch[0] == x).all()


def test_in_any_order() -> None:
    def slow_first(index: int) -> int:
        time.sleep(0.3 if index == 0 else 0)
        return index

    loader = data.DataLoader(Odd(slow_first), None, num_workers=2, in_order=False)
    found = list(loader)
    assert sorted(found) == list(range(6))
    assert found[0] != 0


def test_an_error_has_its_type_and_the_workers_traceback_and_the_pass_goes_on() -> None:
    def fails(index: int) -> int:
        if index == 1:
            raise KeyError("the key")
        if index == 2:
            raise Picky(1, 2)
        if index == 3:
            return {5: 5}[0]
        return index

    passing = iter(data.DataLoader(Odd(fails), None, num_workers=2))
    assert next(passing) == 0
    with pytest.raises(KeyError, match=r"Caught KeyError in DataLoader worker process 1\.\nOriginal Traceback") as info:
        next(passing)
    assert "in fails" in str(info.value)
    assert "'the key'" in str(info.value)
    assert_raises(RuntimeError, "Caught Picky in DataLoader worker process 0", next, passing)
    with pytest.raises(KeyError):
        next(passing)
    assert list(passing) == [4, 5]


class Picky(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(a, b)


def test_what_cannot_be_sent_is_an_error() -> None:
    loader = data.DataLoader(Odd(lambda index: lambda: index), None, num_workers=1)
    assert_raises(Exception, r"(?s)in DataLoader worker process 0.*pickle", lambda: next(iter(loader)))


def test_a_dataset_that_a_started_worker_cannot_take_is_an_error_that_says_what_to_do() -> None:
    loader = data.DataLoader(Odd(lambda index: index), None, num_workers=1, multiprocessing_context="spawn")
    with pytest.raises((AttributeError, pickle.PicklingError)) as info:
        next(iter(loader))
    assert "multiprocessing_context='fork'" in "".join(info.value.__notes__)


def test_worker_init_fn_and_its_error() -> None:
    def begin(worker: int) -> None:
        info = data.get_worker_info()
        assert (info.id, info.num_workers) == (worker, 2)
        info.dataset.does = lambda index: (worker, ad.initial_seed() == info.seed, ad.get_num_threads())

    loader = data.DataLoader(Odd(None), None, num_workers=2, worker_init_fn=begin)
    assert [tuple(found) for found in loader] == [(0, True, 1), (1, True, 1)] * 3
    assert data.get_worker_info() is None

    def fails(worker: int) -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match=r"(?s)worker process 0.*no disk"):
        next(iter(data.DataLoader(Odd(None), None, num_workers=1, worker_init_fn=fails)))


def test_a_killed_worker_is_named() -> None:
    def dies(index: int) -> int:
        if index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return index

    passing = iter(data.DataLoader(Odd(dies), None, num_workers=2))
    assert_raises(RuntimeError, r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly.*SIGKILL", list, passing)
    loader = data.DataLoader(Odd(dies), None, num_workers=2, persistent_workers=True)
    for _ in range(2):  # the second pass has workers of its own
        assert_raises(RuntimeError, "exited unexpectedly", list, loader)
    with pytest.raises(RuntimeError, match="with exit code 3"):
        list(data.DataLoader(Odd(lambda index: os._exit(3)), None, num_workers=1))


def test_timeout() -> None:
    loader = data.DataLoader(Odd(lambda index: time.sleep(0.5)), None, num_workers=1, timeout=0.1)
    assert_raises(RuntimeError, r"DataLoader timed out after 0.1 seconds", lambda: next(iter(loader)))


def test_nothing_is_left_behind_when_a_pass_is_left_early() -> None:
    gc.collect()
    before = len(_open_connections)
    loader = data.DataLoader(Odd(lambda index: (os.getpid(), np.zeros(10**6))), None, num_workers=2)
    pids = []
    for pid, _ in loader:
        pids.append(pid)
        break
    gc.collect()
    assert gone(pids)
    assert len(_open_connections) == before


def test_persistent_workers_stay() -> None:
    loader = data.DataLoader(Odd(lambda index: os.getpid()), None, num_workers=2, persistent_workers=True)
    first, second = set(loader), set(loader)
    assert first == second
    assert len(first) == 2
    del loader
    assert gone(list(first))


THREADS = """
import sys, threading
import adjoint as ad
from adjoint import data

class Numbers(data.Dataset):
    def __len__(self): return 12
    def __getitem__(self, i): return ad.rand(1) + i

sys.setswitchinterval(1e-5)  # so that threads meet in the middle of what they do
loader, found = data.DataLoader(Numbers(), 4, num_workers=2, multiprocessing_context="fork"), []
for _ in range(6):
    threads = [threading.Thread(target=lambda: found.append(len(list(loader)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    ad.rand(100_000)
    for thread in threads:
        thread.join()
print(sum(found))
"""


def test_passes_of_several_threads() -> None:
    """A process that forks while another of its threads draws has a stream that nobody holds."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "72\n"), done.stderr


def test_a_stuck_worker_is_ended_when_the_time_is_over() -> None:
    loader = data.DataLoader(Odd(lambda index: time.sleep(600)), num_workers=2, timeout=0.2)
    passing = iter(loader)
    pids = [worker.process.pid for worker in passing._worker_pool.workers]  # type: ignore[attr-defined]
    assert_raises(RuntimeError, "timed out", next, passing)
    assert gone(pids)


SCRIPT = """
import os, signal, sys, time
import numpy as np
from adjoint import data

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored

class Slow(data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, i):
        time.sleep(0.01)
        return os.getpid(), np.zeros(10**5)

if __name__ == "__main__":
    loader = data.DataLoader(Slow(), None, num_workers=2, persistent_workers=True, multiprocessing_context=sys.argv[2])
    passing = iter(loader)
    print(*{next(passing)[0] for _ in range(4)}, flush=True)
    if sys.argv[1] == "wait":
        for _ in passing: pass
"""


def started(how: str, method: str, folder: Any) -> tuple[subprocess.Popen[str], list[int]]:
    path = folder / "script.py"
    path.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(path), how, method], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    return process, [int(pid) for pid in process.stdout.readline().split()]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_program_that_ends_takes_its_workers_with_it(method: str, tmp_path: Any) -> None:
    process, pids = started("end", method, tmp_path)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert len(pids) == 2
    assert gone(pids)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_program_that_is_stopped_takes_its_workers_with_it(sent: int, code: int, tmp_path: Any) -> None:
    process, pids = started("wait", "fork", tmp_path)
    process.send_signal(sent)
    _, errors = process.communicate(timeout=20)
    assert process.returncode in (code, -2 if sent == signal.SIGINT else code)
    assert ("KeyboardInterrupt" in errors) == (sent == signal.SIGINT)
    assert gone(pids)
