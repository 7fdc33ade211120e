"""Names whose modules load on demand: the tables name what the modules publish, and finding one loads no more."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.functions.api import lazy_index

PROBE = """
import json, sys
from importlib import import_module
import adjoint as ad
from adjoint.functions.api import lazy_index as late
ours = dict(vars(ad.Tensor))
loaded = [name for name in set(late.MODULE_BY_NAME.values()) if name in sys.modules]
late.import_all_modules()
still = [name for name, value in vars(ad.Tensor).items() if isinstance(value, late.LazyMethod)]
untold = [name for name in vars(ad.Tensor) if name not in ours]
kept = {name for name in ours if type(ours[name]) is not late.LazyMethod}
changed = [name for name, value in vars(ad.Tensor).items() if name in kept and value is not ours[name]]
print(json.dumps([loaded, still, untold, changed]))
"""


def test_tables_name_what_modules_publish() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(ad.__file__).parents[1])}
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    loaded, still, untold, changed = json.loads(done.stdout)
    assert loaded == []
    assert still == []
    assert untold == []
    assert changed == []


def test_tables_are_fresh() -> None:
    tool = Path(__file__).parents[3] / "tools" / "lazy_names.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_method_is_found_where_a_function_of_its_name_lives_elsewhere() -> None:
    program = "import adjoint as ad; print(ad.arange(5).unfold(0, 3, 2).tolist())"
    environment = {**os.environ, "PYTHONPATH": str(Path(ad.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[0, 1, 2], [2, 3, 4]]"


@pytest.mark.parametrize("name", sorted({*lazy_index.MODULE_BY_NAME} - {"name", "resize", "resize_as"}))
def test_names_are_found(name: str) -> None:
    found: Any = getattr(ad, name, None)
    if found is None:
        assert hasattr(ad.Tensor, name)
    elif callable(found):
        assert found.__doc__


@pytest.mark.parametrize("name", sorted(lazy_index.FUNCTIONS_IN_PLACE))
def test_methods_that_are_functions_too(name: str) -> None:
    assert getattr(ad, name) == getattr(ad.Tensor, name)


def test_unknown_names_are_told() -> None:
    with pytest.raises(AttributeError, match="module 'adjoint' has no attribute 'no_such_function'"):
        ad.no_such_function
