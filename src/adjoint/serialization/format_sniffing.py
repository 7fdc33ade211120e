"""Recognise files that are no safetensors files by their first bytes, and say how to turn them into one."""

from __future__ import annotations

FROM_TORCH = "adjoint.load reads files of torch.save"
FROM_NUMPY = "Read it with numpy.load(old, allow_pickle=False) and save its arrays, each as a tensor"


def describe_foreign(start: bytes) -> str | None:
    """What a file with these first bytes (128 suffice) is instead of safetensors; None when nobody knows."""
    if start.startswith(b"PK\x03\x04"):
        if b".npy" in start:
            return f"this is a NumPy .npz archive, not a safetensors file. {FROM_NUMPY}"
        by_torch = b"/data.pkl" in start or b"/.format_version" in start
        kind = "a ZIP archive of torch.save" if by_torch else "a ZIP archive, perhaps of torch.save"
        return f"this is {kind}, not a safetensors file. {FROM_TORCH}"
    if start[:1] == b"\x80" and 2 <= start[1] <= 5:
        return (
            "this is a Python pickle, perhaps of torch.save, not a safetensors file; unpickling runs code that the "
            f"file chooses. {FROM_TORCH}"
        )
    if start.startswith(b"\x93NUMPY"):
        return f"this is a NumPy .npy file, not a safetensors file. {FROM_NUMPY}"
    if start.startswith(b"\x89HDF"):
        return "this is an HDF5 file, not a safetensors file. Read it with h5py and save its arrays as tensors"
    if start.startswith(b"version https://git-lfs"):
        return "this is a Git LFS pointer, not the file itself. Fetch the file with `git lfs pull`"
    return None
