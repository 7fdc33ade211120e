"""The documents of graphs: of tensors that exist, and of a model that is called under hooks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from adjoint.core.graph.node import GraphNode, Leaf
from adjoint.core.op.spec import describe
from adjoint.core.random.generator import default_generator
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.core.viewer.document import DrawnEdge, DrawnGraph, DrawnNode, GraphDocument, Rows, Walk
from adjoint.diagnosis.call_stack import find_stack
from adjoint.diagnosis.visualization.backward_frames import record_backward
from adjoint.diagnosis.visualization.boxes import BoxTree
from adjoint.diagnosis.visualization.gradient_calls import find_gradient_calls
from adjoint.diagnosis.visualization.graph_contents import GraphContents, iter_tensors, summarize
from adjoint.diagnosis.visualization.module_calls import ModuleBox, ModuleCalls, ModuleTree, Path
from adjoint.diagnosis.visualization.user_names import UserNames, name_leaves
from adjoint.nn.module.module import Module

MAX_MISSING = 12  # names of parameters


def draw_tensors(
    roots: Sequence[tuple[str, Tensor]], names: UserNames, backward: bool, gradient: Tensor | None = None
) -> GraphDocument:
    """Return the document of tensors that exist; their modules are found from parameters and lines.

    `gradient` is that of the only root, for the steps of `backward`.
    """
    modules = names.outermost_modules()
    contents = GraphContents(roots, {}, names.inputs)
    contents.leaf_names = name_leaves(contents.leaves, modules, names)
    tree = ModuleTree(modules)
    calls = find_gradient_calls(contents.nodes)
    forward = [node for node in contents.nodes if node not in calls]
    paths = tree.infer_paths(forward, {place.frame.f_code for place in find_stack(None)})
    title = ", ".join(f"{name} {describe(root.array)}" for name, root in roots[:4])
    walk = record_backward(contents, gradient) if backward else None
    missing = _list_missing(contents, modules)
    return _draw(title, contents, lambda node: paths.get(node, ()), tree.boxes(), walk, missing)


def draw_model(
    model: Module, inputs: Sequence[Operand], kwargs: Mapping[str, Operand], backward: bool
) -> GraphDocument:
    """Return the document of a call of a model. Raises TypeError without inputs, RuntimeError without a graph."""
    name = type(model).__name__
    if not inputs and not kwargs:
        raise TypeError(
            f"visualize: it runs the module, so {name} needs inputs: visualize(model, x); the graph of a loss that you "
            "have is drawn by visualize(loss)"
        )
    calls = ModuleCalls(name, model)
    with calls.record(), _restore_state(model), ModeScope(recording=True):
        result = model(*inputs, **kwargs)
    found = list(iter_tensors(result, ""))
    if not found:
        raise TypeError(f"visualize: {name} returned {type(result).__name__} without tensors")
    roots = [(place, root) for place, root in found if root.node is not None and not isinstance(root.node, Leaf)]
    if not roots:
        raise RuntimeError(
            f"visualize: {name} returned {describe(found[0][1].array)} without history: no parameter or input of it "
            "requires grad, or its forward runs under no_grad"
        )
    given = list(iter_tensors(_bind_arguments(model, inputs, kwargs), ""))
    names = UserNames()
    names.tensors = {tensor.node: place for place, tensor in given if tensor.node is not None}
    contents = GraphContents(roots, {}, given)
    contents.leaf_names = name_leaves(contents.leaves, [("", model)], names)
    told = ", ".join(describe(tensor.array) for _, tensor in given[:4])
    walk = record_backward(contents) if backward else None
    missing = _list_missing(contents, [("", model)])
    return _draw(f"{name}({told})", contents, calls.path_of, calls.boxes, walk, missing)


def _bind_arguments(model: Module, inputs: Sequence[Operand], kwargs: Mapping[str, Operand]) -> Mapping[str, Operand]:
    """Return the arguments of a call by the names that `forward` has for them."""
    try:
        return inspect.signature(model.forward).bind(*inputs, **kwargs).arguments
    except (TypeError, ValueError):
        return {"input": tuple(inputs), **kwargs}


def _list_missing(contents: GraphContents, modules: Iterable[tuple[str, Module]]) -> Rows:
    """Return a row of the parameters that want a gradient and are not in the graph, of models of which others are."""
    leaves, rows = set(contents.leaves), []
    for name, module in modules:
        wanted = {path: p.node for path, p in module.named_parameters(prefix=name) if p.requires_grad}
        absent = [path for path, leaf in wanted.items() if leaf not in leaves]
        if absent and len(absent) < len(wanted):
            if len(absent) > MAX_MISSING:
                absent[MAX_MISSING:] = [f"{len(absent) - MAX_MISSING:,} more"]
            rows.append(("get no gradient", ", ".join(absent)))
    return tuple(rows)


@contextmanager
def _restore_state(model: Module) -> Iterator[None]:
    """Put buffers and the generator of random numbers back at the end of the block."""
    place = default_generator.place()
    buffers = [(part, name, held) for part in model.modules() for name, held in part._buffers.items()]
    values = [held.array.copy() if isinstance(held, Tensor) else None for _, _, held in buffers]
    try:
        yield
    finally:
        default_generator.load_state_array(place)
        for (part, name, held), value in zip(buffers, values, strict=True):
            part._buffers[name] = held
            if isinstance(held, Tensor) and value is not None and held.array.shape == value.shape:
                np.copyto(held.array, value)


def _draw(
    title: str,
    contents: GraphContents,
    path_of: Callable[[GraphNode], Path],
    modules: Mapping[str, ModuleBox],
    walk: Walk | None,
    missing: Rows,
) -> GraphDocument:
    tree = BoxTree(contents.nodes, path_of, modules)
    places = {contents.keys[node]: path for node, path in tree.paths().items()}
    edges = contents.edges()
    nodes = [contents.draw_node(node, "".join(places[contents.keys[node]][-1:])) for node in contents.nodes]
    users_of: dict[str, list[Path]] = {}
    for edge in edges:
        if edge.target in places:
            users_of.setdefault(edge.source, []).append(places[edge.target])
    for leaf in contents.leaves:
        users = users_of.get(contents.keys[leaf], [])
        nodes.append(contents.draw_leaf(leaf, "".join(_find_common_path(users)[-1:])))
    keys_by_input: dict[int, list[str]] = {}
    for i, key in contents.input_edges():
        keys_by_input.setdefault(i, []).append(key)
        edges.append(DrawnEdge(f"in{i}", key))
    for i, keys in keys_by_input.items():
        name, tensor = contents.inputs[i]
        group = "".join(_find_common_path([places[key] for key in keys])[-1:])
        nodes.append(DrawnNode(f"in{i}", name, "input", group, describe(tensor.array)))
    nodes += [contents.draw_root(i) for i in range(len(contents.roots))]
    summary = (*summarize(contents), *missing)
    graph = DrawnGraph(title, tuple(nodes), tuple(tree.groups(modules)), tuple(edges), summary, walk=walk)
    return GraphDocument(f"{title}: {pluralize(len(contents.nodes), 'node')}", (graph,))


def _find_common_path(paths: Sequence[Path]) -> Path:
    """Return the boxes that all these places have in common."""
    shared: Path = paths[0] if paths else ()
    for path in paths:
        while path[: len(shared)] != shared:
            shared = shared[:-1]
    return shared
