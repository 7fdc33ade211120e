"""Functions and methods that few programs use: their modules are imported when a name of theirs is first asked for.

Import time is a promise, so the names stand here before the modules do: a method as a descriptor, in whose place its
module puts the method itself. tests/functions/api/test_lazy_index.py holds these tables to what the modules publish.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from adjoint.core.tensor.tensor import Tensor

METHODS: dict[str, str] = {
    "creation.random": "bernoulli bernoulli_ exponential_ normal_ random_ uniform_",
    "creation.sampling": "cauchy_ geometric_ log_normal_ multinomial",
    "creation.shared_memory": "is_shared share_memory_",
    "elementwise.allclose": "allclose equal isclose",
    "elementwise.complex": """
        H adjoint angle cdouble cfloat conj conj_physical conj_physical_ imag is_complex mH real resolve_conj
        resolve_neg sgn sgn_
    """,
    "elementwise.float_functions": """
        acosh acosh_ arccosh arccosh_ arcsinh arcsinh_ arctanh arctanh_ asinh asinh_ atanh atanh_ clamp_max
        clamp_max_ clamp_min clamp_min_ copysign copysign_ deg2rad deg2rad_ digamma digamma_ erfc erfc_ erfinv
        erfinv_ fix fix_ float_power float_power_ fmax fmin frac frac_ frexp gcd gcd_ heaviside heaviside_ hypot
        hypot_ i0 i0_ igamma igamma_ igammac igammac_ isneginf isposinf isreal lcm lcm_ ldexp ldexp_ lgamma
        lgamma_ logaddexp logaddexp2 logit logit_ mvlgamma mvlgamma_ nan_to_num nan_to_num_ nextafter nextafter_
        polygamma polygamma_ positive rad2deg rad2deg_ signbit sinc sinc_ xlogy xlogy_
    """,
    "elementwise.relu_variants": "hardshrink prelu",
    "indexing.scatter": """
        diagonal_scatter fill_diagonal_ index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put
        index_put_ index_reduce index_reduce_ masked_scatter masked_scatter_ put put_ scatter scatter_ scatter_reduce
        scatter_reduce_ select_scatter slice_scatter take
    """,
    "linalg.distance": "dist renorm renorm_",
    "linalg.products": """
        addbmm addbmm_ addmm_ addmv addmv_ addr addr_ baddbmm baddbmm_ cross ger inner kron matrix_power vdot
    """,
    "linalg.top_level_names": """
        cholesky cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve matrix_exp orgqr ormqr
        pinverse qr slogdet svd triangular_solve
    """,
    "reduction.cumulative": "cummax cummin cumprod cumprod_ cumsum cumsum_ logcumsumexp",
    "reduction.histogram": "bincount histc histogram",
    "reduction.numerical_calculus": "diff",
    "reduction.sort_quantile_unique": """
        argsort kthvalue median mode msort nanmedian nanquantile quantile sort topk unique unique_consecutive
    """,
    "reduction.statistics": "corrcoef cov std var",
    "shape.as_strided": """
        as_strided as_strided_ narrow_copy resize resize_ resize_as resize_as_ set_ squeeze_ swapaxes_
        swapdims_ t_ transpose_ unfold unsqueeze_
    """,
    "shape.diag_tril": "diag diag_embed diagflat diagonal trace tril tril_ triu triu_",
    "shape.flip_roll": "flip fliplr flipud roll rot90",
    "shape.repeat": "repeat repeat_interleave tile",
    "shape.split": """
        chunk dsplit hsplit split split_with_sizes tensor_split unbind unsafe_chunk unsafe_split unsafe_split_with_sizes
        vsplit
    """,
    "signal.stft": "istft stft",
}
FUNCTIONS: dict[str, str] = {
    "creation.buffers_dlpack": "from_dlpack from_file frombuffer",
    "creation.linspace_logspace": "linspace logspace range",
    "creation.random": """
        Generator default_generator get_rng_state initial_seed manual_seed normal rand rand_like randint
        randint_like randn randn_like randperm seed set_rng_state
    """,
    "creation.sampling": """
        _dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad binomial poisson
    """,
    "creation.typed_storage": """
        BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage
        DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage Storage TypedStorage
        UntypedStorage
    """,
    "elementwise.complex": "complex polar view_as_complex view_as_real",
    "elementwise.relu_variants": "celu celu_ rrelu rrelu_ selu_ threshold threshold_",
    "linalg.distance": "cdist pdist",
    "linalg.einsum": "einsum",
    "linalg.low_rank": "lobpcg pca_lowrank svd_lowrank",
    "linalg.products": "chain_matmul tensordot vander",
    "linalg.top_level_names": "lu_unpack",
    "loss.similarity": "cosine_similarity pairwise_distance",
    "nn.adaptive_pooling": "adaptive_avg_pool1d",
    "nn.channel_ops": "channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle",
    "nn.conv_transpose": "conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d",
    "nn.convolution": "conv1d conv2d conv3d",
    "nn.dropout": """
        alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_
        feature_dropout feature_dropout_
    """,
    "nn.normalization": "batch_norm instance_norm layer_norm",
    "nn.pad": "pad",
    "nn.unpool_fold": "unfold",
    "nn.pooling": """
        avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices
        max_pool3d max_pool3d_with_indices
    """,
    "reduction.histogram": "histogramdd",
    "reduction.numerical_calculus": "cumulative_trapezoid gradient trapezoid trapz",
    "reduction.segment_reduce": "segment_reduce",
    "reduction.sort_quantile_unique": "bucketize isin searchsorted",
    "reduction.statistics": "std_mean var_mean",
    "shape.as_strided": "empty_strided",
    "shape.diag_tril": "block_diag tril_indices triu_indices",
    "shape.meshgrid_combinations": "cartesian_prod combinations meshgrid",
    "signal.windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
}
IN_PLACE = """
    abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ asinh_ atan_
    atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ erf_ erfc_ exp2_ exp_
    expm1_ fill_
    fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_
    rad2deg_ reciprocal_ relu_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_
"""  # methods that are functions of the library too


class LazyMethod:
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


def find_lazy_function(name: str) -> Any:
    """The late function of this name, or None."""
    if name in IN_PLACE.split():
        return getattr(Tensor, name)
    if name not in MODULE_BY_NAME:
        return None
    module = import_module(MODULE_BY_NAME[name])
    return getattr(module, name) if name in module.__all__ else None


def lazy_function_names() -> list[str]:
    """All the late functions. Imports their modules."""
    import_all_modules()
    published = (import_module(source).__all__ for source in set(MODULE_BY_NAME.values()))
    return [*IN_PLACE.split(), *(name for module in published for name in module if name in MODULE_BY_NAME)]


def import_all_modules() -> None:
    """Import all the modules: for tools that list what there is."""
    for source in sorted(set(MODULE_BY_NAME.values())):
        import_module(source)


def add_lazy_names(methods: Mapping[str, str], functions: Mapping[str, str], package: str) -> None:
    """Enter names that the modules of `package` publish: methods of Tensor, and functions."""
    for table in (methods, functions):
        MODULE_BY_NAME.update(
            {name: f"{package}.{module}" for module, names in table.items() for name in names.split()}
        )
    for name in (name for names in methods.values() for name in names.split()):
        if name not in vars(Tensor):
            setattr(Tensor, name, LazyMethod(name, MODULE_BY_NAME[name]))


MODULE_BY_NAME: dict[str, str] = {}
add_lazy_names(METHODS, FUNCTIONS, "adjoint.functions")
