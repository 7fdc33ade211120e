"""Node of a graph: one call, its arguments, and the nodes that use what it returns."""

from __future__ import annotations

import inspect
import operator
import types
from collections.abc import Callable, Iterator

from adjoint.compat.functions.checks import _assert, _assert_async
from adjoint.compat.fx.immutable_collections import (
    Argument,
    Transform,
    immutable_dict,
    iterate_leaves,
    map_aggregate,
)
from adjoint.compat.fx.qualified_names import PUBLIC_CLASSES, PublicName, get_qualified_name
from adjoint.core.runtime.package_name import display_name

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

Target = Argument  # PyTorch's name: a function, or the name of a method, module or attribute
OPCODES = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
_impure_functions: set[Target] = {operator.setitem, _assert, _assert_async}


def has_side_effect(fn: Target) -> Target:
    """Keep calls of `fn` whose results nobody uses. Returns it."""
    _impure_functions.add(fn)
    return fn


def map_arg(a: Argument, fn: Transform) -> Argument:
    """Return the argument with `fn` called for each node in it."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


class Node:
    """One call in a graph, and the value that it returns.

    `op` says of which kind: "placeholder" is an input, "get_attr" an attribute of the root module, "call_function",
    "call_method" and "call_module" are calls, and "output" is the return statement, whose value is `args[0]`.

    Attributes:
        name: unique in the graph.
        target: the function, or the name of the method, module, attribute or input.
        users: the nodes that use the value, as keys in the order in which they began to.
        meta: facts that passes keep; copies of the node have them too.
        type: the annotation of the value, or None.
    """

    graph: Argument

    def __init__(
        self,
        graph: object,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Argument = None,
    ) -> None:
        if op not in OPCODES:
            raise AssertionError(f"op '{op}' is not in legal ops: {list(OPCODES)}")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a Callable is "
                "expected"
            )
        if op not in {"call_function", "root"} and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a str is expected"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.called_as: PublicName | None = None  # the name by which a function of several names was called
        self.type = return_type
        self.meta: dict[str, Argument] = {}
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = immutable_dict()
        self._update_args_kwargs(args, kwargs)

    @property
    def next(self) -> Node:
        """Return the node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """Return the node before this one."""
        return self._prev

    @property
    def args(self) -> tuple[Argument, ...]:
        """Return the arguments by position; assign to change them."""
        return self._args

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self._update_args_kwargs(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """Return the arguments by keyword; assign to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._update_args_kwargs(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """Return the nodes whose values are arguments, each once."""
        return list(self._input_nodes)

    @property
    def stack_trace(self) -> str | None:
        """Return where the call was recorded, if the tracer keeps it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _update_args_kwargs(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._args = map_aggregate(tuple(args), lambda x: x)
        self._kwargs = map_aggregate(dict(kwargs), lambda x: x)
        leaves = iterate_leaves((self._args, self._kwargs))
        self._input_nodes = dict.fromkeys(x for x in leaves if isinstance(x, Node))
        for new in self._input_nodes:
            new.users.setdefault(self)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Change one argument by position."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert an argument before position `idx`."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Change one argument by keyword."""
        self.kwargs = {**self.kwargs, key: arg}

    def prepend(self, x: Node) -> None:
        """Move `x` to the place before this node."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move `x` to the place after this node."""
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let the users of this node use `replace_with`, if `delete_user_cb` agrees. Returns those that now do."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already "
                    "has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use `new_input` wherever this node uses `old_input`."""

        def replace(node: Node) -> Node:
            return new_input if node is old_input else node

        self._update_args_kwargs(map_arg(self._args, replace), map_arg(self._kwargs, replace))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node has an effect besides its value: it stays where nobody uses that."""
        if self.op in {"placeholder", "output"}:
            return True
        if self.op == "call_module":
            if self.graph.owning_module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return bool(getattr(self.graph.owning_module.get_submodule(self.target), "_is_impure", False))
        if self.op != "call_function":
            return False
        name = getattr(self.target, "__name__", "")
        return self.target in _impure_functions or (name in _RANDOM_FUNCTIONS and impure_random)

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)

    def __repr__(self) -> str:
        return self.name if self._repr_fn is None else self._repr_fn(self)

    @staticmethod
    def _pretty_print_target(target: Target, called_as: PublicName | None = None) -> str:
        if isinstance(target, str):
            return target
        name = getattr(target, "__name__", None)
        if name is not None and getattr(target, "__module__", None) == "builtins":
            return f"builtins.{name}"
        if name is not None and getattr(target, "__module__", None) == "_operator":
            return f"operator.{name}"
        return get_qualified_name(target, called_as)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Return a line that describes the node, as PyTorch writes it; None for an input that joined the given list."""
        kind = f"{type_repr(self.type)} " if self.type is not None else ""
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        target = f"[target={self._pretty_print_target(self.target, self.called_as)}]"
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(self.target)
                return None
            return head + target + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return head + target
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_repr(self.type)}"
            return f"return {self.args[0]}"
        return f"{head}{target}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"


_RANDOM_FUNCTIONS = frozenset(
    ["bernoulli", "multinomial", "normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like"]
)


def iterate_nodes(root: Node, *, is_reversed: bool = False) -> Iterator[Node]:
    """Yield the nodes after `root`, around to it; nodes may be added and erased meanwhile."""
    node = root._prev if is_reversed else root._next
    while node is not root:
        if not node._erased:
            yield node
        node = node._prev if is_reversed else node._next


def type_repr(obj: Argument) -> str:
    """Return an annotation as code."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj in PUBLIC_CLASSES:
            return f"{display_name.package}.{obj.__name__}"
        return obj.__qualname__ if obj.__module__ == "builtins" else f"{obj.__module__}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    return obj.__name__ if inspect.isfunction(obj) else repr(obj)


def _format_arg(arg: Argument) -> str:
    if isinstance(arg, list):
        return f"[{', '.join(map(_format_arg, arg))}]"
    if isinstance(arg, tuple):
        return f"({', '.join(map(_format_arg, arg))}{',' * (len(arg) == 1)})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(value)}" for key, value in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


display_name.place(Node, "fx.node")
