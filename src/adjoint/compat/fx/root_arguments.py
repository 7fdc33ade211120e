"""Inputs of a traced function: a placeholder for each parameter, and those that have concrete values instead."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import NamedTuple

from adjoint.compat.functions.checks import _assert
from adjoint.compat.fx.codegen import PyTreeCodeGen, PyTreeInfo
from adjoint.compat.fx.immutable_collections import Argument
from adjoint.compat.fx.proxy import Proxy, TracerBase, base_types
from adjoint.compat.fx.qualified_names import PACKAGE, PublicName
from adjoint.compat.stubs.pytree import tree_flatten, tree_map, tree_unflatten
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.nn.module.from_function import FunctionModule

VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class PHBase:
    """Place of an input in a tree of concrete arguments."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """Place of an input whose node gets the attributes of this object."""

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


class _Parameters(NamedTuple):
    """Parameters of a function that is traced."""

    tracer: Argument
    function: Function  # without its wrappers
    concrete: dict[str, Argument]

    def create_placeholder(self, name: str) -> Argument:
        """Add the input of a parameter, or those in the tree of its concrete value, and return what is passed."""
        parameter = inspect.signature(self.function).parameters.get(name)
        default = () if parameter is None or parameter.default is inspect.Parameter.empty else (parameter.default,)
        if name not in self.concrete:
            kind = annotations_of(self.function).get(name)
            return self.tracer.create_proxy("placeholder", name, default, {}, type_expr=kind)
        count = 0

        def replace(value: Argument) -> Argument:
            nonlocal count
            count += 1
            proxy = self.tracer.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(value, PHBase):
                _copy_attributes(value, proxy)
                return proxy
            self.check_value(name, value, proxy)
            return value

        return tree_map(replace, self.concrete[name])

    def check_value(self, name: str, value: Argument, proxy: Proxy) -> None:
        """Record the check that an argument has the value for which the function is traced."""
        if value is None:
            message = f"{name} has been specialized to have value None but got another value"
            self.tracer.create_proxy("call_function", _assert_is_none, (proxy, message), {})
        elif type(value) in base_types and not isinstance(value, Tensor):
            message = f"{name} has been specialized to have value {value} but got another value"
            equal = proxy == value
            made = self.tracer.create_proxy("call_function", _assert, (equal, message), {}, name="_assert")
            made.node.called_as = PublicName("", "_assert")
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up "
                "to the user to make sure that your inputs match the inputs you specialized the function with.",
                stacklevel=2,
            )


def annotations_of(function: Function) -> dict[str, Argument]:
    """Return the annotations of a function; modules of this package count as if they had none."""
    is_ours = str(function.__module__).partition(".")[0] == PACKAGE
    return {} if is_ours else inspect.get_annotations(inspect.unwrap(function))


def create_root_arguments(
    tracer: TracerBase, function: Function, is_module: bool, concrete_args: Argument
) -> tuple[Function, list[Argument]]:
    """Add an input for each parameter; return what is called, and with which arguments."""
    inner = inspect.unwrap(function)
    code = inner.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    if is_module and count == 0:
        raise RuntimeError("``self`` argument cannot be part of *args expansion!")
    args: list[Argument] = [getattr(tracer, "root")] if is_module else []  # noqa: B009
    if isinstance(concrete_args, tuple) and concrete_args and code.co_flags & VARIADIC and count == 1:
        for i, value in enumerate(concrete_args):
            proxy = tracer.create_proxy("placeholder", f"input_{i}", (), {})
            if isinstance(value, PHBase):
                _copy_attributes(value, proxy)
            args.append(proxy)
        return function, args
    names = list(code.co_varnames[len(args) : count])
    if isinstance(concrete_args, tuple):
        if len(names) != len(concrete_args):
            raise RuntimeError(
                f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments"
            )
        concrete_args = dict(zip(names, concrete_args, strict=True))
    variadic = code.co_varnames[count:]
    if code.co_flags & inspect.CO_VARARGS:
        names.append(f"*{variadic[0]}")
        variadic = variadic[1:]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        names.append(f"**{variadic[0]}")
    parameters = _Parameters(tracer, inner, concrete_args or {})
    args.extend(map(parameters.create_placeholder, names))
    if code.co_kwonlyargcount or code.co_flags & VARIADIC:
        function = _make_positional(function, len(args))
    leaves, spec = tree_flatten(tuple(args))
    if all(child.is_leaf() for child in spec.children()):
        return function, args
    generator = PyTreeCodeGen(PyTreeInfo(list(code.co_varnames[:count]), spec, None))
    tracer.graph._codegen = generator
    return _flatten_result(function, generator), leaves


def make_named_forward(operands: inspect.Signature) -> Function:
    """Return the `forward` of a module made from a function, with the function's operands for parameters."""
    names = ", ".join(operands.parameters)
    scope: dict[str, Function] = {"call": FunctionModule.forward}
    exec(compile(f"def forward(self, {names}):\n    return call(self, {names})", __file__, "exec"), scope)
    made = scope["forward"]
    made.__defaults__ = tuple([p.default for p in operands.parameters.values() if p.default is not p.empty])
    return made


def _flatten_result(function: Function, generator: PyTreeCodeGen) -> Callable[..., list[Argument]]:
    """Return a function of the leaves of the arguments that returns the leaves of the result."""

    def call(*leaves: Argument) -> list[Argument]:
        result = function(*tree_unflatten(list(leaves), generator.pytree_info.in_spec))
        parts, spec = tree_flatten(result)
        generator.pytree_info = generator.pytree_info._replace(out_spec=spec)
        return parts

    return call


def _make_positional(function: Function, count: int) -> Function:
    """Return the function with all its parameters positional: `*args` is one argument of that name."""
    code = function.__code__
    made = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~VARIADIC
    )
    return FunctionType(made, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


def _copy_attributes(place: PHBase, proxy: Proxy) -> None:
    for name, value in vars(place).items():
        if not hasattr(proxy.node, name):
            setattr(proxy.node, name, value)


def _assert_is_none(value: object, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


_assert_is_none.__module__ = "adjoint.fx._symbolic_trace"  # where printed code finds it
