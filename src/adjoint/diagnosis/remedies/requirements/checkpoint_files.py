"""Remedies for files: damaged ones, those that other programs wrote, folders, text mode, values that no file keeps."""

from __future__ import annotations

import ast
import copy
import re

from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate
from adjoint.diagnosis.remedies.registry import argument_node, at, remedy
from adjoint.diagnosis.source_expressions import text_of

KINDS_OF_DAMAGE = frozenset({"FileError", "SafetensorsError", "ChecksumError"})


def _name_file(failure: Failure) -> str:
    """Return the text of the file that the line reads or writes, with the line that made its name."""
    node = failure.node
    for part in (*node.args, *(each.value for each in node.keywords)) if isinstance(node, ast.Call) else ():
        value = evaluate(part, failure.frame)
        if isinstance(value, str) or hasattr(value, "__fspath__") or hasattr(value, "read"):
            own = failure.find_operand(text_of(part))
            return f"{text_of(part)}{at(own)}"
    return "the file"


@remedy(r"the file is open in text mode")
def open_binary(failure: Failure, match: re.Match[str]) -> str:
    """A file of bytes that was opened as a text."""
    mode = "wb" if failure.message.startswith(("save", "torch.save")) or "save" in failure.message else "rb"
    for each in failure.operands:
        name = getattr(each.value, "name", None)
        if hasattr(each.value, "encoding") and isinstance(name, str):
            return f"{each.text}{at(each)} is open as a text: open({name!r}, {mode!r}) there"
    return f"open(name, {mode!r}) opens it for bytes"


@remedy(r"only a file given by its path can be mapped into memory")
def give_path(failure: Failure, match: re.Match[str]) -> str | None:
    """An open file that is to be mapped."""
    node = failure.node
    for each in failure.operands:
        name = getattr(each.value, "name", None)
        if isinstance(node, ast.Call) and hasattr(each.value, "read") and isinstance(name, str):
            places = {id(part): ast.Constant(name) for part in node.args if text_of(part) == each.text}
            changed: ast.expr = copy.deepcopy(node, places)
            return f"{each.text}{at(each)} is an open file: {text_of(changed)}"
    return "the path of the file with mmap=True, or mmap=False"


@remedy(r"cannot save to (.+?): it is a folder")
def name_file_in_folder(failure: Failure, match: re.Match[str]) -> str | None:
    """A folder where a file is to be written."""
    node = failure.node
    given = argument_node(failure, 1, "f")
    value = None if given is None else evaluate(given, failure.frame)
    if given is None or not isinstance(node, ast.Call):
        return None
    wanted = (
        repr(f"{value.rstrip('/')}/model.pt")
        if isinstance(given, ast.Constant) and isinstance(value, str)
        else (f"os.path.join({text_of(given)}, 'model.pt')")
    )
    own = failure.find_operand(text_of(given))
    return f"{text_of(given)}{at(own)} is a folder: a file in it, {wanted}"


@remedy(r"cannot save to (.+?): it is (write-protected|not a regular file)")
def save_elsewhere(failure: Failure, match: re.Match[str]) -> str:
    """A file that cannot be replaced."""
    return f"{_name_file(failure)} is {match[2]}: another name, or chmod u+w for it"


@remedy(r"this is a Python pickle, but none of torch\.save")
def load_pickle(failure: Failure, match: re.Match[str]) -> str:
    """A file of pickle.dump."""
    name = _name_file(failure)
    path = name.partition(" at ")[0]
    return f"{name} is of pickle.dump: pickle.load(open({path}, 'rb')), if you trust it, and torch.save of that"


@remedy(r"this is a NumPy \.npz archive")
def load_arrays(failure: Failure, match: re.Match[str]) -> str:
    """A file of np.savez."""
    name = _name_file(failure)
    path = name.partition(" at ")[0]
    return f"{name} holds arrays of NumPy: {{k: torch.from_numpy(v) for k, v in np.load({path}).items()}}"


@remedy(r"archive of torch\.jit\.save|this is a tar archive")
def save_again(failure: Failure, match: re.Match[str]) -> str:
    """A file of another form, which PyTorch itself reads."""
    return f"{_name_file(failure)}: where PyTorch is, torch.save(model.state_dict(), …) of it, and load that here"


@remedy(r"", is_last=True)
def write_again(failure: Failure, match: re.Match[str]) -> str | None:
    """A file that is not whole."""
    if type(failure.error).__name__ not in KINDS_OF_DAMAGE:
        return None
    is_short = re.search(r"cut short|end(s|ed) w|not written to its end|announced", failure.message)
    told = "ends too early" if is_short else "is damaged, or no file of torch.save"
    return f"{_name_file(failure)} {told}: load the checkpoint before it, or download or save it again"


@remedy(r"(\S+) is a (\S+); a checkpoint holds tensors, str, int, float")
def save_plain_values(failure: Failure, match: re.Match[str]) -> str:
    """An object that no file of tensors keeps."""
    place = re.search(r"\[(.+)\]", match[1])
    name = match[1] if place is None else f"the value under {place[1]}"
    kind = match[2].removeprefix("builtins.")
    return f"{name} is a {kind}: leave it out, or its numbers and texts: str(…), vars(…) or .state_dict() of it"


@remedy(r"unsupported GLOBAL|whose module .* is blocked|sets the state of a \w+, which is not|calls .* which is not")
def trust_classes(failure: Failure, match: re.Match[str]) -> str:
    """A file with objects of classes that a load does not make."""
    return f"{_name_file(failure)} holds objects and not tensors alone: torch.save(model.state_dict(), …) there"


@remedy(r"Weights only load failed(?:\. Unsupported \w+: (?:GLOBAL )?([\w.]+))?")
def save_states(failure: Failure, match: re.Match[str]) -> str:
    """A file that holds objects, and not tensors alone."""
    call, name = failure.node, (match[1] or "an object").rpartition(".")[2]
    whole = "load(…, weights_only=False)"
    if isinstance(call, ast.Call):
        others = [each for each in call.keywords if each.arg != "weights_only"]
        whole = text_of(ast.Call(call.func, call.args, [*others, ast.keyword("weights_only", ast.Constant(False))]))
    source = None if failure.line is None else failure.line.source
    saves = [] if source is None else [each for each in source.calls.get("save", ()) if len(each.args) > 1]
    where = f", which {source.place_of(saves[0])} wrote," if source is not None and len(saves) == 1 else ""
    told = f"the file{where} holds {name}, no tensors alone: {whole} if you trust it"
    return f"{told}; or save model.state_dict() and plain values, and make the objects anew"
