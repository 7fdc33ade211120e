"""Neural networks: modules, which hold state, and the functions they call."""

from adjoint.core.elsewhere import place
from adjoint.nn import common_types as common_types
from adjoint.nn import functional as functional
from adjoint.nn import grad as grad
from adjoint.nn import init as init
from adjoint.nn import modules as modules
from adjoint.nn import utils as utils
from adjoint.nn.activation import *
from adjoint.nn.adaptive_pooling import *
from adjoint.nn.adaptive_softmax import *
from adjoint.nn.attention import *
from adjoint.nn.comparing import *
from adjoint.nn.containers import *
from adjoint.nn.convolution import *
from adjoint.nn.dropout import *
from adjoint.nn.embedding import *
from adjoint.nn.group_normalization import *
from adjoint.nn.hooks import (
    register_module_forward_hook as register_module_forward_hook,
)
from adjoint.nn.hooks import (
    register_module_forward_pre_hook as register_module_forward_pre_hook,
)
from adjoint.nn.hooks import (
    register_module_full_backward_hook as register_module_full_backward_hook,
)
from adjoint.nn.hooks import (
    register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
)
from adjoint.nn.lazy import *
from adjoint.nn.linear import *
from adjoint.nn.loss import *
from adjoint.nn.margin_loss import *
from adjoint.nn.module import *
from adjoint.nn.normalization import *
from adjoint.nn.padding import *
from adjoint.nn.parallel import *
from adjoint.nn.parameter import Buffer as Buffer
from adjoint.nn.parameter import Parameter as Parameter
from adjoint.nn.parameter_dict import *
from adjoint.nn.parameter_list import *
from adjoint.nn.pooling import *
from adjoint.nn.recurrent import *
from adjoint.nn.recurrent_cells import *
from adjoint.nn.resampling import *
from adjoint.nn.shape import *
from adjoint.nn.transformer import *
from adjoint.nn.transposed_convolution import *
from adjoint.nn.uninitialized import UninitializedBuffer as UninitializedBuffer
from adjoint.nn.uninitialized import UninitializedParameter as UninitializedParameter

place(
    __name__,
    {"attention.bias": "adjoint.nn.attention_bias", "utils.convert_parameters": "adjoint.nn.utils.vector"},
    {
        "attention.flex_attention": "scaled_dot_product_attention takes any mask",
        "intrinsic": "there are no quantised numbers",
        "quantized": "there are no quantised numbers",
    },
)
