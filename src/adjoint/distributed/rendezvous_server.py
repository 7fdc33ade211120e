"""The rendezvous: a process beside rank 0 by which ranks find one another, and learn which of them has ended.

MPICH's ranks meet by PMI-1, a text protocol of puts, gets and barriers. This process answers it, so that whoever sets
RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT can start the ranks. Each rank keeps a second connection, its watch, on
which it reports what it waits for, and is told which rank was lost. Stores keep their values here, too.

It is a process and not a thread, because MPI_Init holds the interpreter's lock, and because MPICH says good-bye after
Python has ended. Only the standard library is imported: it starts in 30 ms, and runs as a file.

Source: the Process Management Interface of MPICH, version 1.1.
"""

from __future__ import annotations

import base64
import errno
import hmac
import json
import os
import secrets
import socket
import sys
import threading
from contextlib import suppress
from glob import glob
from typing import IO, TypeAlias

MAX_LINE_BYTES = 1 << 24
HANDSHAKE_SECONDS = 10.0
FAREWELL_SECONDS = 2.0  # for which a store outlives the process that has it
CHECK_SECONDS = 0.2  # after which a rank that waits for the others is looked at
Message: TypeAlias = dict[str, object]


class RendezvousServer:
    """Server of `size` ranks, which answers each connection in a thread of its own, and ends when all ranks have.

    `meets` tells whether ranks meet here by PMI; under mpiexec they have met already, and are only watched.
    """

    def __init__(self, address: tuple[str, int], size: int, timeout: float, key: bytes, meets: bool) -> None:
        self.size, self.timeout, self.key, self.meets = size, timeout, key, meets
        # MPICH's shared memory is called after it: a name of its own never meets what a killed run has left
        self.name = f"adjoint_{secrets.token_hex(8)}"
        self.values: dict[str, str] = {}
        self.nodes: dict[int, str] = {}
        self.changed = threading.Condition()
        self.waiting = self.rounds = 0
        self.came: set[int] = set()
        self.gone: set[int] = set()
        self.lost: dict[int, str] = {}
        self.connections: set[socket.socket] = set()
        self.watchers: dict[int, socket.socket] = {}
        self.statuses: dict[int, object] = {}
        self.stored = KeyValues()
        self.shared_files: set[str] = set()
        self.socket = socket.create_server(address, backlog=size + 8)

    def serve(self) -> None:
        """Answer until all ranks have ended, or some have not come in time."""
        threading.Thread(target=self._accept, daemon=True).start()
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.came) == self.size or bool(self.lost), self.timeout):
                missing = sorted(set(range(self.size)) - self.came)
                sys.stderr.write(f"adjoint: ranks {missing} did not come within {self.timeout:g} s\n")
                return
            # a rank that was lost before the others came leaves them to their launcher
            self.changed.wait_for(lambda: self.came <= self.gone)
        if self.lost:
            self._remove_shared_files()

    def _remove_shared_files(self) -> None:
        """Remove what killed ranks have left in this machine's shared memory: what they told, or did not come to."""
        named = (path for kind in ("shm", "vci") for path in glob(f"/dev/shm/mpich_{kind}_{hash_name(self.name):x}_*"))
        for path in {*self.shared_files, *named}:
            with suppress(OSError):
                os.unlink(path)

    def serve_stores(self) -> None:
        """Answer until the process that has started this one ends, or closes its end of standard input.

        What the others have asked before, such as whether all have come to a barrier, is answered still.
        """
        threading.Thread(target=self._accept, daemon=True).start()
        sys.stdin.read()
        with self.changed:
            self.changed.wait_for(lambda: not self.connections, FAREWELL_SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                connection = keep_alive(self.socket.accept()[0])
            except OSError:
                return  # the server has ended
            threading.Thread(target=self._serve_connection, args=(connection,), daemon=True).start()

    def _serve_connection(self, connection: socket.socket) -> None:
        """Ask for a proof of the key, and answer what the connection is for; a stranger gets no answer."""
        with self.changed:
            self.connections.add(connection)
        try:
            connection.settimeout(HANDSHAKE_SECONDS)
            nonce = secrets.token_hex(16)
            send_line(connection, nonce)
            reader = connection.makefile("r", encoding="utf-8")
            greeting = json.loads(reader.readline(MAX_LINE_BYTES))
            if not hmac.compare_digest(str(greeting["proof"]), prove(self.key, nonce)):
                return
            connection.settimeout(None)
            serves = {"pmi": self._serve_pmi, "watch": self._serve_watch, "store": self._serve_store}
            serves[greeting["purpose"]](connection, reader, greeting)
        except (OSError, ValueError, KeyError, TypeError):
            pass  # the peer has gone, or is none of ours: what follows from it is decided below
        finally:
            connection.close()
            with self.changed:
                self.connections.discard(connection)
                self.changed.notify_all()

    # Ranks: who came, who was lost

    def _come(self, connection: socket.socket, rank: int, node: str) -> bool:
        """Wait until all ranks have come; return False if one was lost before."""
        with self.changed:
            self.nodes[rank] = node
            self.came.add(rank)
            self.changed.notify_all()
            while len(self.came) < self.size and not self.lost:
                if _has_closed(connection):
                    self._lose(rank, "died")
                self.changed.wait(CHECK_SECONDS)
            return len(self.came) == self.size

    def _describe_loss(self, rank: int) -> str:
        return f"rank {rank} on {self.nodes.get(rank, '?').partition(' ')[0]} {self.lost[rank]}"

    def _lose(self, rank: int, why: str) -> None:
        """Tell all that a rank was lost; the first reason counts."""
        with self.changed:
            if rank in self.lost or rank in self.gone:
                return
            self.lost[rank] = why
            for other, watcher in self.watchers.items():
                if other != rank:
                    _try_to_send(watcher, {"lost": self._describe_loss(rank)})
            self.changed.notify_all()

    def _leave(self, rank: int) -> None:
        with self.changed:
            self.gone.add(rank)
            self.changed.notify_all()

    # PMI

    def _serve_pmi(self, connection: socket.socket, reader: IO[str], greeting: Message) -> None:
        rank = int(str(greeting["rank"]))
        if not self._come(connection, rank, str(greeting["node"])):
            with suppress(OSError):  # it may be the one that was lost
                send_line(connection, f"lost {self._describe_loss(min(self.lost))}")
            self._leave(rank)
            return
        send_line(connection, "welcome")
        ended, why = False, "died"
        try:
            for line in reader:
                words = dict(word.split("=", 1) for word in line.split() if "=" in word)
                answer = self._answer_pmi(rank, words)
                ended = words.get("cmd") == "finalize"
                if answer is None:
                    break
                send_line(connection, answer)
                if ended:
                    break
        except OSError as error:
            why = _describe_end(error)
        if not ended:
            self._lose(rank, why)
        self._leave(rank)

    def _answer_pmi(self, rank: int, words: dict[str, str]) -> str | None:
        """Return the answer to a request; None where there is nothing more to say."""
        match words.get("cmd"):
            case "init":
                return "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2"
            case "get_maxes":
                return "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"
            case "get_appnum":
                return "cmd=appnum rc=0 appnum=0"
            case "get_my_kvsname":
                return f"cmd=my_kvsname rc=0 kvsname={self.name}"
            case "get_universe_size":
                return f"cmd=universe_size rc=0 size={self.size}"
            case "put":
                with self.changed:
                    self.values[words["key"]] = words["value"]
                return "cmd=put_result rc=0"
            case "get":
                key = words["key"]
                found = self._map_nodes() if key == "PMI_process_mapping" else self.values.get(key)
                return "cmd=get_result rc=1" if found is None else f"cmd=get_result rc=0 value={found}"
            case "barrier_in":
                return "cmd=barrier_out tag=0" if self._pass_barrier() else None
            case "finalize":
                if rank == 0:  # a container that ends with rank 0 would take this process away from the others
                    with self.changed:
                        self.changed.wait_for(lambda: len(self.gone) >= self.size - 1, self.timeout)
                return "cmd=finalize_ack rc=0"
        return None  # an abort, and what PMI-1 does not know

    def _map_nodes(self) -> str | None:
        """Return which ranks share a machine, in MPICH's words; None where they do not come in equal blocks."""
        blocks: list[tuple[str, int]] = []
        for rank in range(self.size):
            node = self.nodes[rank]
            if blocks and blocks[-1][0] == node:
                blocks[-1] = (node, blocks[-1][1] + 1)
            else:
                blocks.append((node, 1))
        sizes = {size for _, size in blocks}
        if len({node for node, _ in blocks}) != len(blocks) or len(sizes) != 1:
            return None
        return f"(vector,(0,{len(blocks)},{sizes.pop()}))"

    def _pass_barrier(self) -> bool:
        """Wait until all ranks have come to the barrier; return False if one never will."""
        with self.changed:
            passed = self.rounds
            self.waiting += 1
            if self.waiting == self.size:
                self.waiting, self.rounds = 0, passed + 1
                self.changed.notify_all()
            else:
                self.changed.wait_for(lambda: self.rounds > passed or bool(self.lost))
            return self.rounds > passed

    # Watches

    def _serve_watch(self, connection: socket.socket, reader: IO[str], greeting: Message) -> None:
        rank = int(str(greeting["rank"]))
        if not self.meets:
            self._come(connection, rank, str(greeting["node"]))
        with self.changed:
            self.watchers[rank] = connection
            for lost in self.lost:
                _try_to_send(connection, {"lost": self._describe_loss(lost)})
        ended, why = False, "died"
        try:
            for line in reader:
                message = json.loads(line)
                if "status" in message:
                    self.statuses[rank] = message["status"]
                if "shared" in message and str(greeting["node"]) == self.nodes.get(0):  # this machine is rank 0's
                    self.shared_files.update(message["shared"])
                if "failed" in message:
                    self._lose(rank, str(message["failed"]))
                if "asks" in message:
                    _try_to_send(connection, {"statuses": self.statuses})
                ended = ended or "ended" in message
        except (OSError, ValueError) as error:
            why = _describe_end(error)
        with self.changed:
            self.watchers.pop(rank, None)
        if not ended:
            self._lose(rank, why)
        if not self.meets:
            self._leave(rank)

    # Stores

    def _serve_store(self, connection: socket.socket, reader: IO[str], greeting: Message) -> None:
        for line in reader:
            send_line(connection, json.dumps(self.stored.answer(json.loads(line))))


class KeyValues:
    """Values of a store by key, and queues of values. Requests may wait until others have set a key."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.changed = threading.Condition()

    def answer(self, request: dict[str, str]) -> Message:
        """Carry out a request, and return its answer; values are in base 64, keys have a line each."""
        awaited = awaited_keys(request)
        with self.changed:
            if awaited and not self.changed.wait_for(lambda: self.has(awaited), float(request["timeout"])):
                return {"missing": [key for key in awaited if key not in self.values]}
            try:
                answer = self.carry_out(request)
            except ValueError as error:  # a value that is no number
                answer = {"error": str(error)}
            self.changed.notify_all()
        return answer

    def has(self, keys: list[str]) -> bool:
        """Return whether all keys are set."""
        return all(key in self.values for key in keys)

    def carry_out(self, request: dict[str, str]) -> Message:
        """Return the answer to a request that waits for nothing more."""
        key, value = request.get("key", ""), base64.b64decode(request.get("value", ""))
        held, found = self.values.get(key), value
        match request["do"]:
            case "set":
                self.values[key] = value
            case "get" | "wait":
                found = held or b""
            case "add":
                self.values[key] = found = str(int(held or b"0") + int(value)).encode()
            case "compare_set":
                expected = base64.b64decode(request["expected"])
                if (held or b"") == expected:
                    self.values[key] = value
                found = self.values.get(key, expected)
            case "append":
                self.values[key] = found = (held or b"") + value
            case "push":
                self.values[key] = json.dumps([*json.loads(held or b"[]"), request["value"]]).encode()
            case "pop":
                if held is None:
                    return {"missing": [key]}
                first, *rest = json.loads(held)
                self.values[key] = json.dumps(rest).encode()
                if not rest:
                    del self.values[key]
                found = base64.b64decode(first)
            case "length":
                return {"number": len(json.loads(held or b"[]"))}
            case "delete":
                return {"number": int(self.values.pop(key, None) is not None)}
            case "check":
                return {"number": int(self.has(split_keys(request)))}
            case "count":
                return {"number": len(self.values)}
            case "list":
                return {"keys": list(self.values)}
            case _:
                raise ValueError(f"a store has no {request['do']!r}")
        return {"value": base64.b64encode(found).decode()}


def hash_name(name: str) -> int:
    """Return the number by which MPICH calls the shared memory of a job.

    Source: G. Fowler, L. Noll, K.-P. Vo, "The FNV Non-Cryptographic Hash Algorithm", FNV-1a of 32 bits.
    """
    number = 2166136261
    for byte in name.encode():
        number = (number ^ byte) * 16777619 % (1 << 32)
    return number


def split_keys(request: dict[str, str]) -> list[str]:
    """Return the keys of a request that has several."""
    return request["keys"].split("\n") if request["keys"] else []


def awaited_keys(request: dict[str, str]) -> list[str]:
    """Return the keys that must be set before a request is answered."""
    if "timeout" not in request:
        return []
    return split_keys(request) if request["do"] == "wait" else [request["key"]]


def prove(key: bytes, nonce: str) -> str:
    """Return what only a holder of the key can say about the server's random word."""
    return hmac.new(key, nonce.encode(), "sha256").hexdigest()


def send_line(connection: socket.socket, text: str) -> None:
    """Send a line."""
    connection.sendall(f"{text}\n".encode())


def keep_alive(connection: socket.socket) -> socket.socket:
    """Have the connection count as lost when the other machine, or the network, is silent for ten seconds."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (("TCP_KEEPIDLE", 4), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 10_000)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


def _describe_end(error: OSError | ValueError) -> str:
    """Return what the error says of the rank at the other end."""
    silent = isinstance(error, OSError) and error.errno in {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH}
    return "cannot be reached any more" if silent else "died"


def _has_closed(connection: socket.socket) -> bool:
    """Return whether the other end has closed a connection on which it has nothing to say."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _try_to_send(connection: socket.socket, message: Message) -> None:
    with suppress(OSError):  # it has gone; its own thread notices
        send_line(connection, json.dumps(message))


def main(host: str, port: str, size: str, timeout: str, kind: str) -> None:
    """Serve; the first line of standard output is the port, or why there is none."""
    try:
        key = bytes.fromhex(sys.stdin.readline())
        server = RendezvousServer((host, int(port)), int(size), float(timeout), key, kind == "meets")
    except OSError as error:
        print(f"error {error.strerror}", flush=True)  # noqa: T201  the starter reads it
        return
    print(f"port {server.socket.getsockname()[1]}", flush=True)  # noqa: T201
    if kind == "stores":
        server.serve_stores()
    else:
        server.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
