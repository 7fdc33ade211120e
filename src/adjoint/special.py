"""`adjoint.special`: special functions, such as Bessel functions, orthogonal polynomials and zeta."""

from adjoint.functions.elementwise.special import *
from adjoint.functions.elementwise.special import __all__
