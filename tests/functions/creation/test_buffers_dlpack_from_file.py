"""`from_file`: elements mapped from a file, whose writes go there if it is shared; errors of PyTorch."""

from pathlib import Path

import pytest

import adjoint as ad


def test_shared_writes_go_into_the_file(tmp_path: Path) -> None:
    place = tmp_path / "numbers"
    made = ad.from_file(str(place), shared=True, size=2)
    assert made.tolist() == [0.0, 0.0]
    made.fill_(2.0)
    longer = ad.from_file(str(place), shared=True, size=3)
    assert longer.tolist() == [2.0, 2.0, 0.0]
    assert place.stat().st_size == 12
    assert ad.from_file(str(place), size=1, dtype=ad.int32).tolist() == [0x40000000]


def test_other_writes_stay_in_memory(tmp_path: Path) -> None:
    place = tmp_path / "numbers"
    place.write_bytes(bytes(8))
    own = ad.from_file(str(place), size=2, requires_grad=True)
    with ad.no_grad():
        own.add_(1.0)
    (own * own).sum().backward()
    assert own.grad.tolist() == [2.0, 2.0]
    assert place.read_bytes() == bytes(8)
    assert ad.from_file(str(place)).shape == (0,)


def test_errors(tmp_path: Path) -> None:
    place = tmp_path / "numbers"
    with pytest.raises(RuntimeError, match=r"unable to open file <.*numbers> in read-only mode: No such file"):
        ad.from_file(str(place), size=2)
    place.write_bytes(bytes(8))
    with pytest.raises(RuntimeError, match="size <8> is smaller than the required mapping size <12>"):
        ad.from_file(str(place), size=3)
    with pytest.raises(RuntimeError, match="unable to mmap -4 bytes"):
        ad.from_file(str(place), size=-1)
