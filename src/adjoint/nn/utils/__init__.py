"""Functions on the parameters of modules, and on sequences: limits for gradients, one vector of all, packing.

Modules, in reading order:

- `clip_grad`: Limits for gradients, by their common norm or element by element.
- `packed_sequence`: Sequences of different lengths: padded to one tensor, or packed so that each time has a row for
  those that last.
- `traced_packing`: Packing in a compiled step, which does so with other lengths in each call: rows are found between
  two programs.
- `parameter_vector`: All parameters as one vector, and back.
- `parametrize`: Parameters that are functions of others: computed anew whenever they are read, from what is trained
  instead.
- `pruning_methods`: Pruning methods: what chooses the elements of a parameter to leave out, and leaves them out
  before each call.
- `spectral_norm`: A weight of largest singular value 1, under the names by which older programs and their checkpoints
  know it.
- `stateless`: Calls of a module with other parameters than its own, under the name of old.
- `weight_norm`: A weight as length and direction, under the names by which older programs and their checkpoints know
  them.
- `parametrizations`: Parametrizations: a weight as direction and length, of largest singular value 1, or orthogonal.
- `prune`: Weights without some of their elements: the parameter by a mask, before each call of the module.
- `init`: Modules whose first values are of no interest.
- `layer_weights`: Weights of layers: a batch normalization folded into them, and their order in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.core.runtime.lazy_import import attach_lazy_names
from adjoint.nn.utils.spectral_norm import remove_spectral_norm as remove_spectral_norm
from adjoint.nn.utils.spectral_norm import spectral_norm as spectral_norm
from adjoint.nn.utils.weight_norm import remove_weight_norm as remove_weight_norm
from adjoint.nn.utils.weight_norm import weight_norm as weight_norm

if TYPE_CHECKING:
    from adjoint.nn.utils import clip_grad as clip_grad
    from adjoint.nn.utils import init as init
    from adjoint.nn.utils import layer_weights as layer_weights
    from adjoint.nn.utils import packed_sequence as packed_sequence
    from adjoint.nn.utils import parametrizations as parametrizations
    from adjoint.nn.utils import parametrize as parametrize
    from adjoint.nn.utils import prune as prune
    from adjoint.nn.utils import stateless as stateless
    from adjoint.nn.utils.clip_grad import *
    from adjoint.nn.utils.init import *
    from adjoint.nn.utils.layer_weights import *
    from adjoint.nn.utils.parameter_vector import *

_PARTS = "clip_grad fusion init parametrizations parametrize prune rnn stateless"
_HOMES = {
    "clip_grad": "clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm",
    "layer_weights": """
        convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format fuse_conv_bn_eval fuse_conv_bn_weights
        fuse_linear_bn_eval fuse_linear_bn_weights
    """,
    "parameter_vector": "parameters_to_vector vector_to_parameters",
    "init": "skip_init",
}
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = attach_lazy_names(__name__, _HOMES, parts=_PARTS)
    __all__ += ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]
    __all__.sort()
