"""Lists and dicts that are arguments of nodes: a graph knows its uses only if nobody changes them in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn, TypeAlias, TypeVar

from adjoint.compat.stubs.pytree import register_pytree_node
from adjoint.core.typing import Operand

Argument: TypeAlias = Operand  # PyTorch's name: a node, a number, a type, or lists, tuples, dicts and slices of these
Transform = Callable[[Argument], Argument]
Kind = TypeVar("Kind", bound=type)


def _forbid_changes(methods: str) -> Callable[[Kind], Kind]:
    """Decorate a class so that these methods raise."""

    def refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"'{name}' object does not support mutation. If you are attempting to modify the kwargs or args of a "
            "torch.fx.Node object,\ninstead create a new copy of it and assign the copy to the node:\n"
            f"    new_args = ... # copy and mutate args\n    node.args = new_args\n"
        )

    def decorate(kind: Kind) -> Kind:
        for method in methods.split():
            setattr(kind, method, refuse)
        setattr(kind, "__hash__", lambda self: hash(tuple(self.items() if isinstance(self, dict) else self)))  # noqa: B010
        return kind

    return decorate


@_forbid_changes("__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort")
class immutable_list(list[Argument]):
    """List that does not change."""

    def __reduce__(self) -> tuple[type, tuple[tuple[Argument, ...]]]:
        return type(self), (tuple(self),)


@_forbid_changes("__delitem__ __ior__ __setitem__ clear pop popitem setdefault update")
class immutable_dict(dict[str, Argument]):
    """Dict that does not change."""

    def __reduce__(self) -> tuple[type, tuple[tuple[Argument, ...]]]:
        return type(self), (tuple(self.items()),)


def map_aggregate(a: Argument, fn: Transform) -> Argument:
    """Return the argument with `fn` called for whatever is no list, tuple, dict or slice in it.

    Lists and dicts of the result do not change.
    """
    if isinstance(a, tuple):
        parts = [map_aggregate(part, fn) for part in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list([map_aggregate(part, fn) for part in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(part, fn) for key, part in a.items()})
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def iterate_leaves(arguments: Iterable[Argument]) -> list[Argument]:
    """Return what is no list, tuple, dict or slice in the arguments, from left to right."""
    leaves: list[Argument] = []
    map_aggregate(tuple(arguments), leaves.append)
    return leaves


register_pytree_node(immutable_list, lambda parts: (list(parts), None), lambda parts, _: immutable_list(parts))
register_pytree_node(
    immutable_dict,
    lambda parts: ([*parts.values()], [*parts]),
    lambda parts, keys: immutable_dict(zip(keys, parts, strict=True)),
)
