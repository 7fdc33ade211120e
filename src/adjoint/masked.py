"""`adjoint.masked`: sums, extremes and the like of the elements that a mask admits, as `torch.masked` has them."""

from adjoint.functions.reduction.masked import *
from adjoint.functions.reduction.masked import __all__
