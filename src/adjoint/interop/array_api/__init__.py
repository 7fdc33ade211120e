"""`adjoint.interop.array_api`: the array API standard 2024.12, on differentiable functions.

Names, signatures, types and results are the standard's; `adjoint` itself has PyTorch's. `tensor.__array_namespace__()`
gives this module.

Modules, in reading order:

- `fft`: The standard's extension `fft`: discrete Fourier transforms.
- `operands`: Operands under the array API standard: every array counts for the common type, 0-d or not.
- `dtypes`: Data types: conversion, limits, categories, and which type a mixed expression gets.
- `elementwise`: Functions of single elements, under the standard's names.
- `linear`: Products of vectors and matrices, which the namespace itself has, and its extension `linalg` too.
- `searching`: Positions, order, distinct elements, and elements at positions.
- `creation`: Tensors from data, fill values and ranges, under the standard's signatures.
- `inspection`: Capabilities of this implementation of the standard: `__array_namespace_info__`.
- `manipulation`: Other shapes and orders for the same elements.
- `statistical`: Sums, means, spreads, extremes, truths and running totals.
- `linalg`: The standard's extension `linalg`: linear algebra on stacks of matrices.
"""

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi

from adjoint.core.dtype.dtype import bool_ as bool
from adjoint.core.dtype.dtype import complex64 as complex64
from adjoint.core.dtype.dtype import complex128 as complex128
from adjoint.core.dtype.dtype import float32 as float32
from adjoint.core.dtype.dtype import float64 as float64
from adjoint.core.dtype.dtype import int8 as int8
from adjoint.core.dtype.dtype import int16 as int16
from adjoint.core.dtype.dtype import int32 as int32
from adjoint.core.dtype.dtype import int64 as int64
from adjoint.core.dtype.dtype import uint8 as uint8
from adjoint.core.dtype.dtype import uint16 as uint16
from adjoint.core.dtype.dtype import uint32 as uint32
from adjoint.core.dtype.dtype import uint64 as uint64
from adjoint.functions.shape.diag_tril import diag as diag  # which is not the standard's, but which SciPy asks for
from adjoint.interop.array_api import fft as fft
from adjoint.interop.array_api import linalg as linalg
from adjoint.interop.array_api.creation import *
from adjoint.interop.array_api.dtypes import *
from adjoint.interop.array_api.elementwise import *
from adjoint.interop.array_api.inspection import __array_namespace_info__ as __array_namespace_info__
from adjoint.interop.array_api.linear import *
from adjoint.interop.array_api.manipulation import *
from adjoint.interop.array_api.searching import *
from adjoint.interop.array_api.statistical import *

__array_api_version__ = "2024.12"
newaxis = None
