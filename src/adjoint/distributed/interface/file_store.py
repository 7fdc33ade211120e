"""`FileStore`: a store in a file that all processes see; and how ranks meet by a store."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO

from adjoint.core.runtime.launcher_variables import node_name
from adjoint.distributed.interface.store import COUNT_KEY, DistStoreError, Store
from adjoint.distributed.rendezvous import KEY_VARIABLE
from adjoint.distributed.rendezvous_server import KeyValues, Message, awaited_keys

POLL_SECONDS = 0.01


class FileStore(Store):
    """Store in a file, which is locked while it is read or written.

    The file must be new to the processes that meet by it: remove it before another run.

    Args:
        file_name: path of the file, which is made if it is not there.
        world_size: number of processes, which programs give; nobody waits for them.

    Raises: DistStoreError where there is no such folder.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path, self.world_size = file_name, world_size
        self.add(COUNT_KEY, 1)

    def _ask(self, request: dict[str, str]) -> Message:
        awaited = awaited_keys(request)
        end = time.monotonic() + float(request.get("timeout", "0"))
        while True:
            with self._lock() as file:
                held = KeyValues()
                text = file.read()
                held.values = {key: value.encode("latin-1") for key, value in json.loads(text or "{}").items()}
                if held.has(awaited):
                    answer = held.answer(request)
                    changed = json.dumps({key: value.decode("latin-1") for key, value in held.values.items()})
                    if changed != text:
                        file.seek(0)
                        file.truncate()
                        file.write(changed)
                    return answer
            if time.monotonic() >= end:
                return {"missing": [key for key in awaited if key not in held.values]}
            time.sleep(POLL_SECONDS)

    @contextmanager
    def _lock(self) -> Iterator[IO[str]]:
        """Return a block in which no other process reads or writes the file."""
        import fcntl  # POSIX alone has it, as it has MPI's launchers

        try:
            file = Path(self.path).open("a+", encoding="utf-8")  # noqa: SIM115  the block below closes it
        except OSError as error:
            raise DistStoreError(f"{error.strerror}: {self.path}") from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            yield file


def split_options(init_method: str | None) -> tuple[str | None, dict[str, int]]:
    """Return the address, and the numbers that follow it behind a question mark."""
    address, _, query = (init_method or "").partition("?")
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return address or None, {name: int(number) for name, _, number in pairs}


def agree_on_address(store: Store, rank: int, world_size: int, timeout: float) -> tuple[str, int]:
    """Return where rank 0 is met, which it chooses, and tells the others by the store, with the job's key.

    Raises: DistStoreError if ranks do not come in time.
    """
    store.set_timeout(timedelta(seconds=timeout))
    store.set(f"adjoint/node/{rank}", node_name())
    if rank == 0:
        nodes = {store.get(f"adjoint/node/{other}") for other in range(world_size)}
        host = "127.0.0.1" if len(nodes) == 1 else socket.gethostname()
        key = os.environ.get(KEY_VARIABLE) or secrets.token_hex(16)
        with socket.socket() as listener:
            listener.bind((host, 0))
            port = listener.getsockname()[1]  # free for the rendezvous, which begins there next
        store.set("adjoint/address", json.dumps([host, port, key]))
    host, port, os.environ[KEY_VARIABLE] = json.loads(store.get("adjoint/address"))
    return host, port


def meet_by_file(path: str, rank: int, world_size: int, timeout: float) -> tuple[str, int]:
    """Return where rank 0 is met, which a file tells; the last rank to read it removes it."""
    store = FileStore(path, world_size)
    address = agree_on_address(store, rank, world_size, timeout)
    if store.add("adjoint/read", 1) == world_size:
        with suppress(OSError):
            os.unlink(path)
    return address
