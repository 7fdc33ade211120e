"""Modules of version 0.1 that have other names now: pickles and checkpoints written then name them."""

from __future__ import annotations

# (folder then, folder now): the modules in it; `new=old` where the name has changed too.
_MOVES = {
    ("amp", "compat.stubs.devices"): "cuda_amp=older",
    ("autograd", "autograd"): "graph=edges hooks=gathering",
    ("autograd", "autograd.debug"): "backward_steps=steps memory_report=memory why_no_grad=why",
    ("autograd", "autograd.engine"): """
        accumulate_grad=settle error_notes=latest error_notes=located graph_task=accumulate node_call=conjugated
        node_call=pull where_masks=blocked
    """,
    ("autograd", "autograd.function"): """
        context node=function_node non_differentiable=once outputs=function_outputs saved=kept
    """,
    ("autograd", "autograd.saved"): """
        copy_on_write=mutation saved_attributes=saved_names saved_attributes=shown saved_tensor
    """,
    ("autograd", "compat.stubs"): "autograd=versions",
    ("autograd", "testing.gradcheck"): "analytical grad_properties=contract jacobians numerical",
    ("autograd", "transforms"): "argnums=arguments grad=transforms jacobian=whole level=provenance",
    ("autograd", "transforms.forward"): """
        custom_function=function_tangents dual_level=forward dual_saved=carried jvp_rules=pushforward
        tangent_layout=layout
    """,
    ("autograd", "transforms.functional"): """
        inputs=functional_inputs inputs=functional_strict jacobian=functional_jacobian
    """,
    ("autograd", "transforms.vmap"): """
        batched_tensor=batch batching_rules=batching convolution=batching_convolution
        custom_function=function_batching indexing=batching_index random=batching_random vmap
    """,
    ("core", "compat"): """
        absent_device=no_device module_alias=elsewhere unsupported_dtypes=unheld
    """,
    ("core", "core.dtype"): "device dtype_info=limits",
    ("core", "core.graph"): """
        grad_dtype=grad_types hooks iterative_dealloc=release node not_implemented=undifferentiable
        source_location=site
    """,
    ("core", "core.op"): """
        autocast bfloat16=widening eager_kernels=native eager_kernels=routine families matmul_precision=precision
        op_errors=faults op_errors=refusal recorder=making signature=parameters spec call_template=one_input
    """,
    ("core", "core.random"): """
        box_muller=boxmuller generator generator_state=stream mt19937=mersenne rejection_sampling=integer_range
        rejection_sampling=rejection samplers=distributions
    """,
    ("core", "core.runtime"): """
        deterministic=determinism fork_safety=forking gc_pause=collector html=page lazy_import=later libm=rounding
        mode package_name=spoken pytree=tree text_table=table threads
    """,
    ("core", "core.tensor"): """
        as_strided=region autograd_meta=history construction=wrap data_access=reading detach_record=cut
        external_aliases=exposure memory_format=layout memory_format=order meta meta=shaping mutation_log=writes
        printing protocols size storage torch_function=overriding
    """,
    ("data", "data"): "sampler=distributed worker_pipe=channel worker_pool=crew",
    ("distributions", "distributions"): "location_scale=folded probs_or_logits=chance",
    ("distributions", "distributions.constraints"): "constraint matrix=matrix_constraints number=number_constraints",
    ("distributions", "distributions.kl"): "cross_family=cross_divergences same_family=divergences",
    ("distributions", "distributions.multivariate"): "cholesky_forms=factors",
    ("distributions", "distributions.transforms"): """
        cat_stack=joined_transforms number=number_transforms transform vector=vector_transforms
    """,
    ("func", "transforms"): """
        associative_scan=scan functional_call=modules functional_call=purity per_sample_grads=per_sample
    """,
    ("functions", "compat.functions"): """
        as_subclass=subclassing checks=conditions copy_variants=copies foreach legacy_types=legacy removed settings
        sym_int=symbolic_sizes tensor_queries=description torch_signatures=plain
    """,
    ("functions", "functions.api"): """
        channels_last=image_order compute_dtype=precision dim_args=dims lazy_index=late
        legacy_overloads=leading_factors memory_format=memory_order out=out_types out=result publish=surface
        return_types
    """,
    ("functions", "functions.creation"): """
        buffers_dlpack=exchange creation=ranges linspace_logspace=even_steps linspace_logspace=ranges random
        sampling=distributions shared_memory=sharing typed_storage=storages
    """,
    ("functions", "functions.elementwise"): """
        activation allclose=agreement complex dtype_conversion=conversion float_functions=elementary
        gated_activation=gating inplace_activation pointwise relu_variants=rectifiers special
    """,
    ("functions", "functions.indexing"): """
        gather getitem=index masked_nonzero=gather masked_nonzero=order masked_nonzero=pointwise
        masked_nonzero=ranges scatter scatter=arrangement traced_masks=masked
    """,
    ("functions", "functions.linalg"): """
        checks=matrices distance eig_svd=linalg_spectrum einsum factorizations=linalg_factors low_rank
        lu_ldl=linalg_lu matmul=linear matrix_functions=linalg_products norms=reduce norms_det=linalg_norms
        products solve=linalg_solving
    """,
    ("functions", "functions.loss"): """
        classification ctc=sequence_loss margin=margin_loss similarity=comparing_loss
    """,
    ("functions", "functions.nn"): """
        adaptive_pooling attention channel_ops=channels conv_transpose=transposed_convolution convolution
        dropout=channel_dropout dropout=dropping embedding embedding_bag grid_sample=grid
        group_norm=group_normalization interpolate=antialiasing interpolate=resampling multihead_attention=multihead
        normalization pad=framing pooling recurrent recurrent_fused=recurrent_sweep unpool_fold=placing
    """,
    ("functions", "functions.reduction"): """
        cumulative=reduce cumulative=scan histogram=order histogram=statistics numerical_calculus=calculus
        numerical_calculus=scan reduce reduce=elementary reduce=order segment_reduce=segments
        sort_quantile_unique=order sort_quantile_unique=reduce statistics statistics=distance statistics=reduce
    """,
    ("functions", "functions.shape"): """
        as_strided=strides diag_tril=arrangement diag_tril=gather diag_tril=strides flip_roll=arrangement
        join=arrangement join=joining meshgrid_combinations=arrangement repeat=joining shape=arrangement
        shape=reinterpretation split=joining split=sections
    """,
    ("functions", "functions.signal"): "fft=fourier fftfreq=frequencies stft=spectrogram windows",
    ("nn", "compat.stubs.nn"): "internals=attention_kernels",
    ("nn", "nn"): "init=truncated",
    ("nn", "nn.containers"): "parameter_dict parameter_list",
    ("nn", "nn.layers"): """
        activation adaptive_pooling attention_bias conv_transpose=transposed_convolution convolution dropout
        embedding flatten=shape group_norm=group_normalization interpolate=resampling lazy linear normalization
        padding pooling recurrent recurrent_cells similarity=comparing transformer
    """,
    ("nn", "nn.loss"): "adaptive_softmax losses=reduced margin=margin_loss",
    ("nn", "nn.module"): """
        backward_hooks call_with_hooks=hooked_call from_function hooks load_state_dict=loading module_path=path
        node_hooks registration state_dict=state to=conversion traversal uninitialized
    """,
    ("nn.utils", "nn.utils"): "parameter_vector=vector pruning_methods=pruning",
    ("ops", "core.dtype"): "dtype_info=scalar_types",
    ("ops", "ops"): "multi_output=joint",
    ("ops", "ops.elementwise"): """
        arithmetic bitwise comparison complex float_functions=elementary float_functions=representation
        select=limiting select=selection transcendental
    """,
    ("ops", "ops.indexing"): "indexing=picking nonzero=places scatter sort=ordering",
    ("ops", "ops.linalg"): """
        cholesky_qr=factorisation eig_svd=spectrum fft=fourier ldl lobpcg=eigenpairs lstsq=least_squares lu
        matmul=contraction matrix_exp=matrix_exponential packed_factors=factors triangular
    """,
    ("ops", "ops.movement"): """
        as_strided=strides memory_format=memory_order memory_format=reinterpretation sliding_windows=windows
        split=pieces
    """,
    ("ops", "ops.mutation"): "inplace view_update=assignment",
    ("ops", "ops.nn"): "attention convolution normalization pooling",
    ("ops", "ops.random"): "sampling=distributions",
    ("ops", "ops.reduction"): "scan variance=deviation",
    ("ops", "ops.special"): """
        bessel bessel=airy chebyshev chebyshev_tables erf=error_function gamma
        implicit_reparam=reparametrised incomplete_gamma normal_cdf=normal orthogonal_polynomials=orthogonal zeta
    """,
    ("optim", "optim.lr"): """
        chained=combined cosine_restarts=warm_restarts cyclic one_cycle reduce_on_plateau=plateau scheduler=schedule
    """,
    ("optim", "optim.step"): """
        hooks hyperparameters=options param_groups=groups state_dict=state update_rule=entries update_rule=means
        update_rule=whole
    """,
    ("serialization", "serialization"): """
        load_options=byte_order load_options=mapping pickle_globals=naming safe_globals=inert safetensors=foreign
        safetensors_tree=checkpoint tensor_rebuild=rebuilding torch_reader=reading torch_writer=writing
        zip_archive=archive
    """,
}

# What a folder is now was a module: where its names are, searched in order.
FOLDERS = {
    "autograd.engine": "autograd.engine.engine",
    "autograd.function": "autograd.function.function",
    "autograd.saved": "autograd.saved.hooks",
    "core.dtype": "core.dtype.dtype",
    "core.op": "core.op.op",
    "core.tensor": "core.tensor.tensor",
    "distributions.kl": "distributions.kl.registry",
    "functions.creation": "functions.creation.creation functions.creation.linspace_logspace",
    "functions.linalg": "functions.linalg.top_level_names functions.linalg.norms",
    "functions.loss": "functions.loss.regression",
    "functions.shape": "functions.shape.shape functions.shape.flip_roll",
    "nn.containers": "nn.containers.containers",
    "nn.loss": "nn.loss.losses",
    "nn.module": "nn.module.module",
    "ops.indexing": "ops.indexing.indexing",
    "ops.linalg": "ops.linalg.inverse_det_solve",
    "ops.movement": "ops.movement.movement",
    "ops.random": "ops.random.draws",
    "ops.reduction": "ops.reduction.reduction",
}

# Functions that pickles call by a name which has changed.
FUNCTIONS = {
    "core.generator._restored": "core.random.generator:_rebuild_generator",
    "functions.channels.gumbel_softmax": "functions.elementwise.gated_activation:gumbel_softmax",
    "functions.channels.local_response_norm": "functions.nn.normalization:local_response_norm",
    "functions.classification.one_hot": "functions.nn.embedding:one_hot",
    "functions.comparing_loss.bilinear": "functions.linalg.matmul:bilinear",
    "functions.convolution.pad": "functions.nn.pad:pad",
    "functions.convolution.unfold": "functions.nn.unpool_fold:unfold",
    "functions.normalization.cosine_similarity": "functions.loss.similarity:cosine_similarity",
    "functions.resampling.adaptive_avg_pool1d": "functions.nn.adaptive_pooling:adaptive_avg_pool1d",
    "functions.resampling.adaptive_avg_pool2d": "functions.nn.adaptive_pooling:adaptive_avg_pool2d",
    "functions.resampling.adaptive_avg_pool3d": "functions.nn.adaptive_pooling:adaptive_avg_pool3d",
    "functions.resampling.pixel_shuffle": "functions.nn.channel_ops:pixel_shuffle",
    "functions.resampling.pixel_unshuffle": "functions.nn.channel_ops:pixel_unshuffle",
}


def _read_moves() -> dict[str, str]:
    """Return the new name of each old one, without the package; the new names of what is several modules now."""
    moved: dict[str, str] = {}
    for (folder, now), moves in _MOVES.items():
        for name, _, before in (move.partition("=") for move in moves.split()):
            old = f"{folder}.{before or name}"
            moved[old] = f"{moved[old]} {now}.{name}" if old in moved else f"{now}.{name}"
    return moved


RENAMED = _read_moves()
