"""Under `--cuda=cpu` programs see CUDA devices, all of which are the CPU; without it none."""

from pathlib import Path

import pytest
from tests.support.scripts import run

ANSWERS = """
    import torch

    device, other = torch.device("cuda", 0), torch.device(1)
    x = torch.ones(3, device=device)

    # devices keep their names, and equal the CPU, where tensors are
    assert (device.type, str(other), other.index) == ("cuda", "cuda:1", 1)
    assert x.device == device == other and hash(x.device) == hash(device) and x.device.type == "cpu"
    assert x.device != torch.device("meta") and not x.is_cuda

    # tensors and modules move nowhere
    for moved in (x.cuda(), x.cuda(1), x.to("cuda:0"), x.to(1), x.to(device, non_blocking=True), x.cuda().cpu()):
        assert moved is x
    assert torch.zeros(2, device=0).cuda().pin_memory().device == device
    layer = torch.nn.Linear(3, 2).cuda().to(0)
    assert layer.weight.device == device
    assert torch.cuda.FloatTensor is torch.FloatTensor
    torch.set_default_device("cuda")
    assert torch.ones(1).device == device
    try:
        torch.empty(1, device="meta").cuda()
    except NotImplementedError:
        pass
    else:
        raise AssertionError("there are no values to move")
    for absent in ("xpu", "mps"):
        try:
            torch.ones(1, device=absent)
        except RuntimeError:
            pass
        else:
            raise AssertionError(absent)

    # questions, orders and handles
    assert torch.cuda.is_available() and torch.cuda.device_count() == 2 and torch.cuda.is_bf16_supported()
    torch.cuda.set_device("cuda:1")
    assert torch.cuda.current_device() == 1
    with torch.cuda.device(0):
        assert torch.cuda.current_device() == 0
    assert torch.cuda.current_device() == 1
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.memory_allocated() == torch.cuda.memory_stats()["allocated_bytes.all.peak"] == 0
    assert torch.cuda.memory_summary() == ""
    assert "CPU" in torch.cuda.get_device_name(0)
    properties = torch.cuda.get_device_properties("cuda")
    assert (properties.major, properties.minor) == torch.cuda.get_device_capability()
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == properties.total_memory
    stream = torch.cuda.Stream()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    with torch.cuda.stream(stream):
        stream.wait_stream(torch.cuda.current_stream())
    stream.record_event(end)
    end.synchronize()
    assert begin.elapsed_time(end) >= 0.0 and end.query() and torch.cuda.current_stream().query()
    assert torch.accelerator.current_accelerator().type == "cuda"
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == 2
    torch.accelerator.set_device_index(0)
    assert torch.accelerator.current_device_index() == torch.cuda.current_device() == 0
    assert torch.get_device_module("cuda") is torch.cuda

    # one generator
    state = torch.cuda.get_rng_state(1)
    drawn = torch.rand(2, device="cuda")
    torch.cuda.set_rng_state(state, "cuda:1")
    assert torch.equal(torch.rand(2), drawn)
    torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    assert torch.rand(1, generator=torch.Generator("cuda").manual_seed(3), device="cuda").numel() == 1

    # lower precision
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
        with torch.autocast("cuda", enabled=False):
            assert layer(x).dtype == torch.float32
    with torch.autocast("cuda"):
        assert layer(x).dtype == torch.float16
    with torch.autocast("cpu"):
        assert layer(x).dtype == torch.bfloat16
    assert layer(x).dtype == torch.float32
    scaler = torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler.scale(layer(x).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.is_enabled() and scaler.get_scale() == 2.0**16

    # files
    torch.save(layer.state_dict(), "layer.pt")
    for where in ("cuda:1", device, {"cuda:0": "cuda:1"}, lambda storage, place: storage):
        layer.load_state_dict(torch.load("layer.pt", map_location=where))

    # a compiled step takes equal devices of two names apart
    step = torch.compile(lambda x, device: x.to(device) * (2 if device.type == "cuda" else 3))
    assert [step(x, torch.device(name))[0].item() for name in ("cuda", "cpu", "cuda:1")] == [2.0, 3.0, 2.0]

    assert torch.distributed.get_default_backend_for_device("cuda") == "nccl"
"""


def test_cuda_means_the_cpu(tmp_path: Path) -> None:
    done = run(tmp_path, "--cuda=cpu:2", "script.py", script=ANSWERS)
    assert done.status == 0, done.error
    assert done.error == "adjoint: --cuda=cpu:2: the program sees 2 CUDA devices, and computes on the CPU"


def test_processes_that_a_program_starts_follow_it(tmp_path: Path) -> None:
    script = """
        import sys
        import torch
        import torch.multiprocessing as mp

        def tell(rank):
            print(rank, torch.ones(1).cuda(rank).item(), torch.cuda.device_count(), flush=True)

        if __name__ == "__main__":
            for method in ("spawn", "fork"):
                mp.start_processes(tell, nprocs=1, start_method=method)
    """
    done = run(tmp_path, "--cuda", "cpu", "script.py", script=script)
    assert done.out.splitlines() == ["0 1.0 1", "0 1.0 1"], done.error
    assert done.error.count("--cuda=cpu") == 1


@pytest.mark.parametrize("value", ["gpu", "cpu:0", "cpu:many", ""])
def test_another_value_is_refused(value: str, tmp_path: Path) -> None:
    done = run(tmp_path, f"--cuda={value}", "script.py", script="raise SystemExit(1)")
    assert done.status == 2
    assert f"--cuda={value}: cpu, or cpu and a number of devices, such as cpu:4" in done.error


def test_without_it_there_is_no_cuda(tmp_path: Path) -> None:
    script = """
        import torch
        print(torch.cuda.is_available(), torch.cuda.device_count(), torch.device("cuda") == torch.device("cpu"))
        torch.ones(1).cuda()
    """
    done = run(tmp_path, "script.py", script=script)
    assert done.out == "False 0 False"
    assert "adjoint computes on the CPU only" in done.error
