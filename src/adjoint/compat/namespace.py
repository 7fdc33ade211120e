"""Table of PyTorch's names and their homes here, from which `compat` makes modules without files.

Every name is written without the package: `nn.utils.rnn` is `adjoint.nn.utils.rnn`, and `torch.nn.utils.rnn` under
`python -m adjoint.run`.
"""

from __future__ import annotations

from adjoint.compat import distributed_names

# PyTorch's module: the module here that it is, or `module:name` for a module that is a value of another one. Several
# modules, or `name=other` for a name that is called otherwise there, make a module that has the names of all of them.
MODULES = {
    "_C": "compat.stubs.c_module",
    "_C._fft": "compat.stubs.c_module:_fft",
    "_C._linalg": "compat.stubs.c_module:_linalg",
    "_C._nn": "compat.stubs.c_module:_nn",
    "_C._special": "compat.stubs.c_module:_special",
    "__config__": "compat.stubs.version",
    "_VF": "__init__ compat.stubs.nn.recurrent compat.stubs.private_functions _unique2=unique2",
    "_custom_ops": "library",
    "_C._VariableFunctions": "__init__",
    "_lowrank": "functions.linalg.low_rank",
    "_dynamo": "compat.stubs.dynamo",
    "_dynamo._trace_wrapped_higher_order_op": "compat.stubs.dynamo",
    "_dynamo.eval_frame": "compat.stubs.dynamo",
    "_dynamo.utils": "compat.stubs.dynamo",
    "_functorch": "func compat.stubs.functorch",
    "_functorch.apis": "func compat.stubs.functorch",
    "_functorch.eager_transforms": "func compat.stubs.functorch",
    "_functorch.functional_call": "func compat.stubs.functorch",
    "_functorch.make_functional": "func compat.stubs.functorch",
    "_functorch.vmap": "func compat.stubs.functorch",
    "_higher_order_ops": "transforms.associative_scan",
    "_higher_order_ops.associative_scan": "transforms.associative_scan",
    "_jit_internal": "compat.stubs.jit",
    "_tensor": "core.tensor.tensor compat.stubs.internal_utils",
    "_tensor_str": "core.tensor.printing PRINT_OPTS=options _tensor_str=format_tensor",
    "_utils": "compat.stubs.internal_utils",
    "accelerator": "compat.stubs.devices.absent:accelerator",
    "accelerator.memory": "compat.stubs.devices.absent:accelerator",
    "amp.autocast_mode": "amp compat.stubs.private_functions",
    "array_api": "interop.array_api",
    "autograd.anomaly_mode": "autograd.debug.anomaly_mode",
    "autograd.forward_ad": "transforms.forward.forward_ad",
    "autograd.functional": "transforms.functional.api",
    "autograd.gradcheck": "testing.gradcheck.gradcheck",
    "autograd.profiler": "utils.profiler",
    "autograd.profiler_util": "utils.profiler",
    "autograd.variable": "compat.stubs.autograd",
    "backends": "compat.stubs.devices.backends",
    "cpu": "compat.stubs.devices.cpu",
    "cpu.amp": "compat.stubs.devices.cpu_amp",
    "cpu.amp.autocast_mode": "compat.stubs.devices.cpu_amp",
    "cpu.amp.grad_scaler": "compat.stubs.devices.cpu_amp",
    "cuda": "compat.stubs.devices.cuda",
    "cuda.amp": "compat.stubs.devices.cuda_amp",
    "cuda.amp.autocast_mode": "compat.stubs.devices.cuda_amp",
    "cuda.amp.common": "compat.stubs.devices.cuda_amp",
    "cuda.amp.grad_scaler": "compat.stubs.devices.cuda_amp",
    "cuda.graphs": "compat.stubs.devices.cuda",
    "cuda.memory": "compat.stubs.devices.cuda",
    "cuda.nvtx": "compat.stubs.devices.absent:nvtx",
    "cuda.random": "compat.stubs.devices.cuda",
    "cuda.streams": "compat.stubs.devices.cuda",
    "func.stateless": "compat.stubs.functorch",
    "functional": "__init__",
    "futures": "compat.stubs.futures",
    "fx": "compat.fx",
    "fx._compatibility": "compat.fx.wrapped_functions",
    "fx._pytree": "compat.stubs.pytree",
    "fx._symbolic_trace": "compat.fx.symbolic_trace compat.fx.wrapped_functions compat.fx.root_arguments",
    "fx.experimental.symbolic_shapes": "compat.functions.sym_int",
    "fx.graph": "compat.fx.graph compat.fx.codegen compat.fx.naming _Namespace=NodeNames _PyTreeCodeGen=PyTreeCodeGen",
    "fx.graph_module": "compat.fx.graph_module",
    "fx.immutable_collections": "compat.fx.immutable_collections",
    "fx.interpreter": "compat.fx.interpreter",
    "fx.node": (
        "compat.fx.node compat.fx.immutable_collections compat.fx.proxy _get_qualified_name=get_qualified_name"
    ),
    "fx.passes": "compat.fx",
    "fx.passes.shape_prop": "compat.fx.shape_prop",
    "fx.proxy": "compat.fx.proxy compat.fx.root_arguments",
    "fx.subgraph_rewriter": "compat.fx.subgraph_rewriter",
    "hub": "compat.stubs.hub",
    "jit": "compat.stubs.jit",
    "jit.annotations": "compat.stubs.annotations",
    "masked": "functions.reduction.masked",
    "masked._ops": "functions.reduction.masked",
    "mps": "compat.stubs.devices.absent:mps",
    "mtia": "compat.stubs.devices.absent:mtia",
    "multiprocessing": "compat.stubs.multiprocessing",
    "nn._reduction": "compat.stubs.nn.internals",
    "nn.attention": "nn.layers.attention compat.stubs.nn.internals",
    "nn.attention.bias": "nn.layers.attention_bias",
    "nn.common_types": "compat.stubs.annotations",
    "nn.functional._Reduction": "compat.stubs.nn.internals",
    "nn.functional.grad": "nn.conv_grad",
    "nn.grad": "nn.conv_grad",
    "nn.modules": "nn nn.module.module",
    "nn.modules.module": "compat.stubs.nn.module_hooks",
    "nn.modules.utils": "compat.stubs.nn.internals",
    "nn.parallel": "compat.stubs.nn.parallel distributed.data_parallel",
    "nn.parallel.distributed": "distributed.data_parallel",
    "nn.parameter": "nn.module.parameter nn.module.uninitialized",
    "nn.utils._per_sample_grad": "transforms.per_sample_grads",
    "nn.utils.convert_parameters": "nn.utils.parameter_vector",
    "nn.utils.fusion": "nn.utils.layer_weights",
    "nn.utils.memory_format": "nn.utils.layer_weights",
    "nn.utils.rnn": "nn.utils.packed_sequence",
    "nn.modules.activation": "nn nn.layers.activation",
    "nn.modules.adaptive": "nn nn.loss.adaptive_softmax",
    "nn.modules.batchnorm": "nn nn.layers.normalization _BatchNorm=BatchNorm _NormBase=ChannelNorm",
    "nn.modules.channelshuffle": "nn",
    "nn.modules.container": "nn nn.containers.containers",
    "nn.modules.conv": (
        "nn nn.layers.convolution nn.layers.conv_transpose _ConvNd=Convolution _ConvTransposeNd=TransposedConvolution"
    ),
    "nn.modules.distance": "nn nn.layers.similarity",
    "nn.modules.dropout": "nn nn.layers.dropout _DropoutNd=Dropout",
    "nn.modules.flatten": "nn nn.layers.flatten",
    "nn.modules.fold": "nn",
    "nn.modules.instancenorm": "nn nn.layers.normalization _InstanceNorm=InstanceNorm",
    "nn.modules.lazy": "nn nn.module.uninitialized",
    "nn.modules.linear": "nn nn.layers.linear nn.layers.attention",
    "nn.modules.loss": "nn nn.loss.losses _Loss=Loss _WeightedLoss=WeightedLoss",
    "nn.modules.normalization": "nn nn.layers.group_norm",
    "nn.modules.padding": "nn nn.layers.padding",
    "nn.modules.pixelshuffle": "nn",
    "nn.modules.pooling": "nn nn.layers.pooling _MaxPoolNd=MaxPool _AvgPoolNd=AvgPool",
    "nn.modules.rnn": "nn nn.layers.recurrent nn.layers.recurrent_cells",
    "sparse": "functions.sparse.namespace",
    "nn.modules.sparse": "nn nn.layers.embedding",
    "nn.modules.transformer": "nn nn.layers.transformer",
    "nn.modules.upsampling": "nn nn.layers.interpolate",
    "onnx": "interop.onnx",
    "onnx.errors": "interop.onnx.modes",
    "onnx.utils": "interop.onnx",
    "optim.adamw": "optim.adam",
    "optim.lr_scheduler": "optim.lr.schedules",
    "optim._functional": "compat.stubs.optimizers",
    "optim.optimizer": "optim.step.optimizer",
    "overrides": "compat.torch_function compat.overridable_functions",
    "profiler": "utils.profiler",
    "profiler.profiler": "utils.profiler compat.stubs.private_functions",
    "random": "compat.stubs.random",
    "return_types": "functions.api.return_types",
    "run": "compat.run",
    "signal.windows": "functions.signal.torch_windows",
    "signal.windows.windows": "functions.signal.torch_windows",
    "storage": "functions.creation.typed_storage compat.stubs.internal_utils",
    "torch_version": "compat.run.version TorchVersion=Version",
    "types": "compat.stubs.annotations",
    "utils._foreach_utils": "compat.stubs.internal_utils",
    "utils._python_dispatch": "compat.stubs.c_module",
    "utils._pytree": "compat.stubs.pytree",
    "utils.benchmark": "compat.stubs.utils.benchmark",
    "utils.data": "data compat.stubs.utils.dataloader",
    "utils.data._utils": "data.collate data.fetch data.worker",
    "utils.data._utils.collate": "data.collate",
    "utils.data._utils.fetch": "data.fetch",
    "utils.data._utils.pin_memory": "compat.stubs.utils.dataloader",
    "utils.data._utils.worker": "data.worker",
    "utils.data.dataloader": "compat.stubs.utils.dataloader",
    "utils.data.dataloader._utils": "utils.data._utils",
    "utils.data.dataset": "data.dataset",
    "utils.data.distributed": "data.sampler",
    "utils.data.sampler": "data.sampler",
    "utils.dlpack": "functions.creation.buffers_dlpack",
    "utils.hooks": "core.graph.hooks",
    "utils.model_zoo": "compat.stubs.hub load_url=load_state_dict_from_url",
    "utils.tensorboard._utils": "utils.tensorboard.arrays",
    "utils.tensorboard._convert_np": "utils.tensorboard.arrays make_np=to_array",
    "version": "compat.stubs.version",
    "xpu": "compat.stubs.devices.absent:xpu",
}

MODULES |= distributed_names.MODULES

# Modules for each distribution by PyTorch's names, where one file here has several.
_DISTRIBUTIONS = {
    "discrete.bernoulli": "bernoulli geometric",
    "discrete.binomial": "binomial negative_binomial poisson",
    "discrete.categorical": "categorical multinomial one_hot_categorical",
    "continuous.cauchy": "cauchy half_cauchy studentT",
    "continuous.continuous_bernoulli": "continuous_bernoulli",
    "continuous.dirichlet": "dirichlet beta kumaraswamy",
    "continuous.exponential": "exponential laplace pareto weibull",
    "continuous.gamma": "gamma chi2 fishersnedecor inverse_gamma",
    "continuous.normal": "normal half_normal log_normal logistic_normal",
    "continuous.relaxed": "relaxed relaxed_bernoulli relaxed_categorical",
    "continuous.uniform": "uniform generalized_pareto gumbel",
    "continuous.von_mises": "von_mises",
    "multivariate.multivariate_normal": "multivariate_normal lowrank_multivariate_normal",
    "multivariate.wishart": "wishart lkj_cholesky",
    "constraints.registry": "constraint_registry",
    "parameters": "utils",
}
MODULES |= {
    f"distributions.{name}": f"distributions.{home}" for home, names in _DISTRIBUTIONS.items() for name in names.split()
}

# Single names: where each is, `module:name`.
NAMES = {
    "DeviceObjType": "core.dtype.device:device",
    "Event": "compat.stubs.devices.cuda:Event",
    "Future": "compat.stubs.futures:Future",
    "OutOfMemoryError": "compat.stubs.devices.cuda:OutOfMemoryError",
    "PyTorchFileReader": "compat.stubs.c_module:PyTorchFileReader",
    "ScriptFunction": "compat.stubs.jit:ScriptFunction",
    "ScriptModule": "compat.stubs.jit:ScriptModule",
    "Stream": "compat.stubs.devices.cuda:Stream",
    "TensorType": "compat.stubs.c_module:TensorType",
    "autograd.GradcheckError": "testing.gradcheck.gradcheck:GradcheckError",
    "autograd.Variable": "compat.stubs.autograd:Variable",
    "autograd._force_original_view_tracking": "compat.stubs.autograd:_force_original_view_tracking",
    "autograd._unsafe_preserve_version_counter": "compat.stubs.autograd:_unsafe_preserve_version_counter",
    "autograd.gradcheck": "testing.gradcheck.gradcheck:gradcheck",
    "autograd.gradgradcheck": "testing.gradcheck.gradcheck:gradgradcheck",
    "autograd.is_view_replay_enabled": "compat.stubs.autograd:is_view_replay_enabled",
    "nn.Container": "compat.stubs.nn.parallel:Container",
    "nn.DataParallel": "compat.stubs.nn.parallel:DataParallel",
    "nn.SyncBatchNorm": "distributed.algorithms.sync_batch_norm:SyncBatchNorm",
    "nn.functional._threshold": "nn.functional:threshold",
    "optim.SparseAdam": "optim.sparse_adam:SparseAdam",
    "utils.checkpoint.DefaultDeviceType": "compat.stubs.devices.absent:DefaultDeviceType",
    "utils.checkpoint.get_device_states": "compat.stubs.devices.absent:get_device_states",
    "utils.checkpoint.set_device_states": "compat.stubs.devices.absent:set_device_states",
}

# Functions that do one step of an optimizer; those of `nn.init` without history; private ones of `torch`.
_PRIVATE_FUNCTIONS = """
    convert_indices_from_coo_to_csr convert_indices_from_csr_to_coo log_softmax_backward_data shape_as_tensor
    softmax_backward_data unique2
"""
_FORMER_FUNCTIONS = "get_autocast_cpu_dtype get_autocast_gpu_dtype get_device_module is_autocast_cpu_enabled"
_PRIVATE_HOME = "compat.stubs.private_functions"
_OPTIMIZER_HOME = "compat.stubs.optimizers"
_OPTIMIZER_FUNCTIONS = "adadelta adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd"
_OPTIMIZER_HELPERS = """
    capturable_doc default_to_fused_or_foreach differentiable_doc disable_dynamo_if_unsupported dispatch_sqrt
    foreach_doc fused_doc get_capturable_supported_devices get_value maximize_doc params_doc stack_if_compiling
    to_scalar use_grad_for_differentiable
"""
NAMES |= {f"optim.optimizer._{name}": f"{_OPTIMIZER_HOME}:{name}" for name in _OPTIMIZER_HELPERS.split()}
NAMES |= {"optim.optimizer._view_as_real": f"{_OPTIMIZER_HOME}:view_pairs_as_real"}
NAMES |= {f"optim.{name}.{name}": f"{_OPTIMIZER_HOME}:{name}" for name in _OPTIMIZER_FUNCTIONS.split()}
NAMES |= {f"nn.init._no_grad_{name}": f"nn.init:{name}" for name in ["normal_", "trunc_normal_", "uniform_"]}
NAMES |= {f"_{name}": f"{_PRIVATE_HOME}:{name}" for name in _PRIVATE_FUNCTIONS.split()}
NAMES |= {name: f"{_PRIVATE_HOME}:{name}" for name in f"_log_softmax _softmax {_FORMER_FUNCTIONS}".split()}
NAMES |= {
    "_grouped_mm": f"{_PRIVATE_HOME}:grouped_mm",
    "_segment_reduce": "functions.reduction.segment_reduce:segment_reduce",
    "autograd._disable_profiler": f"{_PRIVATE_HOME}:_disable_profiler",
    "autograd._profiler_enabled": f"{_PRIVATE_HOME}:_profiler_enabled",
    "nn.functional.grouped_mm": f"{_PRIVATE_HOME}:grouped_mm",
    "utils.swap_tensors": f"{_PRIVATE_HOME}:swap_tensors",
}

NAMES |= {"export.Dim": "interop.onnx.free_axes:Dim"}
NAMES |= distributed_names.NAMES
_SIZE_FUNCTIONS = "_list_with_default _pair _single _triple"
_OVERRIDE_FUNCTIONS = "handle_torch_function has_torch_function has_torch_function_unary has_torch_function_variadic"
NAMES |= {f"nn.functional.{name}": f"compat.stubs.nn.internals:{name}" for name in _SIZE_FUNCTIONS.split()}
NAMES |= {f"nn.functional.{name}": f"compat.torch_function:{name}" for name in _OVERRIDE_FUNCTIONS.split()}
NAMES |= {
    "_C.Generator": "core.random.generator:Generator",
    "_C.Size": "core.tensor.size:Size",
    "_C.TensorBase": "core.tensor.tensor:Tensor",
    "_C._has_torch_function": "compat.torch_function:has_torch_function",
    "_C._set_grad_enabled": "autograd.grad_mode:set_grad_enabled",
    "_C.default_generator": "core.random.generator:default_generator",
    "_C.device": "core.dtype.device:device",
    "_C.dtype": "core.dtype.dtype:dtype",
    "_C.layout": "core.tensor.memory_format:layout",
    "_C.memory_format": "core.tensor.memory_format:memory_format",
    "_utils.KeyErrorMessage": "data.worker:KeyErrorMessage",
    "nn.utils.clip_grad._clip_grads_with_norm_": "nn.utils.clip_grad:clip_grads_with_norm_",
    "nn.utils.clip_grad._get_total_norm": "nn.utils.clip_grad:get_total_norm",
    "nn.init._no_grad_fill_": "nn.init:constant_",
    "nn.init._no_grad_zero_": "nn.init:zeros_",
    "optim.optimizer._get_foreach_kernels_supported_devices": f"{_OPTIMIZER_HOME}:get_capturable_supported_devices",
    "optim.optimizer._get_fused_kernels_supported_devices": f"{_OPTIMIZER_HOME}:get_capturable_supported_devices",
}

# Parts of PyTorch that are not here, with the reason.
_QUANTIZED = "there are no quantised numbers"
ABSENT = {
    "_inductor": "adjoint.compile makes native code by itself",
    "_subclasses": "there are no fake tensors: those of the device 'meta' have shapes and types without values",
    "ao": _QUANTIZED,
    "classes": "classes are not scripted",
    "export": "programs are not exported: keep the module's code, and save its state_dict",
    "fx.experimental": "graphs have no symbolic shapes: adjoint.compile traces whole steps",
    "masked.maskedtensor": "there are no masked tensors: the functions of torch.masked take a mask beside a plain one",
    "monitor": "nothing is counted",
    "nested": "there are no nested tensors: see nn.utils.rnn for sequences of several lengths",
    "nn.attention.flex_attention": "scaled_dot_product_attention takes any mask",
    "nn.intrinsic": _QUANTIZED,
    "nn.parallel.scatter_gather": "there is one device",
    "nn.quantized": _QUANTIZED,
    "package": "programs are not packed into files",
    "quantization": _QUANTIZED,
    "utils.bundled_inputs": "programs are not packed into files",
    "utils.cpp_extension": "there is no C++ interface: see autograd.Function for an op with a gradient of its own",
    "utils.mobile_optimizer": "adjoint.compile makes native code by itself",
}
_ABSENT_PARTS = {
    "_subclasses": "fake_tensor",
    "ao": "nn nn.quantized quantization",
    "fx.experimental": "proxy_tensor",
}
_CUSTOM_SYMBOLS = "all ops are translated by one table, adjoint.interop.onnx.translation"
ABSENT |= {f"onnx.{part}": _CUSTOM_SYMBOLS for part in ["symbolic_helper", "symbolic_opset9", "symbolic_opset11"]}
ABSENT |= {f"{whole}.{part}": ABSENT[whole] for whole, parts in _ABSENT_PARTS.items() for part in parts.split()}
ABSENT |= distributed_names.ABSENT

# Of absent parts: the names that decorate a function, which stays as it is, and the predicates, which return False.
DECORATORS = {
    "distributed.rpc.api": "_require_initialized",
    "onnx.symbolic_helper": "parse_args",
}
PREDICATES = {"_subclasses.fake_tensor": "is_fake"}

# `__torch_function__` is asked by the functions of these modules; PyTorch prefixes their names.
DISPATCHING_NAMESPACES = {"nn.functional": "", "linalg": "linalg_", "fft": "fft_", "special": "special_"}
DISPATCHING_IMPLEMENTATIONS = ("functions", "ops", "nn.functional", "compat.functions")
DISPATCHING_IMPORTERS = ("functions.", "nn.", "compat.functions.")

# Methods of Tensor that PyTorch has as functions too.
IN_PLACE_FUNCTIONS = """
    abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ asinh_ atan_
    atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ erf_ erfc_
    exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_
    nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_
    square_ tan_ tanh_ trunc_ xlogy_ zero_
"""
