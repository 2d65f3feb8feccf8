"""`environment.json`: with what a run was computed, and nothing that should not be shared."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from embedexp.files import write_atomically

from .status import hostname, now

PACKAGES = (
    "embedexp",
    "torch",
    "lightning",
    "transformers",
    "tokenizers",
    "sentence-transformers",
    "mteb",
    "datasets",
    "numpy",
    "scipy",
    "scikit-learn",
    "safetensors",
    "hydra-core",
    "omegaconf",
    "pydantic",
    "wandb",
    "submitit",
)
# What a run executes. Other files of a checkout (notes, data) are nobody's business.
SOURCES = ("embedexp", "conf", "hydra_plugins")
# Beside a copied package: the version of the code that it is a copy of.
CODE_FILE = "code.json"
# Variables that change results or say where a run ran. Nothing else of the environment is kept.
VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "PYTHONHASHSEED",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_JOB_ID",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NTASKS",
    "TOKENIZERS_PARALLELISM",
)


def environment(*, seed: int | None = None, data_fingerprint: str | None = None) -> dict[str, Any]:
    """Versions, source code, hardware, threads, seed and data of a run about to start here."""
    return {
        "written": now(),
        "host": hostname(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": _packages(),
        "code": code_version(Path(__file__).parents[1]),
        "hardware": _hardware(),
        "threads": _threads(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "seed": seed,
        "data_fingerprint": data_fingerprint,
    }


def write_environment(path: Path, current: dict[str, Any]) -> None:
    """Write `current` to `path`; where a resumed run finds another environment, keep that too.

    Earlier environments that differ are listed under "earlier", oldest first.
    """
    earlier: list[dict[str, Any]] = []
    if path.exists():
        previous = json.loads(path.read_bytes())
        earlier = previous.pop("earlier", [])
        if {**previous, "written": None} != {**current, "written": None}:
            earlier.append(previous)
    content = {**current, "earlier": earlier} if earlier else current
    write_atomically(path, json.dumps(content, indent=2) + "\n")


def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _hardware() -> dict[str, Any]:
    import psutil

    hardware: dict[str, Any] = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
    }
    # Only if the run has loaded it already: describing the machine must not cost seconds.
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        devices = range(torch.cuda.device_count())
        hardware["gpus"] = [torch.cuda.get_device_name(device) for device in devices]
        hardware["cuda"] = torch.version.cuda
    return hardware


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _threads() -> dict[str, int]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {"torch": torch.get_num_threads(), "torch_interop": torch.get_num_interop_threads()}


def code_version(package: Path) -> dict[str, Any] | None:
    """Commit of the checkout that the package runs from, and what differs from it.

    Changes are told by file name and one hash, not by their text, which may hold anything. A copy
    made for a launcher tells what it was copied from.
    """
    copied = package.parent / CODE_FILE
    if copied.is_file():
        content = json.loads(copied.read_bytes())
        return content if isinstance(content, dict) else None
    # A package installed into an environment inside someone else's repository isn't that code.
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    root = Path((_git(package, "rev-parse", "--show-toplevel") or b"").decode().strip())
    commit = _git(root, "rev-parse", "HEAD")
    diff = _git(root, "diff", "HEAD", "--binary", "--", *SOURCES)
    names = _git(root, "diff", "HEAD", "--name-only", "-z", "--", *SOURCES)
    untracked = _git(root, "ls-files", "-z", "--others", "--exclude-standard", "--", *SOURCES)
    if commit is None or diff is None or names is None or untracked is None:
        return None
    digest = hashlib.sha256(diff)
    new_files = sorted(name for name in untracked.decode().split("\0") if name)
    for name in new_files:
        digest.update(name.encode() + b"\0" + _content(Path(root, name)))
    changed = sorted(name for name in names.decode().split("\0") if name)
    dirty = bool(changed or new_files)
    return {
        "commit": commit.decode().strip(),
        "dirty": dirty,
        "changes_sha256": digest.hexdigest() if dirty else None,
        "changed_files": changed,
        "untracked_files": new_files,
    }


def _content(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""


def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
