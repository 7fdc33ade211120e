"""Remedies for data: values that make no tensor, datasets and loaders, files and devices."""

from __future__ import annotations

import ast
import re

from adjoint.core.graph.source_location import definition_site
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate, find_return_in
from adjoint.diagnosis.remedies.registry import at, remedy


@remedy(r"expected sequence of length (\d+) at dim (\d+) \(got (\d+)\)")
def pad_rows(failure: Failure, match: re.Match[str]) -> str:
    """Rows of different lengths."""
    return "rows of one length: pad them, or make a list of tensors (nn.utils.rnn.pad_sequence pads those)"


@remedy(r"invalid data type 'str'")
def number_strings(failure: Failure, match: re.Match[str]) -> str:
    """Texts where numbers belong."""
    return "texts become numbers first: {name: i for i, name in enumerate(sorted(set(names)))}, and the i of each"


@remedy(r"Size mismatch between tensors")
def match_lengths(failure: Failure, match: re.Match[str]) -> str:
    """Tensors of a dataset with different numbers of samples."""
    told = ", ".join(
        f"{each.text}{at(each)} has {each.value.shape[0]}" for each in failure.tensors() if each.value.ndim
    )
    return f"a sample is a row of each, so all have as many: {told}"


@remedy(r"[Ss]um of input lengths does not equal the length of the input dataset")
def split_all(failure: Failure, match: re.Match[str]) -> str:
    """Parts that are not the whole."""
    dataset, lengths = failure.locals["dataset"], failure.locals["lengths"]
    told = f"the dataset has {len(dataset)} samples, and {list(lengths)} adds up to {sum(lengths)}"
    return f"{told}; fractions such as [0.8, 0.2] need no counting"


@remedy(r"object of type '(\w+)' has no len\(\)")
def define_length(failure: Failure, match: re.Match[str]) -> str | None:
    """A dataset without a length."""
    batch = failure.locals.get("batch", failure.locals.get("samples"))
    if match[1] == "NoneType":
        places = [i for i, each in enumerate(batch) if each is None] if isinstance(batch, (list, tuple)) else []
        if not places:
            return None
        return (
            f"sample {places[0]} of the batch is None{_find_getitem(failure)}: leave such samples out when the dataset "
            "is made, or in a collate_fn="
        )
    kind = evaluate(ast.Name(match[1], ast.Load()), failure.frame)
    code = next((each.__code__ for each in vars(kind).values() if hasattr(each, "__code__")), None)
    where = "" if code is None else f" ({definition_site(code).describe_briefly()})"
    return f"{match[1]}{where} needs __len__, the number of its samples, for a loader that shuffles or draws from it"


def _find_getitem(failure: Failure) -> str:
    """Return the line of `__getitem__` of the dataset of which a batch was put together."""
    dataset = failure.locals.get("dataset")
    owner = failure.locals.get("self")
    dataset = getattr(owner, "dataset", None) if dataset is None else dataset
    code = getattr(getattr(type(dataset), "__getitem__", None), "__code__", None)
    result = None if code is None else find_return_in(code)
    return "" if result is None else f", from __getitem__ at {result.place()}"


@remedy(r"'str' object has no attribute|must be Tensor, not str")
def read_keys(failure: Failure, match: re.Match[str]) -> str | None:
    """The keys of a batch, or of another dict, where its values are wanted."""
    for operand in failure.operands:
        node = None if operand.origin is None else operand.origin.node
        if isinstance(operand.value, str) and isinstance(node, (ast.For, ast.AsyncFor)):
            key, name = repr(operand.value), f"{operand.text}{at(operand)}"
            return f"{name} is the key {key}, for the batch is a dict: for batch in …, and batch[{key}]"
    return None


@remedy(r"batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class '([\w.]+)'>")
def collate_values(failure: Failure, match: re.Match[str]) -> str:
    """Samples that hold what cannot be put together."""
    what = "None" if match[1] == "NoneType" else f"a {match[1]}"
    return (
        f"__getitem__ gives {what}: tensors, arrays or numbers there, or a collate_fn= that puts its samples together"
    )


@remedy(r"Expected state_dict to be dict-like, got <class '([\w.]+)'>")
def give_state(failure: Failure, match: re.Match[str]) -> str | None:
    """A model or a path where a state belongs."""
    if match[1] == "str":
        return "it takes the state itself: load_state_dict(torch.load(path))"
    return "it takes a state, not a model: other.state_dict()" if "nn" in match[1] else "save model.state_dict()"


@remedy(r"(?:CPU only|not compiled with CUDA)")
def stay_on_cpu(failure: Failure, match: re.Match[str]) -> str:
    """A device that is not there."""
    return "leave the device out, or device='cpu'; `python -m adjoint.run --cuda=cpu` runs programs that name cuda"


@remedy(r"\[Errno 2\] No such file or directory: '(.*)'")
def find_file(failure: Failure, match: re.Match[str]) -> str:
    """A file that is not there."""
    return "the path begins at the working folder: Path(__file__).parent / name begins at the program's"


@remedy(r"cannot assign '.*' as parameter '(\w+)'")
def make_parameter(failure: Failure, match: re.Match[str]) -> str:
    """A plain tensor in a parameter's place."""
    return f"nn.Parameter(…) around it; or with torch.no_grad(): {match[1]}.copy_(…) to change its values"


@remedy(r"(\w+) is not an Optimizer")
def give_optimizer(failure: Failure, match: re.Match[str]) -> str:
    """A model where a schedule wants an optimizer."""
    model = failure.named_module()
    name = "it" if model is None else model.text
    return f"a schedule changes an optimizer's rate: give it the optimizer of {name}'s parameters"


@remedy(r"parameter group that doesn't match the size of optimizer's group")
def rebuild_optimizer(failure: Failure, match: re.Match[str]) -> str:
    """A state of an optimizer of other parameters."""
    return "the state belongs to an optimizer of another model: make model and optimizer as they were saved"


@remedy(r"Invalid (?:beta parameter|learning rate|epsilon value|weight_decay value|momentum value|rho value).*: (\S+)")
def choose_hyperparameter(failure: Failure, match: re.Match[str]) -> str:
    """A number that an optimizer cannot use."""
    if "beta" in failure.message:
        return "betas lie in [0, 1), as in betas=(0.9, 0.999)"
    return f"{match[1]} is below 0: a number of 0 or more, as in lr=1e-3"


@remedy(r"probability tensor contains either `inf`, `nan` or element < 0")
def make_probabilities(failure: Failure, match: re.Match[str]) -> str:
    """Weights that are no probabilities."""
    x = next((each for each in failure.tensors()), None)
    if x is None or not x.value.numel():
        return "probabilities come from softmax, not from scores"
    told = f"{x.text}{at(x)} goes from {float(x.value.min()):.4g} to {float(x.value.max()):.4g}"
    return f"{told}; probabilities come from softmax, not from scores"


@remedy(r"Expected parameter (\w+) .* of distribution (\w+)\(.*to satisfy the constraint (\w+)")
def satisfy_constraint(failure: Failure, match: re.Match[str]) -> str:
    """A parameter of a distribution outside of its range."""
    if "nan" in failure.message.rsplit("invalid values", 1)[-1]:
        return f"{match[1]} holds NaN: look where it begins, ad.autograd.set_detect_anomaly(True) names the line"
    ways = {
        "GreaterThan": "F.softplus(x) or x.exp() is positive",
        "Positive": "F.softplus(x) or x.exp() is positive",
        "Simplex": "softmax gives probabilities; or logits= takes scores",
        "Interval": "sigmoid lies between 0 and 1; or logits= takes scores",
    }
    return f"{match[1]} of {match[2]}: {ways.get(match[3], f'values that satisfy {match[3]}')}"


@remedy(r"input matrix is singular|factorization could not be completed because the input is not positive-definite")
def regularise_matrix(failure: Failure, match: re.Match[str]) -> str:
    """A matrix that has no inverse, or no Cholesky factor."""
    x = next((each for each in failure.tensors()), None)
    name = "A" if x is None else x.text
    where = "" if x is None else at(x)
    if "singular" in match[0]:
        return f"{name}{where} has dependent rows: add a small multiple of the identity, or torch.linalg.lstsq"
    return f"{name}{where} is not positive definite: {name} + 1e-6 * torch.eye(n), or check that it is symmetric"


@remedy(r"must be batches of square matrices, but they are (\d+) by (\d+) matrices")
def use_square(failure: Failure, match: re.Match[str]) -> str:
    """A matrix with other rows than columns."""
    return "torch.linalg.pinv inverts matrices that are not square, lstsq solves with them"
