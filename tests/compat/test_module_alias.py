"""compat.module_alias: modules that have the names of others."""

from importlib import import_module

import pytest

import adjoint as ad


@pytest.mark.parametrize("module", ["activation", "linear", "loss", "pooling"])
def test_programs_can_look_through_the_names_of_an_alias(module: str) -> None:
    alias = import_module(f"adjoint.nn.modules.{module}")
    classes = {value for value in vars(alias).values() if isinstance(value, type) and issubclass(value, ad.nn.Module)}
    assert {getattr(alias, name) for name in dir(alias) if name in dir(ad.nn)} & {*classes}
    assert all(vars(alias)[name] is getattr(alias, name) for name in dir(alias) if hasattr(alias, name))


def test_an_activation_is_found_among_the_names_of_its_module() -> None:
    assert vars(import_module("adjoint.nn.modules.activation"))["Tanh"] is ad.nn.Tanh
