"""Calls of every public function, and the arrays that they name: what suites run that hold all functions to something.

`t` in a call is the package; a call in place is that of the function without its underscore.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tests.support.samples import draw

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import fft, linalg, special

PLACES: dict[str, Any] = {"": ad, "F.": F, "L.": linalg, "S.": special, "T.": fft}
DATA: dict[str, Any] = {
    "x": draw("x", (2, 3, 4)), "a": draw("a", (2, 3)), "b": draw("b", (2, 3)), "m": draw("m", (3, 3)),
    "n": draw("n", (3, 3)), "v": draw("v", (3,)), "w": draw("w", (3,)), "c": draw("c", (2, 3, 4)),
    "z": draw("z", (2, 3, 4)) + 1j * draw("z parts", (2, 3, 4)),
    "s": np.array(0.7), "p": draw("p", (2, 3), 0.3, 2.0), "q": draw("q", (2, 3), 0.3, 2.0),
    "u": draw("u", (2, 3), -0.9, 0.9), "above": draw("above", (2, 3), 1.1, 3.0), "weight": draw("weight", (4, 3)),
    "d1": draw("d1", (2, 3, 6)), "d2": draw("d2", (1, 3, 5, 5)), "d3": draw("d3", (1, 2, 3, 3, 3)),
    "f1": draw("f1", (2, 3, 3)), "f2": draw("f2", (2, 3, 3, 3)), "f3": draw("f3", (2, 2, 2, 2, 2)),
    "pd": np.array([[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]]),
    "square": np.array([[2.0, 0.5, -0.3], [0.1, 1.5, 0.4], [0.7, -0.2, 1.2]]), "rising": np.array([-1.0, 0.1, 0.9]),
    "wide": draw("wide", (12, 4)), "square4": draw("square4", (4, 4)),
    "i": np.array([[4, 6, 9], [2, 3, 5]]), "j": np.array([[2, 3, 6], [3, 2, 1]]),
    "at": np.array([[2, 0, 1], [0, 0, 2]]), "rows": np.array([1, 0, 2]), "two": np.array([1, 0]),
    "flat": np.array([5, 0, 3]), "mask": np.array([[True, False, True], [False, True, True]]),
}  # fmt: skip
ALIKE: dict[str, str] = {
    "z": """
        angle conj conj_physical fft fft2 fftn hfft hfft2 hfftn ifft ifft2 ifftn imag irfft irfft2 irfftn real
        resolve_conj resolve_neg view_as_real
    """,
    "a.detach(), rows": """
        chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h
        hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t
        shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
    """,
    "x, 0.4, True": "alpha_dropout dropout_ feature_alpha_dropout feature_dropout",
    "5 | 6, False": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
    "a": """
        abs absolute aminmax arcsinh arctan as_tensor asarray asinh atan ceil clone cos cosh deg2rad detach_
        elu empty_like erf erfc exp exp2 expm1 fix floor frac gelu get_device hardtanh is_conj
        is_distributed is_inference is_neg is_signed is_storage is_tensor isfinite isinf isnan isneginf
        isposinf isreal leaky_relu logical_not logsigmoid nan_to_num neg negative normalize ones_like
        fftshift ifftshift ihfft ihfft2 ihfftn
        positive rad2deg rand_like randn_like ravel relu relu6 round selu sgn sigmoid sign signbit silu sin
        sinc sinh softplus square t tan tanh tanhshrink trunc vector_norm zero_ zeros_like bessel_j0
        bessel_j1 cumulative_trapezoid erfcx expit frexp gradient i0 i0e i1 i1e log_ndtr modified_bessel_i0
        modified_bessel_i1 ndtr rrelu spherical_bessel_j0 trapezoid trapz
    """,
    "a, b": """
        add arctan2 atan2 clamp_min copysign cosine_similarity cross dist eq fmax fmin ge greater
        greater_equal gt huber_loss is_same_size isclose l1_loss ldexp le less less_equal logaddexp
        logaddexp2 logical_and logical_or logical_xor lt maximum minimum mse_loss mul multiply ne not_equal
        rsub smooth_l1_loss sub subtract
    """,
    "x": """
        all amax amin any argmax argmin argsort diff mean median msort nanmean nanmedian nansum prod sort
        sum
    """,
    "x, 1": """
        cummax cummin cumprod cumsum flatten log_softmax logcumsumexp logsumexp softmax softmin std
        std_mean unbind unsqueeze var var_mean
    """,
    "square": "det inv inverse logdet matrix_norm pinv qr slogdet svd svdvals",
    "p": """
        bessel_y0 bessel_y1 digamma entr gammaln lgamma log log10 log1p log2 modified_bessel_k0 modified_bessel_k1 psi
        reciprocal rsqrt scaled_modified_bessel_k0 scaled_modified_bessel_k1 sqrt
    """,
    "m": "diag fliplr flipud is_complex is_floating_point numel pdist rot90 trace",
    "[a, b]": "cat column_stack concat concatenate dstack hstack row_stack stack vstack",
    "u": "acos arccos arcsin arctanh asin atanh erfinv",
    "v, w": "cartesian_prod dot ger inner meshgrid outer vdot",
    "a, q | i, j | i, 2": "div divide floor_divide fmod remainder true_divide",
    "i, j": "bitwise_and bitwise_or bitwise_xor gcd isin lcm",
    "x, 0, 2": "diagonal_copy moveaxis movedim swapaxes swapdims transpose transpose_copy",
    "2, 3": "empty ones rand randn zeros",
    "p, q": "float_power hypot pow xlogy",
    "x, 2, 1": "norm repeat_interleave split unsafe_split",
    "a, m": "block_diag cdist kron mm",
    "s": "atleast_1d atleast_2d atleast_3d",
    "3, 4": "eye tril_indices triu_indices",
    "pd": "cholesky eigh eigvalsh",
    "x, 2": "dsplit kthvalue topk",
    "above": "acosh arccosh",
    "p.detach(), q": "igamma igammac",
    "x | x, 1 | a, b": "max min",
    "c, [1]": "hsplit vsplit",
    "x, 2, 2": "chunk unsafe_chunk",
    "x, 2, 1, 2": "narrow narrow_copy",
    "x, [1, 2], 1": "split_with_sizes unsafe_split_with_sizes",
    "m, 1": "tril triu",
    "a, -0.5, 1.0 | a, b, q + 1": "clamp clip",
    "a, 0.5": "clamp_max normal",
    "a, b, q, value=2": "addcdiv addcmul",
    "d1, 2": "avg_pool1d max_pool1d max_pool1d_with_indices",
    "v": "diagflat vander",
    "m, v": "diagonal_scatter mv",
    "x, 1, 2": "roll select select_copy",
    "a | x[0]": "alias_copy detach_copy t_copy",
}  # fmt: skip
CALLS: dict[str, str] = {
    "complex": "a, b", "fftfreq": "5, 0.5", "istft": "z, 4", "polar": "p, b", "rfft": "a | x, 6, 1, 'ortho'",
    "rfft2": "x", "rfftfreq": "5, 0.5", "rfftn": "x", "stft": "x.reshape(24), 8, return_complex=True",
    "view_as_complex": "x.reshape(2, 3, 2, 2)",
    **{name: call for call, names in ALIKE.items() for name in names.split()},
    "L.diagonal": "x, offset=1, dim1=1, dim2=2", "addbmm": "m, x[:, :, :3], c[:, :, :3]", "addmm": "m, m, n, beta=2",
    "addmv": "v, m, w, alpha=0.5", "addr": "m, v, w", "arange": "5 | 1, 2, 0.25",
    "as_strided": "x, (2, 2), (1, 5) | x[1:], (2, 3), (1, 2), 3 | a * 2, (4,), (1,)", "avg_pool2d": "d2, 2, 2, 1",
    "baddbmm": "x[:, :, :3], x, c.mT", "batch_norm": "d1, None, None, v, w, True", "bernoulli": "t.sigmoid(a)",
    "binary_cross_entropy": "t.sigmoid(a), t.sigmoid(b)", "binary_cross_entropy_with_logits": "a, t.sigmoid(b)",
    "bitwise_not": "i | mask", "bmm": "x, c.mT", "broadcast_tensors": "a, v", "broadcast_to": "v, (2, 3)",
    "grouped_mm": "x, c.mT",
    "bucketize": "a, rising, right=True", "chain_matmul": "a, m, n", "combinations": "v, 2",
    "conv1d": "d1, f1, None, 1, 1", "conv2d": "d2, f2, two.to(d2.dtype), 2, 1", "conv3d": "d3, f3",
    "count_nonzero": "mask, 1",
    "cross_entropy": "a, two | a, t.softmax(b, 1)", "diag_embed": "a, 1", "diagonal": "x, 1, 1, 2",
    "dropout": "x, 0.5, True", "einsum": "'ij,jk->ik', a, m", "embedding": "weight, at",
    "F.embedding": "at, weight", "detach": "a",
    "empty_strided": "(2, 3), (1, 2)", "fill_": "a, 2", "flip": "x, (0, 2)", "full": "(2, 3), 0.5 | (2,), s",
    "full_like": "a, 2 | a, s", "gather": "a, 1, at", "heaviside": "a.detach(), b.detach()",
    "histc": "x, 4 | x, 5, -1, 1", "index_add": "m, 0, rows, n", "index_copy": "m, 1, rows, n",
    "index_fill": "m, 0, two, 0.5", "index_put": "m, (rows, rows), v | a, (mask,), s",
    "index_reduce": "m, 0, rows, n, 'amax'", "index_select": "x, 1, two", "instance_norm": "d1",
    "layer_norm": "x, (4,)", "lerp": "a, b, 0.3 | a, b, u", "linear": "a, weight", "linspace": "0, 1, 5",
    "logit": "u.abs(), 0.01", "masked_fill": "a, mask, 0.5", "masked_scatter": "a, mask, b", "matmul": "x, c.mT | a, m",
    "matrix_power": "m, 3", "max_pool2d": "d2, 3, 2, 1", "mode": "t.round(x), 1",
    "multi_head_attention_forward": "c, x, x, 4, 2, wide, None, None, None, True, 0.0, square4, None",
    "mvlgamma": "p + 2, 2",
    "nanquantile": "x, 0.3, 1", "nextafter": "p.detach(), q.detach()", "nll_loss": "a, two", "one_hot": "at, 4",
    "pad": "a, (1, 2), value=0.5 | d1, (2, 1), 'reflect' | d2, (1, 2, -1, 3), 'replicate' | d1, (2, 6), 'circular'",
    "permute": "x, (2, 0, 1)", "polygamma": "1, p | 2, u", "put": "m, flat, v",
    "quantile": "x, 0.3, 1 | x, s.detach(), 2 | a, rising.abs(), interpolation='higher'", "randint": "0, 9, (2, 3)",
    "randperm": "5", "renorm": "x, 2, 0, 1.5", "reshape": "x, (4, 6)", "result_type": "a, i",
    "scaled_dot_product_attention": "x, c, x + c, is_causal=True | a, m, n, mask | x, c, c, s.expand(3, 3), scale=0.3",
    "scatter": "a, 1, at, b | a, 1, at, value=0.5", "scatter_add": "a, 1, at, b",
    "scatter_reduce": "a, 1, at, b, 'mean' | a, 1, at, b, 'prod'", "searchsorted": "rising, a | t.sort(a, 1)[0], b",
    "select_scatter": "m, v, 0, 1", "slice_scatter": "m, a, 0, 1, 3", "L.solve": "square, m", "squeeze": "x[:1]",
    "take": "x, flat", "take_along_dim": "a, at, 1", "tensor": "[1.0, 2.0]", "tensor_split": "x, 3, 2",
    "tensordot": "x, c, ([1, 2], [1, 2])", "threshold": "a, 0.1, 0.5", "tile": "a, (2, 2)", "unflatten": "x, 2, (2, 2)",
    "unfold": "x, 2, 2, 1", "where": "mask, a, b",
    **dict.fromkeys(("adaptive_max_pool1d", "adaptive_max_pool1d_with_indices"), "d1, 4"),
    **dict.fromkeys(("adaptive_max_pool2d", "adaptive_max_pool2d_with_indices"), "d2, (2, None)"),
    **dict.fromkeys(("adaptive_max_pool3d", "adaptive_max_pool3d_with_indices"), "d3, 2"),
    "affine_grid": "x[:, :2, :3], (2, 1, 3, 4), False | x, (2, 1, 2, 3, 2), True", "F.alpha_dropout": "x, 0.4, True",
    "F.feature_alpha_dropout": "x, 0.4, True", "F.rrelu": "a, 0.1, 0.3, True",
    "avg_pool3d": "d3, 2, 1, 1, count_include_pad=False", "channel_shuffle": "d1, 3",
    "native_channel_shuffle": "d1, 3", "conv_tbc": "x, x.reshape(2, 4, 3), v, 1",
    "conv_transpose1d": "d1[:, :2], f1, v, 2, 1, 1 | d1[:, :2], f1, None, 2, 1, 2, 1, 3",
    "conv_transpose2d": "d2[:, :2], f2, v, (2, 1), 1", "conv_transpose3d": "d3, f3",
    "ctc_loss": "t.log_softmax(x.reshape(6, 2, 2), 2), two.reshape(2, 1), t.tensor([6, 5]), t.tensor([1, 1])",
    "embedding_bag": "at, weight | flat % 4, weight, two * 1 + two - two.flip(0) * 0 - t.tensor([2, 0]), mode='max'",
    "fold": "x.reshape(1, 4, 6), (3, 4), 2",
    **dict.fromkeys(("fractional_max_pool2d", "fractional_max_pool2d_with_indices"), "d2, 2, (3, 2)"),
    **dict.fromkeys(("fractional_max_pool3d", "fractional_max_pool3d_with_indices"), "d3, 2, 2"),
    "gaussian_nll_loss": "a, b, p",
    "grid_sample": "d2, x.reshape(1, 3, 4, 2), 'bicubic', 'reflection', False | d2, x.reshape(1, 3, 4, 2), 'bilinear',"
    " 'zeros', True | d3, x.reshape(1, 2, 2, 2, 3), 'bilinear', 'border', False",
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d"), "d2, x.reshape(1, 3, 4, 2), 0, 0, True"),
    "grid_sampler_3d": "d3, x.reshape(1, 2, 2, 2, 3), 0, 1, False", "adjoint": "z", "hash_tensor": "x.detach(), 1",
    "native_layer_norm": "x, (4,), None, None, 1e-5", "native_group_norm": "d1, v, w, 2, 3, 6, 3, 1e-5",
    "native_batch_norm": "d1, v, w, None, None, True, 0.1, 1e-5",
    "gumbel_softmax": "a, 0.5 | a, 1, True", "linear_cross_entropy": "a, weight, two",
    "local_response_norm": "d2, 2, 0.5", "lp_pool1d": "d1 + 3, 2, 2", "lp_pool2d": "d2 + 3, 3, 2",
    "lp_pool3d": "d3 + 3, 2, 2", **dict.fromkeys(("max_pool2d_with_indices",), "d2, 3, 2, 1"),
    **dict.fromkeys(("max_pool3d", "max_pool3d_with_indices"), "d3, 2, 1, 1"),
    "max_unpool1d": "x, at.reshape(2, 3, 1) + t.arange(4) * 3, 3",
    "max_unpool2d": "x, (at.reshape(2, 3, 1) * 4 + t.arange(4)), 1",
    "max_unpool3d": "x.reshape(1, 1, 2, 3, 4), t.arange(24).reshape(1, 1, 2, 3, 4) * 2, 2",
    "multi_margin_loss": "a, two, 2, 0.5, v", "multilabel_margin_loss": "a, at - 1",
    "multilabel_soft_margin_loss": "a, mask, v", "poisson_nll_loss": "a, p, full=True",
    "triplet_margin_with_distance_loss": "a, b, q, swap=True", "adaptive_avg_pool1d": "d1, 4",
    "adaptive_avg_pool2d": "d2, (2, None)", "adaptive_avg_pool3d": "d3, 2", "bilinear": "a, b, d3[0, 0], v",
    "celu": "a, 0.5", "cosine_embedding_loss": "a, b, two * 2 - 1, 0.1", "dropout1d": "x", "dropout2d": "d2",
    "dropout3d": "d3", "glu": "x", "group_norm": "x, 3, v, w", "hardshrink": "a", "hardsigmoid": "a * 3",
    "hardswish": "a * 3", "hinge_embedding_loss": "a, mask.long() * 2 - 1",
    "interpolate": "d2, 7 | d2, scale_factor=1.7, mode='bilinear' | d2, (3, 8), mode='bicubic'",
    "kl_div": "a, p, reduction='batchmean' | a, b, log_target=True, reduction='sum'",
    "margin_ranking_loss": "a, b, mask * 2 - 1, 0.2", "mish": "a", "pairwise_distance": "a, b",
    "pixel_shuffle": "x.reshape(1, 4, 2, 3), 2", "pixel_unshuffle": "x.reshape(1, 4, 6), 2", "prelu": "x, v",
    "rms_norm": "x, (4,)", "soft_margin_loss": "a, mask * 2 - 1", "softshrink": "a", "softsign": "a",
    "airy_ai": "a.detach()", "as_strided_copy": "x, (2, 2), (1, 5)", "as_strided_scatter": "x, a, (2, 3), (12, 1), 2",
    "constant_pad_nd": "x, (1, 2, -1, 0), 0.5", "empty_permuted": "(2, 3, 4), (2, 0, 1)", "expand_copy": "v, (2, 3)",
    "fill": "a, 0.5 | a, s", "permute_copy": "x, (2, 0, 1)", "slice_copy": "x, 1, 0, 3, 2", "split_copy": "x, 2, 1",
    "split_with_sizes_copy": "x, (1, 2), 1", "squeeze_copy": "x[:1]", "unbind_copy": "x, 1",
    "unfold_copy": "x, 2, 2, 1", "unsqueeze_copy": "x, 1", "view_as_complex_copy": "x.reshape(2, 3, 2, 2)",
    "view_as_real_copy": "z", "view_copy": "x, (4, 6)", "bitwise_left_shift": "i, j", "bitwise_right_shift": "i, j",
    "corrcoef": "a", "cov": "a | x[0], fweights=at.reshape(6)[:4] + 1, aweights=c.detach()[0, 0] ** 2",
    "gammainc": "p.detach(), q", "gammaincc": "p.detach(), q", "histogram": "a, 3 | a, rising, density=True",
    "histogramdd": "wide[:, :2], 3, weight=wide[:, 2]", "logspace": "0, 2, 3", "multigammaln": "p + 2, 2",
    "ndtri": "u.abs()", "nonzero_static": "at, size=4", "scalar_tensor": "3",
    "segment_reduce": "m, 'mean', lengths=two + two * 0 + 1, unsafe=True | m, 'max', lengths=rows", "typename": "a",
    "unravel_index": "flat, (3, 4)", "xlog1py": "a, p", "zeta": "p.detach() + 1.5, q",
    "triplet_margin_loss": "a, b, q, swap=True", "cholesky_ex": "pd", "ldl_factor": "pd.detach()",
    "ldl_factor_ex": "pd.detach()",
    **dict.fromkeys(("L.eig", "L.lu", "eigvals", "inv_ex", "lu", "lu_factor", "lu_factor_ex", "pinverse"), "square"),
    "L.lstsq": "wide, wide[:, :2]", "L.lu_solve": "*t.lu(square), m",
    "L.matrix_rank": "m | m, 0.5 | pd, hermitian=True", "cholesky_inverse": "square",
    "cholesky_solve": "m, square, True", "cond": "square | square, 1 | square, 'nuc'", "frobenius_norm": "x, (1, 2)",
    "geqrf": "m.detach()", "householder_product": "wide, square4[0]", "ldl_solve": "pd.detach(), t.arange(1, 4), m",
    "lobpcg": "wide.detach() @ wide.detach().T, 2, X=wide[:, :2]", "lu_solve": "m, *t.lu(square)",
    "lu_unpack": "*t.lu(square),", "matrix_exp": "square", "multi_dot": "[a, m, n, v]", "norm_except_dim": "x, 2, 1",
    "nuclear_norm": "x, (1, 2)", "orgqr": "wide, square4[0]", "ormqr": "wide, square4[0], wide, transpose=True",
    "pca_lowrank": "wide, 3", "solve_ex": "square, m",
    "solve_triangular": "square, m, upper=True | square, a, upper=False, left=False", "svd_lowrank": "wide, 3",
    "tensorinv": "square4.reshape(2, 2, 4)", "tensorsolve": "square4.reshape(2, 2, 4), square4[:2, :2]",
    "triangular_solve": "m, square, transpose=True", "vecdot": "x, c, dim=1",
    "binomial": "p.detach() * 9, q.detach() / 3", "multinomial": "p, 2 | p, 5, True", "poisson": "p",
    "randint_like": "a.detach(), 2, 9",
}  # fmt: skip

# They give shapes, or a decision, that depend on values.
DEPENDING: dict[str, str] = {
    "allclose": "a, b", "argwhere": "a", "bincount": "rows | rows, minlength=9", "equal": "a, b", "is_nonzero": "s",
    "masked_select": "a, mask", "nonzero": "a", "one_hot": "at",
    "repeat_interleave": "a, rows, 1", "resize_as_": "a.detach(), m", "tensor_split": "x, two", "unique": "a",
    "unique_consecutive": "a", "where": "mask",
}  # fmt: skip


def published() -> dict[str, Any]:
    """The public functions under their names; those outside of the top level, where they differ, as `F.…` and `L.…`."""
    found = {}
    for prefix, place in PLACES.items():
        for name in getattr(place, "__all__", None) or dir(place):
            function = getattr(place, name)
            of_ours = (getattr(function, "__module__", None) or "").startswith("adjoint")
            if callable(function) and of_ours and not isinstance(function, type) and name[0] != "_":
                known = found.get(name)
                found[name if known is None or known is function else prefix + name] = function
    return found


def calls_of(name: str) -> list[str]:
    """The calls of a function, or of the one that it is in place."""
    bare = name.rpartition(".")[2]
    found = next((CALLS[key] for key in (name, bare, bare.removesuffix("_")) if key in CALLS), "")
    return found.split(" | ") if found else []


def step(name: str, function: Callable[..., Any], call: str) -> Callable[..., list[Any]]:
    """What the function gives for the arrays that the call names, and the gradients of its weighted sum."""
    code = compile(f"f({call})", "the call", "eval")
    names = named_in(call)

    def run(*given: Any) -> list[Any]:
        leaves = {n: x.detach().requires_grad_(x.array.dtype.kind in "fc") for n, x in zip(names, given, strict=True)}
        out = list(parts(eval(code, {"f": apart if name.endswith("_") else function, "t": ad, **leaves})))
        wanted = [x for x in leaves.values() if x.requires_grad]
        totals = [weighed(y) for y in out if isinstance(y, ad.Tensor) and y.requires_grad]
        if not totals:
            return out
        return [*out, *ad.autograd.grad(totals, wanted, allow_unused=True, materialize_grads=True)]

    def apart(written: Any, *rest: Any, **named: Any) -> Any:
        return function(written.clone(), *rest, **named)

    return run


def named_in(call: str) -> list[str]:
    return [name for name in dict.fromkeys(re.findall(r"[a-z]\w*", call)) if name in DATA]


def parts(out: Any) -> Iterator[Any]:
    """The tensors, numbers and types that make up a result."""
    if isinstance(out, (tuple, list)):
        for part in out:
            yield from parts(part)
    else:
        yield out


def weighed(y: Any) -> Any:
    total = (y * ad.tensor(np.cos(np.arange(y.numel())).reshape(y.shape), dtype=y.dtype)).sum()
    return total.real + total.imag if total.is_complex() else total


def arguments(call: str, floating: str = "float64") -> list[Any]:
    arrays = [DATA[name] for name in named_in(call)]
    types = {"f": np.dtype(floating), "c": np.result_type(floating, np.complex64), "i": np.dtype(np.int64)}
    return [ad.from_numpy(x.astype(types.get(x.dtype.kind, x.dtype))) for x in arrays]


PUBLISHED = published()
TESTED = [name for name in PUBLISHED if calls_of(name)]
