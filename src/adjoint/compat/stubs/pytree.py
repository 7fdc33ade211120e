"""`adjoint.utils._pytree`: nests of lists, tuples and dicts as trees, under the names by which programs import them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self

Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[Any, Any], Any]
PyTree = Any
Context = Any


class NodeDef(NamedTuple):
    """How a class of containers comes apart, into its parts and what else it takes to put them together."""

    flatten_fn: Flatten
    unflatten_fn: Unflatten
    keys_fn: Callable[[Any], Any] | None = None  # pairs of keys and parts, and the context


class MappingKey(NamedTuple):
    """A place in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What is there."""
        return mapping[self.key]


class SequenceKey(NamedTuple):
    """A place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What is there."""
        return sequence[self.idx]


class GetAttrKey(NamedTuple):
    """A field of a named tuple."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What is there."""
        return getattr(obj, self.name)


KeyPath = tuple[Any, ...]


class TreeSpec(NamedTuple):
    """What held the leaves: the class of a container, what it takes to make it, the specs of its parts."""

    type: Any
    context: Any
    children_specs: list[Any]

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return 1 if self.type is None else sum(child.num_leaves for child in self.children_specs)

    @property
    def num_nodes(self) -> int:
        """Number of leaves and containers."""
        return 1 + sum(child.num_nodes for child in self.children_specs)

    @property
    def num_children(self) -> int:
        """Number of parts, none for a leaf."""
        return len(self.children_specs)

    def is_leaf(self) -> bool:
        """True for a leaf."""
        return self.type is None

    def children(self) -> list[Any]:
        """The specs of the parts."""
        return list(self.children_specs)

    def child(self, index: int) -> Any:
        """The spec of one part."""
        return self.children_specs[index]


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    def __new__(cls) -> Self:
        return super().__new__(cls, None, None, [])


SUPPORTED_NODES: dict[Any, NodeDef] = {
    dict: NodeDef(lambda d: _dict_flatten(d), lambda parts, keys: _dict_unflatten(parts, keys)),
    list: NodeDef(lambda x: (x, None), lambda parts, _: list(parts)),
    tuple: NodeDef(lambda x: ([*x], None), lambda parts, _: tuple(parts)),
    deque: NodeDef(lambda x: ([*x], x.maxlen), lambda parts, length: deque(parts, length)),
    OrderedDict: NodeDef(lambda d: _dict_flatten(d), lambda parts, keys: OrderedDict(_dict_unflatten(parts, keys))),
    defaultdict: NodeDef(
        lambda d: ([*d.values()], (d.default_factory, [*d])),
        lambda parts, made: defaultdict(made[0], zip(made[1], parts, strict=True)),
    ),
    namedtuple: NodeDef(lambda x: ([*x], type(x)), lambda parts, kind: kind(*parts)),
}


def register_pytree_node(cls: type, flatten_fn: Flatten, unflatten_fn: Unflatten, **kwargs: Any) -> None:
    """Make instances of `cls` containers. Raises ValueError if they are already."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(flatten_fn, unflatten_fn, kwargs.get("flatten_with_keys_fn"))


_register_pytree_node = register_pytree_node


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """The values, and the keys."""
    return [*d.values()], [*d]


def _dict_unflatten(values: Iterable[Any], context: list[Any]) -> dict[Any, Any]:
    """The dict of these keys and values."""
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    """Pairs of where a value is and the value, and the keys."""
    return [(MappingKey(key), value) for key, value in d.items()], [*d]


def tree_flatten(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves from left to right, and what held them; `is_leaf` says of what else to take it as a leaf."""
    leaves: list[Any] = []
    return leaves, _walk(tree, is_leaf, leaves)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The containers again, around these leaves. Raises ValueError if there are more or fewer."""
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten(leaves, treespec): {len(given)} leaves for a spec of {treespec.num_leaves}")
    return _build(treespec, iter(given))


def tree_leaves(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """What holds the leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> PyTree:
    """The tree with func(leaf) for each leaf; `rests` are trees like it, whose leaves are further arguments."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_leaves_like(spec, rest) for rest in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Any = None) -> PyTree:
    """The tree itself, after func(leaf) for each leaf."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kind: Any, func: Any, tree: PyTree, is_leaf: Any = None) -> PyTree:
    """`tree_map`, of the leaves that are instances of `kind`, or for which it is true; others stay."""
    return tree_map(lambda x: func(x) if _is(x, kind) else x, tree, is_leaf=is_leaf)


def tree_flatten_with_path(tree: PyTree, is_leaf: Any = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Pairs of the keys that lead to a leaf and the leaf, from left to right, and what held them."""
    return list(_places(tree, is_leaf, ())), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: Any = None) -> list[tuple[KeyPath, Any]]:
    """Pairs of the keys that lead to a leaf and the leaf, from left to right."""
    return list(_places(tree, is_leaf, ()))


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Any = None) -> PyTree:
    """`tree_map`, whose `func` is given the keys that lead to the leaf before it."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [_leaves_like(spec, rest) for rest in rests]
    return tree_unflatten([func(*pair, *each) for pair, *each in zip(pairs, *others, strict=True)], spec)


def keystr(kp: KeyPath) -> str:
    """The keys as one writes them after the name of a tree."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What is where the keys lead."""
    for key in kp:
        obj = key.get(obj)
    return obj


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Any = None) -> bool:
    """True if `pred` is of all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Any = None) -> bool:
    """True if `pred` is of some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(kind: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: Any = None) -> bool:
    """`tree_all` of the leaves that are instances of `kind`."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if _is(x, kind))


def tree_any_only(kind: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: Any = None) -> bool:
    """`tree_any` of the leaves that are instances of `kind`."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if _is(x, kind))


def _is(x: Any, kind: Any) -> bool:
    return isinstance(x, kind) if isinstance(kind, (type, tuple)) else bool(kind(x))


def _get_node_type(tree: Any) -> Any:
    """The key of a container in `SUPPORTED_NODES`: its class, or `namedtuple`."""
    kind = type(tree)
    named = isinstance(tree, tuple) and hasattr(kind, "_fields") and kind not in SUPPORTED_NODES
    return namedtuple if named else kind


def _walk(value: Any, is_leaf: Callable[[Any], bool] | None, leaves: list[Any]) -> TreeSpec:
    kind = _get_node_type(value)
    container = None if is_leaf is not None and is_leaf(value) else SUPPORTED_NODES.get(kind)
    if container is None:
        leaves.append(value)
        return LeafSpec()
    parts, context = container.flatten_fn(value)
    return TreeSpec(kind, context, [_walk(part, is_leaf, leaves) for part in parts])


def _places(value: Any, is_leaf: Callable[[Any], bool] | None, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    kind = _get_node_type(value)
    container = None if is_leaf is not None and is_leaf(value) else SUPPORTED_NODES.get(kind)
    if container is None:
        yield path, value
        return
    if container.keys_fn is not None:
        pairs = container.keys_fn(value)[0]
    elif isinstance(value, dict):
        pairs = [(MappingKey(key), part) for key, part in value.items()]
    elif kind is namedtuple:
        pairs = [(GetAttrKey(name), part) for name, part in zip(value._fields, value, strict=True)]
    else:
        pairs = [(SequenceKey(i), part) for i, part in enumerate(container.flatten_fn(value)[0])]
    for key, part in pairs:
        yield from _places(part, is_leaf, (*path, key))


def _build(spec: TreeSpec, leaves: Any) -> Any:
    if spec.type is None:
        return next(leaves)
    container = SUPPORTED_NODES[spec.type]
    return container.unflatten_fn([_build(child, leaves) for child in spec.children_specs], spec.context)


def _leaves_like(spec: TreeSpec, tree: Any) -> list[Any]:
    """The parts of a tree that lie where the leaves of `spec` are."""
    if spec.type is None:
        return [tree]
    container = SUPPORTED_NODES[spec.type]
    if _get_node_type(tree) is not spec.type:
        raise ValueError(f"Node type mismatch; expected {spec.type}, but got {type(tree)}.")
    parts, _ = container.flatten_fn(tree)
    if len(parts) != len(spec.children_specs):
        raise ValueError(f"Node arity mismatch; expected {len(spec.children_specs)}, but got {len(parts)}.")
    if isinstance(tree, dict):
        if set(tree) != set(keys := spec.context[1] if spec.type is defaultdict else spec.context):
            raise ValueError("Node keys mismatch")
        parts = [tree[key] for key in keys]
    return [leaf for child, part in zip(spec.children_specs, parts, strict=True) for leaf in _leaves_like(child, part)]
