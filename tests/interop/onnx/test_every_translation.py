"""Every op that ONNX has a counterpart for: its samples, exported and run."""

from typing import Any

import numpy as np
import pytest
from tests.support.samples import SAMPLES, Sample

import adjoint as ad
from adjoint.core.tensor.tensor import Tensor
from adjoint.interop.onnx.modes import OnnxExporterError, UnsupportedOperatorError
from adjoint.interop.onnx.translation import TRANSLATIONS

pytest.importorskip("onnx", reason="the package onnx writes the files")
pytest.importorskip("onnxruntime", reason="onnxruntime runs the models")

# Without a counterpart: special functions, factorizations, gradients, histograms, counts of what values decide.
UNTRANSLATED = """
    airy_ai at_max attention_gradient bessel_j0 bessel_j1 bessel_y0 bessel_y1 bin_edges chebyshev_polynomial_t
    chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w cholesky cofactors convolution_weight
    count_earlier counts_in_bins diagonal_back digamma dirichlet_gradient eigenpairs eigh eigvalsh erfcx erfinv
    even_ratios exp_along exponent gcd geqrf hermite_polynomial_h hermite_polynomial_he histogram i0 i0e i1 i1e
    igamma igammac integers inv laguerre_polynomial_l lcm ldl ldl_solve legendre_polynomial_p lgamma log_ndtr
    logabsdet lstsq lookup_sparse lu mantissa matrix_exp max_pool_input minor_not_positive modified_bessel_k0
    modified_bessel_k1 most_frequent ndtri nextafter nonzero_places pdist permutation_matrix pinv polygamma qr rank
    reinterpret restride sample_products scaled_modified_bessel_k0 scaled_modified_bessel_k1
    shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w sign_of_det singular_at slogdet solve solve_triangular sparse_product
    spherical_bessel_j0 standard_deviation standard_gamma_gradient strided_sum svd svdvals unfold_back unit
    window_sum_input xor zeta
"""
IGNORING_NAN = {"median_index-some"}
RANDOM_FAMILIES = ("random", "collective")
TOLERANCE = 2e-5  # relative and absolute, in float32


def is_deterministic(sample: Sample) -> bool:
    return sample.op.family not in RANDOM_FAMILIES and not sample.op.effect


def export_sample(sample: Sample) -> tuple[Any, list[Tensor], Any]:
    """Return the program, its inputs, and the function of them."""
    values = [ad.tensor(x) if isinstance(x, np.ndarray) else x for x in sample.arrays(np.float32)]
    tensors = [x for x in values if isinstance(x, Tensor)]

    def function(*given: Tensor) -> Any:
        parts = iter(given)
        return sample.function(*(next(parts) if isinstance(x, Tensor) else x for x in values), **sample.settings())

    return ad.onnx.export(function, tuple(tensors)), tensors, function


TRANSLATED = [s for s in SAMPLES if is_deterministic(s) and s.op.name not in UNTRANSLATED.split()]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("sample", [s for s in TRANSLATED if s.name not in IGNORING_NAN], ids=lambda s: s.name)
def test_exported_op_computes_the_same(sample: Sample) -> None:
    program, tensors, function = export_sample(sample)
    expected = function(*tensors)
    for ours, theirs in zip(expected if isinstance(expected, tuple) else (expected,), program(*tensors), strict=True):
        assert (theirs.shape, theirs.dtype) == (ours.shape, ours.dtype)
        np.testing.assert_allclose(theirs.numpy(), ours.numpy(), TOLERANCE, TOLERANCE)


def test_ops_without_a_counterpart_are_refused_by_name_and_line() -> None:
    refused = {}
    for sample in filter(is_deterministic, SAMPLES):
        if sample.op.name in UNTRANSLATED.split() and sample.op.name not in refused:
            with pytest.raises(UnsupportedOperatorError, match=f"{sample.op.name} at .*test_every_translation"):
                export_sample(sample)
            refused[sample.op.name] = True
    assert set(refused) == set(UNTRANSLATED.split())
    assert TRANSLATIONS.keys().isdisjoint(refused)


def test_medians_that_ignore_nan_are_refused() -> None:
    (sample,) = (s for s in SAMPLES if s.name in IGNORING_NAN)
    with pytest.raises(OnnxExporterError, match="ignores NaN"):
        export_sample(sample)
