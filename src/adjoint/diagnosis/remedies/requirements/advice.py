"""Remedies for errors whose message tells the cause whole: for each, what to write instead, in the names of the line.

`{x}` stands for the line's first tensor, with the line that made it, `{first}` for the call's first argument, with its
line, `{call}` for what the line calls, `{args}` for all arguments, `{owner}` for the object whose method it is, and
`{1}` for what the pattern has found.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from adjoint.diagnosis.failure import Failure
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
    r"buffer length \((\d+) bytes\) after offset \((\d+) bytes\) must be a multiple of element size \((\d+)\)": "{1} "
    "bytes are no multiple of {3}: dtype=torch.uint8, or the type in which they were written",
}


def register_advice(table: Mapping[str, str], *, is_last: bool = False) -> None:
    """Register a remedy for each pattern of a table."""

    def describe_cause(failure: Failure, match: re.Match[str]) -> str:
        x = next(iter(failure.tensors()), None)
        advice = _fill(failure, match, table[match.re.pattern].replace("{x}", "the tensor" if x is None else x.text))
        return f"{x.text}{at(x)} is {tuple(x.value.shape)}; {advice}" if x is not None and x.text in advice else advice

    for pattern in table:
        remedy(pattern, is_last=is_last)(describe_cause)


def _fill(failure: Failure, match: re.Match[str], advice: str) -> str:
    """Return the advice with the names of the line and what the pattern has found."""
    node = failure.node
    call, given, owner, first = "the call", "", "it", "it"
    if isinstance(node, ast.Call):
        call, given = text_of(node.func), ", ".join(map(text_of, (*node.args, *node.keywords)))
        owner = text_of(node.func.value) if isinstance(node.func, ast.Attribute) else owner
        first = text_of(node.args[0]) if node.args else first
    first = f"{first}{at(failure.find_operand(first))}"
    advice = advice.replace("{call}", call).replace("{args}", given).replace("{owner}", owner).replace("{first}", first)
    texts = {str(i): text for i, text in enumerate((match[0], *match.groups()))}
    return re.sub(r"\{(\d)(!r)?\}", lambda found: (repr if found[2] else str)(texts[found[1]]), advice)


register_advice(ADVICE)
