"""Names whose modules load on demand: the tables name what the modules publish, and finding one loads no more."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripts import start

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


def test_tables_name_what_modules_publish(tmp_path: Path) -> None:
    loaded, still, untold, changed = json.loads(start(tmp_path, "-c", PROBE).out)
    assert (loaded, still, untold, changed) == ([], [], [], [])


def test_tables_are_fresh(tmp_path: Path) -> None:
    done = start(tmp_path, str(Path(__file__).parents[3] / "tools" / "lazy_names.py"), "--check")
    assert done.status == 0, done.out + done.error


def test_a_method_is_found_where_a_function_of_its_name_lives_elsewhere(tmp_path: Path) -> None:
    program = "import adjoint as ad; print(ad.arange(5).unfold(0, 3, 2).tolist())"
    assert start(tmp_path, "-c", program).out == "[[0, 1, 2], [2, 3, 4]]"


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
