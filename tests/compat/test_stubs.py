"""Modules that programs written for PyTorch import: each is there, and has the names that they take from it."""

from importlib import import_module
from pathlib import Path

import pytest
from tests.support.errors import assert_raises
from tests.support.scripts import start

import adjoint as ad

NAMES = {
    "_dynamo": "config reset disable optimize OptimizedModule", "functional": "einsum norm split",
    "autograd": "Variable Function profiler", "autograd.profiler": "profile record_function",
    "compiler": "disable is_compiling is_dynamo_compiling reset cudagraph_mark_step_begin allow_in_graph",
    "cuda.amp": "autocast GradScaler custom_fwd custom_bwd", "cuda.amp.common": "amp_definitely_not_available",
    "utils.data._utils.pin_memory": "pin_memory", "distributed": "is_available is_initialized ReduceOp",
    "jit": "script trace ignore unused export script_method ScriptModule is_scripting is_tracing annotate Final",
    "jit.annotations": "List BroadcastingList2", "multiprocessing": "spawn Process Queue get_context set_start_method",
    "nn.attention": "SDPBackend sdpa_kernel", "nn.common_types": "_size_2_t _size_any_t",
    "nn.modules.activation": "ReLU MultiheadAttention", "nn.modules.batchnorm": "_BatchNorm BatchNorm2d _NormBase",
    "nn.modules.container": "Sequential ModuleList", "nn.modules.conv": "_ConvNd Conv2d _ConvTransposeNd",
    "nn.modules.dropout": "_DropoutNd Dropout", "nn.modules.instancenorm": "_InstanceNorm",
    "nn.modules.linear": "Linear Identity", "nn.modules.loss": "_Loss _WeightedLoss MSELoss",
    "nn.modules.module": "Module _IncompatibleKeys _EXTRA_STATE_KEY_SUFFIX",
    "nn.modules.normalization": "LayerNorm GroupNorm",
    "nn.modules.pooling": "_MaxPoolNd MaxPool2d", "nn.modules.rnn": "RNNBase LSTM",
    "nn.modules.utils": "_list_with_default _reverse_repeat_tuple _pair _single _triple _ntuple",
    "nn.parallel": "DataParallel DistributedDataParallel",
    "nn.parallel.distributed": "DistributedDataParallel", "nn.parameter": "Parameter UninitializedParameter is_lazy",
    "nn.utils.convert_parameters": "parameters_to_vector", "_subclasses.fake_tensor": "is_fake", "cuda": "_initialized",
    "cuda.random": "manual_seed_all", "cuda.memory": "memory_allocated",
    "_utils": "_rebuild_tensor_v2 _flatten_dense_tensors classproperty", "_tensor": "Tensor _rebuild_from_type_v2",
    "serialization": "pickle", "nn.init": "_no_grad_uniform_ _no_grad_zero_ _calculate_correct_fan",
    "utils.checkpoint": "get_device_states set_device_states DefaultDeviceType",
    "overrides": "has_torch_function handle_torch_function",
    "profiler": "profile record_function ProfilerActivity schedule", "storage": "TypedStorage UntypedStorage",
    "_C": "Generator Size TensorBase default_generator device dtype layout memory_format _nn _VariableFunctions",
    "nn.functional": "_pair _single _triple _list_with_default has_torch_function handle_torch_function",
    "_lowrank": "svd_lowrank", "optim._functional": "adam sgd",
    "nn.utils.clip_grad": "_get_total_norm _clip_grads_with_norm_", "optim.optimizer": "_get_value _foreach_doc",
    "fx.graph": "Graph CodeGen _Namespace", "fx.node": "Node base_types _get_qualified_name",
    "fx._symbolic_trace": "Tracer wrap PH", "fx.graph_module": "GraphModule _copy_attr _USER_PRESERVED_ATTRIBUTES_KEY",
    "types": "Device Number", "utils._pytree": "tree_map tree_flatten tree_unflatten Context",
    "_higher_order_ops.associative_scan": "associative_scan",
    "utils.benchmark": "Timer", "utils.data._utils.collate": "default_collate",
    "utils.data.dataloader": "default_collate _BaseDataLoaderIter", "utils.data.distributed": "DistributedSampler",
    "utils.model_zoo": "load_url", "version": "cuda hip __version__", "return_types": "max sort",
}  # fmt: skip
ABSENT = ["ao.quantization", "distributed.fsdp", "fx.experimental", "onnx.symbolic_helper", "quantization"]
ABSENT += ["utils.cpp_extension"]


@pytest.mark.parametrize("path", NAMES)
def test_names_are_found(path: str) -> None:
    module = import_module(f"adjoint.{path}")
    assert [name for name in NAMES[path].split() if not hasattr(module, name)] == []


def test_each_is_found_first_in_a_new_process(tmp_path: Path) -> None:
    lines = [f"import adjoint.{path}" for path in ("backends.cudnn", "nn.modules.batchnorm", "utils.cpp_extension")]
    lines += ["import adjoint", "adjoint.backends.cudnn.benchmark = True", "print(adjoint.cuda.is_available())"]
    assert start(tmp_path, "-c", "\n".join(lines)).out == "False"


@pytest.mark.parametrize("path", ABSENT)
def test_what_is_absent_can_be_imported_and_says_so_when_used(path: str) -> None:
    module = import_module(f"adjoint.{path}")
    assert not isinstance(ad.ones(1), module.Anything)
    assert_raises(NotImplementedError, f"adjoint.{path}.Anything is not part of adjoint: ", module.Anything, 1)


def test_marks_of_absent_parts_leave_functions_alone() -> None:
    @ad.onnx.symbolic_helper.parse_args
    def double(x: int) -> int:
        return 2 * x

    assert double(2) == 4
    assert ad._subclasses.fake_tensor.is_fake(1) is False


def test_private_bases_tell_layers_apart() -> None:
    from adjoint.nn.modules.batchnorm import _BatchNorm, _NormBase
    from adjoint.nn.modules.conv import _ConvNd
    from adjoint.nn.modules.loss import _Loss, _WeightedLoss

    nn = ad.nn
    assert isinstance(nn.BatchNorm2d(2), _BatchNorm)
    assert not isinstance(nn.InstanceNorm2d(2), _BatchNorm)
    assert isinstance(nn.InstanceNorm2d(2), _NormBase)
    assert isinstance(nn.ConvTranspose1d(1, 1, 1), _ConvNd)
    assert isinstance(nn.MSELoss(), _Loss)
    assert isinstance(nn.CrossEntropyLoss(), _WeightedLoss)
    assert not isinstance(nn.MSELoss(), _WeightedLoss)


def test_bases_of_losses_and_norms_can_be_derived_from() -> None:
    from adjoint.nn.modules.batchnorm import _BatchNorm
    from adjoint.nn.modules.loss import _WeightedLoss

    class Focal(_WeightedLoss):  # type: ignore[valid-type, misc]
        def forward(self, x: ad.Tensor) -> ad.Tensor:
            return (x * self.weight).sum()

    class Norm(_BatchNorm):  # type: ignore[valid-type, misc]
        def _check_input_dim(self, input: ad.Tensor) -> None:
            if input.dim() != 3:
                raise ValueError(f"3 dimensions, not {input.dim()}")

    loss = Focal(weight=ad.tensor([1.0, 2.0]), reduction="sum")
    assert loss(ad.ones(2)).item() == 3
    assert (loss.reduction, list(loss.state_dict())) == ("sum", ["weight"])
    assert Norm(2)(ad.randn(4, 2, 3)).shape == (4, 2, 3)
    assert_raises(ValueError, "3 dimensions, not 2", lambda: Norm(2)(ad.ones(4, 2)))
    with pytest.raises(NotImplementedError):
        _BatchNorm(2)(ad.ones(4, 2))


def test_sizes_are_filled_in_and_repeated() -> None:
    from adjoint.nn.modules.utils import _reverse_repeat_tuple

    from adjoint.nn.functional import _list_with_default, _triple

    assert _triple(2) == (2, 2, 2)
    assert _list_with_default((None, 3), (5, 6, 7)) == [6, 3]
    assert _list_with_default(4, ()) == 4
    assert _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    with pytest.raises(ValueError, match="at least 3"):
        _list_with_default((1, None), (2, 3))
