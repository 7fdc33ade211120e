"""What is imported late: the tables name what the modules publish, and a name is found without loading more."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.scripts import output_of, run, start

from adjoint import nn, optim
from adjoint.nn import functional, utils


def loaded(program: str) -> list[str]:
    """The modules of the package that `program` imports in a new interpreter."""
    names = output_of(f"{program}\nimport sys\nprint(*sys.modules)").split()
    return [name for name in names if name.startswith("adjoint.")]


@pytest.mark.needs_processes
def test_nn_loads_what_is_used() -> None:
    modules = loaded("from adjoint import nn; nn.Linear")
    assert "adjoint.nn.layers.linear" in modules
    assert not {"adjoint.nn.layers.convolution", "adjoint.nn.layers.transformer", "adjoint.nn.utils"} & {*modules}
    modules = loaded("import adjoint.nn.functional as F; F.cross_entropy")
    assert "adjoint.functions.loss.classification" in modules
    assert not {"adjoint.functions.nn.convolution", "adjoint.functions.nn.attention"} & {*modules}


@pytest.mark.parametrize("file", sorted(nn._HOMES))
def test_nn_names_what_its_modules_publish(file: str) -> None:
    module = import_module(f"adjoint.nn.{file}")
    names = nn._HOMES[file].split()
    if hasattr(module, "__all__") and file not in {"module.hooks", "module.uninitialized"}:
        assert sorted(names) == sorted(module.__all__)
    for name in names:
        assert getattr(nn, name) is getattr(module, name)


@pytest.mark.parametrize("package", [functional, utils, optim])
def test_tables_name_what_is_published(package: Any) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    for names in package._HOMES.values():
        assert {*names.split()} <= {*package.__all__}
    assert {*package.__all__} <= {*dir(package)}


def test_a_star_brings_all() -> None:
    found: dict[str, Any] = {}
    exec("from adjoint.nn import *", found)
    assert found["Linear"] is nn.Linear
    assert isinstance(found["functional"], ModuleType)


def test_modules_of_a_package_are_its_attributes() -> None:
    assert nn.containers.Sequential is nn.Sequential  # type: ignore[attr-defined]
    assert optim.adam.Adam is optim.Adam  # type: ignore[attr-defined]


@pytest.mark.needs_processes
def test_a_function_is_not_hidden_by_the_module_of_its_name() -> None:
    program = "import adjoint.nn.utils.weight_norm as w; from adjoint.nn import utils; utils.weight_norm.__call__"
    assert "adjoint.nn.utils.weight_norm" in loaded(program)
    assert callable(utils.spectral_norm)


@pytest.mark.parametrize("package", [nn, functional, utils, optim])
def test_unknown_names_are_told(package: Any) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'no_such_name'"):
        package.no_such_name


@pytest.mark.needs_processes
@pytest.mark.parametrize("name", ["optim", "nn", "nn.functional", "nn.utils"])
def test_a_module_tells_all_of_its_names(tmp_path: Path, name: str) -> None:
    text = f"import adjoint.{name} as m; d = m.__dict__; print(all(n in d and getattr(m, n) is d[n] for n in dir(m)))"
    assert start(tmp_path, "-c", text).out == "True"


@pytest.mark.needs_processes
def test_programs_look_through_the_optimizers(tmp_path: Path) -> None:
    text = """
    import torch
    kinds = [n for n, k in vars(torch.optim).items() if isinstance(k, type) and issubclass(k, torch.optim.Optimizer)]
    print({"Adam", "LBFGS", "SGD", "Optimizer"} <= set(kinds), torch.optim.__dict__["SGD"].__name__)
    """
    assert run(tmp_path, "script.py", script=text).out == "True SGD"
