"""Names of adjoint.functions that load their modules on demand: made by tools/lazy_names.py, not to be edited.

A row is a module, and the names that it gives: methods of Tensor, and functions of the package that are no methods.
"""

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
        erfinv_ fix fix_ float_power float_power_ fmax fmin frac frac_ frexp gcd gcd_ heaviside heaviside_
        hypot hypot_ i0 i0_ igamma igamma_ igammac igammac_ isneginf isposinf isreal lcm lcm_ ldexp ldexp_
        lgamma lgamma_ logaddexp logaddexp2 logit logit_ mvlgamma mvlgamma_ nan_to_num nan_to_num_ nextafter
        nextafter_ polygamma polygamma_ positive rad2deg rad2deg_ signbit sinc sinc_ xlogy xlogy_
    """,
    "elementwise.relu_variants": "hardshrink prelu",
    "elementwise.scaled_sums": "addcdiv addcdiv_ addcmul addcmul_ lerp lerp_",
    "indexing.scatter": """
        diagonal_scatter fill_diagonal_ index_add index_add_ index_copy index_copy_ index_fill index_fill_
        index_put index_put_ index_reduce index_reduce_ masked_scatter masked_scatter_ put put_ scatter
        scatter_ scatter_reduce scatter_reduce_ select_scatter slice_scatter take
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
    "shape.split": """
        chunk dsplit hsplit split split_with_sizes tensor_split unbind unsafe_chunk unsafe_split
        unsafe_split_with_sizes vsplit
    """,
    "signal.stft": "istft stft",
    "sparse.methods": """
        _indices _nnz _values ccol_indices coalesce col_indices crow_indices indices resize_as_sparse_
        row_indices sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ to_sparse to_sparse_bsc
        to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr values
    """,
    "sparse.product_functions": "smm sspaddmm",
}
FUNCTIONS: dict[str, str] = {
    "creation.buffers_dlpack": "from_dlpack from_file frombuffer",
    "creation.linspace_logspace": "linspace logspace range",
    "creation.random": """
        Generator default_generator get_rng_state initial_seed manual_seed normal rand rand_like randint
        randint_like randn randn_like randperm seed set_rng_state
    """,
    "creation.sampling": "_dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad binomial poisson",
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
    "nn.pooling": """
        avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices
        max_pool3d max_pool3d_with_indices
    """,
    "nn.unpool_fold": "unfold",
    "reduction.histogram": "histogramdd",
    "reduction.numerical_calculus": "cumulative_trapezoid gradient trapezoid trapz",
    "reduction.segment_reduce": "segment_reduce",
    "reduction.sort_quantile_unique": "bucketize isin searchsorted",
    "reduction.statistics": "std_mean var_mean",
    "shape.as_strided": "empty_strided",
    "shape.diag_tril": "block_diag tril_indices triu_indices",
    "shape.meshgrid_combinations": "cartesian_prod combinations meshgrid",
    "signal.windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
    "sparse.creation": """
        sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor
        sparse_csr_tensor
    """,
    "sparse.product_functions": "dsmm hspmm spmm",
}
# Functions of `nn.functional`.
NN_FUNCTIONS: dict[str, str] = {
    "elementwise.activation": """
        elu gelu hardtanh leaky_relu log_softmax logsigmoid relu6 selu silu softmax softmin softplus
        tanhshrink
    """,
    "elementwise.gated_activation": """
        celu glu gumbel_softmax hardshrink hardsigmoid hardswish mish prelu softshrink softsign
    """,
    "elementwise.inplace_activation": "alpha_dropout elu_ feature_alpha_dropout hardtanh_ leaky_relu_ rrelu",
    "elementwise.pointwise": "sigmoid tanh",
    "elementwise.relu_variants": "celu_ rrelu_ selu_ threshold threshold_",
    "linalg.distance": "pdist",
    "linalg.matmul": "bilinear linear",
    "loss.classification": "cross_entropy nll_loss",
    "loss.ctc": "ctc_loss",
    "loss.margin": """
        gaussian_nll_loss linear_cross_entropy multi_margin_loss multilabel_margin_loss
        multilabel_soft_margin_loss poisson_nll_loss triplet_margin_with_distance_loss
    """,
    "loss.regression": """
        binary_cross_entropy binary_cross_entropy_with_logits huber_loss l1_loss mse_loss smooth_l1_loss
    """,
    "loss.similarity": """
        cosine_embedding_loss cosine_similarity hinge_embedding_loss kl_div margin_ranking_loss
        pairwise_distance soft_margin_loss triplet_margin_loss
    """,
    "nn.adaptive_pooling": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
        adaptive_max_pool1d_with_indices adaptive_max_pool2d adaptive_max_pool2d_with_indices
        adaptive_max_pool3d adaptive_max_pool3d_with_indices fractional_max_pool2d
        fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices lp_pool1d
        lp_pool2d lp_pool3d
    """,
    "nn.attention": "scaled_dot_product_attention",
    "nn.channel_ops": "channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle",
    "nn.conv_transpose": "conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d",
    "nn.convolution": "conv1d conv2d conv3d",
    "nn.dropout": "dropout dropout1d dropout2d dropout3d",
    "nn.embedding": "embedding one_hot",
    "nn.embedding_bag": "embedding_bag",
    "nn.grid_sample": "affine_grid grid_sample",
    "nn.group_norm": "group_norm rms_norm",
    "nn.interpolate": "interpolate upsample upsample_bilinear upsample_nearest",
    "nn.multihead_attention": "multi_head_attention_forward",
    "nn.normalization": "batch_norm instance_norm layer_norm local_response_norm normalize",
    "nn.pad": "pad",
    "nn.pooling": """
        avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices
        max_pool3d max_pool3d_with_indices
    """,
    "nn.unpool_fold": "fold max_unpool1d max_unpool2d max_unpool3d unfold",
}
