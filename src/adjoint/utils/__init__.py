"""Where programs written for PyTorch look for what is not part of a layer of its own."""

from __future__ import annotations

from adjoint.core.elsewhere import place
from adjoint.utils import _pytree as _pytree
from adjoint.utils import checkpoint as checkpoint
from adjoint.utils import data as data
from adjoint.utils import deterministic as deterministic
from adjoint.utils import dlpack as dlpack
from adjoint.utils import hooks as hooks

place(
    __name__,
    {"model_zoo": "adjoint.hub load_url=load_state_dict_from_url"},
    {
        "bundled_inputs": "programs are not packed into files",
        "cpp_extension": "there is no C++ interface: see autograd.Function for an op with a gradient of its own",
        "mobile_optimizer": "adjoint.compile makes native code by itself",
    },
)
