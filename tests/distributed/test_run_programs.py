"""Programs in the style of PyTorch's data-parallel ones run as they are, though they ask for CUDA by name.

The losses beside them are those of PyTorch over gloo, in float32 on the CPU.
"""

import re
from pathlib import Path
from textwrap import dedent

import pytest
from tests.support.ranks import free_ports, needs_mpi, run_launcher
from tests.support.scripts import run

# as the DDP tutorials do it: a device a rank, nccl, a sampler, pinned batches, a snapshot that is loaded if it is there
TRAINS = """
    import os, sys
    import torch
    import torch.nn.functional as F
    from torch.distributed import destroy_process_group, init_process_group
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, TensorDataset
    from torch.utils.data.distributed import DistributedSampler

    COMPILES = "--compile" in sys.argv


    class Trainer:
        def __init__(self, model, data, path):
            self.device = int(os.environ["LOCAL_RANK"])
            self.model, self.data, self.path, self.epoch = model.to(self.device), data, path, 0
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.02)
            self.scaler = torch.amp.GradScaler("cuda")
            if os.path.exists(path):
                snapshot = torch.load(path, map_location=f"cuda:{self.device}")
                self.model.load_state_dict(snapshot["model"])
                self.optimizer.load_state_dict(snapshot["optimizer"])
                self.epoch = snapshot["epoch"]
            self.model = DDP(self.model, device_ids=[self.device])
            self.step = torch.compile(self.train_batch) if COMPILES else self.train_batch

        def train_batch(self, x, y):
            self.optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.float16, enabled=False):
                loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            return loss.detach()

        def train_epoch(self):
            self.data.sampler.set_epoch(self.epoch)
            losses = [self.step(x.to(self.device), y.cuda(self.device, non_blocking=True)) for x, y in self.data]
            mean = torch.stack(losses).mean()
            torch.distributed.all_reduce(mean, op=torch.distributed.ReduceOp.AVG)
            torch.cuda.synchronize()
            if int(os.environ["RANK"]) == 0:
                print(f"epoch {self.epoch} loss {mean.item():.6f}", flush=True)
                state = {"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict()}
                torch.save({**state, "epoch": self.epoch + 1}, self.path)
            self.epoch += 1
            torch.distributed.barrier()


    def main():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        init_process_group(backend="nccl")
        torch.manual_seed(3)
        x = torch.randn(96, 12)
        data = TensorDataset(x, (x @ torch.randn(12, 5)).argmax(1))
        loader = DataLoader(data, batch_size=8, pin_memory=True, sampler=DistributedSampler(data))
        model = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.GELU(), torch.nn.Linear(24, 5))
        trainer = Trainer(model, loader, "snapshot.pt")
        while trainer.epoch < int(sys.argv[1]):
            if "--dies" in sys.argv and trainer.epoch == 2 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                os.kill(os.getpid(), 9)
            trainer.train_epoch()
        destroy_process_group()


    if __name__ == "__main__":
        main()
"""
LOSSES = [1.373964, 0.975978, 0.670262, 0.438285]
# as "Writing Distributed Applications" does it: processes of its own, gradients averaged by hand, a ring of messages
AVERAGES = """
    import os, sys
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp


    def average_gradients(model):
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad.data, op=dist.ReduceOp.SUM)
            parameter.grad.data /= float(dist.get_world_size())


    def add_in_a_ring(x):
        rank, size = dist.get_rank(), dist.get_world_size()
        total, passed = x.clone(), x.clone()
        for _ in range(size - 1):
            received = torch.empty_like(x)
            request = dist.isend(passed, (rank + 1) % size)
            dist.recv(received, (rank - 1) % size)
            request.wait()
            total += received
            passed = received
        return total


    def train(rank, size, port):
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
        dist.init_process_group("gloo", rank=rank, world_size=size)
        device = rank % torch.cuda.device_count()
        torch.manual_seed(9)
        model = torch.nn.Linear(6, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        data = torch.randn(32, 6).chunk(size)[rank].to(device)
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(data).square().mean()
            loss.backward()
            average_gradients(model)
            optimizer.step()
        total = add_in_a_ring(loss.detach())
        if rank == 0:
            print(f"loss {total.item() / size:.6f}", flush=True)
        dist.destroy_process_group()


    if __name__ == "__main__":
        size = torch.cuda.device_count()
        assert size >= 2, f"requires two GPUs, but there are {size}"
        mp.spawn(train, args=(size, sys.argv[1]), nprocs=size, join=True)
"""
AVERAGED_LOSS = 0.015384


def losses_of(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"loss (\S+)", text)]


@needs_mpi
@pytest.mark.parametrize("compiled", [(), ("--compile",)], ids=["eager", "compiled"])
def test_a_program_for_torchrun_has_pytorchs_losses_and_resumes(compiled: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(dedent(TRAINS))
    options = ["--nproc-per-node=2", "--cuda=cpu", "--max-restarts=1"]
    done = run_launcher(tmp_path, "", *options, str(path), "4", "--dies", *compiled)
    assert losses_of(done.out) == pytest.approx(LOSSES, abs=1e-5)
    assert done.error.count("the program sees 2 CUDA devices") == 2  # once for each start
    assert "was killed by SIGKILL" in done.error


@needs_mpi
def test_a_program_that_spawns_ranks_has_pytorchs_losses(tmp_path: Path) -> None:
    done = run(tmp_path, "--cuda=cpu:2", "script.py", str(free_ports()), script=AVERAGES)
    assert losses_of(done.out) == pytest.approx([AVERAGED_LOSS], abs=1e-5), done.error
