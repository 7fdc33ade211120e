"""`adjoint.array_api`: the array API standard 2024.12, on differentiable functions.

Names, signatures, types and results are the standard's; `adjoint` itself has PyTorch's. `tensor.__array_namespace__()`
gives this module.
"""

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi

from adjoint.array_api import fft as fft
from adjoint.array_api import linalg as linalg
from adjoint.array_api.creation import *
from adjoint.array_api.dtypes import *
from adjoint.array_api.elementwise import *
from adjoint.array_api.inspection import __array_namespace_info__ as __array_namespace_info__
from adjoint.array_api.linear import *
from adjoint.array_api.manipulation import *
from adjoint.array_api.searching import *
from adjoint.array_api.statistical import *
from adjoint.core.dtype import bool_ as bool
from adjoint.core.dtype import complex64 as complex64
from adjoint.core.dtype import complex128 as complex128
from adjoint.core.dtype import float32 as float32
from adjoint.core.dtype import float64 as float64
from adjoint.core.dtype import int8 as int8
from adjoint.core.dtype import int16 as int16
from adjoint.core.dtype import int32 as int32
from adjoint.core.dtype import int64 as int64
from adjoint.core.dtype import uint8 as uint8
from adjoint.core.dtype import uint16 as uint16
from adjoint.core.dtype import uint32 as uint32
from adjoint.core.dtype import uint64 as uint64

__array_api_version__ = "2024.12"
newaxis = None
