"""`adjoint.distributed`: several processes that train together, on one machine or many, over MPI.

Modules, in reading order:

- `collective_checks`: Checks of what collectives are given: the root, memory that they may write, lists of the right
  length.
- `collectives`: Collectives on tensors, in PyTorch's words.
- `data_parallel`: `nn.parallel.DistributedDataParallel`: one model on all ranks, each with its part of the batch.
- `default_group`: Set-up of process groups: the one of all ranks, and groups of some of them.
- `mpi`: MPI by mpi4py, which is imported when the ranks of a program meet, and not before: its import is MPI_Init.
- `ordered_sum`: Sums over ranks in one order, so that their bits depend neither on MPI, nor on the sizes of messages
  or buckets.
- `process_group`: Groups of ranks, which exchange arrays over MPI as they lie in memory.
- `rank_watch`: The watch of a rank: it reports what the rank waits for, and hears which rank was lost or is stuck.
- `rendezvous`: The meeting of ranks that a launcher without MPI has started.
- `rendezvous_server`: The rendezvous: a process beside rank 0 by which ranks find one another, and learn which of
  them has ended.
- `run`: `python -m adjoint.distributed.run`: torchrun's options, and each rank started as `python -m adjoint.run`
  starts it.
- `work`: Exchanges that may not have ended.
- `algorithms`: Ways to train on several ranks, beside `DistributedDataParallel`, under PyTorch's names.
- `interface`: Names that programs ask of `torch.distributed` besides groups and collectives: stores, meshes, names of
  its modules.
- `call_checks`: Comparison of what ranks are about to exchange, where they may differ: `ADJOINT_DISTRIBUTED_DEBUG=1`.
- `gradients`: Gradients of several ranks: which parts of a batch they are of, and how ranks add them up.
- `launch_options`: Options of the launcher, which are torchrun's.
- `rank_output`: Output of ranks in files: `--redirects` and `--tee` of the launcher.
- `rank_end`: The end of a rank: an error in one ends all, after its traceback, and one that ends as it should tells
  so.
"""

from __future__ import annotations

from adjoint.distributed.call_checks import DebugLevel as DebugLevel
from adjoint.distributed.call_checks import get_debug_level as get_debug_level
from adjoint.distributed.call_checks import set_debug_level as set_debug_level
from adjoint.distributed.call_checks import set_debug_level_from_env as set_debug_level_from_env
from adjoint.distributed.collectives import all_gather as all_gather
from adjoint.distributed.collectives import all_gather_into_tensor as all_gather_into_tensor
from adjoint.distributed.collectives import all_reduce as all_reduce
from adjoint.distributed.collectives import all_to_all as all_to_all
from adjoint.distributed.collectives import all_to_all_single as all_to_all_single
from adjoint.distributed.collectives import barrier as barrier
from adjoint.distributed.collectives import broadcast as broadcast
from adjoint.distributed.collectives import gather as gather
from adjoint.distributed.collectives import monitored_barrier as monitored_barrier
from adjoint.distributed.collectives import reduce as reduce
from adjoint.distributed.collectives import reduce_scatter as reduce_scatter
from adjoint.distributed.collectives import reduce_scatter_tensor as reduce_scatter_tensor
from adjoint.distributed.collectives import scatter as scatter
from adjoint.distributed.default_group import GroupMember as GroupMember
from adjoint.distributed.default_group import destroy_process_group as destroy_process_group
from adjoint.distributed.default_group import get_backend as get_backend
from adjoint.distributed.default_group import get_default_backend_for_device as get_default_backend_for_device
from adjoint.distributed.default_group import get_global_rank as get_global_rank
from adjoint.distributed.default_group import get_group_rank as get_group_rank
from adjoint.distributed.default_group import get_process_group_ranks as get_process_group_ranks
from adjoint.distributed.default_group import get_rank as get_rank
from adjoint.distributed.default_group import get_world_size as get_world_size
from adjoint.distributed.default_group import group as group
from adjoint.distributed.default_group import init_process_group as init_process_group
from adjoint.distributed.default_group import is_available as is_available
from adjoint.distributed.default_group import is_gloo_available as is_gloo_available
from adjoint.distributed.default_group import is_initialized as is_initialized
from adjoint.distributed.default_group import is_mpi_available as is_mpi_available
from adjoint.distributed.default_group import is_nccl_available as is_nccl_available
from adjoint.distributed.default_group import is_torchelastic_launched as is_torchelastic_launched
from adjoint.distributed.default_group import is_ucc_available as is_ucc_available
from adjoint.distributed.default_group import is_xccl_available as is_xccl_available
from adjoint.distributed.default_group import new_group as new_group
from adjoint.distributed.default_group import new_subgroups as new_subgroups
from adjoint.distributed.default_group import new_subgroups_by_enumeration as new_subgroups_by_enumeration
from adjoint.distributed.default_group import split_group as split_group
from adjoint.distributed.gradients.gradient_bucket import GradBucket as GradBucket
from adjoint.distributed.gradients.reducer import Reducer as Reducer
from adjoint.distributed.interface.c10d_names import Backend as Backend
from adjoint.distributed.interface.c10d_names import BackendConfig as BackendConfig
from adjoint.distributed.interface.c10d_names import GroupName as GroupName
from adjoint.distributed.interface.c10d_names import RankType as RankType
from adjoint.distributed.interface.c10d_names import all_gather_coalesced as all_gather_coalesced
from adjoint.distributed.interface.c10d_names import all_gather_single as all_gather_single
from adjoint.distributed.interface.c10d_names import all_reduce_coalesced as all_reduce_coalesced
from adjoint.distributed.interface.c10d_names import breakpoint as breakpoint
from adjoint.distributed.interface.c10d_names import default_pg_timeout as default_pg_timeout
from adjoint.distributed.interface.c10d_names import get_backend_config as get_backend_config
from adjoint.distributed.interface.c10d_names import get_node_local_rank as get_node_local_rank
from adjoint.distributed.interface.c10d_names import get_pg_count as get_pg_count
from adjoint.distributed.interface.c10d_names import is_backend_available as is_backend_available
from adjoint.distributed.interface.c10d_names import log as log
from adjoint.distributed.interface.c10d_names import record_comm as record_comm
from adjoint.distributed.interface.c10d_names import reduce_op as reduce_op
from adjoint.distributed.interface.c10d_names import reduce_scatter_single as reduce_scatter_single
from adjoint.distributed.interface.c10d_names import supports_complex as supports_complex
from adjoint.distributed.interface.device_mesh import DeviceMesh as DeviceMesh
from adjoint.distributed.interface.device_mesh import init_device_mesh as init_device_mesh
from adjoint.distributed.interface.file_store import FileStore as FileStore
from adjoint.distributed.interface.objects import all_gather_object as all_gather_object
from adjoint.distributed.interface.objects import broadcast_object_list as broadcast_object_list
from adjoint.distributed.interface.objects import gather_object as gather_object
from adjoint.distributed.interface.objects import scatter_object_list as scatter_object_list
from adjoint.distributed.interface.point_to_point import P2POp as P2POp
from adjoint.distributed.interface.point_to_point import batch_isend_irecv as batch_isend_irecv
from adjoint.distributed.interface.point_to_point import irecv as irecv
from adjoint.distributed.interface.point_to_point import isend as isend
from adjoint.distributed.interface.point_to_point import recv as recv
from adjoint.distributed.interface.point_to_point import recv_object_list as recv_object_list
from adjoint.distributed.interface.point_to_point import send as send
from adjoint.distributed.interface.point_to_point import send_object_list as send_object_list
from adjoint.distributed.interface.store import DistBackendError as DistBackendError
from adjoint.distributed.interface.store import DistError as DistError
from adjoint.distributed.interface.store import DistNetworkError as DistNetworkError
from adjoint.distributed.interface.store import DistStoreError as DistStoreError
from adjoint.distributed.interface.store import HashStore as HashStore
from adjoint.distributed.interface.store import PrefixStore as PrefixStore
from adjoint.distributed.interface.store import QueueEmptyError as QueueEmptyError
from adjoint.distributed.interface.store import Store as Store
from adjoint.distributed.interface.tcp_store import TCPStore as TCPStore
from adjoint.distributed.process_group import ProcessGroup as ProcessGroup
from adjoint.distributed.work import Work as Work
from adjoint.ops.collectives import ReduceOp as ReduceOp
