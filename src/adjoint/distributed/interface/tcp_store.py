"""`TCPStore`: a store in a process beside that of its master, which answers over the network."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from datetime import timedelta
from multiprocessing.util import Finalize
from typing import IO

from adjoint.distributed import rendezvous
from adjoint.distributed.interface.store import COUNT_KEY, DEFAULT_TIMEOUT, DistNetworkError, DistStoreError, Store
from adjoint.distributed.rendezvous_server import Message, send_line

POLL_SECONDS = 0.01


class TCPStore(Store):
    """Store that processes of several machines share.

    A process of its own keeps the values, because MPI, when it begins, lets no thread of the master answer. Over a
    network all need the job's key: see `init_process_group`.

    Args:
        host_name, port: the master's address; the master may give port 0, and `port` is the one that it got.
        world_size: number of processes; with it and `wait_for_workers` the master waits until all have come.
        is_master: True in the one process that starts the store; the store ends with it.
        timeout: how long to wait for the master, and for keys.
        multi_tenant, master_listen_fd, use_libuv: accepted.
        key: the job's key. Default: that of the environment.

    Raises: DistNetworkError where the store cannot be reached or begun; DistStoreError if processes do not come.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
        *,
        key: bytes | None = None,
    ) -> None:
        super().__init__()
        self.host, self.port, self._timeout = host_name, port, timeout
        self.libuvBackend = use_libuv
        self._lock = threading.RLock()
        self._key = rendezvous.job_key(host_name) if key is None else key
        server = self._start_server() if is_master else None
        self._connect()
        Finalize(self, _end, (self._connection, self._reader, server), exitpriority=0)
        if world_size is not None and world_size > 0:
            came = self.add(COUNT_KEY, 1)
            if is_master and wait_for_workers:
                self._wait_for_workers(came, world_size)

    def _start_server(self) -> subprocess.Popen[str]:
        seconds = self._timeout.total_seconds()
        try:
            server, self.port = rendezvous.start_store_server(self.host, self.port, seconds, self._key)
        except RuntimeError as error:
            raise DistNetworkError(f"the store's master: {error}") from None
        return server

    def _connect(self) -> None:
        seconds, address = self._timeout.total_seconds(), (self.host, self.port)
        try:
            self._connection = rendezvous.connect(address, self._key, "store", 0, seconds)
        except TimeoutError:
            raise DistNetworkError(
                f"The client socket has timed out after {seconds * 1000:.0f}ms while trying to connect to "
                f"({self.host}, {self.port})."
            ) from None
        self._connection.settimeout(None)
        self._reader = self._connection.makefile("r", encoding="utf-8")

    def _wait_for_workers(self, came: int, world_size: int) -> None:
        end = time.monotonic() + self._timeout.total_seconds()
        while came < world_size:
            if time.monotonic() > end:
                raise DistStoreError(
                    f"Timed out after {self._timeout.total_seconds():g} seconds waiting for clients. "
                    f"{came}/{world_size} clients joined."
                )
            time.sleep(POLL_SECONDS)
            came = self.add(COUNT_KEY, 0)

    def _ask(self, request: dict[str, str]) -> Message:
        with self._lock:
            try:
                send_line(self._connection, json.dumps(request))
                line = self._reader.readline()
            except OSError:
                line = ""
        if not line:
            raise DistNetworkError(
                f"The store at {self.host}:{self.port} has closed the connection. Did its master end, or have another "
                "job's key?"
            )
        answer: Message = json.loads(line)
        return answer

    def clone(self) -> Store:
        """Return another connection to the store."""
        return TCPStore(self.host, self.port, timeout=self._timeout, key=self._key)

    def __repr__(self) -> str:
        return f"TCPStore(host={self.host!r}, port={self.port})"


def _end(connection: socket.socket, reader: IO[str], server: subprocess.Popen[str] | None) -> None:
    """Close the connection to a store, and end its process where it was begun."""
    reader.close()
    connection.close()
    if server is not None:
        assert server.stdin is not None  # it is a pipe
        server.stdin.close()
        server.wait()
