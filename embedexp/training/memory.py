"""How much memory there is for training on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.resources import resources

if TYPE_CHECKING:
    from embedexp.config import Config

CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Where containers and schedulers say how much may be used, and how much is: version 2, then 1."""


@dataclass(frozen=True)
class Limit:
    """Bytes that one process may use, and of what: `each GPU`, `this machine`."""

    size: float
    of: str


def limit(config: Config) -> Limit:
    """What one process of `compute` may use here: its GPU's memory, or its share of the machine's.

    Of a GPU, all of it; of the machine, what is not in use.
    """
    needed = resources(config.compute)
    if needed.gpu:
        import torch

        _, total = torch.cuda.mem_get_info(0)
        return Limit(float(total), "each GPU")
    each = f"each of {needed.devices} processes" if needed.devices > 1 else "this machine"
    return Limit(available() / needed.devices, each)


def available(
    meminfo: str = "/proc/meminfo", cgroups: tuple[tuple[str, str], ...] = CGROUPS
) -> float:
    """Bytes of main memory that processes can still get; without bound where nothing says."""
    known = [float("inf")]
    if (path := Path(meminfo)).is_file():
        for line in path.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                known.append(float(line.split()[1]) * 1024)
    for most, used in cgroups:
        text = Path(most).read_text(encoding="ascii").strip() if Path(most).is_file() else "max"
        if text.isdigit() and Path(used).is_file():
            cached = _reclaimable(Path(used).with_name("memory.stat"))
            in_use = float(Path(used).read_text(encoding="ascii")) - cached
            known.append(float(text) - max(in_use, 0.0))
    return min(known)


def _reclaimable(statistics: Path) -> float:
    """Bytes of files in a cgroup's memory, which give way."""
    if not statistics.is_file():
        return 0.0
    fields = dict(line.split() for line in statistics.read_text(encoding="ascii").splitlines())
    return sum(float(fields.get(key, 0)) for key in ("inactive_file", "active_file"))
