"""Proxies: stand-ins for values in a traced function, which record what is done to them."""

from __future__ import annotations

import enum
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from dis import get_instructions
from traceback import StackSummary, walk_stack
from types import FrameType
from typing import NoReturn

from adjoint.compat.fx.graph import Graph
from adjoint.compat.fx.immutable_collections import Argument, iterate_leaves
from adjoint.compat.fx.naming import OPERATORS, REFLECTABLE_OPERATORS, name_after_target
from adjoint.compat.fx.node import Node, Target, map_arg
from adjoint.compat.fx.qualified_names import METHOD_CALLS, PublicName, arrange_arguments, public_functions, unwrap
from adjoint.core.dtype.device import device
from adjoint.core.dtype.dtype import dtype
from adjoint.core.graph.source_location import library_files
from adjoint.core.runtime.package_name import display_name
from adjoint.core.runtime.slot import Slot
from adjoint.core.tensor.memory_format import layout, memory_format
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.nn.module.parameter import Parameter

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase"]

base_types = (str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout)


new_proxy_slot: Slot[Callable[[Proxy], None]] = Slot("new_proxy")  # lets functions look for proxies


class TraceError(ValueError):
    """Error of a function that needs the value of a proxy."""


class Scope:
    """Module that is being traced: its path and its class."""

    def __init__(self, module_path: str, module_type: type | None) -> None:
        self.module_path = module_path
        self.module_type = module_type


class TracerBase:
    """Recorder of nodes in `graph`. Subclasses change what is recorded, and what proxies do as values."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def __init__(self) -> None:
        self.scope = Scope("", None)
        self.module_stack: dict[str, tuple[str, type]] = {}
        self.node_name_to_scope: dict[str, tuple[str, type | None]] = {}

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Argument = None,
    ) -> Node:
        """Add a node to the graph."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = dict(self.module_stack)
        if self.record_stack_traces:
            node.stack_trace = describe_user_frames()
        return node

    def proxy(self, node: Node) -> Proxy:
        """Return the stand-in for the value of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Argument = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Add a node for values as the program has them, and return the stand-in for its own value."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Argument) -> Argument:
        """Return what a node keeps of a value: the node of a proxy. Raises NotImplementedError for other classes."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, Size):
            return tuple(a)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return type(a)(*map(self.create_arg, a))
        if isinstance(a, (tuple, list)):
            return type(a)([self.create_arg(part) for part in a])
        if isinstance(a, dict):
            return {self._create_key(key): self.create_arg(part) for key, part in a.items()}
        if isinstance(a, (slice, range)):
            return type(a)(*map(self.create_arg, (a.start, a.stop, a.step)))
        if is_dataclass(a) and not isinstance(a, type):
            parts = {each.name: self.create_arg(getattr(a, each.name)) for each in fields(a)}
            return self.create_node("call_function", type(a), (), parts)
        if isinstance(a, (*base_types, enum.Enum, Node)) or a is None or a is ...:
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _create_key(self, key: Argument) -> Argument:
        def refuse(node: Node) -> NoReturn:
            raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {made}")

        made = key if isinstance(key, str) else self.create_arg(key)
        map_arg(made, refuse)
        return made

    def to_bool(self, obj: Proxy) -> bool:
        """Return the truth of a proxy. Raises TraceError unless a subclass knows it."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Argument]:
        """Return an iterator over a proxy. Raises TraceError unless a subclass has one."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors"
        )

    def keys(self, obj: Proxy) -> Argument:
        """Return the keys of a proxy, which is a dict."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Tracer that adds nodes to a graph where nothing is being traced."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph


class Proxy:
    """Stand-in for the value of a node: operators, methods, attributes and functions of it add nodes to the graph.

    It has no truth, no length and no items to iterate, since these depend on values.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self._node: Node | None = node
        new_proxy_slot.call(self)

    @property
    def node(self) -> Node:
        """Return the node whose value this stands for."""
        if self._node is None:
            self._node = self._create_node()
        return self._node

    @node.setter
    def node(self, node: Node) -> None:
        self._node = node

    def _create_node(self) -> Node:
        raise TraceError(f"{self!r} has no node")

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Attribute:
        if name in {"__deepcopy__", "__fx_create_arg__", "__array_interface__", "__array_struct__", "__array__"}:
            raise AttributeError(name)
        return Attribute(self, name)

    def __getstate__(self) -> dict[str, Argument]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Argument]) -> None:
        self.__dict__ = state

    def __call__(self, *args: Argument, **kwargs: Argument) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Argument]:
        frame = sys._getframe(1)
        current = next(each for each in get_instructions(frame.f_code) if each.offset == frame.f_lasti)
        if current.opname == "UNPACK_SEQUENCE":
            each: Argument = self
            return (operator.getitem(each, i) for i in range(current.argval))
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_asserted(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Argument:
        """Return the keys of the value, which is a dict."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Target,
        types: object,
        args: tuple[Argument, ...] = (),
        kwargs: dict[str, Argument] | None = None,
    ) -> Proxy:
        function = unwrap(orig_method)
        if function not in public_functions():
            return find_tracer(args, kwargs or {}).create_proxy("call_method", function.__name__, args, kwargs or {})
        return record_call(function, public_functions()[function][0], args, kwargs or {})


class Attribute(Proxy):
    """Attribute of a proxy: a call of it is a method call, anything else reads it by `getattr`."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node = None  # most are called, and need none

    def _create_node(self) -> Node:
        return self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node

    def __call__(self, *args: Argument, **kwargs: Argument) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Stand-in for a parameter whose shape is known: the program may decide by it."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Parameter) -> None:
        super().__init__(node, tracer)
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Size:
        """Return the shape of the parameter."""
        return self.param.shape

    def size(self) -> Size:
        """Return the shape of the parameter."""
        return self.param.shape

    @property
    def ndim(self) -> int:
        """Return how many dimensions the parameter has."""
        return self.param.ndim

    def dim(self) -> int:
        """Return how many dimensions the parameter has."""
        return self.param.ndim

    def numel(self) -> int:
        """Return how many elements the parameter has."""
        return self.param.shape.numel()

    nelement = numel


def assert_fn(x: object) -> None:
    """Raise AssertionError for what is false: a traced assert statement."""
    if not x:
        raise AssertionError("Assertion failed")


def find_tracer(args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> TracerBase:
    """Return the tracer of the proxies among the arguments. Raises RuntimeError if they have several."""
    tracers = dict.fromkeys(x.tracer for x in iterate_leaves((args, kwargs)) if isinstance(x, Proxy))
    if len(tracers) > 1:
        raise RuntimeError(f"Found multiple different tracers {list(tracers)} while trying to trace operations")
    return next(iter(tracers))


def record_call(
    function: Target, called_as: PublicName, args: tuple[Argument, ...], kwargs: dict[str, Argument]
) -> Proxy:
    """Add the call of a public function, which the program called by this name."""
    tracer = find_tracer(args, kwargs)
    if called_as in METHOD_CALLS:
        return tracer.create_proxy("call_method", called_as.name, args, kwargs)
    args, kwargs = arrange_arguments(function, called_as, args, kwargs)
    name = name_after_target(called_as.in_code().rpartition(".")[2])
    proxy = tracer.create_proxy("call_function", function, args, kwargs, name=name)
    proxy.node.called_as = called_as
    return proxy


def describe_user_frames() -> str:
    """Return the frames of the program from its first `forward` on, as a traceback shows them."""
    frames = [each for each in walk_stack(None) if not library_files[each[0].f_code.co_filename]][::-1]
    first = next((i for i, (frame, _) in enumerate(frames) if frame.f_code.co_name == "forward"), len(frames))
    return "".join(StackSummary.extract(iter(frames[first:])).format()).strip()


def _is_asserted(frame: FrameType) -> bool:
    """Return whether the frame is about to jump by the truth of what an assert statement states."""
    code = list(get_instructions(frame.f_code))
    current = next(i for i, each in enumerate(code) if each.offset == frame.f_lasti)
    names = [each.opname for each in code[current : current + 3]]
    jump = next((i for i, name in enumerate(names) if name.startswith("POP_JUMP") and name.endswith("IF_TRUE")), None)
    return jump is not None and "LOAD_ASSERTION_ERROR" in names[jump:]


def _define_operator(name: str, *, is_reflected: bool = False) -> None:
    target = getattr(operator, name, None)
    if target is None:  # Python 2's division
        return

    def call(*operands: Argument) -> Argument:
        given = operands[::-1] if is_reflected else operands
        return operands[0].tracer.create_proxy("call_function", target, given, {})

    call.__name__ = f"__{'r' * is_reflected}{name.strip('_')}__"
    setattr(Proxy, call.__name__, call)


for _name in OPERATORS:
    _define_operator(_name)
for _name in REFLECTABLE_OPERATORS:
    _define_operator(_name, is_reflected=True)
for _kind in (TraceError, Proxy, TracerBase, GraphAppendingTracer):
    display_name.place(_kind, "fx.proxy")
