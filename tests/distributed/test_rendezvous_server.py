"""The rendezvous answers those who hold the key: PMI for ranks, watches, and stores."""

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from adjoint.distributed.rendezvous import read_line
from adjoint.distributed.rendezvous_server import RendezvousServer, hash_name, prove, send_line

KEY = b"secret"
CONNECTIONS: list[socket.socket] = []


class Client:
    """A connection to the server, which has proved to hold the key."""

    def __init__(
        self, server: RendezvousServer, purpose: str, rank: int = 0, key: bytes = KEY, node: str = "a 1"
    ) -> None:
        self.connection = socket.create_connection(server.socket.getsockname(), 10)
        CONNECTIONS.append(self.connection)
        nonce = read_line(self.connection)
        self.say({"purpose": purpose, "rank": rank, "node": node, "proof": prove(key, nonce)})

    def say(self, message: Any) -> None:
        send_line(self.connection, message if isinstance(message, str) else json.dumps(message))

    def hear(self) -> str:
        return read_line(self.connection)

    def ask(self, message: Any) -> Any:
        self.say(message)
        answer = self.hear()
        return json.loads(answer) if answer.startswith("{") else answer


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[RendezvousServer]:
    made = RendezvousServer(("127.0.0.1", 0), getattr(request, "param", 2), 20.0, KEY, True)
    serving = threading.Thread(target=made.serve, daemon=True)
    serving.start()
    yield made
    while CONNECTIONS:
        CONNECTIONS.pop().close()
    made.socket.close()


def come(server: RendezvousServer, *nodes: str) -> list[Client]:
    ranks = [Client(server, "pmi", rank, node=node) for rank, node in enumerate(nodes)]
    assert [rank.hear() for rank in ranks] == ["welcome"] * len(nodes)
    return ranks


def test_who_has_not_the_key_gets_no_answer(server: RendezvousServer) -> None:
    assert Client(server, "pmi", key=b"guessed").hear() == ""
    assert Client(server, "store", key=b"").hear() == ""
    assert server.came == set()


@pytest.mark.parametrize("text", ["GET / HTTP/1.1", "{}", "[1]", '{"proof": 3, "purpose": "pmi"}'])
def test_what_is_no_greeting_gets_no_answer(server: RendezvousServer, text: str) -> None:
    connection = socket.create_connection(server.socket.getsockname(), 10)
    CONNECTIONS.append(connection)
    read_line(connection)
    send_line(connection, text)
    assert read_line(connection) == ""


def test_ranks_put_get_and_meet_at_barriers(server: RendezvousServer) -> None:
    first, second = come(server, "a 1", "a 1")
    assert first.ask("cmd=init pmi_version=1 pmi_subversion=1").startswith("cmd=response_to_init rc=0")
    assert first.ask("cmd=get_my_kvsname") == second.ask("cmd=get_my_kvsname")
    assert first.ask("cmd=put kvsname=x key=k value=v=1") == "cmd=put_result rc=0"
    assert second.ask("cmd=get kvsname=x key=k") == "cmd=get_result rc=0 value=v=1"
    assert second.ask("cmd=get kvsname=x key=none") == "cmd=get_result rc=1"
    first.say("cmd=barrier_in")
    assert second.ask("cmd=barrier_in") == first.hear() == "cmd=barrier_out tag=0"
    first.say("cmd=finalize")
    assert second.ask("cmd=finalize") == first.hear() == "cmd=finalize_ack rc=0"
    assert server.lost == {}


@pytest.mark.parametrize(
    ("server", "nodes", "mapping"),
    [
        (4, ("a", "a", "b", "b"), "(vector,(0,2,2))"), (2, ("a", "a"), "(vector,(0,1,2))"),
        (3, ("a", "a", "b"), None), (4, ("a", "b", "a", "b"), None),
    ],
    indirect=["server"],
)  # fmt: skip
def test_ranks_of_a_machine_share_memory(server: RendezvousServer, nodes: tuple[str, ...], mapping: str | None) -> None:
    answer = come(server, *nodes)[0].ask("cmd=get kvsname=x key=PMI_process_mapping")
    assert answer == ("cmd=get_result rc=1" if mapping is None else f"cmd=get_result rc=0 value={mapping}")


def test_a_lost_rank_is_named_to_the_others_and_lets_barriers_go(server: RendezvousServer) -> None:
    first, second = come(server, "a 1", "b 1")
    watch = Client(server, "watch", 0)
    watch.say({"status": "here"})
    first.say("cmd=barrier_in")
    second.connection.close()
    assert json.loads(watch.hear()) == {"lost": "rank 1 on b died"}
    assert first.hear() == ""


@pytest.mark.parametrize("server", [3], indirect=True)
def test_ranks_that_have_come_hear_of_one_that_will_not(server: RendezvousServer) -> None:
    first, second = (Client(server, "pmi", rank, node="a 1") for rank in (0, 1))
    while len(server.came) < 2:
        time.sleep(0.01)
    second.connection.close()
    assert first.hear() == "lost rank 1 on a died"


def test_shared_memory_is_found_by_mpichs_name() -> None:
    assert [hash_name(name) for name in ("", "a", "foobar")] == [0x811C9DC5, 0xE40C292C, 0xBF9CF968]  # published


def test_the_first_reason_counts(server: RendezvousServer) -> None:
    come(server, "a 1", "b 1")
    watches = [Client(server, "watch", rank) for rank in (0, 1)]
    watches[0].ask({"asks": True})
    watches[1].ask({"asks": True})
    watches[1].say({"failed": "ended with ValueError"})
    watches[1].connection.close()
    assert json.loads(watches[0].hear()) == {"lost": "rank 1 on b ended with ValueError"}


def test_statuses_are_told(server: RendezvousServer) -> None:
    come(server, "a 1", "a 1")
    watch, other = (Client(server, "watch", rank) for rank in (0, 1))
    other.say({"status": "all_reduce #3, from train.py:7"})
    other.ask({"asks": True})
    assert watch.ask({"asks": True}) == {"statuses": {"1": "all_reduce #3, from train.py:7"}}


def test_stores_keep_values(server: RendezvousServer) -> None:
    def code(value: bytes) -> str:
        return base64.b64encode(value).decode()

    store, other = (Client(server, "store") for _ in range(2))
    assert store.ask({"do": "set", "key": "a", "value": code(b"1\n")}) == {"value": code(b"1\n")}
    assert other.ask({"do": "get", "key": "a", "timeout": "1"}) == {"value": code(b"1\n")}
    assert [other.ask({"do": "add", "key": "n", "value": code(b"5")}) for _ in range(2)][1] == {"value": code(b"10")}
    assert store.ask({"do": "check", "keys": "a\nn"}) == {"number": 1}
    assert store.ask({"do": "get", "key": "none", "timeout": "0.01"}) == {"missing": ["none"]}
    swap = {"do": "compare_set", "key": "a", "expected": code(b"x"), "value": code(b"y")}
    assert store.ask(swap) == {"value": code(b"1\n")}
    assert store.ask({"do": "append", "key": "a", "value": code(b"2")}) == {"value": code(b"1\n2")}
    assert store.ask({"do": "delete", "key": "a"}) == {"number": 1}
    assert store.ask({"do": "count"}) == {"number": 1}
    store.say({"do": "get", "key": "late", "timeout": "10"})
    other.ask({"do": "set", "key": "late", "value": code(b"!")})
    assert json.loads(store.hear()) == {"value": code(b"!")}
