"""Whether a machine has what experiments need, in a few lines."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from . import OK, RUN_FAILED
from .commands import run_parser

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

State = Literal["ok", "none", "bad"]
MARKS: dict[State, str] = {"ok": "ok", "none": "-", "bad": "!!"}
LEAST_FREE_GIB = 2.0
"""Free disk space below which a run of a small model may not find room for its checkpoints."""

CLUSTER = ("sbatch", "squeue", "srun", "scancel")


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it stands, and what was found; `bad` keeps runs from working."""

    what: str
    state: State
    found: str


def doctor(arguments: Sequence[str]) -> int:
    """Print what was found; 1 if something that every run needs is missing."""
    given = run_parser("doctor").parse_intermixed_args(list(arguments))
    bad = False
    for finding in examine(given.runs):
        print(f"{MARKS[finding.state]:<3} {finding.what:<12} {finding.found}", flush=True)
        bad |= finding.state == "bad"
    return RUN_FAILED if bad else OK


def examine(runs: str | None = None) -> Iterator[Finding]:
    """All findings, the cheap ones first."""
    yield python()
    yield packages()
    yield from folders(runs)
    yield offline()
    yield hub()
    yield cluster()
    yield extras()
    yield from torch()


def python() -> Finding:
    """The interpreter, of which 3.11 is the oldest that works."""
    found = sys.version.split()[0]
    state: State = "ok" if sys.version_info >= (3, 11) else "bad"
    return Finding("python", state, f"{found}, {sys.executable}")


def packages() -> Finding:
    """What the package requires, at the versions that it requires."""
    wrong = [problem for line in requires("embedexp") or () if (problem := _problem(line))]
    if wrong:
        return Finding("packages", "bad", "; ".join(wrong) + " (pip install -e .)")
    return Finding("packages", "ok", f"embedexp {version('embedexp')} with all it requires")


def _problem(line: str) -> str | None:
    """What is wrong with one requirement; None if nothing is, or if it belongs to an extra."""
    from packaging.requirements import Requirement

    requirement = Requirement(line)
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return None
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        return f"{requirement.name} is missing"
    if requirement.specifier.contains(found, prereleases=True):
        return None
    return f"{requirement.name} {found} is not {requirement.specifier}"


def folders(runs: str | None) -> Iterator[Finding]:
    """Where runs and caches are written: whether they can be, and how much room there is."""
    from omegaconf import OmegaConf

    from .help import root_config

    paths = OmegaConf.create(root_config()["paths"])  # which may name variables
    for name, path in (("runs", runs or paths.runs), ("cache", paths.cache)):
        yield _folder(name, Path(str(path)).expanduser())


def _folder(name: str, path: Path) -> Finding:
    place = path.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / 2**30
    found = f"{path}, {free:.1f} GiB free"
    if not place.is_dir() or not os.access(place, os.W_OK):
        return Finding(name, "bad", f"{path} can't be written (paths.{name}=FOLDER)")
    if free < LEAST_FREE_GIB:
        return Finding(name, "bad", f"{found}: less than {LEAST_FREE_GIB:g}")
    return Finding(name, "ok", found)


def offline() -> Finding:
    """The model that comes as a package, for machines without a model hub."""
    from embedexp.config.locations import conf_dir
    from embedexp.config.sources import read_yaml

    package = read_yaml(conf_dir() / "backbone" / "minilm.yaml")["package"]
    try:
        found = version(package["name"])
    except PackageNotFoundError:
        return Finding("offline", "none", "no model without a hub (pip install embedexp[offline])")
    if found != package["version"]:
        return Finding("offline", "bad", f"{package['name']} {found}, not {package['version']}")
    return Finding("offline", "ok", f"all-MiniLM-L6-v2 in {package['name']} {found}")


def hub() -> Finding:
    """Where downloaded models are kept, and whether downloads are switched off."""
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    models = sorted(cache.glob("models--*")) if cache.is_dir() else []
    off = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    told = f"{cache}, {len(models)} models" + (", downloads off (HF_HUB_OFFLINE)" if off else "")
    return Finding("hub cache", "ok" if models else "none", told)


def cluster() -> Finding:
    """SLURM's commands."""
    found = [name for name in CLUSTER if shutil.which(name)]
    if not found:
        return Finding("cluster", "none", "no SLURM commands: runs start on this machine only")
    missing = [name for name in CLUSTER if name not in found]
    if missing:
        return Finding("cluster", "bad", f"SLURM without {', '.join(missing)}")
    return Finding("cluster", "ok", f"SLURM ({', '.join(found)})")


def extras() -> Finding:
    """Which optional extras are complete."""
    from packaging.requirements import Requirement

    needed: dict[str, list[str]] = {}
    for line in requires("embedexp") or ():
        requirement = Requirement(line)
        marker = str(requirement.marker or "")
        if "extra ==" in marker:
            name = marker.rsplit("extra ==", 1)[1].strip().strip("\"'")
            needed.setdefault(name, []).append(requirement.name)
    needed.pop("test", None)
    have = [name for name, names in sorted(needed.items()) if all(map(_installed, names))]
    lack = [name for name in sorted(needed) if name not in have]
    told = ", ".join(have) or "none"
    without = f"; without {', '.join(lack)} (pip install embedexp[NAME])" if lack else ""
    return Finding("extras", "ok" if have else "none", told + without)


def _installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def torch() -> Iterator[Finding]:
    """Threads and GPUs as torch sees them; importing it takes a few seconds."""
    try:
        import torch as library
    except Exception as error:
        yield Finding("torch", "bad", f"can't be imported: {str(error).splitlines()[0][:120]}")
        return
    cores = len(os.sched_getaffinity(0))
    threads = library.get_num_threads()
    yield Finding("torch", "ok", f"{library.__version__}, {threads} threads on {cores} cores")
    if not library.cuda.is_available():
        yield Finding("gpu", "none", "none: compute=cpu")
        return
    for number in range(library.cuda.device_count()):
        found = library.cuda.get_device_properties(number)
        told = f"{number}: {found.name}, {found.total_memory / 2**30:.0f} GiB"
        yield Finding("gpu", "ok", f"{told}, CUDA {library.version.cuda}")
