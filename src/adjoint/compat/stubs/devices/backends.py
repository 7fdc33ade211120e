"""`adjoint.backends`: libraries and settings of PyTorch's. Flags can be read and set; none changes a result here."""

from __future__ import annotations

from adjoint.compat.stubs.devices.backend_flags import Flags

_ATTENTION = ("cudnn", "flash", "math", "mem_efficient")

cudnn = Flags("cudnn", enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
              fp32_precision="none", is_available=False, version=None, is_acceptable=False,
              conv={"fp32_precision": "tf32"}, rnn={"fp32_precision": "tf32"})  # fmt: skip
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
mkldnn = Flags("mkldnn", is_available=False, enabled=True, deterministic=False, allow_tf32=True, fp32_precision="none",
               is_acl_available=False, conv={"fp32_precision": "none"}, matmul={"fp32_precision": "none"},
               rnn={"fp32_precision": "none"})  # fmt: skip
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
