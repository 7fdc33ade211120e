"""`adjoint.special`: Bessel functions, orthogonal polynomials, zeta, and others beyond mathematics' everyday ones."""

from adjoint.functions.elementwise.special import *
from adjoint.functions.elementwise.special import __all__
