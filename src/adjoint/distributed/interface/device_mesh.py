"""Meshes: ranks laid out in a grid, with a group for each of its lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from adjoint.core.dtype.dtype import int32
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributed.default_group import (
    SomeRanks,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_initialized,
    is_non_member,
    new_group,
)
from adjoint.distributed.process_group import ProcessGroup
from adjoint.functions.creation.creation import tensor

Grid: TypeAlias = npt.NDArray[np.int64]
Names: TypeAlias = tuple[str, ...]


class DeviceMesh:
    """Ranks in a grid of one dimension or more, as a program lays them out; each line of it is a group.

    All ranks make it, in the same order.

    Args:
        device_type: "cpu"; another kind is kept as its name.
        mesh: the ranks, as nested lists or an integer tensor, each at most once.
        mesh_dim_names: names of the dimensions, by which `mesh["name"]` is the part of this rank.

    Raises: RuntimeError for more ranks than there are, and for names that are no names of the dimensions.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Tensor | Sequence[object],
        *,
        mesh_dim_names: Names | None = None,
        backend_override: object = None,
        _init_backend: bool = True,
    ) -> None:
        if not is_initialized():
            init_process_group()
        grid = np.asarray(mesh.array if isinstance(mesh, Tensor) else mesh, np.int64)
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        _check_names(grid.shape, names)
        if grid.size > get_world_size():
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {get_world_size()}, but found "
                f"{pluralize(grid.size, 'rank')}!"
            )
        if len(np.unique(grid)) != grid.size:
            raise RuntimeError(f"DeviceMesh: a rank is in {grid.tolist()} more than once")
        self.device_type, self._grid, self._names = device_type, grid, names
        self._strides = tuple(stride // grid.itemsize for stride in np.empty(grid.shape, np.int64).strides)
        self._root, self._outer = self, grid[None]  # of a slice: the same slices of the root elsewhere
        self._flattened: dict[str, DeviceMesh] = {}
        self._groups: list[SomeRanks] = []
        if _init_backend:
            self._groups = [_make_groups(_lines(grid, axis)) for axis in range(grid.ndim)]

    # The grid

    @property
    def mesh(self) -> Tensor:
        """The ranks, as a tensor."""
        return tensor(self._grid, dtype=int32)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the dimensions."""
        return self._grid.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._grid.ndim

    @property
    def mesh_dim_names(self) -> Names | None:
        """The names of the dimensions."""
        return self._names

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of ranks, or the length of a dimension."""
        return int(self._grid.size if mesh_dim is None else self._grid.shape[mesh_dim])

    def get_rank(self) -> int:
        """Return the number of this process among all."""
        return get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Return where this rank is; None if it is not in the mesh."""
        found = np.argwhere(self._grid == get_rank())
        return tuple(found[0].tolist()) if len(found) else None

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the number of this rank in the group of a dimension, which may be omitted if it is the only one.

        Raises: RuntimeError without it in a mesh of several dimensions.
        """
        return get_rank(self.get_group(mesh_dim))

    # Groups

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return this rank's group along a dimension; the dimension may be omitted if it is the only one.

        Raises: RuntimeError without it in a mesh of several dimensions; KeyError for a name that none has.
        """
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions; mesh_dim needs to be specified when "
                "device_mesh.ndim > 1. get_all_groups() returns the groups of all"
            )
        if isinstance(mesh_dim, str) and mesh_dim in self._root._flattened:
            return self._root._flattened[mesh_dim].get_group()
        if not self._groups:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        return cast("ProcessGroup", self._groups[self._find_axis(mesh_dim or 0)])

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return this rank's groups along all dimensions."""
        return [self.get_group(axis) for axis in range(self.ndim)]

    def _find_axis(self, mesh_dim: int | str) -> int:
        if isinstance(mesh_dim, int):
            return mesh_dim
        if self._names is None or mesh_dim not in self._names:
            raise KeyError(f"Mesh dimension {mesh_dim!r} does not exist. Available mesh dimensions are: {self._names}")
        return self._names.index(mesh_dim)

    # Parts

    def __getitem__(self, mesh_dim_names: str | Names) -> DeviceMesh:
        """Return the part of this rank along one dimension, or along several in their order.

        Raises: KeyError for names that the mesh has not, or in another order.
        """
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if len(names) == 1 and names[0] in self._flattened:
            return self._flattened[names[0]]
        if self._names is None or not set(names) <= set(self._names):
            valid = [*(self._names or ()), *self._flattened]
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {valid}.")
        axes = [self._names.index(name) for name in names]
        if axes != sorted(set(axes)):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order."
            )
        if names == self._names:
            return self
        others = [axis for axis in range(self.ndim) if axis not in axes]
        outer = self._outer.transpose(0, *(1 + axis for axis in (*others, *axes)))
        return self._part(outer.reshape(-1, *(self.shape[axis] for axis in axes)), axes, names)

    def _part(self, outer: Grid, axes: list[int], names: Names) -> DeviceMesh:
        """Return the slice that has this rank, the first elsewhere; `outer` has all of them."""
        own = next((each for each in outer if get_rank() in each), outer[0])
        part = DeviceMesh(self.device_type, own.tolist(), mesh_dim_names=names, _init_backend=False)
        part._root, part._outer, part._strides = self._root, outer, tuple(self._strides[axis] for axis in axes)
        part._groups = [self._groups[axis] for axis in axes] if self._groups else []
        return part

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: object = None) -> DeviceMesh:
        """Return the mesh of one dimension that has the ranks of all, with a group of its own. All ranks call it.

        Raises: ValueError for a name that another dimension has.
        """
        name = "_".join(self._names or ()) if mesh_dim_name is None else mesh_dim_name
        root = self._root
        if self.ndim == 1 and self._names == (name,):
            return self
        before = root._flattened.get(name)
        if name in (root._names or ()) or (before and not np.array_equal(before._grid, self._grid.reshape(-1))):
            raise ValueError(f"{name} already exists in {root}: another name for the flattened dimension")
        if name not in root._flattened:
            lines = self._outer.reshape(-1, self._grid.size)
            flat = root._part(lines, [], (name,))
            flat._strides = (self._strides[-1],)
            flat._groups = [_make_groups(lines)]
            root._flattened[name] = flat
        return root._flattened[name]

    @staticmethod
    def from_group(
        group: ProcessGroup | Sequence[ProcessGroup],
        device_type: str,
        mesh: Tensor | Sequence[object] | None = None,
        *,
        mesh_dim_names: Names | None = None,
    ) -> DeviceMesh:
        """Return the mesh whose dimensions have these groups.

        Raises: ValueError for several groups without `mesh` or names, and for a mesh that does not have the ranks.
        """
        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        if not groups:
            raise ValueError("Expects at least one ProcessGroup to be passed")
        if isinstance(group, ProcessGroup):
            ranks = get_process_group_ranks(group)
            if mesh is not None and np.asarray(getattr(mesh, "array", mesh)).tolist() != ranks:
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {ranks}")
            mesh = cast("Sequence[object]", ranks)
        if mesh is None or (len(groups) > 1 and mesh_dim_names is None):
            raise ValueError("Must pass mesh and mesh_dim_names if passing multiple ProcessGroups")
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if made.ndim != len(groups):
            raise ValueError(
                "Expects mesh with ndim equal to number of ProcessGroups but got "
                f"mesh {made.mesh.tolist()} and {len(groups)} ProcessGroups"
            )
        made._groups = list(groups)
        return made

    # As a value

    def _identity(self) -> tuple[object, ...]:
        return (self.device_type, self._names, self._grid.shape, self._grid.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __enter__(self) -> DeviceMesh:
        return self

    def __exit__(self, *error: object) -> None: ...

    def __repr__(self) -> str:
        shape = str(self.shape)
        if self._names is not None:
            shape = f"({', '.join(f'{name}={size}' for name, size in zip(self._names, self.shape, strict=True))})"
        return f"DeviceMesh({shape}, {self.device_type!r}, stride={self._strides})"


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: Names | None = None,
    backend_override: object = None,
) -> DeviceMesh:
    """Return the mesh of this shape that has the first ranks in order; sets up the group of all where there is none.

    Raises: RuntimeError for more ranks than there are, for names that are not one for each dimension, and for the
    number of a device.

    Example:
        >>> import adjoint.distributed as dist
        >>> dist.init_process_group(rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        >>> mesh["tp"].get_local_rank(), mesh.shape
        (0, (1, 1))
        >>> dist.destroy_process_group()
    """
    _check_names(mesh_shape, mesh_dim_names)
    if not device_type.isalpha():
        raise RuntimeError(f"Device type with index is not supported but got {device_type}")
    ranks = np.arange(int(np.prod(mesh_shape))).reshape(mesh_shape).tolist()
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)


def _check_names(shape: Sequence[int], names: Names | None) -> None:
    if names is not None and len(set(names)) != len(names):
        raise RuntimeError(
            f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {names}"
        )
    if names is not None and len(names) != len(shape):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! "
            f"Found len(mesh_dim_names): {len(names)} and len(mesh_shape):{len(shape)}."
        )


def _lines(grid: Grid, axis: int) -> Grid:
    """Return all lines of the grid along an axis."""
    return np.moveaxis(grid, axis, -1).reshape(-1, grid.shape[axis])


def _make_groups(lines: Grid) -> SomeRanks:
    """Make a group of each line; return this rank's."""
    if lines.size == len(lines[0]) == get_world_size():
        return group.WORLD
    groups = [new_group(line.tolist()) for line in lines]
    return next((each for each in groups if not is_non_member(each)), groups[0])
