"""The names that PyTorch 2.13 documents, by module: what docs/coverage.md counts."""

from __future__ import annotations

NAMES: dict[str, str] = {
    "torch": """
        Event GradScaler Stream abs absolute acos acosh adaptive_avg_pool1d add addbmm addcdiv addcmul addmm
        addmv addr adjoint alias_copy all allclose amax amin aminmax angle any arange arccos arccosh arcsin
        arcsinh arctan arctan2 arctanh are_deterministic_algorithms_enabled argmax argmin argsort argwhere
        as_strided as_strided_copy as_strided_scatter as_tensor asarray asin asinh atan atan2 atanh atleast_1d
        atleast_2d atleast_3d autocast avg_pool1d baddbmm bartlett_window bernoulli bfloat16 bilinear bincount
        bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman_window
        block_diag bmm bool broadcast_tensors broadcast_to bucketize can_cast cartesian_prod cat cdist cdouble
        ceil cfloat chain_matmul chalf channel_shuffle cholesky cholesky_inverse cholesky_solve chunk clamp clip
        clone column_stack combinations compile complex complex128 complex32 complex64 concat concatenate cond
        conj conj_physical conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d copysign
        corrcoef cos cosh cosine_similarity count_nonzero cov cross cummax cummin cumprod cumsum
        cumulative_trapezoid deg2rad det detach_copy diag diag_embed diagflat diagonal diagonal_copy
        diagonal_scatter diff digamma dist div divide dot double dsplit dstack einsum empty empty_like
        empty_permuted empty_strided enable_grad eq equal erf erfc erfinv exp exp2 expand_copy expm1 eye fix
        flatten flip fliplr flipud float float16 float32 float4_e2m1fn_x2 float64 float8_e4m3fn float8_e4m3fnuz
        float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float_power floor floor_divide fmax fmin fmod frac frexp
        from_file from_numpy frombuffer full full_like gather gcd ge geqrf ger get_default_device
        get_default_dtype get_deterministic_debug_mode get_device_module get_float32_matmul_precision
        get_num_interop_threads get_num_threads get_rng_state gradient greater greater_equal gt half
        hamming_window hann_window hardshrink hash_tensor heaviside histc histogram histogramdd hsplit hspmm
        hstack hypot i0 igamma igammac imag index_add index_copy index_reduce index_select inference_mode
        initial_seed inner int int1 int16 int2 int3 int32 int4 int5 int6 int64 int7 int8 inverse is_complex
        is_conj is_deterministic_algorithms_warn_only_enabled is_floating_point is_grad_enabled is_inference
        is_inference_mode_enabled is_nonzero is_storage is_tensor is_warn_always_enabled isclose isfinite isin
        isinf isnan isneginf isposinf isreal istft kaiser_window kron kthvalue lcm ldexp le lerp less less_equal
        lgamma linspace load lobpcg log log10 log1p log2 logaddexp logaddexp2 logcumsumexp logdet logical_and
        logical_not logical_or logical_xor logit logspace logsumexp long lt lu_solve lu_unpack manual_seed
        masked_select matmul matrix_exp matrix_power max maximum mean median meshgrid min minimum mm mode
        moveaxis movedim msort mul multinomial multiply mv mvlgamma nan_to_num nanmean nanmedian nanquantile
        nansum narrow narrow_copy ne neg negative nextafter no_grad nonzero nonzero_static norm normal not_equal
        numel ones ones_like orgqr ormqr outer pairwise_distance permute permute_copy pinverse pixel_shuffle
        pixel_unshuffle poisson polar polygamma positive pow prod promote_types qint32 qint8 qr quantile
        quint2x4 quint4x2 quint8 rad2deg rand rand_like randint randint_like randn randn_like randperm range
        ravel real reciprocal remainder renorm repeat_interleave reshape resolve_conj resolve_neg result_type
        roll rot90 round row_stack rsqrt save scatter scatter_add scatter_reduce searchsorted seed
        segment_reduce select select_copy select_scatter set_default_device set_default_tensor_type
        set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal set_num_interop_threads
        set_num_threads set_printoptions set_rng_state set_warn_always sgn short sigmoid sign signbit sin sinc
        sinh slice_copy slice_scatter slogdet smm softmax sort sparse_bsc_tensor sparse_bsr_tensor
        sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor split split_copy
        split_with_sizes_copy sqrt square squeeze squeeze_copy sspaddmm stack std std_mean stft sub subtract sum
        svd swapaxes swapdims t t_copy take take_along_dim tan tanh tensor tensor_split tensordot tile topk
        trace transpose transpose_copy trapezoid trapz triangular_solve tril tril_indices triu triu_indices
        true_divide trunc typename uint1 uint16 uint2 uint3 uint32 uint4 uint5 uint6 uint64 uint7 uint8 unbind
        unbind_copy unflatten unfold_copy unique_consecutive unravel_index unsafe_chunk unsafe_split unsqueeze
        unsqueeze_copy use_deterministic_algorithms vander var var_mean vdot view_as_complex
        view_as_complex_copy view_as_real view_as_real_copy view_copy vmap vsplit vstack where xlogy zeros
        zeros_like
    """,
    "Tensor": """
        H T abs abs_ absolute absolute_ acos acos_ acosh acosh_ add add_ addbmm addbmm_ addcdiv addcdiv_ addcmul
        addcmul_ addmm addmm_ addmv addmv_ addr addr_ adjoint all allclose amax amin aminmax angle any apply_
        arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh
        arctanh_ argmax argmin argsort argwhere as_strided as_strided_ as_strided_scatter as_subclass asin asin_
        asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_ backward baddbmm baddbmm_ bernoulli bernoulli_
        bfloat16 bincount bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_ bitwise_not
        bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_ bitwise_xor bitwise_xor_
        bmm bool broadcast_to byte cauchy_ ccol_indices cdouble ceil ceil_ cfloat chalf char cholesky
        cholesky_inverse cholesky_solve chunk clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_
        clone coalesce col_indices conj conj_physical conj_physical_ contiguous copy_ copysign copysign_
        corrcoef cos cos_ cosh cosh_ count_nonzero cov cpu cross crow_indices cuda cummax cummin cumprod
        cumprod_ cumsum cumsum_ data data_ptr deg2rad deg2rad_ dense_dim det detach detach_ device diag
        diag_embed diagflat diagonal diagonal_scatter diff digamma digamma_ dim dim_order dist div div_ divide
        divide_ dot double dsplit dtype eig element_size eq eq_ equal erf erf_ erfc erfc_ erfinv erfinv_ exp
        exp2 exp2_ exp_ expand expand_as expm1 expm1_ exponential_ fill_ fill_diagonal_ fix fix_ flatten flip
        fliplr flipud float float_power float_power_ floor floor_ floor_divide floor_divide_ fmax fmin fmod
        fmod_ frac frac_ frexp gather gcd gcd_ ge ge_ geometric_ geqrf ger get_device grad grad_dtype grad_fn
        greater greater_ greater_equal greater_equal_ gt gt_ half hardshrink hash_tensor heaviside heaviside_
        histc histogram hsplit hypot hypot_ i0 i0_ igamma igamma_ igammac igammac_ imag index index_add
        index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_ index_reduce index_reduce_
        index_select indices inner int inverse ipu is_coalesced is_complex is_conj is_contiguous is_cpu is_cuda
        is_distributed is_floating_point is_inference is_ipu is_leaf is_maia is_meta is_mkldnn is_mps is_mtia
        is_neg is_nested is_nonzero is_pinned is_quantized is_same_size is_set_to is_shared is_signed is_sparse
        is_sparse_csr is_xla is_xpu isclose isfinite isinf isnan isneginf isposinf isreal istft item itemsize
        kron kthvalue layout lcm lcm_ ldexp ldexp_ le le_ lerp lerp_ less less_ less_equal less_equal_ lgamma
        lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_ log_normal_ log_softmax logaddexp logaddexp2
        logcumsumexp logdet logical_and logical_and_ logical_not logical_not_ logical_or logical_or_ logical_xor
        logical_xor_ logit logit_ logsumexp long lstsq lt lt_ lu lu_solve mH mT map2_ map_ masked_fill
        masked_fill_ masked_scatter masked_scatter_ masked_select matmul matrix_exp matrix_power max maximum
        mean median min minimum mm mode moveaxis movedim msort mtia mul mul_ multinomial multiply multiply_ mv
        mvlgamma mvlgamma_ name nan_to_num nan_to_num_ nanmean nanmedian nanquantile nansum narrow narrow_copy
        nbytes ndim ndimension ne ne_ neg neg_ negative negative_ nelement new new_empty new_empty_strided
        new_full new_ones new_tensor new_zeros nextafter nextafter_ nonzero nonzero_static norm normal_
        not_equal not_equal_ numel numpy orgqr ormqr outer output_nr permute pin_memory pinverse polygamma
        polygamma_ positive pow pow_ prod put put_ qr quantile rad2deg rad2deg_ random_ ravel real reciprocal
        reciprocal_ record_stream register_hook register_post_accumulate_grad_hook relu remainder remainder_
        renorm renorm_ repeat repeat_interleave requires_grad requires_grad_ reshape reshape_as resize resize_
        resize_as resize_as_ resize_as_sparse_ resolve_conj resolve_neg retain_grad retains_grad roll rot90
        round round_ row_indices rsqrt rsqrt_ scatter scatter_ scatter_add scatter_add_ scatter_reduce
        scatter_reduce_ select select_scatter set_ sgn sgn_ shape share_memory_ short sigmoid sigmoid_ sign
        sign_ signbit sin sin_ sinc sinc_ sinh sinh_ size slice_scatter slogdet smm softmax solve sort
        sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ split split_with_sizes sqrt sqrt_ square
        square_ squeeze squeeze_ sspaddmm std stft storage storage_offset storage_type stride sub sub_ subtract
        subtract_ sum sum_to_size svd swapaxes swapaxes_ swapdims swapdims_ symeig t t_ take take_along_dim tan
        tan_ tanh tanh_ tensor_split tile to to_dense to_mkldnn to_padded_tensor to_sparse to_sparse_bsc
        to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr tolist topk trace transpose transpose_
        triangular_solve tril tril_ triu triu_ true_divide true_divide_ trunc trunc_ type type_as unbind
        unflatten unfold uniform_ unique unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes
        unsqueeze unsqueeze_ untyped_storage values var vdot view view_as volatile vsplit where xlogy xlogy_ xpu
        zero_
    """,
    "linalg": """
        cholesky cholesky_ex cond cross det diagonal eig eigh eigvals eigvalsh householder_product inv inv_ex
        ldl_factor ldl_factor_ex ldl_solve lstsq lu lu_factor lu_factor_ex lu_solve matmul matrix_exp
        matrix_norm matrix_power matrix_rank multi_dot norm pinv qr slogdet solve solve_ex solve_triangular svd
        svdvals tensorinv tensorsolve vander vecdot vector_norm
    """,
    "special": """
        airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u
        chebyshev_polynomial_v chebyshev_polynomial_w digamma entr erf erfc erfcx erfinv exp2 expit expm1
        gammainc gammaincc gammaln hermite_polynomial_h hermite_polynomial_he i0 i0e i1 i1e
        laguerre_polynomial_l legendre_polynomial_p log1p log_ndtr log_softmax logit logsumexp
        modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 multigammaln ndtr ndtri
        polygamma psi round scaled_modified_bessel_k0 scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t
        shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w sinc
        softmax spherical_bessel_j0 xlog1py xlogy zeta
    """,
    "fft": """
        fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn irfft
        irfft2 irfftn rfft rfft2 rfftfreq rfftn
    """,
    "autograd": """
        Function Variable backward detect_anomaly enable_grad forward_ad.UnpackedDualTensor
        forward_ad.dual_level forward_ad.enter_dual_level forward_ad.exit_dual_level forward_ad.make_dual
        forward_ad.unpack_dual function.FunctionCtx function.InplaceFunction function.once_differentiable
        functional.hessian functional.hvp functional.jacobian functional.jvp functional.vhp functional.vjp grad
        gradcheck gradgradcheck graph.GradientEdge graph.Node graph.allow_mutation_on_saved_tensors
        graph.disable_saved_tensors_hooks graph.get_gradient_edge graph.increment_version
        graph.region_activation_memory_budget graph.register_multi_grad_hook graph.save_on_cpu
        graph.saved_tensors_hooks inference_mode no_grad profiler.emit_nvtx profiler.profile
        profiler.record_function set_detect_anomaly set_grad_enabled set_multithreading_enabled
    """,
    "func": """
        functional_call functionalize grad grad_and_value hessian jacfwd jacrev jvp linearize
        replace_all_batch_norm_modules_ stack_module_state vjp vmap
    """,
    "nn": """
        AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1d
        AdaptiveMaxPool2d AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d BCELoss BCEWithLogitsLoss
        BatchNorm1d BatchNorm2d BatchNorm3d Bilinear Buffer CELU CTCLoss ChannelShuffle CircularPad1d
        CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d Container Conv1d Conv2d Conv3d
        ConvTranspose1d ConvTranspose2d ConvTranspose3d CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss
        CrossMapLRN2d DataParallel Dropout Dropout1d Dropout2d Dropout3d ELU Embedding EmbeddingBag
        FeatureAlphaDropout Flatten Fold FractionalMaxPool2d FractionalMaxPool3d GELU GLU GRU GRUCell
        GaussianNLLLoss GroupNorm Hardshrink Hardsigmoid Hardswish Hardtanh HingeEmbeddingLoss HuberLoss
        Identity InstanceNorm1d InstanceNorm2d InstanceNorm3d KLDivLoss L1Loss LPPool1d LPPool2d LPPool3d LSTM
        LSTMCell LayerNorm LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d
        LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d
        LazyInstanceNorm3d LazyLinear LeakyReLU Linear LinearCrossEntropyLoss LinearCrossEntropyOptions
        LocalResponseNorm LogSigmoid LogSoftmax MSELoss MarginRankingLoss MaxPool1d MaxPool2d MaxPool3d
        MaxUnpool1d MaxUnpool2d MaxUnpool3d Mish Module ModuleDict ModuleList MultiLabelMarginLoss
        MultiLabelSoftMarginLoss MultiMarginLoss MultiheadAttention NLLLoss NLLLoss2d PReLU PairwiseDistance
        Parameter ParameterDict ParameterList PixelShuffle PixelUnshuffle PoissonNLLLoss RMSNorm RNN RNNBase
        RNNCell RNNCellBase RReLU ReLU ReLU6 ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d
        ReplicationPad2d ReplicationPad3d SELU Sequential SiLU Sigmoid SmoothL1Loss SoftMarginLoss Softmax
        Softmax2d Softmin Softplus Softshrink Softsign SyncBatchNorm Tanh Tanhshrink Threshold Transformer
        TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss
        TripletMarginWithDistanceLoss Unflatten Unfold UninitializedBuffer UninitializedParameter Upsample
        UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d attention.SDPBackend
        attention.bias.CausalBias attention.bias.CausalVariant attention.bias.causal_lower_right
        attention.bias.causal_upper_left attention.flex_attention.AuxOutput attention.flex_attention.AuxRequest
        attention.flex_attention.BlockMask attention.flex_attention.FlexKernelOptions
        attention.flex_attention.and_masks attention.flex_attention.create_block_mask
        attention.flex_attention.create_mask attention.flex_attention.flex_attention
        attention.flex_attention.noop_mask attention.flex_attention.or_masks attention.sdpa_kernel
        modules.module.register_module_backward_hook modules.module.register_module_buffer_registration_hook
        modules.module.register_module_forward_hook modules.module.register_module_forward_pre_hook
        modules.module.register_module_full_backward_hook modules.module.register_module_full_backward_pre_hook
        modules.module.register_module_module_registration_hook
        modules.module.register_module_parameter_registration_hook parallel.DistributedDataParallel
        parallel.data_parallel
    """,
    "nn.functional": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
        adaptive_max_pool1d_with_indices adaptive_max_pool2d adaptive_max_pool2d_with_indices
        adaptive_max_pool3d adaptive_max_pool3d_with_indices affine_grid alpha_dropout avg_pool1d avg_pool2d
        avg_pool3d batch_norm bilinear binary_cross_entropy binary_cross_entropy_with_logits celu celu_
        channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
        cosine_embedding_loss cosine_similarity cross_entropy ctc_loss dropout dropout1d dropout2d dropout3d elu
        elu_ embedding embedding_bag feature_alpha_dropout fold fractional_max_pool2d
        fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices
        gaussian_nll_loss gelu glu grid_sample group_norm grouped_mm gumbel_softmax hardshrink hardsigmoid
        hardswish hardtanh hardtanh_ hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss
        layer_norm leaky_relu leaky_relu_ linear linear_cross_entropy local_response_norm log_softmax logsigmoid
        lp_pool1d lp_pool2d lp_pool3d margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d
        max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d mish
        mse_loss multi_head_attention_forward multi_margin_loss multilabel_margin_loss
        multilabel_soft_margin_loss native_channel_shuffle nll_loss normalize one_hot pad pairwise_distance
        pdist pixel_shuffle pixel_unshuffle poisson_nll_loss prelu relu relu6 relu_ rms_norm rrelu rrelu_
        scaled_dot_product_attention scaled_grouped_mm scaled_mm selu selu_ sigmoid silu smooth_l1_loss
        soft_margin_loss softmax softmin softplus softshrink softsign tanh tanhshrink threshold threshold_
        triplet_margin_loss triplet_margin_with_distance_loss unfold upsample upsample_bilinear upsample_nearest
    """,
    "nn.init": """
        calculate_gain constant constant_ dirac dirac_ eye eye_ kaiming_normal kaiming_normal_ kaiming_uniform
        kaiming_uniform_ normal normal_ ones_ orthogonal orthogonal_ sparse sparse_ trunc_normal_ uniform
        uniform_ xavier_normal xavier_normal_ xavier_uniform xavier_uniform_ zeros_
    """,
    "nn.utils": """
        clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_
        convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format fuse_conv_bn_eval
        fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights get_total_norm parameters_to_vector
        remove_spectral_norm remove_weight_norm skip_init spectral_norm vector_to_parameters weight_norm
    """,
    "nn.utils.rnn": """
        PackedSequence invert_permutation pack_padded_sequence pack_sequence pad_packed_sequence pad_sequence
        unpack_sequence unpad_sequence
    """,
    "nn.utils.parametrize": """
        ParametrizationList cached is_parametrized register_parametrization remove_parametrizations
        transfer_parametrizations_and_params type_before_parametrizations
    """,
    "nn.utils.parametrizations": """
        orthogonal spectral_norm weight_norm
    """,
    "nn.utils.stateless": """
        functional_call
    """,
    "nn.utils.prune": """
        BasePruningMethod CustomFromMask Identity L1Unstructured LnStructured PruningContainer RandomStructured
        RandomUnstructured custom_from_mask global_unstructured identity is_pruned l1_unstructured ln_structured
        random_structured random_unstructured remove
    """,
    "optim": """
        ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam Optimizer Optimizer.add_param_group
        Optimizer.load_state_dict Optimizer.register_load_state_dict_post_hook
        Optimizer.register_load_state_dict_pre_hook Optimizer.register_state_dict_post_hook
        Optimizer.register_state_dict_pre_hook Optimizer.register_step_post_hook
        Optimizer.register_step_pre_hook Optimizer.state_dict Optimizer.step Optimizer.zero_grad RAdam RMSprop
        Rprop SGD SparseAdam swap_in_optimizer_params_and_state
    """,
    "optim.lr_scheduler": """
        ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR
        LRScheduler LambdaLR LinearLR MultiStepLR MultiplicativeLR OneCycleLR PolynomialLR ReduceLROnPlateau
        SequentialLR StepLR
    """,
    "optim.swa_utils": """
        AveragedModel SWALR get_ema_avg_fn get_ema_multi_avg_fn get_swa_avg_fn get_swa_multi_avg_fn update_bn
    """,
    "distributions": """
        AbsTransform AffineTransform Bernoulli Beta Binomial CatTransform Categorical Cauchy Chi2
        ComposeTransform ContinuousBernoulli CorrCholeskyTransform CumulativeDistributionTransform Dirichlet
        Distribution ExpTransform Exponential ExponentialFamily FisherSnedecor Gamma GeneralizedPareto Geometric
        Gumbel HalfCauchy HalfNormal Independent IndependentTransform InverseGamma Kumaraswamy LKJCholesky
        Laplace LogNormal LogisticNormal LowRankMultivariateNormal LowerCholeskyTransform MixtureSameFamily
        Multinomial MultivariateNormal NegativeBinomial Normal OneHotCategorical
        OneHotCategoricalStraightThrough Pareto Poisson PositiveDefiniteTransform PowerTransform
        RelaxedBernoulli RelaxedOneHotCategorical ReshapeTransform SigmoidTransform SoftmaxTransform
        SoftplusTransform StackTransform StickBreakingTransform StudentT TanhTransform Transform
        TransformedDistribution Uniform VonMises Weibull Wishart biject_to
        constraint_registry.ConstraintRegistry constraints.Constraint constraints.MixtureSameFamilyConstraint
        constraints.boolean constraints.cat constraints.corr_cholesky constraints.dependent
        constraints.dependent_property constraints.greater_than constraints.greater_than_eq
        constraints.half_open_interval constraints.independent constraints.integer_interval constraints.interval
        constraints.is_dependent constraints.less_than constraints.lower_cholesky constraints.lower_triangular
        constraints.multinomial constraints.nonnegative constraints.nonnegative_integer constraints.one_hot
        constraints.positive constraints.positive_definite constraints.positive_integer
        constraints.positive_semidefinite constraints.real constraints.real_vector constraints.simplex
        constraints.square constraints.stack constraints.symmetric constraints.unit_interval identity_transform
        kl_divergence register_kl relaxed_bernoulli.LogitRelaxedBernoulli transform_to
    """,
    "utils.data": """
        BatchSampler ChainDataset ConcatDataset DataLoader Dataset DistributedSampler IterableDataset
        RandomSampler Sampler SequentialSampler StackDataset Subset SubsetRandomSampler TensorDataset
        WeightedRandomSampler _utils.collate.collate default_collate default_convert
        distributed.DistributedSampler get_worker_info random_split
    """,
    "masked": """
        amax amin argmax argmin cumprod cumsum log_softmax logaddexp logsumexp mean median norm normalize prod
        softmax softmin std sum var
    """,
    "fx": """
        CodeGen Graph GraphModule Interpreter Node Proxy Tracer Transformer has_side_effect map_arg replace_pattern
        symbolic_trace wrap
    """,
    "signal.windows": """
        bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann kaiser nuttall
    """,
}
