"""Names that programs ask of `torch.distributed` besides groups and collectives: stores, meshes, names of its modules.

Modules, in reading order:

- `file_store`: `FileStore`: a store in a file that all processes see.
- `store`: Stores: values by key that processes share, to find one another and to agree.
- `tcp_store`: `TCPStore`: a store in a process beside that of its master, which answers over the network.
- `device_mesh`: Meshes: ranks laid out in a grid, with a group for each of its lines.
- `objects`: Exchange of Python objects, as pickles: only among ranks that trust one another.
- `point_to_point`: Messages from one rank to another.
- `functional`: `torch.distributed.nn.functional`: collectives that return new tensors, through which gradients go.
- `functional_collectives`: `torch.distributed._functional_collectives`: collectives that return new tensors, and name
  reductions by words.
- `c10d_names`: Names of `torch.distributed.distributed_c10d` that programs ask for besides groups and collectives.
- `elastic_names`: Names of `torch.distributed.elastic`: errors of ranks, which `record` writes where the launcher
  says.
- `placements`: Placements: words for how a tensor would lie on the ranks of a mesh, which libraries put into their
  plans.
"""
