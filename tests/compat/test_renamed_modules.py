"""Pickles and checkpoints written by version 0.1, before the modules moved, load: `compat.renamed_modules` leads."""

import pickle
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.compat.renamed_modules import FOLDERS, RENAMED

FOLDER = Path(__file__).with_name("written_by_0_1")
OBJECTS: dict[str, bytes] = pickle.loads((FOLDER / "objects.pickle").read_bytes())


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_read(name: str) -> None:
    value: Any = pickle.loads(OBJECTS[name])
    again = pickle.loads(pickle.dumps(value))
    assert type(again) is type(value)


def test_values_are_those_that_were_written() -> None:
    assert pickle.loads(OBJECTS["tensor"]).tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert pickle.loads(OBJECTS["dtype"]) is ad.float32
    assert pickle.loads(OBJECTS["op"]) is ad.exp
    assert isinstance(pickle.loads(OBJECTS["model"])[0], ad.nn.Linear)
    assert pickle.loads(OBJECTS["adam"]).__class__ is ad.optim.AdamW
    assert pickle.loads(OBJECTS["parameter"]).tolist() == [0.0, 1.0, 2.0]


def test_a_checkpoint_is_read() -> None:
    _ = ad.nn.Linear  # a file's classes are found among those that the program has imported
    checkpoint = ad.load(FOLDER / "checkpoint.pt", weights_only=False)
    model = checkpoint["model"]
    optimizer = ad.optim.Adam(model.parameters())
    optimizer.load_state_dict(checkpoint["optimizer"])
    assert optimizer.state[model.weight]["step"] == 1
    assert model(ad.ones(1, 2)).shape == (1, 2)


@pytest.mark.parametrize("old", sorted({*RENAMED, *FOLDERS}))
def test_every_old_module_is_found(old: str) -> None:
    __import__(f"adjoint.{old}")


@pytest.mark.parametrize(("old", "name"), [
    ("arrangement", "diag"), ("arrangement", "meshgrid"), ("arrangement", "roll"), ("creation", "linspace"),
    ("distance", "var_mean"), ("elementary", "nansum"), ("gather", "nonzero"), ("gather", "tril"),
    ("joining", "split"), ("joining", "tile"), ("order", "aminmax"), ("order", "histc"),
    ("pointwise", "masked_fill"), ("ranges", "logspace"), ("ranges", "unravel_index"), ("reduce", "cumsum"),
    ("reduce", "sort"), ("reduce", "var"), ("scan", "diff"), ("shape", "flip"), ("strides", "diagonal"),
])  # fmt: skip
def test_functions_that_went_to_another_module_are_found(old: str, name: str) -> None:
    function = pickle.loads(f"cadjoint.functions.{old}\n{name}\n.".encode())
    assert function is getattr(ad, name)
    assert pickle.loads(pickle.dumps(function)) is function
