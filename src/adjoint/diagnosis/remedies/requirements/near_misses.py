"""Remedies for lines that are nearly right: a class for its instance, one dimension too many, widths paired wrongly."""

from __future__ import annotations

import ast
import copy
import os
import re
from difflib import get_close_matches

from adjoint.core.dtype.dtype import bool_
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import NamedValue, Origin, evaluate, find_origin, is_module
from adjoint.diagnosis.remedies.registry import argument_node, at, name_owner, remedy, shape_of
from adjoint.diagnosis.repairs.trial import compute, runs
from adjoint.diagnosis.source_expressions import find_assignment, text_of


@remedy(r"'type' object is not iterable|'(?:ABCMeta|type)' object is not iterable")
def make_instance(failure: Failure, match: re.Match[str]) -> str | None:
    """A class that was given where one of its objects is wanted, such as a sampler."""
    for operand in failure.operands:
        made = None if operand.origin is None else operand.origin.value
        for keyword in made.keywords if isinstance(made, ast.Call) else ():
            kind = evaluate(keyword.value, failure.frame)
            if isinstance(kind, type) and hasattr(kind, "__iter__") and isinstance(made, ast.Call):
                first = text_of(made.args[0]) if made.args else "…"
                told = f"{keyword.arg}={text_of(keyword.value)}{at(operand)} is a class"
                return f"{told}: {keyword.arg}={text_of(keyword.value)}({first}) there"
    return None


SET_METHODS = {
    "split": "torch.utils.data.random_split({0}, [0.8, 0.2])",
    "train_test_split": "torch.utils.data.random_split({0}, [0.8, 0.2])",
    "shuffle": "DataLoader({0}, shuffle=True)",
    "batch": "DataLoader({0}, batch_size=…)",
    "take": "torch.utils.data.Subset({0}, range(…))",
    "select": "torch.utils.data.Subset({0}, […])",
    "concatenate": "torch.utils.data.ConcatDataset([{0}, …])",
    "concat": "torch.utils.data.ConcatDataset([{0}, …])",
}


@remedy(r"'(\w+)' object has no attribute '(\w+)'")
def use_dataset(failure: Failure, match: re.Match[str]) -> str | None:
    """A method that data sets of other libraries have."""
    owner = name_owner(failure, "")
    name = owner.partition(" at ")[0]
    held = evaluate(ast.parse(name or "0", mode="eval").body, failure.frame)
    is_dataset = hasattr(type(held), "__getitem__") and any(k.__name__ == "Dataset" for k in type(held).__mro__)
    if match[2] not in SET_METHODS or not is_dataset:
        return None
    return f"{owner} is a {match[1]}, without {match[2]}: {SET_METHODS[match[2]].format(name)}"


@remedy(r"element 0 of tensors does not require grad and does not have a grad_fn")
def require_learned(failure: Failure, match: re.Match[str]) -> str | None:
    """Tensors that an optimizer is to change, and that require no gradient."""
    names = {**failure.frame.f_globals, **failure.frame.f_locals}
    for name, value in names.items():
        groups = value.__dict__.get("param_groups") if hasattr(value, "__dict__") else None
        parameters = [each for group in groups for each in group["params"]] if isinstance(groups, list) else []
        if not parameters or any(each.requires_grad for each in parameters) or failure.line is None:
            continue
        own = next((key for key, each in names.items() if any(each is x for x in parameters)), None)
        if own is None:
            continue
        source = failure.line.source
        made_by = find_assignment(source, source.scope_of(failure.line.node), own, failure.line.node)
        origin = None if made_by is None else Origin(source, made_by)
        if isinstance(made_by, ast.For):  # a name that a loop has left
            continue
        told = f"{own}{at(NamedValue(own, names[own], origin))}, which {name} is to change, requires no gradient"
        made = None if origin is None else origin.value_of(own)
        keyword = ast.keyword("requires_grad", ast.Constant(True))
        whole = ast.Call(made.func, made.args, [*made.keywords, keyword]) if isinstance(made, ast.Call) else None
        is_plain = whole is not None and runs(whole, failure.frame)
        return (
            f"{told}: {own} = {text_of(whole)} there"
            if whole is not None and is_plain
            else (f"{told}: {own}.requires_grad_() there")
        )
    return None


@remedy(r"linear: input is \(([\d, ]*)\), weight \((\d+), (\d+)\)")
def pair_widths(failure: Failure, match: re.Match[str]) -> str | None:
    """Layers of a loop over widths, each with itself and not with the next."""
    layer = failure.module()
    node = None if layer is None or layer.origin is None else layer.origin.node
    around = [] if layer is None or layer.origin is None else [layer.origin.source.statement_of(layer.origin.node)]
    for statement in around:
        for call in ast.walk(statement):
            if not isinstance(call, ast.Call) or text_of(call.func) != "zip" or len(call.args) != 2 or node is None:
                continue
            first, second = map(text_of, call.args)
            if first == second and layer is not None:
                told = f"{layer.text}{at(layer)} is of zip({first}, {second}), pairs of the same width"
                return f"{told}: zip({first}[:-1], {first}[1:])"
    return None


@remedy(r"operands could not be broadcast together with remapped shapes .*?: \(([\d,]+)\)->.* \(([\d,]+)\)->")
def match_batches(failure: Failure, match: re.Match[str]) -> str | None:
    """Products of two batches of unlike numbers of matrices."""
    shapes = [shape_of(match[1]), shape_of(match[2])]
    named = [next((each for each in failure.tensors() if tuple(each.value.shape) == n), None) for n in shapes]
    a, b = named
    if a is None or b is None:
        return None
    told = f"{a.text}{at(a)} is a batch of {shapes[0][0]} matrices, and {b.text}{at(b)} of {shapes[1][0]}"
    return f"{told}: one number of both; {a.text}[:, None] @ {b.text} multiplies each with each"


@remedy(r"transpose\(\) missing (?:\d+ required|a required) .*'dim1'")
def name_both_dimensions(failure: Failure, match: re.Match[str]) -> str | None:
    """A transposition that names one dimension."""
    node = failure.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    x = compute(node.func.value, failure.frame)
    owner = text_of(node.func.value)
    first = text_of(node.args[0]) if node.args else "0"
    if not isinstance(x, Tensor):
        return None
    told = f"{name_owner(failure, owner)} is {tuple(x.shape)}, and two dimensions change places"
    return f"{told}: {owner}.T" if x.ndim == 2 else f"{told}: {owner}.transpose({first}, -1)"


@remedy(r"stack\(\): expected Tensor as element \d+ in argument 0, but got (?:float|int|bool)")
def join_numbers(failure: Failure, match: re.Match[str]) -> str | None:
    """Python numbers in a list where tensors are stacked."""
    given, node = argument_node(failure, 0, "tensors"), failure.node
    held = None if given is None else compute(given, failure.frame)
    if not isinstance(held, (list, tuple)) or not all(isinstance(each, (int, float)) for each in held):
        return None
    if given is None or not isinstance(node, ast.Call):
        return None
    text = text_of(given)
    own = failure.find_operand(text)
    if own is not None and own.origin is not None and not isinstance(own.origin.value, (ast.List, ast.Tuple)):
        return None  # it was filled with what may have been tensors
    told = f"{text}{at(own)} is a {type(held).__name__} of {len(held)} numbers"
    return f"{told}: torch.tensor({text})"


@remedy(r"(?:too many|not enough) values to unpack \(expected (\d+)")
def squeeze_other(failure: Failure, match: re.Match[str]) -> str | None:
    """Sizes of a tensor that has kept a dimension, as squeeze leaves those that are not 1."""
    statement = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    value = statement.value if isinstance(statement, ast.Assign) else None
    for call in ast.walk(value) if value is not None else ():
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "squeeze":
            continue
        x, dim = compute(call.func.value, failure.frame), compute(call.args[0], failure.frame) if call.args else None
        if not isinstance(x, Tensor) or not isinstance(dim, int) or x.shape[dim] == 1:
            continue
        name = text_of(call.func.value)
        told = f"dimension {dim} of {name}{at(failure.find_operand(name))}, {tuple(x.shape)}, is {x.shape[dim]}"
        single = [i for i, size in enumerate(x.shape) if size == 1]
        way = f"{name}.squeeze({single[0]})" if len(single) == 1 else f"{match[1]} sizes"
        return f"{told}, and squeeze takes out those of 1: {way}"
    return None


@remedy(r"too many indices for tensor of dimension 1")
def flatten_mask(failure: Failure, match: re.Match[str]) -> str | None:
    """A mask of another shape than what it chooses from, which has been made a row."""
    node = failure.node
    if not isinstance(node, ast.Subscript):
        return None
    held, mask = evaluate(node.value, failure.frame), evaluate(node.slice, failure.frame)
    is_pair = isinstance(held, Tensor) and isinstance(mask, Tensor) and mask.numel() == held.numel()
    if not is_pair or mask.dtype != bool_:
        return None
    x, y = text_of(node.value), text_of(node.slice)
    told = f"{x}{at(failure.find_operand(x))} is {tuple(held.shape)}, and {y}{at(failure.find_operand(y))}"
    return f"{told} {tuple(mask.shape)}, a truth for each: {x}[{y}.reshape(-1)]"


@remedy(r"too many indices for tensor of dimension (\d+)")
def leave_index_out(failure: Failure, match: re.Match[str]) -> str | None:
    """An index with more parts than the tensor has dimensions, some of them whole."""
    node = failure.node
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
        return None
    parts, count = list(node.slice.elts), int(match[1])
    whole = [each for each in parts if isinstance(each, ast.Slice) and each.lower is each.upper is each.step is None]
    for extra in whole[: len(parts) - count]:
        parts.remove(extra)
    if len(parts) != count or not count:
        return None
    key: ast.expr = parts[0] if count == 1 else ast.Tuple(parts, ast.Load())
    changed = ast.Subscript(node.value, key, ast.Load())
    x = failure.find_operand(text_of(node.value))
    shape = "" if x is None or not isinstance(x.value, Tensor) else f", {tuple(x.value.shape)},"
    told = f"{text_of(node.value)}{at(x)}{shape} has {count} dimensions, and [{text_of(node.slice).strip('()')}] names"
    return f"{told} {len(node.slice.elts)}: {text_of(changed)}"


@remedy(r"(?:add|sub|mul): shapes \(([\d, ]*)\) (?:and )?\(([\d, ]*)\)")
def keep_length(failure: Failure, match: re.Match[str]) -> str | None:
    """A convolution beside its own input, whose size it changes."""
    node, shapes = failure.node, (shape_of(match[1]), shape_of(match[2]))
    for side, made, other in ((0, *shapes), (1, *shapes[::-1])):
        part = (node.left, node.right)[side] if isinstance(node, ast.BinOp) else None
        if not isinstance(node, ast.BinOp) or not isinstance(part, ast.Call) or len(part.args) != 1:
            continue
        layer: Operand = evaluate(part.func, failure.frame)
        is_of_other = text_of(part.args[0]) == text_of((node.left, node.right)[1 - side])
        if not is_of_other or not re.fullmatch(r"Conv[123]d", type(layer).__name__):
            continue
        kernel, dilation = layer.kernel_size, layer.dilation
        spans = {d * (k - 1) for k, d in zip(kernel, dilation, strict=True)}
        if made[:2] != other[:2] or {*layer.stride} != {1} or len(spans) != 1 or failure.line is None:
            continue
        span = spans.pop()
        own = NamedValue(text_of(part.func), layer, find_origin(failure.line.source, part.func, failure.stack))
        told = f"{own.text}{at(own)} makes {made[2:]} of {other[2:]}"
        if span % 2 == 0:
            told += f": padding={span // 2} there keeps the size"
        if made[-1] > other[-1] and len(kernel) == 1:
            return f"{told}{', or' if span % 2 == 0 else ':'} {text_of(part)}[..., :{other[-1]}], of a causal one"
        return told if span % 2 == 0 else f"{told}: padding='same' there"
    return None


@remedy(r"[Oo]nly Tensors of floating point (?:and complex )?dtype can require gradients")
def make_floats(failure: Failure, match: re.Match[str]) -> str | None:
    """A new tensor of integers that is to be learned."""
    node = failure.node
    if not isinstance(node, ast.Call) or not any(each.arg == "requires_grad" for each in node.keywords):
        return None
    rest = [each for each in node.keywords if each.arg != "dtype"]
    kind = ast.parse("torch.float32", mode="eval").body
    changed = copy.deepcopy(ast.Call(node.func, node.args, [ast.keyword("dtype", kind), *rest]))
    return f"integers have no gradient: {text_of(changed)}" if runs(changed, failure.frame) else None


@remedy(r"modified by an inplace operation.*It was written at (.*):(\d+);")
def leave_inplace_out(failure: Failure, match: re.Match[str]) -> str | None:
    """A part of a model that overwrites what the part before it needs."""
    source = None if failure.line is None else failure.line.source
    if source is None or source.name != match[1]:
        return None
    calls = source.nodes_of(ast.Call)
    models = [evaluate(each.func, failure.frame) for each in calls if each.lineno == int(match[2])]
    writing = [each for model in models if is_module(model) for each in model.modules() if getattr(each, "inplace", 0)]
    flags = [each for each in calls if any(k.arg == "inplace" and text_of(k.value) == "True" for k in each.keywords)]
    if not writing or len(flags) != 1:
        return None
    call = flags[0]
    rest = ast.Call(call.func, call.args, [each for each in call.keywords if each.arg != "inplace"])
    told = (
        f"{text_of(call)} at {source.place_of(call)} overwrites its input, which the part before it needs in backward"
    )
    return f"{told}: {text_of(rest)} there"


@remedy(r"'(int|float)' object is not subscriptable")
def leave_item_out(failure: Failure, match: re.Match[str]) -> str | None:
    """An item of what is one number, such as a list of one element of which squeeze has taken the last dimension."""
    node = failure.node
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Call):
        return None
    called = text_of(node.value.func).rpartition(".")[2]
    if called not in ("tolist", "item"):
        return None
    return f"{text_of(node.value)} is one number: without [{text_of(node.slice)}]"


@remedy(r"linear: input is \(([\d, ]*)\), weight \((\d+), (\d+)\)")
def join_directions(failure: Failure, match: re.Match[str]) -> str | None:
    """The last state of a recurrent layer that goes both ways, one of its two directions."""
    given, shape = argument_node(failure, 0, "input"), shape_of(match[1])
    if not isinstance(given, ast.Subscript) or not shape or int(match[3]) != 2 * shape[-1]:
        return None
    own = failure.find_operand(text_of(given.value))
    made = None if own is None or own.origin is None else own.origin.value
    layer: Operand = evaluate(made.func, failure.frame) if isinstance(made, ast.Call) else None
    if own is None or not getattr(layer, "bidirectional", False) or text_of(given.slice) != "-1":
        return None
    told = f"{own.text}{at(own)} has both directions, and {text_of(given)} is one of them"
    return f"{told}: torch.cat([{own.text}[-2], {own.text}[-1]], -1) has {int(match[3])} features"


@remedy(r"RNN input dtype \(\S*int\d+\) does not match weight dtype")
def embed_tokens(failure: Failure, match: re.Match[str]) -> str | None:
    """Indices of words where a recurrent layer takes vectors."""
    layer = failure.module()
    x = next((each for each in failure.tensors() if not each.value.is_floating_point()), None)
    size = None if layer is None else getattr(layer.value, "input_size", None)
    if x is None or layer is None or size is None or x.value.ndim > 2 or not x.value.numel():
        return None
    count = int(x.value.max()) + 1
    told = f"{x.text}{at(x)} holds indices, {tuple(x.value.shape)}, and {layer.text}{at(layer)} takes vectors of {size}"
    return f"{told}: nn.Embedding({count}, {size}) of them before it"


@remedy(r"(\w+)\.forward\(\) takes (\d+) positional arguments? but (\d+) were given")
def give_inputs_of_transform(failure: Failure, match: re.Match[str]) -> str | None:
    """A derivative of a module that is called with more inputs than the module takes."""
    node = failure.node
    inner = node.func if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or not isinstance(inner, ast.Call) or not inner.args:
        return None
    module, count = evaluate(inner.args[0], failure.frame), int(match[2]) - 1
    if not is_module(module) or type(module).__name__ != match[1] or len(node.args) <= count:
        return None
    rest = ", ".join(map(text_of, node.args[:count]))
    told = f"{text_of(inner.args[0])} takes {count} input{'s' if count != 1 else ''}, and {len(node.args)} are given"
    return f"{told}: {text_of(inner)}({rest})"


@remedy(r"expected f\(\*primals\) to return only tensors, got unsupported type <class '(\w+)'>")
def return_tensor(failure: Failure, match: re.Match[str]) -> str | None:
    """A function whose derivative is asked for, and that ends with a Python number."""
    for part in ast.walk(failure.node) if failure.node is not None else ():
        body = part.body if isinstance(part, ast.Lambda) else None
        if body is None:
            continue
        text = text_of(body)
        whole = text.removesuffix(".item()").removesuffix(".tolist()")
        told = f"{text_of(part)} gives a {match[1]}, which has no graph"
        return f"{told}: {whole}" if whole != text else f"{told}: a tensor that is computed of its input"
    return None


@remedy(r"No such file or directory: '([^']+)'")
def name_near_file(failure: Failure, match: re.Match[str]) -> str | None:
    """A file whose name is written nearly right."""
    folder, _, name = match[1].rpartition("/")
    try:
        held = os.listdir(folder or ".")
    except OSError:
        return None
    near = get_close_matches(name, held, 1, 0.8)
    return f"{folder or 'the working folder'} has {near[0]!r}, and no {name!r}" if near else None
