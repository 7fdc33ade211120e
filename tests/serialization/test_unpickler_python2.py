"""Streams that Python 2 wrote: their text is bytes, which `encoding` reads as text or leaves as they are."""

import io
import pickle
import struct
from typing import Any

import pytest

import adjoint as ad


def text(value: bytes) -> bytes:
    """A string of Python 2 in a pickle."""
    return b"U" + bytes([len(value)]) + value


def stream(name: bytes) -> io.BytesIO:
    """[name, a tensor with the elements 1.5 and -2] as PyTorch wrote it before 1.6 in Python 2."""
    key = text(b"1234")
    storage = b"(" + text(b"storage") + b"ctorch\nFloatStorage\n" + key + text(b"cpu") + b"K\x02NtQ"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00K\x02\x85K\x01\x85\x89NtR"
    parts = [
        pickle.dumps(0x1950A86A20F9469CFC6C, 2), pickle.dumps(1001, 2),
        b"\x80\x02}" + text(b"little_endian") + b"\x88s.", b"\x80\x02](" + text(name) + tensor + b"e.",
        b"\x80\x02]" + key + b"a.", struct.pack("<q2f", 2, 1.5, -2.0),
    ]  # fmt: skip
    return io.BytesIO(b"".join(parts))


@pytest.mark.parametrize(("encoding", "name"), [("utf-8", "ż"), ("latin1", "Å¼"), ("bytes", b"\xc5\xbc")])
def test_text_is_read_as_asked(encoding: str, name: Any) -> None:
    found, tensor = ad.load(stream(b"\xc5\xbc"), encoding=encoding)
    assert found == name
    assert tensor.tolist() == [1.5, -2.0]


@pytest.mark.filterwarnings("ignore:pickle_load_args only works")
def test_pytorch_reads_the_same() -> None:
    torch = pytest.importorskip("torch")
    found, tensor = torch.load(stream(b"\xc5\xbc"), encoding="bytes", weights_only=True)
    assert found == b"\xc5\xbc"
    assert tensor.tolist() == [1.5, -2.0]
