"""Settings of the SLURM launcher: types, ranges, and a cluster's profile that fills the gaps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from embedexp.config.errors import UserError, nearest, shorten
from embedexp.config.locations import PACKAGE, short

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_PREFIX = "hydra.launcher"
# Parameters of sbatch that the launcher sets itself, and which of its keys decides them.
_OWN = {
    "array": "parallelism and array_size",
    "account": "account",
    "chdir": "the folder that you start from",
    "constraint": "constraint",
    "cpus-per-task": "cpus_per_task",
    "dependency": "dependency",
    "error": "the run directory",
    "gpus-per-node": "compute.devices and gpu_type",
    "gres": "compute.devices and gpu_type",
    "job-name": "name",
    "mem": "memory",
    "no-requeue": "requeue",
    "nodes": "compute.nodes",
    "ntasks": "compute.nodes and compute.devices",
    "ntasks-per-node": "compute.devices",
    "open-mode": "the launcher",
    "output": "the run directory",
    "partition": "partition",
    "qos": "qos",
    "requeue": "requeue",
    "signal": "signal_delay",
    "time": "time",
}


class SlurmSettings(BaseModel):
    """What the launcher asks of SLURM, but for the nodes and tasks that a cell's compute names."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    profile: str | None = Field(description="a name in slurm/profiles, or a file")
    partition: str | None = Field(description="partition", min_length=1)
    account: str | None = Field(description="account that pays", min_length=1)
    qos: str | None = Field(description="quality of service", min_length=1)
    constraint: str | None = Field(description="features that nodes must have", min_length=1)
    time: int | None = Field(description="minutes, a whole number of 1 or more", ge=1)
    memory: float | None = Field(description="GiB per node, more than 0", gt=0)
    cpus_per_task: int | None = Field(description="cores of each process, 1 or more", ge=1)
    gpu_type: str | None = Field(description="type of the GPUs", min_length=1)
    extra: dict[str, str | int | float | bool] | None = Field(
        description="sbatch parameters: {exclude: n7}"
    )
    srun_args: list[str] = Field(description="a list of arguments: [--cpu-bind=none]")
    setup: list[str] = Field(description="a list of shell lines")
    signal_delay: int = Field(description="seconds, a whole number of 1 or more", ge=1)
    requeue: bool = Field(description="true or false")
    parallelism: int | None = Field(description="jobs at a time, 1 or more", ge=1)
    array_size: int | None = Field(description="cells in one array, 1 or more", ge=1)
    dependency: str | None = Field(description="such as afterok:1234", min_length=1)
    wait: bool = Field(description="true or false")
    snapshot: bool = Field(description="true or false")

    def recorded(self) -> dict[str, Any]:
        """The settings as `job.json` keeps them: enough to launch again, without the profile."""
        return self.model_dump() | {"profile": None}


def settings_of(given: Mapping[str, Any], typed: Collection[str] | None = None) -> SlurmSettings:
    """The checked settings; a profile gives what was not `typed` on the command line.

    Without `typed`, it gives what is null or empty.

    Raises:
        UserError: a setting or the profile is wrong.
    """
    values = dict(given)
    if isinstance(values.get("profile"), str):
        path = _profile_file(values["profile"])
        content = _profile(path)
        kept = {key for key, value in values.items() if value not in (None, {}, [])}
        kept = set(typed) if typed is not None else kept
        values |= {key: value for key, value in content.items() if key not in kept}
        return _checked(values, {key: short(path) for key in content if key not in kept})
    return _checked(values, {})


def profiles_folder() -> Path:
    """The folder of clusters' profiles: inside an installed package, else beside the package."""
    inside = PACKAGE / "slurm_profiles"
    return inside if inside.is_dir() else PACKAGE.parent / "slurm" / "profiles"


def _checked(values: dict[str, Any], origins: Mapping[str, str]) -> SlurmSettings:
    try:
        settings = SlurmSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0])
        where = f"in {origins[key]}" if key in origins else None
        if first["type"] == "extra_forbidden":
            raise _unknown(key, where) from None
        field = SlurmSettings.model_fields[key]
        value = shorten(values.get(key), 60)
        raise UserError(
            f"{_PREFIX}.{key}={value}, but it takes {field.description}", where=where
        ) from None
    for key in settings.extra or {}:
        name = key.lstrip("-").replace("_", "-")
        if name in _OWN:
            raise UserError(
                f"{_PREFIX}.extra.{key} has no effect: {name} comes from {_OWN[name]}",
                hint=f"take it out of {_PREFIX}.extra",
            )
    return settings


def _unknown(key: str, where: str | None) -> UserError:
    best = nearest(key, SlurmSettings.model_fields)
    return UserError(
        f"the SLURM launcher has no setting {key}" + (f"; did you mean {best}?" if best else ""),
        where=where,
        hint="sbatch parameters that it doesn't name go into extra: {exclude: n7}",
    )


def _profile_file(name: str) -> Path:
    path = Path(name).expanduser()
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        if path.is_file():
            return path
        raise UserError(f"{_PREFIX}.profile={name}: there is no such file")
    known = {file.stem: file for file in profiles_folder().glob("*.yaml")}
    if name in known:
        return known[name]
    best = nearest(name, known)
    raise UserError(
        f"there is no profile {name!r}" + (f"; did you mean {best}?" if best else ""),
        where=f"profiles: {', '.join(sorted(known))}",
        hint=f"a file of your own: {_PREFIX}.profile=./cluster.yaml",
    )


def _profile(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{short(path)} can't be read", hint=str(error)) from None
    if not isinstance(content, dict):
        raise UserError(f"{short(path)} holds no settings", hint="one setting a line: time: 60")
    for key in content:
        if key == "profile" or key not in SlurmSettings.model_fields:
            raise _unknown(str(key), f"in {short(path)}")
    return content
