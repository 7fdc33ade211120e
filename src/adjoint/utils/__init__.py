"""Where programs written for PyTorch look for what is not part of a layer of its own."""

from __future__ import annotations

from adjoint.utils import checkpoint as checkpoint
from adjoint.utils import data as data
from adjoint.utils import dlpack as dlpack
from adjoint.utils import hooks as hooks
