"""Transfer of values between processes: a pickle through a pipe, followed by the memory of large arrays."""

from __future__ import annotations

import os
import pickle
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

MIN_OUT_OF_BAND_BYTES = 1 << 16  # bytes from which an array travels behind the pickle rather than in it


def pack(value: Any) -> tuple[bytes, list[memoryview]]:
    """Return the pickle of a value, and the memory of its large arrays, which the pickle only mentions."""
    apart: list[memoryview] = []

    def keep_in_band(buffer: pickle.PickleBuffer) -> bool:
        memory = buffer.raw()
        if memory.nbytes < MIN_OUT_OF_BAND_BYTES:
            return True
        apart.append(memory)
        return False

    return pickle.dumps(value, protocol=5, buffer_callback=keep_in_band), apart


def send(connection: Connection, number: int, text: bytes, buffers: list[memoryview]) -> None:
    """Send the result of `pack` under a number. Raises OSError if the other side is gone."""
    connection.send((number, text, [memory.nbytes for memory in buffers]))
    for memory in buffers:
        _write_memory(connection, memory)


def receive(connection: Connection) -> tuple[int, bytes, list[Any]]:
    """Receive the number, the pickle and the arrays' memory of a `send`. Raises EOFError or OSError if it ended."""
    number, text, sizes = connection.recv()
    apart = [np.empty(size, np.uint8) for size in sizes]
    for memory in apart:
        _read_memory(connection, memory.data)
    return number, text, apart


def _write_memory(connection: Connection, memory: memoryview) -> None:
    if not hasattr(os, "readv"):
        connection.send_bytes(memory)
        return
    while memory:
        memory = memory[os.write(connection.fileno(), memory) :]


def _read_memory(connection: Connection, memory: memoryview) -> None:
    """Fill `memory`, where possible without the copies of a connection."""
    if not hasattr(os, "readv"):
        connection.recv_bytes_into(memory)
        return
    while memory:
        taken = os.readv(connection.fileno(), [memory])
        if not taken:
            raise EOFError
        memory = memory[taken:]
