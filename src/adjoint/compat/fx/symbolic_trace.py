"""Tracer of a module or function: it is run once with proxies, and its graph is what they recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import FunctionType, ModuleType

from adjoint.compat.fx.call_capture import capture_calls
from adjoint.compat.fx.graph import Graph
from adjoint.compat.fx.graph_module import GraphModule, tracer_class_slot
from adjoint.compat.fx.immutable_collections import Argument, iterate_leaves
from adjoint.compat.fx.node import Node
from adjoint.compat.fx.proxy import ParameterProxy, Proxy, Scope, TracerBase
from adjoint.compat.fx.qualified_names import PACKAGE
from adjoint.compat.fx.root_arguments import PH, annotations_of, create_root_arguments, make_named_forward
from adjoint.compat.fx.wrapped_functions import Wrapping, wrap
from adjoint.core.runtime.package_name import display_name
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.nn.containers.containers import Sequential
from adjoint.nn.module.from_function import FunctionModule
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

_running: list[Tracer] = []
_proxyable_classes: set[type] = set()


def is_fx_tracing() -> bool:
    """Return whether a function is being traced."""
    return bool(_running)


is_fx_symbolic_tracing = is_fx_tracing


class ProxyableClassMeta(type):
    """Metaclass of classes whose construction from proxies is recorded as a call."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Argument]) -> None:
        _proxyable_classes.add(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Argument, **kwargs: Argument) -> Argument:
        proxy = next((x for x in iterate_leaves((args, kwargs)) if isinstance(x, Proxy)), None)
        if proxy is None or not is_fx_tracing():
            return super().__call__(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", cls, args, kwargs)


class Tracer(TracerBase):
    """Recorder of a module's or function's graph. Subclasses change what is recorded.

    Args:
        autowrap_modules: modules whose functions are recorded as calls.
        autowrap_functions: further such functions.
        param_shapes_constant: whether the shapes of parameters are values.

    Example:
        >>> print(ad.fx.Tracer().trace(lambda x: ad.relu(x) + 1))
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %relu : [num_users=1] = call_function[target=adjoint.relu](args = (%x,), kwargs = {})
            %add : [num_users=1] = call_function[target=operator.add](args = (%relu, 1), kwargs = {})
            return add
    """

    def __init__(
        self,
        autowrap_modules: Iterable[ModuleType] = (math,),
        autowrap_functions: Iterable[Function] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_search = list(autowrap_modules)
        found = (pair for module in self._autowrap_search for pair in vars(module).items())
        self._autowrap_functions = [value for name, value in found if name[0] != "_" and callable(value)]
        self._autowrap_functions += autowrap_functions
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.num_calls: dict[str, int] = {}
        self.tensor_attrs: dict[int, str] = {}
        self._constants: list[Tensor] = []  # whose names `tensor_attrs` has by their ids
        self._qualname_counter: dict[str, int] = {}

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return a name that no attribute of the root module has: `prefix` with a number."""
        if not hasattr(self.root, f"{prefix}0"):
            self._qualname_counter[prefix] = 0
            return f"{prefix}0"
        number = self._qualname_counter.get(prefix, 0)
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number + 1
        return f"{prefix}{number}"

    def create_arg(self, a: Argument) -> Argument:
        """Return what a node keeps of a value: a tensor becomes an attribute of the root module."""
        if isinstance(a, Parameter):
            return self.create_node("get_attr", self._name_of(a, self.root.named_parameters()), (), {})
        if isinstance(a, Tensor):
            name = next((name for name, buffer in self.root.named_buffers() if buffer is a), None)
            return self.create_node("get_attr", name or self._name_constant(a), (), {})
        if isinstance(a, Module):
            name = next((name for name, module in self.root.named_modules() if module is a), None)
            if name is not None:
                return self.create_node("get_attr", name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(map(self.create_arg, a)), {})
        if type(a) in _proxyable_classes:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _name_of(self, a: Parameter, named: Iterable[tuple[str, Parameter]]) -> str:
        name = next((name for name, parameter in named if parameter is a), None)
        if name is None:
            raise NameError("parameter is not a member of this module")
        return name

    def _name_constant(self, a: Tensor) -> str:
        """Return the attribute of the root module that is a tensor, which may be a new one."""
        if id(a) not in self.tensor_attrs:
            self.tensor_attrs[id(a)] = name = self.get_fresh_qualname("_tensor_constant")
            self._constants.append(a)
            setattr(self.root, name, a)
        return self.tensor_attrs[id(a)]

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether calls of a module are recorded as such: by default of those of `nn`, but for Sequential."""
        return type(m).__module__.startswith((f"{PACKAGE}.nn", "torch.nn")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the name of a module in the root module. Raises NameError."""
        if self.submodule_paths is not None:
            path = self.submodule_paths.get(mod)
        else:
            path = next((name for name, module in self.root.named_modules() if module is mod), None)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(
        self, m: Module, forward: Function, args: tuple[Argument, ...], kwargs: dict[str, Argument]
    ) -> Argument:
        """Return the result of a call of a module: a proxy for a leaf, or what `forward` returns."""
        path = self.path_of_module(m)
        calls = self.num_calls.get(path, 0)
        self.num_calls[path] = calls + 1
        key = f"{path}@{calls}" if calls else path
        before, self.scope = self.scope, Scope(path, type(m))
        self.module_stack[key] = (path, type(m))
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            self.scope = before
            del self.module_stack[key]

    def getattr(self, attr: str, attr_val: Argument, parameter_proxy_cache: dict[str, Proxy]) -> Argument:
        """Return the value of a module's attribute: a proxy for a parameter."""
        named: Iterable[tuple[str, Tensor]] = ()
        if isinstance(attr_val, Parameter):
            named = self.root.named_parameters()
        elif isinstance(attr_val, Tensor) and self.proxy_buffer_attributes:
            named = self.root.named_buffers()
        name = next((name for name, tensor in named if tensor is attr_val), None)
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:
            made = self.make_parameter_proxy(name, attr_val) if self.param_shapes_constant else None
            options: dict[str, Argument] = {} if made is None else {"proxy_factory_fn": made}
            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
        return parameter_proxy_cache[name]

    def make_parameter_proxy(self, name: str, parameter: Argument) -> Callable[[Node], Proxy]:
        """Return what makes the stand-in for a parameter whose shape is known."""
        return lambda node: ParameterProxy(self, node, name, parameter)

    def create_args_for_root(
        self, root_fn: Function, is_module: bool, concrete_args: Argument = None
    ) -> tuple[Function, list[Argument]]:
        """Add the inputs, and return what to call to trace the function, and its arguments."""
        return create_root_arguments(self, root_fn, is_module, concrete_args)

    def trace(self, root: Module | Function, concrete_args: Argument = None) -> Graph:
        """Return the graph of a module or function.

        Args:
            concrete_args: values of arguments by name that the graph is made for; `PH` in trees of them is an input.
        """
        if isinstance(root, Module):
            self.root: Module = root
            function = getattr(type(root), self.traced_func_name)
            if function is FunctionModule.forward and isinstance(root, FunctionModule):
                function = make_named_forward(root.operands)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, function = Module(), root
        self.graph = Graph(tracer_cls=type(self))
        if (code := getattr(function, "__code__", None)) is not None:
            names = ("co_name", "co_filename", "co_firstlineno")
            self.graph._co_fields = {name: getattr(code, name) for name in names}
        if not isinstance(function, FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}")
        self._collect_tensor_attrs(self.root, "")
        module = function.__globals__
        _running.append(self)
        try:
            with capture_calls(), ExitStack() as undo:
                function, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
                self._replace_calls(Wrapping(undo, self._autowrap_functions), module)
                result = self.create_arg(function(*args))
            self.create_node("output", "output", (result,), {}, type_expr=annotations_of(function).get("return"))
        finally:
            _running.remove(self)
            self.submodule_paths = None
        return self.graph

    def _collect_tensor_attrs(self, module: Module, prefix: str) -> None:
        for each, part in module.named_modules():
            path = f"{prefix}{each}." if each else prefix
            for name, value in vars(part).items():
                if isinstance(value, Tensor):
                    self.tensor_attrs[id(value)] = path + name
                    self._constants.append(value)

    def _replace_calls(self, wrapping: Wrapping, names: dict[str, Argument]) -> None:
        """Let calls and attributes of modules go through this tracer, and record functions that are wrapped."""
        call, read = Module.__call__, Module.__getattr__
        proxies: dict[str, Proxy] = {}

        def call_or_record(module: Module, *args: Argument, **kwargs: Argument) -> Argument:
            def forward(*args: Argument, **kwargs: Argument) -> Argument:
                return call(module, *args, **kwargs)

            wrapping.wrap_found(getattr(module.forward, "__globals__", {}))
            return self.call_module(module, forward, args, kwargs)

        def read_or_record(module: Module, name: str) -> Argument:
            return self.getattr(name, read(module, name), proxies)

        for name, before, after in (("__call__", call, call_or_record), ("__getattr__", read, read_or_record)):
            wrapping.undo.callback(setattr, Module, name, before)
            setattr(Module, name, after)
        wrapping.wrap_named()
        for searched in (names, *map(vars, self._autowrap_search)):
            wrapping.wrap_found(searched)


def symbolic_trace(root: Module | Function, concrete_args: Argument = None) -> GraphModule:
    """Return the graph of a module or function, as a module that does the same.

    Args:
        root: what is traced: run once with proxies instead of values.
        concrete_args: values of arguments, by name, for which it is traced.

    Raises: TraceError if the function decides by the value of an input.

    Example:
        >>> traced = ad.fx.symbolic_trace(lambda x: x * 2 + 1)
        >>> print(traced.code.strip())
        def forward(self, x):
            mul = x * 2;  x = None
            add = mul + 1;  mul = None
            return add
        >>> traced(ad.tensor(3.0))
        tensor(7.)
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    return GraphModule(tracer.root, graph, type(root).__name__ if isinstance(root, Module) else root.__name__)


tracer_class_slot.fill(lambda: Tracer)
display_name.place(Tracer, "fx._symbolic_trace")
