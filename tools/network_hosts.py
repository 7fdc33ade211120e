"""Hosts in a box: network namespaces in which ranks meet as on several machines, on a network of a given rate.

`python tools/network_hosts.py --hosts 4 --rate 1gbit train.py` runs a program with one rank on each, and
`python tools/network_hosts.py` without a program compares an all-reduce with what the wire takes. Each host has a name,
/dev/shm, processes and loopback of its own, so that ranks share nothing but the network. `--cut 5` takes the last host
off the network after five seconds. It needs Linux, root, and iproute2.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
PORT = 29500
BURST, LATENCY = "128kb", "100ms"  # of the queue that limits the rate
ISOLATE = ("unshare", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
MEASURES = """
    import os, time
    import adjoint as ad
    import adjoint.distributed as dist

    dist.init_process_group()
    for megabytes in (1, 10):
        x = ad.ones(megabytes * 250_000)
        seconds = []
        for _ in range(6):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(x)
            seconds.append(time.perf_counter() - began)
        if dist.get_rank() == 0:
            print(megabytes, min(seconds), flush=True)
"""


def why_not() -> str:
    """Return why there can be no such hosts here; an empty string if there can."""
    if not sys.platform.startswith("linux") or os.geteuid():
        return "network namespaces need Linux and root"
    missing = [name for name in ("ip", "tc", "unshare") if shutil.which(name) is None]
    if missing:
        return f"network namespaces need {', '.join(missing)}"
    done = subprocess.run([*ISOLATE, "--net", "true"], capture_output=True, text=True, check=False)
    return done.stderr.strip()


class NetworkHosts:
    """Context with `count` hosts on one bridge, each with its own link; `rate` limits what a host sends."""

    def __init__(self, count: int, rate: str = "") -> None:
        self.count, self.rate = count, rate
        self.name = f"ad{secrets.token_hex(2)}"
        self.subnet = f"10.{os.getpid() % 200 + 20}.{secrets.randbelow(250)}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> NetworkHosts:
        _run(f"ip link add {self.name} type bridge", f"ip link set {self.name} up")
        for host in range(self.count):
            space, link = self._space(host), self._link(host)
            _run(
                f"ip netns add {space}",
                f"ip link add {link} type veth peer name eth0 netns {space}",
                f"ip link set {link} master {self.name} up",
                f"ip -n {space} addr add {self.address(host)}/24 dev eth0",
                f"ip -n {space} link set eth0 up",
                f"ip -n {space} link set lo up",
            )
            if self.rate:
                limit = f"rate {self.rate} burst {BURST} latency {LATENCY}"
                _run(f"ip netns exec {space} tc qdisc add dev eth0 root tbf {limit}")
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes:
            process.kill()  # and with it all of its namespace
            process.wait()
        for host in range(self.count):
            subprocess.run(["ip", "link", "del", self._link(host)], check=False)  # a namespace may take its time
            subprocess.run(["ip", "netns", "del", self._space(host)], check=False)
        subprocess.run(["ip", "link", "del", self.name], check=False)

    def _space(self, host: int) -> str:
        return f"{self.name}n{host}"

    def _link(self, host: int) -> str:
        return f"{self.name}v{host}"

    def address(self, host: int) -> str:
        """Return the host's address."""
        return f"{self.subnet}.{host + 1}"

    def start(
        self, host: int, command: Sequence[str], variables: Mapping[str, str], folder: Path
    ) -> subprocess.Popen[bytes]:
        """Start a command on a host; its output goes to `out0` and `error0` in the folder."""
        own = f"echo host{host} > /proc/sys/kernel/hostname; mount -t tmpfs tmpfs /dev/shm"
        line = ["ip", "netns", "exec", self._space(host), *ISOLATE, "sh", "-c", f"{own}; exec {shlex.join(command)}"]
        with (folder / f"out{host}").open("wb") as out, (folder / f"error{host}").open("wb") as error:
            process = subprocess.Popen(line, env=dict(variables), cwd=folder, stdout=out, stderr=error)
        self.processes.append(process)
        return process

    def start_ranks(self, program: Sequence[str], folder: Path, *options: str) -> list[subprocess.Popen[bytes]]:
        """Start one rank of a program on each host by `python -m adjoint.distributed.run`."""
        path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
        variables = os.environ | {"PYTHONPATH": path, "ADJOINT_JOB_KEY": secrets.token_hex(16), "OMP_NUM_THREADS": "1"}
        where = f"--nnodes={self.count} --master-addr={self.address(0)} --master-port={PORT}".split()
        launch = [sys.executable, "-m", "adjoint.distributed.run", *where, *options]
        return [
            self.start(host, [*launch, f"--node-rank={host}", *program], variables, folder)
            for host in range(self.count)
        ]

    def cut(self, host: int) -> None:
        """Take a host off the network: what is sent to it is lost, and nobody is told."""
        _run(f"ip link set {self._link(host)} down")


def _run(*lines: str) -> None:
    for line in lines:
        subprocess.run(line.split(), check=True)


def wire_seconds(size: int, hosts: int, rate: str) -> float:
    """Return how long an all-reduce of `size` bytes keeps the busiest link: each host sends 2 (n - 1) / n of it."""
    number, unit = float(rate.rstrip("abcdefghijklmnopqrstuvwxyz")), rate.lstrip("0123456789.")
    bits = number * {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}[unit]
    return 2 * (hosts - 1) / hosts * size * 8 / bits


def measure(hosts: int, rate: str) -> dict[int, float]:
    """Return for messages of 1 and 10 MB the time of an all-reduce over the time that the wire takes."""
    with tempfile.TemporaryDirectory() as name, NetworkHosts(hosts, rate) as network:
        folder = Path(name)
        path = folder / "measure.py"
        path.write_text("\n".join(line.removeprefix("    ") for line in MEASURES.splitlines()), encoding="utf-8")
        for process in network.start_ranks([str(path)], folder):
            if process.wait(300):
                raise RuntimeError((folder / "error0").read_text())
        lines = [line.split() for line in (folder / "out0").read_text().splitlines()]
    return {int(size): float(seconds) / wire_seconds(int(size) * 10**6, hosts, rate) for size, seconds in lines}


def say(*parts: str) -> None:
    """Print parts of a line."""
    sys.stdout.write(" ".join(parts) + "\n")


def main(arguments: Sequence[str]) -> int:
    """Run a program on hosts, or measure; return the first exit status that is not 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--rate", default="1gbit", help="such as 100mbit; 0 for no limit")
    parser.add_argument("--cut", type=float, default=0.0, help="seconds after which the last host is cut off")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="a script and its arguments")
    given = parser.parse_args(arguments)
    if reason := why_not():
        parser.error(reason)
    rate = "" if given.rate == "0" else given.rate
    if not given.program:
        for size, ratio in measure(given.hosts, given.rate).items():
            say(f"{given.hosts} hosts, {given.rate}: all-reduce of {size} MB in {ratio:.2f} of the wire's time")
        return 0
    script, *rest = given.program
    with tempfile.TemporaryDirectory() as name, NetworkHosts(given.hosts, rate) as network:
        ranks = network.start_ranks([os.path.abspath(script), *rest], Path(name))
        if given.cut:
            time.sleep(given.cut)
            network.cut(given.hosts - 1)
        began = time.monotonic()
        statuses = [rank.wait() for rank in ranks]
        for host in range(given.hosts):
            say(f"host {host}", *((Path(name) / f"{stream}{host}").read_text() for stream in ("out", "error")))
        if given.cut:
            say(f"all had ended {time.monotonic() - began:.1f} s after the cut")
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
