"""Ranks with uneven inputs train as PyTorch's do, eager and compiled, and end with the same model."""

import re
from pathlib import Path

from tests.support.ranks import needs_mpi, outputs, run_ranks

TRAIN = """
    import adjoint.run

    adjoint.run.stand_in()
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.algorithms.join import Join, Joinable, JoinHook
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_default_dtype(torch.float64)


    class Model(nn.Module):
        def __init__(self, has_buffers):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 2)
            self.norm = nn.BatchNorm1d(4) if has_buffers else nn.Identity()

        def forward(self, x):
            return self.b(self.norm(torch.tanh(self.a(x)))) + self.c(x[:, :1].expand(-1, 4))


    def run(divide=True, has_buffers=False, zero=False, compiled=False, accumulates=False, unused=False):
        torch.manual_seed(3)
        model = DistributedDataParallel(Model(has_buffers), find_unused_parameters=unused)
        if zero:
            optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.05)
            context = Join([model, optimizer], divide_by_initial_world_size=divide)
        else:
            optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
            context = model.join(divide_by_initial_world_size=divide)

        def step(x):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        step = torch.compile(step) if compiled else step
        torch.manual_seed(10 + rank)
        with context:
            for k in range(3 + 2 * rank):
                x = torch.randn(5, 3)
                if accumulates and k % 2 == 0:
                    with model.no_sync():
                        model(x).square().mean().backward()
                else:
                    step(x)
        assert not model._join_config.enable
        print(*[round(t.double().sum().item(), 11) for t in (*model.parameters(), *model.buffers())])
"""
# of this program on 2 ranks of PyTorch 2.13, with gloo; ZeroRedundancyOptimizer with the plain optimizer's
PLAIN = "-0.40371142695 -0.62088824366 -0.84470015626 -0.28531041036 -0.26148094616 0.18112324022"
BY_ACTIVE = "-0.41411388241 -0.60516567067 -0.84895800818 -0.29509160514 -0.19810442573 0.17134204545"
ACCUMULATED = "-0.60828381399 -0.19938730638 -0.56914620873 -0.40120108948 -0.69844648185 0.06523256106"
BY_ACTIVE_WITH_BUFFERS = (
    "-1.17327493927 -0.8228309666 -0.99059263952 -0.17533111645 0.09590074103 0.29110253413 3.6418670683 "
    "-0.08787685292 -0.12671694899 2.65597850703 5.0"
)


def numbers(text: str) -> list[list[float]]:
    return [[round(float(word), 8) for word in line.split()] for line in text.splitlines()]


@needs_mpi
def test_uneven_inputs_train_as_pytorchs(tmp_path: Path) -> None:
    program = TRAIN + """
    run()
    run(divide=False)
    run(accumulates=True)
    run(divide=False, has_buffers=True)
    run(zero=True)
    run(unused=True)
    run(divide=False, has_buffers=True, compiled=True)
    run(zero=True, compiled=True)
    """
    expected = [PLAIN, BY_ACTIVE, ACCUMULATED, BY_ACTIVE_WITH_BUFFERS, PLAIN, PLAIN, BY_ACTIVE_WITH_BUFFERS, PLAIN]
    for each in outputs(run_ranks(tmp_path, 2, program)):
        assert numbers(each) == numbers("\n".join(expected))


@needs_mpi
def test_joinables_of_programs_and_early_ends(tmp_path: Path) -> None:
    program = TRAIN + """
    class CounterHook(JoinHook):
        def __init__(self, counter):
            self.counter = counter

        def main_hook(self):
            self.counter.add(0)

        def post_hook(self, is_last_joiner):
            self.counter.was_last = is_last_joiner


    class Counter(Joinable):
        def __init__(self):
            super().__init__()
            self.total = 0

        def __call__(self):
            Join.notify_join_context(self)
            self.add(1)

        def add(self, number):
            t = torch.tensor([number])
            dist.all_reduce(t)
            self.total += t.item()

        def join_hook(self, **kwargs):
            return CounterHook(self)

        @property
        def join_device(self):
            return torch.device("cpu")

        @property
        def join_process_group(self):
            return dist.group.WORLD


    counter = Counter()
    with Join([counter]):
        for _ in range(3 + 4 * rank):
            counter()
    print(counter.total, counter.was_last)
    for _ in range(2):
        counter()  # outside, as if there had been no context
    print(counter.total)
    with Join([counter], enable=False):
        counter()
    for joinables in ([], [counter, DistributedDataParallel(nn.Linear(1, 1), process_group=dist.new_group([0, 1]))]):
        try:
            Join(joinables)
        except ValueError as error:
            print(error)

    model = DistributedDataParallel(nn.Linear(2, 1))
    try:
        with model.join(throw_on_early_termination=True):
            for _ in range(2 + rank):
                model(torch.ones(1, 2)).sum().backward()
    except RuntimeError as error:
        print(error)
    model(torch.ones(1, 2)).sum().backward()
    """
    refused = [
        "The join context manager requires at least one joinable",
        "Using join context manager with multiple process groups",
    ]
    first, last = outputs(run_ranks(tmp_path, 2, program))
    assert first.splitlines() == ["10 False", "14", *refused, "Rank 0 exhausted all inputs."]
    assert last.splitlines()[:4] == ["10 True", "14", *refused]
    assert re.fullmatch(r"Detected at least one rank that exhausted inputs\. .*", last.splitlines()[4])
