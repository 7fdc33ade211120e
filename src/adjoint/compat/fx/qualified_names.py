"""Names of functions in printed code: PyTorch's own, and how its functions pass on what they were given.

PyTorch's Python functions tell `__torch_function__` all their arguments, some by keyword: `F.relu(x)` is recorded as
`relu(x, inplace=False)`. Its C++ functions have names in hidden modules: `F.gelu` is `torch._C._nn.gelu`.
"""

from __future__ import annotations

import builtins
import inspect
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import NamedTuple

from adjoint.core.dtype.device import device
from adjoint.core.dtype.dtype import dtype
from adjoint.core.runtime.package_name import display_name
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.tensor.torch_function import DispatchedFunction
from adjoint.core.typing import Function, Operand

PACKAGE = __name__.partition(".")[0]
# Modules of public functions, and what PyTorch's C++ functions of these are called in `torch._C`.
HIDDEN_MODULES = {"": "", "nn.functional": "_nn", "linalg": "_linalg", "fft": "_fft", "special": "_special"}
HIDDEN_PREFIXES = {"linalg": "linalg_", "fft": "fft_", "special": "special_"}

# Functions of `nn.functional` that are PyTorch's C++ functions: in `torch`, and in `torch._C._nn`.
TORCH_FUNCTIONS = """
    adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d conv_transpose3d cosine_similarity hardshrink native_channel_shuffle pairwise_distance pdist
    pixel_shuffle pixel_unshuffle prelu rrelu_ selu_ threshold_
"""
NN_FUNCTIONS = """
    avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear logsigmoid one_hot scaled_dot_product_attention
    softplus softshrink
"""
# Functions of `nn.functional` that are Python there: how many arguments are recorded by position, one if no number is
# given; the rest follows by keyword, in the order of the signature. Where `KEYWORD_ORDER` has an order of its own,
# others are left out if they are None, False or 0.
PYTHON_FUNCTIONS = """
    adaptive_avg_pool2d:2 adaptive_avg_pool3d:2 adaptive_max_pool1d:2 adaptive_max_pool2d:2 adaptive_max_pool3d:2
    affine_grid:2 alpha_dropout batch_norm:3 binary_cross_entropy:2 binary_cross_entropy_with_logits:2 celu
    cosine_embedding_loss:3 cross_entropy:2 ctc_loss:4 dropout dropout1d dropout2d dropout3d elu embedding:2
    embedding_bag:2 feature_alpha_dropout fold:3 fractional_max_pool2d:2 fractional_max_pool3d:2 gaussian_nll_loss:3
    glu grid_sample:2 group_norm:2 gumbel_softmax hardsigmoid hardswish hardtanh hinge_embedding_loss:2 huber_loss:2
    instance_norm interpolate kl_div:2 l1_loss:2 layer_norm:2 leaky_relu local_response_norm:2 log_softmax
    lp_pool1d:3 lp_pool2d:3 lp_pool3d:3 margin_ranking_loss:3 max_pool1d:2 max_pool2d:2 max_pool3d:2 max_unpool1d:3
    max_unpool2d:3 max_unpool3d:3 mish mse_loss:2 multi_head_attention_forward:13 multi_margin_loss:2
    multilabel_margin_loss:2 multilabel_soft_margin_loss:2 nll_loss:2 normalize pad:2 poisson_nll_loss:2 relu relu6
    rms_norm:2 rrelu selu silu smooth_l1_loss:2 soft_margin_loss:2 softmax softmin softsign tanhshrink threshold:3
    triplet_margin_loss:3 triplet_margin_with_distance_loss:3 unfold:2
"""
# Functions that are here in the package too, and there in `nn.functional` only (`torch.threshold` is another one).
NOT_IN_TORCH = "elu hardtanh leaky_relu pad relu6 silu softmin tanhshrink threshold unfold"
KEYWORD_ORDER = {
    "chain_matmul": "",
    "l1_loss": "size_average reduce reduction",
    "multi_head_attention_forward": (
        "training key_padding_mask need_weights attn_mask is_causal use_separate_proj_weight q_proj_weight "
        "k_proj_weight v_proj_weight static_k static_v average_attn_weights"
    ),
    "norm": "p dim keepdim out dtype",
    "ctc_loss": "blank reduction zero_infinity",
    "fractional_max_pool2d": "output_size output_ratio return_indices _random_samples",
    "fractional_max_pool3d": "output_size output_ratio return_indices _random_samples",
}
# The same for functions of `torch.functional`.
TORCH_PYTHON_FUNCTIONS = """
    atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist:2 chain_matmul einsum meshgrid
    norm split:2 stft:2 tensordot:2 unravel_index
"""


def _count_positional(table: str) -> dict[str, int]:
    rows = (word.partition(":") for word in table.split())
    return {name: int(count or 1) for name, _, count in rows}


POSITIONAL_COUNTS = {
    "nn.functional": _count_positional(PYTHON_FUNCTIONS),
    "": _count_positional(TORCH_PYTHON_FUNCTIONS),
}


def unwrap(function: Operand) -> Operand:
    """Return the function itself in whose place there is one that looks for overrides or proxies."""
    function = function.function if isinstance(function, DispatchedFunction) else function
    return getattr(function, "recorded_function", function)


PUBLIC_CLASSES = (Tensor, Size, dtype, device)  # those that annotations name


class PublicName(NamedTuple):
    """Name of a function in one of the modules."""

    module: str
    name: str

    def in_code(self) -> str:
        """Return what PyTorch calls it in its code, without the package."""
        module, name = self
        if module == "nn.functional":
            if name in TORCH_FUNCTIONS.split():
                return name
            if name in NN_FUNCTIONS.split():
                return f"_C._nn.{'log_sigmoid' if name == 'logsigmoid' else name}"
            return "nn.functional._threshold" if name == "threshold" else f"nn.functional.{name}"
        if module:
            return f"_C.{HIDDEN_MODULES[module]}.{HIDDEN_PREFIXES[module]}{name}"
        return f"functional.{name}" if name in POSITIONAL_COUNTS[""] else name


METHOD_CALLS = {PublicName("nn.functional", "sigmoid"), PublicName("nn.functional", "tanh")}  # they call methods


@cache
def public_functions() -> dict[Function, list[PublicName]]:
    """Return the public functions, each with its names; the first is that of a call about which nothing is known."""
    functions: dict[Function, list[PublicName]] = {}
    for module in HIDDEN_MODULES:
        home = import_module(f"{PACKAGE}.{module}".rstrip("."))
        for name in dir(home):
            value = unwrap(getattr(home, name, None))
            is_public = name[0] != "_" or (not module and not name.startswith("__"))
            if isinstance(value, FunctionType) and is_public and value.__module__.startswith(PACKAGE):
                functions.setdefault(value, []).append(PublicName(module, name))
    for function, names in functions.items():
        names.sort(key=lambda each: (is_elsewhere(each), each.name != function.__name__))
    return functions


def is_elsewhere(public: PublicName) -> bool:
    """Return whether PyTorch has a function in another module than this one."""
    if public.name in NN_FUNCTIONS.split() or public.name in NOT_IN_TORCH.split():
        return public.module != "nn.functional"
    return public.module != ""


def arrange_arguments(
    function: Function, public: PublicName, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return the arguments as PyTorch's function of that name tells them to `__torch_function__`."""
    count = POSITIONAL_COUNTS.get(public.module, {}).get(public.name)
    if count is None:
        return args, kwargs
    signature = signature_of(function)
    if (
        "out" in kwargs and kwargs["out"] is None and "out" not in signature.parameters
    ):  # `public` gives it to functions
        del (kwargs := dict(kwargs))["out"]
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    positional: list[object] = []
    by_keyword: dict[str, object] = {}
    for i, (key, value) in enumerate(bound.arguments.items()):
        kind = bound.signature.parameters[key].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            is_list = len(value) == 1 and isinstance(value[0], (list, tuple))
            positional.extend(value[0] if is_list else value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            by_keyword.update(value)
        elif i < count:
            positional.append(value)
        elif key != "split_size":  # the name that PyTorch's method gives to the second argument
            by_keyword[key] = value
    order = KEYWORD_ORDER.get(public.name, "").split()
    others = [key for key, value in by_keyword.items() if public.name not in KEYWORD_ORDER or value]
    return tuple(positional), {key: by_keyword.get(key) for key in (*order, *others)}


signature_of = cache(inspect.signature)


def get_qualified_name(function: Function, called_as: PublicName | None = None) -> str:
    """Return the name by which code calls a function, `called_as` if that is one of its names.

    Raises RuntimeError for a lambda without a name.
    """
    function = unwrap(function)
    if (name := special_name(function)) is not None:
        return name
    if function in public_functions():
        names = public_functions()[function]
        return f"{display_name.package}.{(called_as if called_as in names else names[0]).in_code()}"
    name, home = function.__name__, PACKAGE if function in PUBLIC_CLASSES else function.__module__
    if name == "<lambda>":
        try:
            name = inspect.getsource(function).split("=")[0].strip()
        except Exception as error:
            raise RuntimeError("Unable to represent lambda") from error
    root, _, rest = home.partition(".")
    return f"{display_name.package if root == PACKAGE else root}{'.' * bool(rest)}{rest}.{name}"


def special_name(function: Function) -> str | None:
    """Return the name of one of Python's functions, or of a method of Tensor; None for others."""
    name = function.__name__
    if getattr(builtins, name, None) is function:
        return name
    if getattr(Tensor, name, None) is function and function not in public_functions():
        return f"{display_name.package}.Tensor.{name}"
    return None
