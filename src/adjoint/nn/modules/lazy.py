"""What lazy modules are made of, under the name by which programs written for PyTorch import it."""

from adjoint.nn.uninitialized import LazyModuleMixin

__all__ = ["LazyModuleMixin"]
