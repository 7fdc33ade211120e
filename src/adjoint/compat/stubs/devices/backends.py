"""`adjoint.backends`: PyTorch's libraries and their settings. Flags can be read and set; none changes a result here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from adjoint.compat.absent_device import constant_functions

__path__: list[str] = []  # a package: `import torch.backends.cudnn` asks for it

PACKAGE = "adjoint.backends"
QUESTION_PREFIXES = """
    is_ can_ enable_ get_ preferred_ set_flags version cudnn_sdp flash_sdp math_sdp mem_efficient_sdp fp16_bf16
"""


class Flags(ModuleType):
    """Module `adjoint.backends.<name>` with the settings of one library.

    Plain values are attributes, and PyTorch's functions are functions. A dict is a group of further flags.
    """

    def __init__(self, name: str, **values: Any) -> None:
        super().__init__(f"{PACKAGE}.{name}", f"Settings of {name}: they can be read and set, and change no result.")
        self.__spec__ = ModuleSpec(self.__name__, None)
        questions = {key: value for key, value in values.items() if key.startswith(tuple(QUESTION_PREFIXES.split()))}
        self.__dict__.update(constant_functions(self.__name__, questions))
        for key, value in values.items():
            if key not in questions:
                setattr(self, key, Flags(f"{name}.{key}", **value) if isinstance(value, dict) else value)
        sys.modules[self.__name__] = self

    @contextmanager
    def flags(self, **values: Any) -> Iterator[None]:
        """Return a context in which the flags have these values."""
        before = {key: getattr(self, key) for key in values if hasattr(self, key)}
        self.__dict__.update(values)
        try:
            yield
        finally:
            self.__dict__.update(before)


def flags_frozen() -> bool:
    """True if flags may be set only by `flags`: they always may."""
    return False


def __allow_nonbracketed_mutation() -> nullcontext[None]:
    """Return a context in which flags may be set without `flags`."""
    return nullcontext()


_ATTENTION = ("cudnn", "flash", "math", "mem_efficient")

cudnn = Flags(
    "cudnn",
    enabled=True,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
    is_available=False,
    version=None,
    is_acceptable=False,
    conv={"fp32_precision": "tf32"},
    rnn={"fp32_precision": "tf32"},
)
cuda = Flags(
    "cuda", is_built=False, preferred_linalg_library="default", preferred_blas_library="default",
    can_use_flash_attention=False, can_use_efficient_attention=False, can_use_cudnn_attention=False,
    is_flash_attention_available=False, fp16_bf16_reduction_math_sdp_allowed=False,
    cufft_plan_cache={"size": 0, "max_size": 0},
    matmul={
        "allow_tf32": False, "allow_fp16_reduced_precision_reduction": True,
        "allow_bf16_reduced_precision_reduction": True, "allow_fp16_accumulation": False, "fp32_precision": "none",
    },
    **{f"{kind}_sdp_enabled": True for kind in _ATTENTION}, **{f"enable_{kind}_sdp": None for kind in _ATTENTION},
)  # fmt: skip
mps = Flags("mps", is_available=False, is_built=False, is_macos_or_newer=False, is_macos13_or_newer=False)
mkl = Flags("mkl", is_available=False)
mkldnn = Flags(
    "mkldnn",
    is_available=False,
    enabled=True,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
    is_acl_available=False,
    **{part: {"fp32_precision": "none"} for part in ("conv", "matmul", "rnn")},
)
openmp = Flags("openmp", is_available=False)
opt_einsum = Flags("opt_einsum", is_available=False, enabled=True, strategy="auto", get_opt_einsum=None)
quantized = Flags("quantized", engine="none", supported_engines=[])
cpu = Flags("cpu", get_cpu_capability="DEFAULT")
nnpack = Flags("nnpack", is_available=False, set_flags=(False,), enabled=False)
xnnpack = Flags("xnnpack", enabled=False)
miopen = Flags("miopen", immediate=False)
cusparselt = Flags("cusparselt", is_available=False, version=None, get_max_alg_id=None)
kleidiai = Flags("kleidiai", is_available=False)
fp32_precision = "none"
cuda.__dict__["sdp_kernel"] = cudnn.flags  # the older name of `nn.attention.sdpa_kernel`
