"""`adjoint.hub`: files of parameters that PyTorch has downloaded; nothing is downloaded here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, NoReturn, Self
from urllib.parse import urlparse

from adjoint.serialization.files import load as _load

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir", "tqdm"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_REASON = "nothing is downloaded: take the model's code, and load its state_dict from a file"
_chosen: dict[str, str] = {}


def find_torch_home() -> str:
    """Return $TORCH_HOME, else PyTorch's folder in the cache."""
    default_home = os.path.join(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch")
    return os.path.expanduser(os.getenv("TORCH_HOME", default_home))


_get_torch_home = find_torch_home  # by which torchvision asks for it


def get_dir() -> str:
    """Return the folder of the files: that of `set_dir`, else `hub` in PyTorch's own."""
    return _chosen.get("dir") or os.path.join(find_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Look for files in another folder."""
    _chosen["dir"] = os.path.expanduser(os.fspath(d))


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Load the file that PyTorch has downloaded from `url`. Raises NotImplementedError if there is none."""
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        raise NotImplementedError(f"adjoint.hub: there is no file {path}; nothing is downloaded: put {url} there")
    return _load(path, map_location, weights_only=weights_only)


class tqdm:
    """Loop, or context, whose progress is not shown, as PyTorch has without the package tqdm."""

    def __init__(self, iterable: Any = (), *args: object, **kwargs: object) -> None:
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterable)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, n: int = 1) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def load(*args: object, **kwargs: object) -> NoReturn:
    """Raise NotImplementedError: nothing is downloaded."""
    raise NotImplementedError(f"adjoint.hub.load: {_REASON}")


def list(*args: object, **kwargs: object) -> NoReturn:
    """Raise NotImplementedError: nothing is downloaded."""
    raise NotImplementedError(f"adjoint.hub.list: {_REASON}")


def help(*args: object, **kwargs: object) -> NoReturn:
    """Raise NotImplementedError: nothing is downloaded."""
    raise NotImplementedError(f"adjoint.hub.help: {_REASON}")


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> NoReturn:
    """Raise NotImplementedError: nothing is downloaded."""
    raise NotImplementedError(f"adjoint.hub.download_url_to_file: {_REASON}")
