"""Meshes lay ranks out as PyTorch's do: slices, groups of each line, coordinates, and groups of parts of groups."""

from pathlib import Path

import pytest
from tests.support.ranks import needs_mpi, outputs, run_ranks

import adjoint.distributed as dist

PROGRAM = """
    import adjoint.run

    adjoint.run.stand_in()
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    rank = dist.get_rank()


    def total(group):
        t = torch.tensor([10**rank])
        dist.all_reduce(t, group=group)
        return t.item()


    print(mesh, mesh["tp"], mesh.shape, mesh.ndim, mesh.size(), mesh.size(1), mesh.mesh_dim_names, mesh.get_rank())
    print(mesh.get_coordinate(), mesh["dp"].mesh.tolist(), mesh["tp"].mesh.tolist(), mesh.get_local_rank("tp"))
    print([total(group) for group in mesh.get_all_groups()], total(mesh["dp"].get_group()), total(mesh.get_group(1)))
    assert mesh["dp", "tp"] is mesh and mesh["dp"].get_group() is mesh.get_group("dp")
    assert mesh["tp"] == mesh["tp"] and hash(mesh["tp"]) == hash(mesh["tp"]) and mesh["tp"] != mesh["dp"]
    flat = mesh._flatten("all")
    print(flat.mesh.tolist(), total(flat.get_group()), mesh["all"] == flat)
    other = DeviceMesh("cpu", [[0, 3], [1, 2]])
    print(other.get_coordinate(), [total(group) for group in other.get_all_groups()])
    part = DeviceMesh("cpu", torch.tensor([1, 3]))
    print(part.get_coordinate(), total(part.get_group()) if rank in (1, 3) else None)
    one = DeviceMesh.from_group(mesh.get_group("tp"), "cpu")
    print(one.mesh.tolist(), total(one.get_group()), one.get_local_rank())
    three = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "c"))
    print(three["a", "c"].mesh.tolist(), three["b", "c"].mesh.tolist(), three["a", "b"]._flatten().mesh.tolist())
    own, every = dist.new_subgroups(2)
    print(total(own), len(every), total(dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])[0]))
    halves = dist.split_group(split_ranks=[[1, 0], [3, 2]])
    print(total(halves), dist.get_process_group_ranks(halves), total(dist.new_subgroups(1, group=halves)[0]))
    some = dist.split_group(split_ranks=[[2, 3]])
    inner = None if some is None else dist.split_group(some, [[1], [0]])
    print(None if inner is None else (total(some), total(inner), dist.get_process_group_ranks(inner)))
"""
# what PyTorch 2.13 prints on rank 2 of 4, with gloo; it splits no groups of gloo: the last two lines are by hand
ON_RANK_2 = """
DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1)) DeviceMesh((tp=2), 'cpu', stride=(1,)) (2, 2) 2 4 2 ('dp', 'tp') 2
(1, 0) [0, 2] [2, 3] 0
[101, 1100] 101 1100
[0, 1, 2, 3] 1111 True
(1, 1) [1100, 110]
None None
[2, 3] 1100 0
[[0, 1], [2, 3]] [[2, 3]] [0, 2]
1100 2 101
1100 [2, 3] 100
(1100, 100, [2])
"""


@needs_mpi
def test_meshes_and_parts_of_groups(tmp_path: Path) -> None:
    done = outputs(run_ranks(tmp_path, 4, PROGRAM))
    assert done[2].splitlines() == ON_RANK_2.strip().splitlines()
    assert done[1].splitlines()[5] == "(0,) 1010"
    assert done[1].splitlines()[-1] == "None"


def test_one_process_and_bad_layouts() -> None:
    dist.init_process_group(rank=0, world_size=1)
    try:
        mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        for fault, shape, names in [
            ("Mesh should not be bigger than default world size 1, but found 2 ranks", (2,), None),
            ("Each mesh_dim_name must be unique", (1, 1), ("a", "a")),
            ("should have same length", (1, 1), ("a",)),
        ]:
            with pytest.raises(RuntimeError, match=fault):
                dist.init_device_mesh("cpu", shape, mesh_dim_names=names)
        with pytest.raises(RuntimeError, match="Device type with index"):
            dist.init_device_mesh("cpu:0", (1,))
        with pytest.raises(RuntimeError, match="mesh_dim needs to be specified"):
            mesh.get_group()
        with pytest.raises(KeyError, match="Mesh dimension 'pp' does not exist"):
            mesh.get_local_rank("pp")
        with pytest.raises(KeyError, match="Valid mesh_dim_names are"):
            mesh["pp"]
        with pytest.raises(KeyError, match="ascending order"):
            mesh["tp", "dp"]
        with pytest.raises(ValueError, match="already exists"):
            mesh._flatten("tp")
        with pytest.raises(ValueError, match="Invalid mesh"):
            dist.DeviceMesh.from_group(mesh.get_group("tp"), "cpu", [1])
        with pytest.raises(ValueError, match="split_ranks cannot be None or empty"):
            dist.split_group()
        with pytest.raises(ValueError, match="not different ones of 0 to 0"):
            dist.split_group(split_ranks=[[0], [1]])
        part = dist.split_group(split_ranks=[[0]])
        assert part is not None
        assert part.size() == 1
        with pytest.raises(ValueError, match="cannot be empty"):
            dist.new_subgroups_by_enumeration([])
    finally:
        dist.destroy_process_group()
