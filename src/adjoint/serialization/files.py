"""`save` and `load`: PyTorch's files, which no file's author can make run code, and safetensors."""

from __future__ import annotations

import io
import os
import pickle
import warnings
from typing import Any, BinaryIO

from adjoint.core.dtype.device import META, device, is_meta
from adjoint.core.runtime.explanation_slot import explain_errors
from adjoint.core.tensor.shape_tracer import move_to_device
from adjoint.serialization.load_options import writes_through
from adjoint.serialization.safetensors import Path
from adjoint.serialization.safetensors_tree import check_binary, load_safetensors, write_file
from adjoint.serialization.torch_reader import read_archive, read_stream
from adjoint.serialization.torch_writer import write
from adjoint.serialization.zip_archive import FileError

ZIP_MAGIC = b"PK\3\4"
TAR_MAGIC = b"ustar"  # at byte 257


def save(
    obj: Any,
    f: Path | BinaryIO,
    pickle_module: object = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Save a value and its tensors to a file that `load`, and PyTorch, can read.

    Tensors that share memory share it in the file, unless their dtypes differ. The file tells whether a tensor requires
    grad; it has no graph. Every storage has a checksum, and no other thread may write the tensors meanwhile.

    Args:
        obj: tensor, state dict, or any value that can be pickled.
        f: path, whose file is replaced as a whole or not at all; or a binary file opened for writing.
        pickle_module, pickle_protocol: ignored; the file is always a ZIP archive with a pickle of protocol 2.

    Raises: the error of pickling, before anything is written; OSError from the file.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> ad.save({"weight": ad.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> ad.load(file)
        {'weight': tensor([1., 1.])}
    """
    check_binary("save", f, "write")
    path = os.fsdecode(f) if isinstance(f, (str, os.PathLike)) else "archive"
    folder = os.path.splitext(os.path.basename(path))[0].encode(errors="replace").decode() or "archive"
    write_file("save", f, write(obj, folder))


@explain_errors
def load(
    f: Path | BinaryIO,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    encoding: str = "utf-8",
) -> Any:
    """Return what `save` or PyTorch saved, with new tensors; also the tensors of a safetensors file.

    No file can run code. Besides tensors and plain values it may name only what `serialization.add_safe_globals`
    allows.

    Args:
        f: path, or binary file opened for reading.
        map_location: "meta" for tensors without values; any other value gives tensors on the CPU. Default: None.
        pickle_module: must be None or `pickle`, which is not used.
        weights_only: False to allow modules and plain classes too, where the program has imported them and making an
            instance runs nothing. Default: None, the same as True. $TORCH_FORCE_WEIGHTS_ONLY_LOAD=1 stands for True,
            $TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 for False where nothing is given.
        mmap: True for tensors that are private views of the file at a path; they are copied where they are written,
            unless `set_default_mmap_options` shares them. The file must not be cut short while they live. Default:
            None, read into memory.
        encoding: encoding of text that Python 2 wrote. Default: "utf-8".

    Raises: FileError or SafetensorsError, both a ValueError, for a damaged file and for a forbidden name.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> ad.save(ad.arange(3), file)
        >>> _ = file.seek(0)
        >>> ad.load(file)
        tensor([0, 1, 2])
    """
    absent = isinstance(map_location, (str, device)) and is_meta(map_location)
    if pickle_module not in (None, pickle):
        raise ValueError("load: pickle_module is not used: no file is read by an unpickler that could run code")
    check_binary("load", f, "read")
    trusted = resolve_weights_only(weights_only) is False
    if isinstance(f, (str, os.PathLike)):
        with open(f, "r+b" if mmap and writes_through() else "rb") as file:
            return _load(file, os.fspath(f), encoding, trusted, bool(mmap), absent)
    if mmap:
        raise ValueError("only a file given by its path can be mapped into memory")
    if not (hasattr(f, "seek") and hasattr(f, "tell")):
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute 'seek' or 'tell'. You can only torch.load from a file that "
            "is seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    if not hasattr(f, "readinto") or (hasattr(f, "seekable") and not f.seekable()):
        f = io.BytesIO(f.read())
    name = getattr(f, "name", None)
    return _load(f, name if isinstance(name, str) else "<file object>", encoding, trusted, False, absent)


def resolve_weights_only(given: bool | None) -> bool | None:
    """Return `weights_only` as given, unless PyTorch's environment variables say otherwise."""
    forced, released = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
    strict, free = (os.environ.get(name, "0") in ("1", "y", "yes", "true") for name in (forced, released))
    if strict and free:
        raise RuntimeError(f"Only one of {forced} or {released} should be set, but both were set.")
    if strict:
        return True
    if free and given is None:
        warnings.warn(
            f"Environment variable {released} detected, since the `weights_only` argument was not explicitly passed to "
            "`load`, forcing weights_only=False.",
            UserWarning,
            stacklevel=3,
        )
        return False
    return given


def _load(file: BinaryIO, name: str, encoding: str, trusted: bool, mapped: bool, absent: bool) -> Any:
    begin = file.tell()
    start = file.read(262)
    file.seek(begin)
    try:
        if start.startswith(ZIP_MAGIC):
            return read_archive(file, encoding, trusted, mapped, absent)
        if start[:1] == b"\x80" and len(start) > 2 and 2 <= start[1] <= 5 and start[8:9] != b"{":
            return read_stream(file, encoding, trusted, absent)
        if start[257:] == TAR_MAGIC:
            raise FileError("this is a tar archive, perhaps of PyTorch 0.1: load and save it with PyTorch")
    except FileError as error:
        # Text of the file is in the message: for the screen, whatever it is
        message = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(error))
        raise FileError(f"{os.fsdecode(name)}: {message if len(message) <= 800 else f'{message[:780]}…'}") from None
    value = load_safetensors(name if mapped else file, mmap=mapped)
    return {key: move_to_device(tensor, META) for key, tensor in value.items()} if absent else value
