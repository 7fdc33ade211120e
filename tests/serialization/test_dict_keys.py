"""Keys that are chosen to have one hash are refused: a small file would take hours."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.support.files.streams import joined

import adjoint as ad
from adjoint.serialization import FileError, load
from adjoint.serialization.dict_keys import MAX_KEYS_OF_A_HASH
from adjoint.serialization.zip_archive import write_archive

MODULUS = 2**61 - 1  # of Python's hashes of numbers
MANY = range(1, 40_001)
HOSTILE: dict[str, Any] = {
    "integers": {k * MODULUS: None for k in range(1, 20)},
    "negative integers": {-k * MODULUS: None for k in range(1, 20)},
    "integers of one rest": {7 + k * MODULUS: None for k in range(19)},
    "floats": {2.0 ** (61 * k): None for k in range(-9, 10)},
    "complex numbers": {complex(-1000003 * k, k): None for k in range(1, 20)},
    "tuples": {(k * MODULUS,): None for k in range(1, 20)},
    "tuples of tuples": {((k * MODULUS, 1), "a"): None for k in range(1, 20)},
    "a set": {k * MODULUS for k in range(1, 20)},
    "a set of tuples": {(k * MODULUS,) for k in range(1, 20)},
    "a frozenset": frozenset(k * MODULUS for k in range(1, 20)),
    "several dicts": [{k * MODULUS: None} for k in range(1, 20)],
}


def archive(value: object) -> bytes:
    return joined(write_archive([("x/data.pkl", pickle.dumps(value, protocol=2)), ("x/version", b"3\n")]))


def test_the_numbers_do_collide() -> None:
    keys = HOSTILE["complex numbers"]
    assert len(keys) > MAX_KEYS_OF_A_HASH
    assert len(set(map(hash, HOSTILE["integers"]))) == 1
    assert len(set(map(hash, HOSTILE["floats"]))) == 1
    assert len(set(map(hash, HOSTILE["tuples"]))) == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_keys_of_one_hash_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(archive(HOSTILE[name]))
    with pytest.raises(FileError, match="chosen to have the same hash"):
        load(tmp_path / "x.pt")


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_dict_of_many_is_refused_at_once(protocol: int, tmp_path: Path) -> None:
    """Written by hand, for Python itself would take a minute to make it."""
    keys = b"".join(pickle.dumps(k * MODULUS, protocol=2)[2:-1] + b"N" for k in MANY)
    pickled = b"\x80" + bytes([protocol]) + b"}(" + keys + b"u."
    (tmp_path / "x.pt").write_bytes(joined(write_archive([("x/data.pkl", pickled), ("x/version", b"3\n")])))
    with pytest.raises(FileError, match="chosen to have the same hash"):
        load(tmp_path / "x.pt")


def test_a_safetensors_file_is_refused_too(tmp_path: Path) -> None:
    few = {k * MODULUS: ad.ones(1) for k in range(1, 10)}
    many = few | {k * MODULUS: ad.ones(1) for k in range(10, 20)}
    ad.save(few, tmp_path / "few.safetensors")
    assert load(tmp_path / "few.safetensors").keys() == few.keys()
    ad.save(many, tmp_path / "many.safetensors")
    with pytest.raises(FileError, match="chosen to have the same hash"):
        load(tmp_path / "many.safetensors")


@pytest.mark.parametrize("value", [
    {k: str(k) for k in range(-3000, 3000)},
    [{-1: "a", -2: "b", 0: "c", 0.5: "d", None: "e", True: "f"}] * 500,
    {(i, j): i * j for i in range(60) for j in range(60)},
    {k * 2**40: k for k in range(5000)},
    {k / 7: k for k in range(5000)},
    {f"layer.{k}": k for k in range(5000)},
    {2**64 - k: k for k in range(1000)},
    {0, 1.5, 2j, "x", (1, (2, 3))},
], ids=["integers", "minus one and two", "pairs", "multiples", "fractions", "names", "long", "a set"])  # fmt: skip
def test_other_keys_are_read(value: object, tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(archive(value))
    assert load(tmp_path / "x.pt") == value
