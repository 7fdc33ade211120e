"""The meeting of ranks that a launcher without MPI has started."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from adjoint.core.runtime.launcher_variables import node_name
from adjoint.core.runtime.text_table import pluralize
from adjoint.distributed.rendezvous_server import keep_alive, prove, send_line

KEY_VARIABLE = "ADJOINT_JOB_KEY"  # a secret that all ranks of a job share
PMI_VARIABLES = ("PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMI_ID")
LOOPBACK = ("localhost", "127.", "::1")
RETRY_SECONDS = 0.02


def job_key(host: str) -> bytes:
    """Return the key that ranks prove to have.

    Raises: RuntimeError for a job over a network without a key: anybody there could join it.
    """
    key = os.environ.get(KEY_VARIABLE, "")
    if not key and not host.startswith(LOOPBACK):
        raise RuntimeError(
            f"ranks meet at {host}, which other machines can reach: set ${KEY_VARIABLE} to one secret on all of them "
            "(python -m adjoint.distributed.run makes one), or MASTER_ADDR=127.0.0.1 for ranks of this machine"
        )
    return key.encode()


def start_server(host: str, port: int, size: int, timeout: float, key: bytes, *, meets: bool) -> int:
    """Start the rendezvous beside rank 0; return its port. Raises RuntimeError where it cannot listen."""
    server, port = _start(host, port, size, timeout, key, "meets" if meets else "watches")
    assert server.stdin is not None  # it is a pipe
    server.stdin.close()
    server.returncode = 0  # it outlives this process, and nobody waits for it
    return port


def start_store_server(host: str, port: int, timeout: float, key: bytes) -> tuple[subprocess.Popen[str], int]:
    """Start a process that keeps a store until its standard input is closed; return it, and its port."""
    return _start(host, port, 0, timeout, key, "stores")


def _start(
    host: str, port: int, size: int, timeout: float, key: bytes, kind: str
) -> tuple[subprocess.Popen[str], int]:
    path = Path(__file__).with_name("rendezvous_server.py")
    command = [sys.executable, "-S", "-E", str(path), host, str(port), str(size), str(timeout), kind]
    pipe = subprocess.PIPE
    server = subprocess.Popen(command, start_new_session=True, stdin=pipe, stdout=pipe, text=True)
    assert server.stdin is not None and server.stdout is not None  # noqa: PT018  both are pipes
    with server.stdout:
        server.stdin.write(f"{key.hex()}\n")
        server.stdin.flush()
        word, _, rest = server.stdout.readline().strip().partition(" ")
    if word != "port":
        server.stdin.close()
        server.wait()
        raise RuntimeError(f"rank 0 cannot listen at {host}:{port} ({rest or 'the rendezvous did not start'})")
    return server, int(rest)


def connect(address: tuple[str, int], key: bytes, purpose: str, rank: int, timeout: float) -> socket.socket:
    """Connect to the rendezvous, and prove to belong to the job.

    Raises: TimeoutError if nobody answers in time; RuntimeError if somebody else does.
    """
    end = time.monotonic() + timeout
    while True:
        try:
            connection = keep_alive(socket.create_connection(address, 1))
            break
        except OSError:
            if time.monotonic() > end:
                place = f"{address[0]}:{address[1]}"
                raise TimeoutError(f"rank {rank}: nobody answers at {place} after {timeout:g} s") from None
            time.sleep(RETRY_SECONDS)
    connection.settimeout(timeout)
    nonce = read_line(connection)
    greeting = {"purpose": purpose, "rank": rank, "node": node_name(), "proof": prove(key, nonce)}
    send_line(connection, json.dumps(greeting))
    return connection


def read_line(connection: socket.socket) -> str:
    """Read a line, and nothing after it: the rest is MPI's. Returns an empty one at the end."""
    line = bytearray()
    while byte := connection.recv(1):
        if byte == b"\n":
            break
        line += byte
    return line.decode()


def meet(rank: int, size: int, address: tuple[str, int], timeout: float) -> None:
    """Let MPI_Init of this process find the other ranks. Call it before mpi4py.MPI is imported.

    Raises: TimeoutError if some do not come in time; RuntimeError without the key of the job.
    """
    key = job_key(address[0])
    if rank == 0:
        start_server(*address, size, timeout, key, meets=True)
    connection = connect(address, key, "pmi", rank, timeout)
    place = f"{address[0]}:{address[1]}"
    try:
        welcome = read_line(connection)
    except TimeoutError:
        raise TimeoutError(
            f"rank {rank}: not all of {pluralize(size, 'rank')} came to {place} within {timeout:g} s"
        ) from None
    if welcome.startswith("lost "):
        loss = welcome.removeprefix("lost ")
        raise RuntimeError(f"rank {rank}: {loss} before all of {pluralize(size, 'rank')} had come to {place}")
    if welcome != "welcome":
        raise RuntimeError(f"rank {rank}: what listens at {place} is not the rendezvous of this job")
    connection.settimeout(None)
    forget_pmi()
    os.environ.update(PMI_FD=str(connection.detach()), PMI_RANK=str(rank), PMI_SIZE=str(size))


def forget_pmi() -> None:
    """Remove MPI's variables: processes that this one starts are no ranks."""
    for name in PMI_VARIABLES:
        os.environ.pop(name, None)
