"""What a run needs of machines: read off `compute`, the same for every launcher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .schema.compute import Cpu, Ddp, Fsdp

if TYPE_CHECKING:
    from .schema.compute import Compute


@dataclass(frozen=True, order=True)
class Resources:
    """`nodes` machines with `devices` processes each, on GPUs or not, of `cpus` cores each."""

    nodes: int
    devices: int
    gpu: bool
    cpus: int

    @property
    def world(self) -> int:
        """Processes in all."""
        return self.nodes * self.devices


def resources(compute: Compute) -> Resources:
    """The machines that `compute` asks for; where it leaves threads open, one core each."""
    threads = 1
    if isinstance(compute, Cpu | Ddp | Fsdp) and compute.threads is not None:
        threads = compute.threads
    cpus = threads + compute.workers
    if isinstance(compute, Ddp | Fsdp):
        return Resources(compute.nodes, compute.devices, compute.accelerator == "gpu", cpus)
    return Resources(1, 1, not isinstance(compute, Cpu), cpus)
