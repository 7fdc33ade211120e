"""Every public function compiles: values and gradients are what they are eagerly, in float32 and float64."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.support.function_calls import CALLS, DEPENDING, PUBLISHED, TESTED, arguments, calls_of, step

import adjoint as ad
from adjoint.compiler.ir.graph import TraceError

pytest.importorskip("llvmlite")

MODES = "asks for or sets a mode, not an element"
LEFT_OUT: dict[str, str] = {
    "broadcast_shapes": "of shapes, not of tensors", "compile": "makes what is tested here",
    "clear_autocast_cache": MODES, "get_autocast_dtype": MODES, "is_autocast_cache_enabled": MODES,
    "is_autocast_enabled": MODES, "set_autocast_cache_enabled": MODES, "set_autocast_dtype": MODES,
    "set_autocast_enabled": MODES,
    **dict.fromkeys(
        (
            "dsmm", "hspmm", "smm", "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor",
            "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor", "spmm", "sspaddmm",
        ), "of sparse tensors: tests/functions/sparse",
    ),
    "compile_all": "of programs, not of tensors", "doctor": "watches training steps", "visualize": "writes a page",
    "from_dlpack": "of memory, not of tensors", "frombuffer": "of bytes, not of tensors",
    "from_file": "of a file, not of tensors",
    "from_numpy": "of arrays, not of tensors", "get_default_dtype": MODES, "get_rng_state": MODES,
    "initial_seed": MODES, "is_anomaly_check_nan_enabled": MODES, "is_anomaly_enabled": MODES,
    "is_grad_enabled": MODES, "is_inference_mode_enabled": MODES, "load": "reads a file", "manual_seed": MODES,
    "promote_types": "of types, not of tensors", "range": "is deprecated, which it warns of", "save": "writes a file",
    "seed": MODES, "set_default_dtype": MODES, "set_printoptions": MODES,
    "get_float32_matmul_precision": MODES, "get_num_threads": MODES, "set_float32_matmul_precision": MODES,
    "set_num_threads": MODES,
    "are_deterministic_algorithms_enabled": MODES, "can_cast": "of types, not of tensors",
    "get_default_device": MODES, "get_deterministic_debug_mode": MODES, "get_num_interop_threads": MODES,
    "is_deterministic_algorithms_warn_only_enabled": MODES, "is_warn_always_enabled": MODES,
    "set_default_device": MODES, "set_default_tensor_type": MODES,
    "set_deterministic_debug_mode": MODES, "set_flush_denormal": MODES,
    "set_num_interop_threads": MODES, "set_warn_always": MODES, "use_deterministic_algorithms": MODES,
    "set_rng_state": MODES,
    **dict.fromkeys(
        ("get_autocast_cpu_dtype", "get_autocast_gpu_dtype", "get_device_module", "is_autocast_cpu_enabled"), MODES
    ),
    **dict.fromkeys(
        ("handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"),
        "asks for or calls overrides of other classes",
    ),
    **dict.fromkeys(("upsample", "upsample_bilinear", "upsample_nearest"), "is interpolate, and warns"),
    **dict.fromkeys(("eig", "lstsq", "matrix_rank", "solve", "symeig"), "raises: it was removed"),
    **dict.fromkeys(
        ("sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum"),
        "of numbers, not of tensors",
    ),
    "vmap": "takes a function: tests/transforms/vmap/test_vmap.py compiles it",
}  # fmt: skip
CLOSE = {"float32": 1e-5, "float64": 1e-12}


@pytest.mark.sweep(6)
@pytest.mark.parametrize("name", TESTED)
@pytest.mark.parametrize("floating", CLOSE)
def test_compiled_is_eager(name: str, floating: str) -> None:
    for call in calls_of(name):
        given = arguments(call, floating)
        eager = step(name, PUBLISHED[name], call)
        compiled = ad.compile(eager)
        for _ in range(2):
            results = []
            for run in (eager, compiled):
                ad.manual_seed(0)
                results.append(run(*given))
            for expected, got in zip(*results, strict=True):
                if not isinstance(expected, ad.Tensor):
                    assert got == expected
                    continue
                assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
                allowed = CLOSE[floating]
                np.testing.assert_allclose(
                    got.detach().numpy(), expected.detach().numpy(), rtol=allowed, atol=allowed, err_msg=call
                )


@pytest.mark.parametrize(("name", "call"), [(n, call) for n, calls in DEPENDING.items() for call in calls.split(" | ")])
def test_what_depends_on_values_is_eager_or_says_so(name: str, call: str) -> None:
    eager = step(name, PUBLISHED[name], call)
    refused, results = "", [(), ()]
    try:
        results = [ad.compile(eager)(*arguments(call)), eager(*arguments(call))]
    except TraceError as error:
        refused = str(error)
    assert not refused or re.search(r"not known while the step is being compiled, at [^,]*:\d+\. Return the", refused)
    for got, expected in zip(*results, strict=True):
        if isinstance(expected, ad.Tensor):
            np.testing.assert_allclose(got.detach().numpy(), expected.detach().numpy(), rtol=CLOSE["float32"])
        else:
            assert got == expected


def test_no_function_is_forgotten() -> None:
    assert set(PUBLISHED) == {*TESTED, *DEPENDING, *LEFT_OUT} & set(PUBLISHED)
    assert set(LEFT_OUT).isdisjoint(TESTED)
    bare = {name.rpartition(".")[2].removesuffix("_") for name in PUBLISHED} | set(PUBLISHED)
    assert bare.issuperset({*CALLS, *DEPENDING, *LEFT_OUT})
