"""Names of adjoint.compat that load their modules on demand: made by tools/lazy_names.py, not to be edited.

A row is a module, and the names that it gives: methods of Tensor, and functions of the package that are no methods.
"""

METHODS: dict[str, str] = {
    "functions.as_subclass": "_make_subclass as_subclass",
    "functions.copy_variants": "as_strided_scatter",
    "functions.legacy_types": "apply_ map2_ map_ new new_empty new_empty_strided type",
    "functions.removed": "eig lstsq solve symeig",
    "functions.tensor_queries": """
        dense_dim dim_order get_device is_coalesced is_conj is_cuda is_distributed is_ipu is_maia is_mkldnn
        is_mps is_mtia is_neg is_nested is_nonzero is_pinned is_quantized is_same_size is_set_to is_signed
        is_sparse is_sparse_csr is_vulkan is_xla is_xpu itemsize layout name nbytes ndimension nelement
        pin_memory storage storage_offset storage_type sum_to_size to_dense untyped_storage volatile
    """,
}
FUNCTIONS: dict[str, str] = {
    "functions.checks": """
        _assert _assert_async _check _check_index _check_is_size _check_not_implemented _check_tensor_all
        _check_tensor_all_with _check_type _check_value _check_with
    """,
    "functions.copy_variants": """
        alias_copy as_strided_copy constant_pad_nd detach_copy diagonal_copy empty_permuted expand_copy fill
        permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy
        transpose_copy unbind_copy unfold_copy unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy
    """,
    "functions.foreach": """
        _foreach_abs _foreach_abs_ _foreach_acos _foreach_acos_ _foreach_add _foreach_add_ _foreach_addcdiv
        _foreach_addcdiv_ _foreach_addcmul _foreach_addcmul_ _foreach_asin _foreach_asin_ _foreach_atan
        _foreach_atan_ _foreach_ceil _foreach_ceil_ _foreach_clamp_max _foreach_clamp_max_ _foreach_clamp_min
        _foreach_clamp_min_ _foreach_clone _foreach_copy_ _foreach_cos _foreach_cos_ _foreach_cosh
        _foreach_cosh_ _foreach_div _foreach_div_ _foreach_erf _foreach_erf_ _foreach_erfc _foreach_erfc_
        _foreach_exp _foreach_exp_ _foreach_expm1 _foreach_expm1_ _foreach_floor _foreach_floor_ _foreach_frac
        _foreach_frac_ _foreach_lerp _foreach_lerp_ _foreach_lgamma _foreach_lgamma_ _foreach_log
        _foreach_log10 _foreach_log10_ _foreach_log1p _foreach_log1p_ _foreach_log2 _foreach_log2_
        _foreach_log_ _foreach_max _foreach_maximum _foreach_maximum_ _foreach_minimum _foreach_minimum_
        _foreach_mm _foreach_mul _foreach_mul_ _foreach_neg _foreach_neg_ _foreach_norm _foreach_pow
        _foreach_pow_ _foreach_powsum _foreach_reciprocal _foreach_reciprocal_ _foreach_round _foreach_round_
        _foreach_rsqrt _foreach_rsqrt_ _foreach_sigmoid _foreach_sigmoid_ _foreach_sign _foreach_sign_
        _foreach_sin _foreach_sin_ _foreach_sinh _foreach_sinh_ _foreach_sqrt _foreach_sqrt_ _foreach_sub
        _foreach_sub_ _foreach_tan _foreach_tan_ _foreach_tanh _foreach_tanh_ _foreach_trunc _foreach_trunc_
        _foreach_zero_
    """,
    "functions.legacy_types": """
        BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor
        LongTensor ShortTensor
    """,
    "functions.removed": "matrix_rank",
    "functions.settings": """
        are_deterministic_algorithms_enabled can_cast get_default_device get_deterministic_debug_mode
        get_num_interop_threads is_deterministic_algorithms_warn_only_enabled is_warn_always_enabled
        set_default_device set_default_tensor_type set_deterministic_debug_mode set_flush_denormal
        set_num_interop_threads set_warn_always use_deterministic_algorithms
    """,
    "functions.sym_int": "SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum",
    "functions.tensor_queries": "is_floating_point is_storage is_tensor numel typename",
    "functions.torch_signatures": """
        detach embedding grid_sampler grid_sampler_2d grid_sampler_3d group_norm native_batch_norm
        native_group_norm native_layer_norm rms_norm
    """,
    "unsupported_dtypes": """
        chalf complex32 float4_e2m1fn_x2 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz
        float8_e8m0fnu int1 int2 int3 int4 int5 int6 int7 qint32 qint8 quint2x4 quint4x2 quint8 uint1 uint2
        uint3 uint4 uint5 uint6 uint7
    """,
}
