"""Remedies for errors whose message tells the cause whole: for each, what to write instead, in the names of the line.

`{x}` stands for the line's first tensor, with the line that made it, `{first}` for the call's first argument, with its
line, `{call}` for what the line calls, `{args}` for all arguments, `{owner}` for the object whose method it is,
`{function}` for the user's function that the library calls, and `{1}` for what the pattern has found.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from adjoint.core.graph.source_location import definition_site
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate, is_module
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.source_expressions import text_of

ADVICE = {
    r"must specify the equation string and at least one operand": "{call}({args}, x), with a tensor for each group of "
    "letters",
    r"found '\.' for operand (\d+) for which an ellipsis was already found": "one ... in the letters of tensor {1}",
    r"Expected one or more matrices": "{call}(a, b, c), the matrices one by one",
    r"`shifts` required": "{call}({x}, 1, 0), by how many places and along which dimension",
    r"(select|narrow)\(\) cannot be applied to a 0-dim tensor": "it is one number, without a dimension: leave {1} out",
    r"mode is invalid and scale_fn is None": "mode='triangular', 'triangular2' or 'exp_range'",
    r"has no differentiable counterpart": "{call}({x}.detach().numpy()), which has no gradient",
    r"Enumeration over cartesian product is not implemented": "{owner}.base_dist.enumerate_support() has the values of "
    "one variable",
    r"expected a state of shape|this is not the state of a Mersenne Twister": "{owner}.set_state(state) takes what "
    "get_state() of a generator gave",
    r"device expects a name such as 'cpu', got (\w+)": "torch.device('cpu')",
    r"hparam_dict and metric_dict are dicts": "{call}(dict(…), dict(…)), names and numbers",
    r"points are of float32 or float64, not (\w+)": "leave dtype= out, and .to(torch.{1}) of the result",
    r"contexts cannot be nested": "leave the inner one out",
    r"can't replace a None gradient": "None for a gradient that is None, as it came",
    r"saved_tensors can only be accessed once": "saved = ctx.saved_tensors once, and saved[0] after it",
    r"materialize_grads cannot be used": "leave materialize_grads= out",
    r"only be installed during backward pass|was called outside of a backward pass": "within a hook, which backward "
    "calls",
    r"Trying to backward outside of the 'allow_mutation": "backward() within the block of "
    "allow_mutation_on_saved_tensors",
    r"has not been fully initialized": "one batch through the model before it",
    r"images of label_img are square, and these are (\d+) by (\d+)": "F.interpolate(images, size=({1}, {1})) before it",
    r"a margin chart has three tags": "[value, lower, upper], three names of scalars",
    r"number of output names provided \((\d+)\) exceeded number of outputs \((\d+)\)": "the model gives {2}: {2} names "
    "in output_names=",
    r"datasets should not be an empty iterable": "{first} is empty: the files or folders that it is made of were not "
    "found, perhaps",
    r"encountering probability entry < 0": "torch.softmax({x}, -1) makes probabilities of scores",
    r"requires_grad is True or False; it cannot be deleted": "{owner}.requires_grad_(False)",
    r"Inference tensors do not track version counter|created in inference mode and its base": "torch.no_grad() in "
    "place of inference_mode() where it was made",
    r"self-referential lists are incompatible": "{first} holds itself: append a copy, list(…)",
    r"Cannot determine validity of dependent constraint": "validate_args=False, or a constraint without parameters",
    r"cannot be determined statically": "of an instance, {owner}(…), and not of the class",
    r"does not implement mode": "{owner}.mean, or the value of the greatest log_prob",
    r"The parameter probs has invalid values": "values between 0 and 1: {x}.clamp(1e-6, 1 - 1e-6)",
    r"lengths \((\d+)\) must match \w+ \((\d+)\)": "lengths= has {1} numbers for {2} parts: one for each",
    r"Input is not a flattened lower-diagonal number": "{x} is to have n * (n + 1) // 2 values in its last dimension",
    r"Input is not square": "{x} is to be square in its last two dimensions",
    r"requested buffer length .* must not be greater than actual buffer length": "count=-1 takes what is there",
    r"number of categories cannot exceed 2\^24": "torch.randint where all are alike, or a part of them first",
    r"Boolean (\w+) only supported for Boolean results": "{1}=1",
    r"LU without pivoting is not implemented": "leave pivot=False out",
    r"Expected pivots to be integers": "the pivots of torch.linalg.ldl_factor, second: ldl_solve(LD, pivots, B)",
    r"requires output_ratio to": "output_ratio=0.5, or a number for each dimension",
    r"CausalBias should not be used with causal=True": "leave is_causal=True out",
    r"number of offset should be at least 1": "offsets=torch.tensor([0, {first}.numel()])",
    r"(\w+) is set but (\w+) is None": "give {2}= too, or leave {1}= out",
    r"bias cannot be added to static": "leave bias_k= and bias_v= out",
    r"use_separate_proj_weight is (True|False) but (\w+) is None": "give {2}=, or the other value of "
    "use_separate_proj_weight=",
    r"invalid storage offset": "storage_offset=0 or more",
    r"Complex windows are incompatible with return_complex=False": "return_complex=True",
    r"optimizer parameters need to be organized in ordered collections": "a list, whose order a checkpoint keeps: "
    "sorted or as they were made, and not a set",
    r"didn't specify a value of required optimization parameter (\w+)": "{1}= for all groups, or '{1}' in this one",
    r"balance properties of Sobol' points require n to be a power of 2": "a number of points such as 64, 128 or 256",
    r"metadata must map strings to strings, not (\S+) to a (\w+)": "str(…) of what stands under {1}",
    r"backward not multiplied by grad_output": "grad_output times the derivative, in what backward returns",
    r"grad is incorrect type": "in backward, .to(x.dtype) of what it returns",
    r"Expected f to be a function that has non-empty output": "{function} returns nothing: return of a tensor at its "
    "end",
    r"Expected (\w+) to contain at least one Tensor": "torch.tensor(…) of a number in {1}",
    r"Expected primal to be floating point or complex": "{x}.float()",
    r"in flattened pytree doesn't match the (\w+) ": "tangents of the {1} of the primals: torch.ones_like of each",
    r"Trying to use forward AD with (\S+) that does not support it": "torch.func.vjp and torch.autograd.grad go "
    "backward, and know {1}",
    r"The function given to (\w+) should return a single Tensor": "{function} is to return one tensor, torch.cat of "
    "several",
    r"appeared in multiple dictionaries": "one dictionary: {**first, **second}",
    r"The output of f is independent of the inputs": "{function} gives what its inputs do not change: without "
    ".detach() and .item(), or leave strict=True out",
    r"vmap: Expected at least one Tensor to vmap over": "torch.tensor(…) of the examples",
    r"can not return a BatchedTensor when out_dim is None": "out_dims=0",
    r"checkpoint: (?:A different number of tensors|Recomputed values|trying to save more)": "{function} computes "
    "otherwise when it runs again: what it counts, reads or draws is to be given as an argument",
    r"incompatible with \.grad\(\) or passing an `inputs` parameter": "use_reentrant=False in the call of checkpoint",
    r"debug=True is incompatible with non-default context_fn": "leave context_fn= out",
    r"Cannot set the submodule without a target name": "{call}('name', module)",
    r"requires one or more modules": "a module first, [module]",
    r"is not a BasePruningMethod subclass": "an instance of prune.L1Unstructured, or of a class that derives from "
    "prune.BasePruningMethod",
    r"Expected data to be a list or tuple of length 2": "the pair of values and batch sizes",
    r"buffer length \((\d+) bytes\) after offset \((\d+) bytes\) must be a multiple of element size \((\d+)\)": "{1} "
    "bytes are no multiple of {3}: dtype=torch.uint8, or the type in which they were written",
}


def register_advice(module: str, table: Mapping[str, str], *, is_last: bool = False) -> None:
    """Register a remedy for each pattern of a table, as one of the module that has the table."""

    def describe_cause(failure: Failure, match: re.Match[str]) -> str:
        x = next(iter(failure.tensors()), None)
        advice = _fill(failure, match, table[match.re.pattern].replace("{x}", "the tensor" if x is None else x.text))
        return f"{x.text}{at(x)} is {tuple(x.value.shape)}; {advice}" if x is not None and x.text in advice else advice

    describe_cause.__module__ = module
    for pattern in table:
        remedy(pattern, is_last=is_last)(describe_cause)


def _fill(failure: Failure, match: re.Match[str], advice: str) -> str:
    """Return the advice with the names of the line and what the pattern has found."""
    node = failure.node.targets[0] if isinstance(failure.node, ast.Delete) else failure.node
    function = node.func if isinstance(node, ast.Call) else node
    given = [text_of(each) for each in (*node.args, *node.keywords)] if isinstance(node, ast.Call) else []
    first = given[0] if given else "it"
    names = {
        "call": text_of(function) if isinstance(node, ast.Call) and function is not None else "the call",
        "args": ", ".join(given),
        "first": f"{first}{at(failure.find_operand(first))}",
        "owner": text_of(function.value) if isinstance(function, ast.Attribute) else "it",
    }
    for name, text in names.items():
        advice = advice.replace(f"{{{name}}}", text)
    if "{function}" in advice:
        advice = advice.replace("{function}", _name_function(failure))
    texts = {str(i): text for i, text in enumerate((match[0], *match.groups()))}
    return re.sub(r"\{(\d)(!r)?\}", lambda found: (repr if found[2] else str)(texts[found[1]]), advice)


def _name_function(failure: Failure) -> str:
    """Return the user's function that the line gives to the library, or that made one of its operands."""
    nodes = [failure.node, *(each.origin.node for each in failure.operands if each.origin is not None)]
    calls = [each for node in nodes if node is not None for each in ast.walk(node) if isinstance(each, ast.Call)]
    for part in (part for call in calls for part in call.args):
        value = evaluate(part, failure.frame)
        function = type(value).forward if is_module(value) else value
        code = getattr(function, "__code__", None)
        if isinstance(part, ast.Lambda):
            return text_of(part)
        if code is not None and user_files[code.co_filename]:
            return f"{text_of(part)} at {definition_site(code).describe_briefly()}"
    return "the function"


register_advice(__name__, ADVICE)
