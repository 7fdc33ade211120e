"""Parametrizations: a weight as direction and length, of largest singular value 1, or orthogonal."""

from __future__ import annotations

from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import StateDict
from adjoint.functions.creation.creation import empty, eye, zeros
from adjoint.functions.linalg.factorizations import geqrf, householder_product
from adjoint.functions.linalg.matrix_functions import matrix_exp
from adjoint.functions.linalg.norms import norm_except_dim
from adjoint.functions.linalg.solve import solve
from adjoint.functions.shape.join import cat
from adjoint.nn import functional as F
from adjoint.nn.layers.conv_transpose import TransposedConvolution
from adjoint.nn.module.module import Module
from adjoint.nn.utils import parametrize
from adjoint.nn.utils.spectral_norm import check_power_iterations, weight_as_matrix

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
ORTHOGONAL_MAPS = ("matrix_exp", "cayley", "householder")


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return length and direction."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrize w = g v / ‖v‖ by lengths g (`original0`) along `dim`, or one length, and directions v.

    Source: Salimans & Kingma, 2016.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename_old_keys(state_dict: StateDict, prefix: str, *_: object) -> None:
        for i, old in enumerate(("g", "v")):
            key = f"{prefix}{name}_{old}"
            if key in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename_old_keys)
    return module


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        rank = weight.ndim
        if not -rank <= dim < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got {dim})")
        check_power_iterations(n_power_iterations)
        self.dim = dim % rank
        self.eps = eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            matrix = weight_as_matrix(weight.detach(), self.dim)
            u, v = (empty(n, dtype=weight.dtype).normal_(0, 1) for n in matrix.shape)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix: Tensor, times: int) -> None:
        with ModeScope(recording=False):
            for _ in range(times):
                self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.mH @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = weight_as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / (u.conj() * (matrix @ v)).sum()

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the tensor itself: it may be of this norm already."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Parametrize w / σ(w) by w; power iteration finds the largest singular value σ of w with `dim` for rows.

    In training each reading takes `n_power_iterations` steps. Raises ValueError for a name of no parameter, and for
    less than one step. Source: Miyato et al., 2018.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if isinstance(module, TransposedConvolution) else 0
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)


class _Orthogonal(Module):
    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self._size = tuple(weight.shape)
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        x = X.mT if wide else X
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            below = x.tril(-1)
            tau = 2.0 / (1.0 + (below * below).sum(-2))
            q = householder_product(below, tau) * x.diagonal(0, -2, -1).int().unsqueeze(-2)
        else:
            x = x.tril()
            if n != k:
                x = cat([x, zeros((*x.shape[:-2], n, n - k), dtype=x.dtype)], -1)
            skew = x - x.mH
            if self.orthogonal_map == "matrix_exp":
                q = matrix_exp(skew)
            else:
                one = eye(n, dtype=x.dtype)
                q = solve(one - skew * 0.5, one + skew * 0.5)
            if n != k:
                q = q[..., :k]
        if getattr(self, "base", None) is not None:
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, Q: Tensor) -> Tensor:
        """Return a matrix that maps to Q, or with a base to the identity. Raises ValueError for another shape."""
        if tuple(Q.shape) != self._size:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self._size}. Got a tensor of {tuple(Q.shape)}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        q = Q.mT if wide else Q
        n, k = q.shape[-2:]
        if "base" not in self._buffers:
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            a, tau = geqrf(q)
            a = a.clone()
            diagonal = a.diagonal(0, -2, -1)
            diagonal.sign_()
            diagonal.copy_(diagonal * (1 - 2 * (tau == 0).to(a.dtype)))
            return a.mT if wide else a
        if n == k:
            self.base = q.clone() if _is_orthogonal(q) else _orthogonalize(q)
        else:
            more = empty((*q.shape[:-2], n, n - k), dtype=q.dtype).normal_()
            self.base = _orthogonalize(cat([q, more], -1))
        start = zeros(tuple(Q.shape), dtype=Q.dtype)
        start.diagonal(0, -2, -1).fill_(-1.0)
        return start


def _is_orthogonal(q: Tensor) -> bool:
    k = q.shape[-1]
    size = {4: 1.2e-7, 8: 2.3e-16}.get(q.real.dtype.itemsize, 1e-3)
    return bool(((q.mH @ q - eye(k, dtype=q.dtype)).abs() <= 10.0 * q.shape[-2] * size).all())


def _orthogonalize(a: Tensor) -> Tensor:
    """Return the factor Q of a = Q R with a positive diagonal of R."""
    x, tau = geqrf(a)
    return householder_product(x, tau) * x.diagonal(0, -2, -1).sgn().unsqueeze(-2)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Parametrize a matrix with orthogonal columns, or rows if there are fewer, by the map `orthogonal_map`.

    "matrix_exp" and "cayley" take skew matrices, "householder" a product of reflections, which is the choice for
    matrices that are not square. `use_trivialization` works from the present value as a base. Raises ValueError for
    other maps, and for tensors of less than two dimensions. Source: Lezcano-Casado, 2019.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ORTHOGONAL_MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, made, unsafe=True)
    return module
