"""`adjoint.utils._pytree`, and `adjoint.fx._pytree`: nested lists, tuples and dicts as trees."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self

from adjoint.core.typing import Function

Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[Any, Any], Any]
PyTree = Any
Context = Any


class NodeDef(NamedTuple):
    """Functions that flatten containers of a class into parts and a context, and that rebuild them."""

    flatten_fn: Flatten
    unflatten_fn: Unflatten
    keys_fn: Callable[[Any], Any] | None = None  # pairs of keys and parts, and the context


class MappingKey(NamedTuple):
    """Key of a value in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return the value."""
        return mapping[self.key]


class SequenceKey(NamedTuple):
    """Index of an item in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return the item."""
        return sequence[self.idx]


class GetAttrKey(NamedTuple):
    """Name of a field of a named tuple."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return the field."""
        return getattr(obj, self.name)


KeyPath = tuple[Any, ...]


class TreeSpec(NamedTuple):
    """Structure of a tree: the class of a container, its context, and the specs of its parts."""

    type: Any
    context: Any
    children_specs: list[Any]

    @property
    def num_leaves(self) -> int:
        """Return the number of leaves."""
        return 1 if self.type is None else sum(child.num_leaves for child in self.children_specs)

    @property
    def num_nodes(self) -> int:
        """Return the number of leaves and containers."""
        return 1 + sum(child.num_nodes for child in self.children_specs)

    @property
    def num_children(self) -> int:
        """Return the number of parts, none for a leaf."""
        return len(self.children_specs)

    def is_leaf(self) -> bool:
        """Return whether this is a leaf."""
        return self.type is None

    def children(self) -> list[Any]:
        """Return the specs of the parts."""
        return list(self.children_specs)

    def child(self, index: int) -> Any:
        """Return the spec of one part."""
        return self.children_specs[index]


class LeafSpec(TreeSpec):
    """Structure of a leaf."""

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
        lambda parts, context: defaultdict(context[0], zip(context[1], parts, strict=True)),
    ),
    namedtuple: NodeDef(lambda x: ([*x], type(x)), lambda parts, kind: kind(*parts)),
}


def register_pytree_node(cls: type, flatten_fn: Flatten, unflatten_fn: Unflatten, **kwargs: Any) -> None:
    """Register `cls` as a class of containers. Raises ValueError if it is one already."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(flatten_fn, unflatten_fn, kwargs.get("flatten_with_keys_fn"))


_register_pytree_node = register_pytree_node


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return the values and the keys."""
    return [*d.values()], [*d]


def _dict_unflatten(values: Iterable[Any], context: list[Any]) -> dict[Any, Any]:
    """Return the dict of these keys and values."""
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    """Return pairs of key and value, and the keys."""
    return [(MappingKey(key), value) for key, value in d.items()], [*d]


def tree_flatten(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves from left to right, and the structure; `is_leaf` chooses further values as leaves."""
    leaves: list[Any] = []
    return leaves, _walk(tree, is_leaf, leaves)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """Rebuild the containers around these leaves. Raises ValueError if there are more or fewer."""
    values = list(leaves)
    if len(values) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten(leaves, treespec): {len(values)} leaves for a spec of {treespec.num_leaves}")
    return _build(treespec, iter(values))


def tree_leaves(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """Return the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Function, tree: PyTree, *rests: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> PyTree:
    """Return the tree with func(leaf) for each leaf; `rests` are trees like it, whose leaves are further arguments."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_leaves_like(spec, rest) for rest in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others, strict=True)], spec)


def tree_map_(func: Function, tree: PyTree, *rests: PyTree, is_leaf: Any = None) -> PyTree:
    """Call func(leaf) for each leaf, and return the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kind: Any, func: Any, tree: PyTree, is_leaf: Any = None) -> PyTree:
    """Map the leaves that are instances of `kind`, or for which it is true; others stay."""
    return tree_map(lambda x: func(x) if _is_of_kind(x, kind) else x, tree, is_leaf=is_leaf)


def tree_flatten_with_path(tree: PyTree, is_leaf: Any = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return pairs of the path to a leaf and the leaf, from left to right, and the structure."""
    return list(_iterate_paths(tree, is_leaf, ())), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: Any = None) -> list[tuple[KeyPath, Any]]:
    """Return pairs of the path to a leaf and the leaf, from left to right."""
    return list(_iterate_paths(tree, is_leaf, ()))


def tree_map_with_path(func: Function, tree: PyTree, *rests: PyTree, is_leaf: Any = None) -> PyTree:
    """Return the tree with func(path, leaf) for each leaf."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [_leaves_like(spec, rest) for rest in rests]
    return tree_unflatten([func(*pair, *each) for pair, *each in zip(pairs, *others, strict=True)], spec)


def keystr(kp: KeyPath) -> str:
    """Return the path as Python code after the name of a tree."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Return the value at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Any = None) -> bool:
    """Return whether `pred` is true of all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Any = None) -> bool:
    """Return whether `pred` is true of some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(kind: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: Any = None) -> bool:
    """Return `tree_all` of the leaves that are instances of `kind`."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if _is_of_kind(x, kind))


def tree_any_only(kind: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: Any = None) -> bool:
    """Return `tree_any` of the leaves that are instances of `kind`."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if _is_of_kind(x, kind))


def _is_of_kind(x: Any, kind: Any) -> bool:
    return isinstance(x, kind) if isinstance(kind, (type, tuple)) else bool(kind(x))


def _get_node_type(tree: Any) -> Any:
    """Return the key of a container in `SUPPORTED_NODES`: its class, or `namedtuple`."""
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


def _iterate_paths(value: Any, is_leaf: Callable[[Any], bool] | None, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
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
        yield from _iterate_paths(part, is_leaf, (*path, key))


def _build(spec: TreeSpec, leaves: Any) -> Any:
    if spec.type is None:
        return next(leaves)
    container = SUPPORTED_NODES[spec.type]
    return container.unflatten_fn([_build(child, leaves) for child in spec.children_specs], spec.context)


def _leaves_like(spec: TreeSpec, tree: Any) -> list[Any]:
    """Return the subtrees that lie where the leaves of `spec` are."""
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


FlattenFnSpec = Callable[[PyTree, TreeSpec], list[PyTree]]
_SPEC_FLATTENERS: dict[object, FlattenFnSpec] = {}


def register_pytree_flatten_spec(
    cls: object, flatten_fn_spec: FlattenFnSpec, flatten_fn_exact_match_spec: object = None
) -> None:
    """Let `tree_flatten_spec` take the parts of containers of a class by `flatten_fn_spec(container, spec)`."""
    _SPEC_FLATTENERS[cls] = flatten_fn_spec


def tree_flatten_spec(pytree: PyTree, spec: TreeSpec) -> list[PyTree]:
    """Return the leaves of a tree of this structure: of a dict by the keys of the spec, whatever else it has.

    Raises RuntimeError for a tree of another structure.
    """
    if spec.is_leaf():
        return [pytree]
    if spec.type in _SPEC_FLATTENERS:
        parts = _SPEC_FLATTENERS[spec.type](pytree, spec)
        pairs = zip(parts, spec.children(), strict=False)
        return [leaf for part, child in pairs for leaf in tree_flatten_spec(part, child)]
    leaves, found = tree_flatten(pytree)
    if spec != found:
        raise RuntimeError(f"Real spec {found} of object {pytree} is different from expected spec {spec}.")
    return leaves


register_pytree_flatten_spec(dict, lambda tree, spec: [tree[key] for key in spec.context])
for _kind in (list, tuple, namedtuple):
    register_pytree_flatten_spec(_kind, lambda tree, spec: [tree[i] for i in range(spec.num_children)])
