"""Datasets, samplers and loaders, where programs written for PyTorch look for them."""

from __future__ import annotations

from adjoint.data import *
from adjoint.data import __all__ as __all__
from adjoint.utils.data import _utils as _utils
from adjoint.utils.data import dataloader as dataloader
from adjoint.utils.data import dataset as dataset
from adjoint.utils.data import distributed as distributed
from adjoint.utils.data import sampler as sampler
