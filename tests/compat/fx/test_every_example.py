"""Examples in docstrings print what they say."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
from adjoint.fx.passes.shape_prop import ShapeProp

import adjoint as ad
from adjoint import fx


@pytest.mark.parametrize(
    "holder", [fx.Graph, fx.Tracer, fx.Interpreter, ShapeProp, fx.symbolic_trace, fx.replace_pattern]
)
def test_examples_run(holder: Any) -> None:
    (example, *_) = doctest.DocTestFinder(recurse=False).find(holder, "example", module=False, globs={"ad": ad})
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
