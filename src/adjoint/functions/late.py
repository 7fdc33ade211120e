"""Functions and methods that few programs use: their modules are imported when a name of theirs is first asked for.

Import time is a promise, so the names stand here before the modules do: a method as a descriptor, in whose place its
module puts the method itself. tests/functions/test_late.py holds these tables to what the modules publish.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from adjoint.core.tensor import Tensor

METHODS: dict[str, str] = {
    "agreement": """
        allclose equal isclose
    """,
    "arrangement": """
        diag diag_embed diagflat diagonal_scatter fliplr flipud moveaxis roll rot90 select_scatter slice_scatter trace
    """,
    "complex": """
        H adjoint angle cdouble cfloat conj conj_physical conj_physical_ imag is_complex mH real resolve_conj
        resolve_neg sgn sgn_
    """,
    "copies": """
        as_strided_scatter
    """,
    "description": """
        dense_dim dim_order get_device is_coalesced is_conj is_cuda is_distributed is_ipu is_maia
        is_mkldnn is_mps is_mtia is_neg is_nested is_nonzero is_pinned is_quantized is_same_size is_set_to
        is_signed is_sparse is_sparse_csr is_vulkan is_xla is_xpu itemsize layout name nbytes
        ndimension nelement pin_memory storage_offset storage_type sum_to_size to_dense storage untyped_storage
        volatile
    """,
    "distance": """
        dist renorm renorm_
    """,
    "distributions": """
        cauchy_ geometric_ log_normal_ multinomial
    """,
    "elementary": """
        acosh acosh_ arccosh arccosh_ arcsinh arcsinh_ arctanh arctanh_ asinh asinh_ atanh atanh_ clamp_max clamp_max_
        clamp_min clamp_min_ copysign copysign_ deg2rad deg2rad_ digamma digamma_ erfc erfc_ erfinv erfinv_ fix fix_
        float_power float_power_ fmax fmin frac frac_ frexp gcd gcd_ heaviside heaviside_ hypot hypot_ i0 i0_ igamma
        igamma_ igammac igammac_ isneginf isposinf isreal lcm lcm_ ldexp ldexp_ lgamma lgamma_ logaddexp logaddexp2
        logit logit_ mvlgamma mvlgamma_ nan_to_num nan_to_num_ nanmean nansum nextafter nextafter_ polygamma polygamma_
        positive rad2deg rad2deg_ signbit sinc sinc_ xlogy xlogy_
    """,
    "legacy": """
        apply_ map2_ map_ new new_empty new_empty_strided type
    """,
    "linalg": """
        cholesky cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve matrix_exp orgqr ormqr pinverse qr
        slogdet svd triangular_solve
    """,
    "order": """
        aminmax argwhere bincount histc kthvalue median mode msort nanmedian nanquantile quantile unique
        unique_consecutive
    """,
    "products": """
        addbmm addbmm_ addmm_ addmv addmv_ addr addr_ baddbmm baddbmm_ cross ger inner kron matrix_power vdot
    """,
    "removed": """
        eig lstsq solve symeig
    """,
    "ranges": """
        nonzero_static
    """,
    "random": """
        bernoulli bernoulli_ exponential_ normal_ random_ uniform_
    """,
    "rectifiers": """
        hardshrink prelu
    """,
    "scan": """
        cummax cummin cumprod cumprod_ cumsum_ diff logcumsumexp
    """,
    "scatter": """
        fill_diagonal_ index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_
        index_reduce index_reduce_ masked_scatter masked_scatter_ put put_ scatter scatter_ scatter_reduce
        scatter_reduce_ take
    """,
    "sections": """
        dsplit hsplit split_with_sizes tensor_split unsafe_chunk unsafe_split unsafe_split_with_sizes vsplit
    """,
    "sharing": """
        is_shared share_memory_
    """,
    "spectrogram": """
        istft stft
    """,
    "statistics": """
        corrcoef cov histogram
    """,
    "strides": """
        as_strided as_strided_ diagonal narrow_copy resize resize_ resize_as resize_as_ set_ squeeze_ swapaxes_
        swapdims_ t_ transpose_ unfold unsqueeze_
    """,
    "subclassing": """
        _make_subclass as_subclass
    """,
}
FUNCTIONS: dict[str, str] = {
    "arrangement": """
        atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod column_stack
        combinations dstack meshgrid row_stack tril_indices triu_indices
    """,
    "calculus": """
        cumulative_trapezoid gradient trapezoid trapz
    """,
    "complex": """
        complex polar view_as_complex view_as_real
    """,
    "channels": """
        channel_shuffle native_channel_shuffle
    """,
    "comparing_loss": """
        bilinear pairwise_distance
    """,
    "resampling": """
        adaptive_avg_pool1d pixel_shuffle pixel_unshuffle
    """,
    "transposed_convolution": """
        conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
    """,
    "convolution": """
        conv1d conv2d conv3d pad unfold
    """,
    "copies": """
        alias_copy as_strided_copy constant_pad_nd detach_copy diagonal_copy empty_permuted expand_copy fill
        permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy
        unbind_copy unfold_copy unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy
    """,
    "description": """
        is_floating_point is_storage is_tensor numel typename
    """,
    "distance": """
        cdist pdist std_mean var_mean
    """,
    "distributions": """
        _dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad binomial poisson
    """,
    "dropping": """
        alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout
        feature_dropout_
    """,
    "legacy": """
        BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
        ShortTensor
    """,
    "einsum": """
        einsum
    """,
    "exchange": """
        from_dlpack from_file frombuffer
    """,
    "linalg": """
        frobenius_norm lu_unpack norm_except_dim nuclear_norm
    """,
    "low_rank": """
        lobpcg pca_lowrank svd_lowrank
    """,
    "normalization": """
        batch_norm cosine_similarity instance_norm layer_norm
    """,
    "order": """
        bucketize isin searchsorted
    """,
    "plain": """
        detach embedding group_norm rms_norm
    """,
    "pooling": """
        avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices
        max_pool3d max_pool3d_with_indices
    """,
    "products": """
        chain_matmul tensordot vander
    """,
    "removed": """
        matrix_rank
    """,
    "random": """
        Generator default_generator get_rng_state initial_seed manual_seed normal rand rand_like randint randint_like
        randn randn_like randperm seed set_rng_state
    """,
    "ranges": """
        logspace range scalar_tensor unravel_index
    """,
    "rectifiers": """
        celu celu_ rrelu rrelu_ selu_ threshold threshold_
    """,
    "segments": """
        segment_reduce
    """,
    "conditions": """
        _check _check_index _check_is_size _check_not_implemented _check_type _check_value
    """,
    "settings": """
        _assert _assert_async are_deterministic_algorithms_enabled can_cast get_default_device
        get_deterministic_debug_mode get_num_interop_threads is_deterministic_algorithms_warn_only_enabled
        is_warn_always_enabled set_default_device
        set_default_tensor_type set_deterministic_debug_mode set_flush_denormal set_num_interop_threads set_warn_always
        use_deterministic_algorithms
    """,
    "statistics": """
        histogramdd
    """,
    "storages": """
        BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage DoubleStorage
        FloatStorage HalfStorage IntStorage LongStorage ShortStorage Storage TypedStorage
        UntypedStorage
    """,
    "strides": """
        empty_strided
    """,
    "symbolic_sizes": """
        SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum
    """,
    "windows": """
        bartlett_window blackman_window hamming_window hann_window kaiser_window
    """,
}
IN_PLACE = """
    abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ asinh_ atan_
    atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ erf_ erfc_ exp2_ exp_
    expm1_ fill_
    fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_
    rad2deg_ reciprocal_ relu_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_
"""  # methods that are functions of the library too


class Late:
    """Stands for a method, or an attribute, until its module is imported."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source

    def __get__(self, tensor: Tensor | None, kind: type[Tensor]) -> Any:
        import_module(self.source)
        return getattr(kind if tensor is None else tensor, self.name)

    def __set__(self, tensor: Tensor, value: Any) -> None:
        import_module(self.source)
        setattr(tensor, self.name, value)


def find(name: str) -> Any:
    """The late function of this name, or None."""
    if name in IN_PLACE.split():
        return getattr(Tensor, name)
    if name not in SOURCES:
        return None
    module = import_module(SOURCES[name])
    return getattr(module, name) if name in module.__all__ else None


def names() -> list[str]:
    """All the late functions. Imports their modules."""
    load()
    published = (import_module(source).__all__ for source in set(SOURCES.values()))
    return [*IN_PLACE.split(), *(name for module in published for name in module if name in SOURCES)]


def load() -> None:
    """Import all the modules: for tools that list what there is."""
    for source in sorted(set(SOURCES.values())):
        import_module(source)


def _sources(table: dict[str, str]) -> dict[str, str]:
    return {name: f"adjoint.functions.{module}" for module, names in table.items() for name in names.split()}


SOURCES = _sources(METHODS) | _sources(FUNCTIONS)
for _name, _source in _sources(METHODS).items():
    if _name not in vars(Tensor):
        setattr(Tensor, _name, Late(_name, _source))
