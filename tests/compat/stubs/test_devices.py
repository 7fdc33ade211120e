"""Devices that are not there: what programs ask, and what they order."""

import warnings
from typing import Any

import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

EXPRESSIONS = [
    *("t.device('cuda').type", "t.device('cuda:1').index", "t.device('cuda', 1).index", "str(t.device('cuda', 1))"),
    *("repr(t.device('cpu:0'))", "repr(t.device('mps'))", "t.device('cpu') == t.device('cpu:0')", "t.device('foo')"),
    *(
        "t.device('cpu:x')",
        "t.device('cpu:-1')",
        "t.device('cpu', -1)",
        "t.device(0)",
        "t.device(t.device('cpu')).type",
    ),
    *(
        "t.zeros(2, device='cpu:0').device.index",
        "t.zeros(2, device='cuda')",
        "t.ones(2).to('cuda')",
        "t.ones(2).to(0)",
    ),
    *("t.nn.Linear(1, 1).to('cuda')", "t.ones(2).cuda()", "t.nn.Linear(1, 1).cuda()", "t.randn(2, device='cuda')"),
    *("t.cuda.is_available()", "t.cuda.device_count()", "t.cuda.manual_seed(1)", "t.cuda.manual_seed_all(1)"),
    *("t.cuda.empty_cache()", "t.cuda.synchronize()", "t.cuda.get_device_name()", "t.cuda.current_device()"),
    *("t.cuda.memory_allocated()", "t.cuda.max_memory_allocated()", "t.cuda.get_device_properties(0)"),
    *("t.cuda.is_initialized()", "t.cuda.get_arch_list()", "t.cuda.is_bf16_supported()", "t.cuda.mem_get_info()"),
    *("t.cuda.Event(enable_timing=True)", "t.cuda.Stream()", "t.cuda.current_stream()", "t.cuda.get_rng_state_all()"),
    *("t.cuda.seed()", "t.cuda.init()", "t.cuda.get_device_capability()", "t.cuda.default_generators"),
    *("t.mps.is_available()", "t.mps.device_count()", "t.mps.manual_seed(1)", "t.mps.empty_cache()", "t.mps.seed()"),
    *("t.xpu.is_available()", "t.xpu.device_count()", "t.xpu.empty_cache()", "t.xpu.synchronize()"),
    *("t.accelerator.is_available()", "t.accelerator.device_count()", "t.accelerator.current_accelerator()"),
    *("t.accelerator.synchronize()", "t.accelerator.set_device_index(0)", "t.accelerator.current_device_index()"),
    *("t.cpu.is_available()", "t.cpu.device_count()", "t.cpu.current_device()", "t.cpu.synchronize()"),
    *("t.backends.cudnn.is_available()", "t.backends.cudnn.version()", "t.backends.cudnn.enabled"),
    *("t.backends.cudnn.benchmark", "t.backends.cudnn.deterministic", "t.backends.cudnn.allow_tf32"),
    *("t.backends.cuda.is_built()", "t.backends.cuda.matmul.allow_tf32", "t.backends.cuda.flash_sdp_enabled()"),
    *("t.backends.mps.is_available()", "t.backends.mps.is_built()", "t.backends.cuda.matmul.foo"),
]
MAYBE = (RuntimeError, AssertionError, AttributeError)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_answers_are_those_of_pytorch(expression: str) -> None:
    ours, theirs = outcome(ad, expression), outcome(torch, expression)
    if isinstance(theirs, BaseException):
        assert isinstance(ours, type(theirs)), (ours, theirs)
    else:
        assert ours == theirs


def outcome(library: Any, expression: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return eval(expression, {"t": library})
        except MAYBE as error:
            return error


def test_flags_are_never_frozen() -> None:  # PyTorch's are once its own test library is imported
    assert not ad.backends.flags_frozen()
    with getattr(ad.backends, "__allow_nonbracketed_mutation")():
        assert not ad.backends.flags_frozen()


def test_flags_can_be_set_for_a_block_and_for_good() -> None:
    cudnn = ad.backends.cudnn
    with cudnn.flags(enabled=False, benchmark=True):
        assert (cudnn.enabled, cudnn.benchmark) == (False, True)
    assert (cudnn.enabled, cudnn.benchmark) == (True, False)
    ad.backends.cuda.matmul.allow_tf32 = True
    assert ad.backends.cuda.matmul.allow_tf32
    ad.backends.cuda.matmul.allow_tf32 = False


def test_blocks_of_devices_and_streams_run_as_without() -> None:
    with ad.device("cpu"), ad.cuda.device(0), ad.cuda.stream(None), ad.cuda.nvtx.range("x"), ad.cpu.stream(None):
        assert ad.ones(2).sum().item() == 2
    assert ad.cuda.nvtx.range("part {}", 3)(lambda: 2)() == 2
    with pytest.raises(RuntimeError, match="computes on the CPU only"), ad.device("cuda"):
        pass


def test_attention_kernels_can_be_chosen() -> None:
    from adjoint.nn.attention import SDPBackend, sdpa_kernel

    q = ad.ones(1, 2, 3, 4)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]), ad.backends.cuda.sdp_kernel(enable_flash=False):
        assert ad.nn.functional.scaled_dot_product_attention(q, q, q).shape == (1, 2, 3, 4)
    with pytest.raises(TypeError, match="expects an SDPBackend"), sdpa_kernel("math"):
        pass
    assert {name: int(each) for name, each in SDPBackend.__members__.items()} == {
        name: int(each) for name, each in torch.nn.attention.SDPBackend.__members__.items()
    }


def test_amp_of_cuda_warns_and_does_nothing() -> None:
    with pytest.warns(FutureWarning, match="deprecated"), pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = ad.cuda.amp.GradScaler()
    assert not scaler.is_enabled()
    with pytest.warns(FutureWarning, match="deprecated"), pytest.warns(UserWarning, match="CUDA is not available"):
        block = ad.cuda.amp.autocast()
    with block:
        assert (ad.ones(2, 2) @ ad.ones(2, 2)).dtype is ad.float32


def test_tensors_of_cuda_are_no_class_of_a_tensor() -> None:
    assert not isinstance(ad.ones(1), ad.cuda.FloatTensor)
    with pytest.raises(NotImplementedError, match="no CUDA device"):
        ad.cuda.FloatTensor(2)
