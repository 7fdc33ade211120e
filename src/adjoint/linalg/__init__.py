"""`adjoint.linalg`: linear algebra on stacks of matrices."""

from adjoint.functions.linalg import *
from adjoint.functions.linalg import __all__ as __all__
