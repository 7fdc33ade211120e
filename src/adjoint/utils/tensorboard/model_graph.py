"""Graph of a model's call for TensorBoard: the nodes that backward walks, named by the modules that made them."""

from __future__ import annotations

from typing import TypeAlias

from adjoint.core.graph.node import GraphNode, Leaf, next_sequence_nr
from adjoint.core.runtime.pytree import flatten, unflatten
from adjoint.core.tensor.tensor import Tensor
from adjoint.nn.module.module import Module
from adjoint.utils.tensorboard.file_writer import Message, import_tensorboard

Scope: TypeAlias = tuple[int, int, str]  # the numbers between which a module made nodes, and its path


def make_model_graph(model: Module, inputs: object) -> Message:
    """Call the model in evaluation mode, and return the GraphDef of what its backward would walk.

    Modules are left in the mode in which they were. Raises: ValueError where no result has a graph.
    """
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    leaves, structure = flatten(arguments)
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
            leaves[i] = leaf.detach().requires_grad_()  # so that the graph begins with it
    arguments = unflatten(structure, iter(leaves))
    scopes, outputs = _call_with_scopes(model, arguments)
    results = [tensor for tensor in flatten(outputs)[0] if isinstance(tensor, Tensor) and tensor.requires_grad]
    if not results:
        raise ValueError("add_graph: no result of the model requires grad, so there is no graph to show")
    names = {id(tensor): f"input/{i}" for i, tensor in enumerate(leaves)}
    names |= {id(tensor): f"{_root(model)}/{path.replace('.', '/')}" for path, tensor in model.named_parameters()}
    return _make_graph_def(results, names, scopes)


def _root(model: Module) -> str:
    return type(model).__name__


def _call_with_scopes(model: Module, arguments: tuple[object, ...]) -> tuple[list[Scope], object]:
    """Call the model; return a list of (first number, last number, scope) of its modules' calls, and the results.

    Nodes are numbered in the order in which they are made: a module made those between its call's two numbers.
    """
    scopes: list[Scope] = []
    begun: list[int] = []
    handles = []
    for path, module in model.named_modules():
        scope = "/".join([_root(model), *path.split(".")] if path else [_root(model)])
        handles.append(module.register_forward_pre_hook(lambda module, args: begun.append(next_sequence_nr())))
        handles.append(
            module.register_forward_hook(
                lambda module, args, result, scope=scope: scopes.append((begun.pop(), next_sequence_nr(), scope))
            )
        )
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        outputs = model(*arguments)
    finally:
        for handle in handles:
            handle.remove()
        for module, training in modes.items():
            module.training = training
    return scopes, outputs


def _make_graph_def(results: list[Tensor], leaf_names: dict[int, str], scopes: list[Scope]) -> Message:
    """Return the message of all nodes behind `results`; leaves are called by `leaf_names`, by their tensors' ids."""
    made = import_tensorboard("compat.proto.graph_pb2").GraphDef()
    names: dict[GraphNode | Leaf, str] = {}
    waiting: list[GraphNode | Leaf] = [tensor.grad_fn for tensor in results if tensor.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node not in names:
            names[node] = _name_node(node, leaf_names, scopes)
            waiting += [parent for parent, _ in node.next_functions if parent is not None]
    for node, name in sorted(names.items(), key=lambda item: item[0].sequence_nr):
        inputs = [names[parent] for parent, _ in node.next_functions if parent is not None]
        _add_node(made, name, node.name().removesuffix("Backward0"), inputs, node.shape)
    for i, tensor in enumerate(results):
        if tensor.grad_fn is not None:
            _add_node(made, f"output/{i}", "Output", [names[tensor.grad_fn]], tensor.shape)
    return made


def _name_node(node: GraphNode | Leaf, leaf_names: dict[int, str], scopes: list[Scope]) -> str:
    """Return the node's name: of a leaf its tensor's, else the innermost module that made it and the op."""
    if isinstance(node, Leaf):
        return leaf_names.get(id(node.variable), f"leaf/{node.sequence_nr}")
    # a module's call ends after those that it contains, so the first that fits is the innermost
    inside = (scope for first, last, scope in scopes if first < node.sequence_nr < last)
    return f"{next(inside, 'outside')}/{node.name().removesuffix('Backward0')}_{node.sequence_nr}"


def _add_node(made: Message, name: str, op: str, inputs: list[str], shape: tuple[int, ...]) -> None:
    """Add a node of the graph with the shape of its result."""
    protos = import_tensorboard("compat.proto.tensor_shape_pb2").TensorShapeProto
    sizes = protos(dim=[protos.Dim(size=size) for size in shape])
    made.node.add(name=name, op=op, input=inputs).attr["_output_shapes"].list.shape.append(sizes)
