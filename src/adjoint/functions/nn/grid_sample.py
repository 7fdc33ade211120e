"""Images looked up between their elements, at places that a grid says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from adjoint.autograd.backward import grad
from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.graph.source_location import warn_user
from adjoint.core.op.eager_kernels import SmallArrayKernel, kernel_provider
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.size import as_float, as_size, has_symbolic
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, NumpyDtype, Operand, Shape
from adjoint.functions.api.compute_dtype import autocast_float32
from adjoint.functions.api.publish import rename_node
from adjoint.functions.shape.join import cat
from adjoint.ops.creation import even_steps, even_steps_array, full
from adjoint.ops.elementwise import arithmetic, comparison, select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement

Tap = tuple[Tensor, Tensor | None]  # positions along one dimension, and their weights

__all__ = ["affine_grid", "grid_sample"]
MAX_KEPT_POINTS = 16_384  # of a grid
MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")  # in the order of the native code's numbers
SAMPLE, SAMPLE_DX, SAMPLE_DGRID = map(SmallArrayKernel, ("sample_grid", "sample_grid_dx", "sample_grid_dgrid"))
ALIGN_CORNERS_WARNING = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
    "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


@autocast_float32
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Sample (N, C, H, W) at grid (N, H', W', 2): (N, C, H', W'); or (N, C, D, H, W) at (N, D', H', W', 3).

    A place is (x, y) or (x, y, z), from -1 to 1 between the outermost elements' outer edges, or with `align_corners`
    their centres. `mode`: "bilinear", "nearest", "bicubic" (of images). `padding_mode` says what lies outside: "zeros",
    the "border", or a "reflection". Raises ValueError for other modes, RuntimeError for shapes that do not fit.
    """
    if mode not in MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        warn_user(ALIGN_CORNERS_WARNING)
    _check(input, grid, mode)
    quick = mode == "bilinear" and len(input.array.shape) == 4 and kernel_provider.enabled
    form = _sample_natively if quick and input.array.dtype.kind == "f" else _sample_by_taps
    out: Tensor = form(input, grid, mode=mode, padding_mode=padding_mode, align_corners=bool(align_corners))
    return out


def _sample_by_taps(input: Tensor, grid: Tensor, *, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    sides = input.array.shape[2:]
    places = [
        _unnormalize_coordinates(grid, len(sides) - 1 - d, n, align_corners) for d, n in enumerate(sides)
    ]  # each (N, P)
    if mode == "bicubic":
        taps = [_cubic_taps(at, n, padding_mode, align_corners) for at, n in zip(places, sides, strict=True)]
    else:
        inside = [_apply_padding_mode(at, n, padding_mode, align_corners) for at, n in zip(places, sides, strict=True)]
        taps = [_nearest_or_linear_taps(at, mode) for at in inside]
    flat = movement.reshape(input, shape=(*input.array.shape[:2], math.prod(sides)))
    out: Operand = None
    for corner in product(*taps):
        value = _gather_weighted_corner(flat, corner, sides)
        out = value if out is None else out + value
    shape = (*input.array.shape[:2], *grid.array.shape[1:-1])
    return rename_node(movement.reshape(out, shape=shape), f"GridSampler{len(sides)}DBackward0")


def _sample_dinput(
    g: Operand, input: Operand, grid: Operand, mode: str, padding_mode: str, align_corners: bool
) -> Operand:
    if isinstance(g, np.ndarray):
        out = np.zeros(input.shape, input.dtype)
        settings = _to_numbers(padding_mode, align_corners)
        if out.size and g.size and SAMPLE_DX.call(_as_rows(g), np.ascontiguousarray(grid), out, *settings) is not None:
            return out
    return _differentiate_taps(g, (input, grid), 0, mode, padding_mode, align_corners)


def _sample_dgrid(
    g: Operand, input: Operand, grid: Operand, mode: str, padding_mode: str, align_corners: bool
) -> Operand:
    if isinstance(g, np.ndarray) and input.size and g.size:
        out = np.empty(grid.shape, grid.dtype)
        settings = _to_numbers(padding_mode, align_corners)
        images, places = np.ascontiguousarray(input), np.ascontiguousarray(grid)
        if SAMPLE_DGRID.call(_as_rows(g), images, places, out, *settings) is not None:
            return out
    return _differentiate_taps(g, (input, grid), 1, mode, padding_mode, align_corners)


def _differentiate_taps(
    g: Operand, operands: Sequence[Operand], which: int, mode_name: str, padding_mode: str, align_corners: bool
) -> Tensor:
    """Return the gradient in one operand as recorded ops."""
    again = mode.recording
    given = [x if isinstance(x, Tensor) else constant(x) for x in operands]
    with enable_grad():
        twins = [x.view_as(x) if again else x.detach() for x in given]
        if not again:
            twins[which].requires_grad_()
        out = _sample_by_taps(*twins, mode=mode_name, padding_mode=padding_mode, align_corners=align_corners)
        seed = g if isinstance(g, Tensor) else constant(g)
        (found,) = grad([out], [twins[which]], [seed], create_graph=again)
    assert found is not None
    return found


@with_eager_fast_path(
    composite=_sample_by_taps, node="GridSampler2DBackward0", dinput=_sample_dinput, dgrid=_sample_dgrid
)
def _sample_natively(input: Array, grid: Array, *, mode: str, padding_mode: str, align_corners: bool) -> Array:
    out = np.empty((*input.shape[:2], *grid.shape[1:-1]), input.dtype)
    settings = _to_numbers(padding_mode, align_corners)
    images, places = np.ascontiguousarray(input), np.ascontiguousarray(grid)
    if out.size and SAMPLE.call(images, places, _as_rows(out), *settings) is not None:
        return out
    sampled = _sample_by_taps(
        constant(input), constant(grid), mode=mode, padding_mode=padding_mode, align_corners=align_corners
    )
    return np.asarray(sampled.array)


def _to_numbers(padding_mode: str, align_corners: bool) -> tuple[float, float]:
    """Return the settings as the native functions take them."""
    return float(PADDINGS.index(padding_mode)), float(align_corners)


def _as_rows(values: Array) -> Array:
    """The values (N, C, H', W') as (N, C, P)."""
    return np.ascontiguousarray(values).reshape(*values.shape[:2], -1)


def _check(input: Tensor, grid: Tensor, mode: str) -> None:
    x, g = input.array.shape, grid.array.shape
    if input.array.dtype != grid.array.dtype:
        raise RuntimeError(
            "grid_sampler(): expected input and grid to have same dtype, but input has "
            f"{input.dtype} and grid has {grid.dtype}"
        )
    if x[:1] != g[:1]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(x)} and grid with sizes {list(g)}"
        )
    if g[-1:] != (len(x) - 2,):
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {len(x) - 2} in last dimension, but got grid with sizes "
            f"{list(g)}"
        )
    if len(x) not in (4, 5) or len(x) != len(g):
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes "
            f"{list(x)} and grid with sizes {list(g)}"
        )
    if not all(x[2:]):
        raise RuntimeError(
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {list(x)}"
        )
    if mode == "bicubic" and len(x) == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


def _unnormalize_coordinates(grid: Operand, component: int, n: int, aligned: bool) -> Tensor:
    """Return the positions (N, P) along a dimension of n elements."""
    at = movement.reshape(grid.select(grid.ndim - 1, component), shape=(grid.shape[0], math.prod(grid.shape[1:-1])))
    if aligned:
        return (at + 1.0) * ((n - 1) / 2)
    if at.array.dtype != np.float32 or grid.ndim == 5:
        return ((at + 1.0) * n - 1.0) / 2.0
    # rounded once, as PyTorch does: at an element itself the last bit decides between which two a place stands
    return select.cast(select.cast(at + 1.0, dtype=np.dtype(np.float64)) * (n / 2) - 0.5, dtype=at.array.dtype)


def _apply_padding_mode(at: Tensor, n: int, padding: str, aligned: bool) -> Tensor:
    if padding == "zeros":
        return at
    if padding == "reflection":
        at = _reflect_coordinates(at, *((0, 2 * (n - 1)) if aligned else (-1, 2 * n - 1)))
    # clipped to [0, n - 1]; on the bounds too the gradient is 0, and NaN becomes 0
    above = select.where(comparison.gt(at, 0.0), at, 0.0)
    return select.where(comparison.ge(above, as_float(n - 1)), as_float(n - 1), above)


def _reflect_coordinates(at: Tensor, twice_low: int, twice_high: int) -> Operand:
    """Reflect positions at two bounds, which are given as twice themselves."""
    if twice_low == twice_high:
        return _fill_with_zero_grad(at, 0.0)
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    beyond = arithmetic.abs(at - low)
    turns = arithmetic.floor(beyond.detach() / span)
    rest = beyond - turns * span
    return select.where(comparison.eq(arithmetic.remainder(turns, 2.0), 0.0), rest + low, span - rest + low)


def _fill_with_zero_grad(at: Tensor, value: float) -> Operand:
    """Return this value at all positions, with a gradient of 0."""
    return select.where(constant(np.zeros((), np.bool_)), at, value)


def _nearest_or_linear_taps(at: Tensor, mode: str) -> list[Tap]:
    if mode == "nearest":
        return [(arithmetic.round(at.detach()), _fill_with_zero_grad(at, 1.0) if at.requires_grad else None)]
    low = arithmetic.floor(at.detach())
    share = at - low
    return [(low, 1.0 - share), (low + 1.0, share)]


def _cubic_taps(at: Tensor, n: int, padding: str, aligned: bool) -> list[Tap]:
    """Return four taps with weights of the cubic kernel with a = -0.75. Source: Keys, 1981."""
    low = arithmetic.floor(at.detach())
    t = at - low
    weights = (
        _cubic_kernel_outer(t + 1.0),
        _cubic_kernel_inner(t),
        _cubic_kernel_inner(1.0 - t),
        _cubic_kernel_outer(2.0 - t),
    )
    return [
        (_apply_padding_mode(low + d, n, padding, aligned), w)
        for d, w in zip((-1.0, 0.0, 1.0, 2.0), weights, strict=True)
    ]


def _cubic_kernel_inner(x: Tensor) -> Tensor:
    return (x * 1.25 - 2.25) * x * x + 1.0


def _cubic_kernel_outer(x: Tensor) -> Tensor:
    return ((x * -0.75 + 3.75) * x - 6.0) * x + 3.0


def _gather_weighted_corner(flat: Tensor, corner: Sequence[Tap], sides: Sequence[int]) -> Operand:
    """Return the elements (N, C, P) at one tap in each dimension, by its weights; 0 for a tap outside."""
    inside: Operand = None
    place: Operand = 0
    weight: Operand = None
    for (at, share), n in zip(corner, sides, strict=True):
        within = comparison.logical_and(comparison.ge(at, 0.0), comparison.lt(at, as_float(n)))
        inside = within if inside is None else comparison.logical_and(inside, within)
        step = select.cast(select.where(within, at, 0.0), dtype=np.dtype(np.int64))
        place = place * n + step
        if share is not None:
            weight = share if weight is None else weight * share
    shape = (*flat.array.shape[:2], place.array.shape[1])
    wide = movement.expand(place.unsqueeze(1), shape=shape)
    found = select.where(inside.unsqueeze(1), indexing.gather(flat, wide, axis=2), 0.0)
    return found if weight is None else found * weight.unsqueeze(1)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the grid (N, H, W, 2) of the maps theta (N, 2, 3) for images of `size` (N, C, H, W), or (N, D, H, W, 3).

    Raises ValueError for a theta that is not floating or of another shape, NotImplementedError for other sizes.
    """
    if align_corners is None:
        warn_user(ALIGN_CORNERS_WARNING)
    if theta.array.dtype.kind not in "fV":
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    rank = len(size) - 2
    if rank not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    if theta.ndim != 3 or theta.array.shape[1:] != (rank, rank + 1):
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {size}. Got "
            f"{tuple(theta.array.shape)}."
        )
    if align_corners and min(size[2:]) == 1:
        warn_user(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This "
            "is not an intended use case of affine_grid. See the documentation of affine_grid for details."
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    kind = np.dtype(np.float32) if theta.array.dtype.kind == "V" else theta.array.dtype
    points = _make_points(tuple(size[2:]), bool(align_corners), kind)  # (P, rank + 1)
    points = movement.reshape(points, shape=(1, *points.array.shape))
    maps = movement.permute(theta, axes=(0, 2, 1))
    out = movement.reshape(select.cast(points, dtype=theta.array.dtype) @ maps, shape=(theta.shape[0], *size[2:], rank))
    return rename_node(out, "AffineGridGeneratorBackward0")


def _make_points(sizes: Shape, aligned: bool, kind: NumpyDtype) -> Tensor:
    """Return the centres of all pixels, the last dimension's first, and 1 behind each."""
    if not has_symbolic(*sizes):
        find = _find_points if math.prod(sizes) <= MAX_KEPT_POINTS else _find_points.__wrapped__
        return constant(find(sizes, aligned, kind))
    columns = [full(shape=(math.prod(sizes), 1), value=1, dtype=kind)]
    for d, n in enumerate(sizes):
        at: Operand = even_steps(-1.0, 1.0, steps=as_size(n), dtype=kind)
        at = at if aligned else at * (n - 1) / n
        along = movement.reshape(at, shape=(*(1,) * d, n, *(1,) * (len(sizes) - d - 1)))
        columns.insert(0, movement.reshape(movement.expand(along, shape=sizes), shape=(math.prod(sizes), 1)))
    return cat(columns, 1)


@lru_cache(32)
def _find_points(sizes: Shape, aligned: bool, kind: NumpyDtype) -> Array:
    axes = np.meshgrid(*(_pixel_centers(n, aligned, kind) for n in sizes), indexing="ij")
    return np.stack([*(a.ravel() for a in axes[::-1]), np.ones(axes[0].size, kind)], -1)


def _pixel_centers(n: int, aligned: bool, kind: NumpyDtype) -> Array:
    if n <= 1:
        return np.zeros(n, kind)
    at = even_steps_array(-1, 1, n, kind)
    return at if aligned else at * kind.type(n - 1) / kind.type(n)
