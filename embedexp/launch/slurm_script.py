"""One array of SLURM jobs: submitit writes its script, submits it, and names its files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .slurm_cluster import cpus_of, outside_of_jobs
from .snapshot import variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.config.resources import Resources
    from embedexp.runs import RunDirectory

    from .slurm_settings import SlurmSettings


def parameters(shape: Resources, settings: SlurmSettings, code: Path, name: str) -> dict[str, Any]:
    """What submitit's executor is told: one job of `shape` a cell, importing the code in `code`."""
    cores = cpus_of(settings, shape)
    further: dict[str, Any] = {
        key.lstrip("-").replace("_", "-"): value for key, value in (settings.extra or {}).items()
    }
    # Sites differ in what they do without being told.
    further["requeue" if settings.requeue else "no-requeue"] = True
    if settings.dependency is not None:
        # Else a job whose predecessor has failed waits for ever.
        further["kill-on-invalid-dep"] = "yes"
    given: dict[str, Any] = {
        "job_name": name,
        "nodes": shape.nodes,
        "ntasks_per_node": shape.devices,
        "cpus_per_task": cores,
        "gpus_per_node": _gpus(shape, settings),
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "constraint": settings.constraint,
        "time": settings.time,
        "mem": f"{round(settings.memory * 1024)}M" if settings.memory is not None else None,
        "dependency": settings.dependency,
        "array_parallelism": settings.parallelism,
        "signal_delay_s": settings.signal_delay,
        "stderr_to_stdout": True,
        "additional_parameters": further,
        # srun doesn't take the cores over from sbatch; a rank that fails must end the others.
        "srun_args": [f"--cpus-per-task={cores}", "--kill-on-bad-exit=1", *settings.srun_args],
        "setup": [*settings.setup, *_exports(code)],
    }
    return {key: value for key, value in given.items() if value is not None}


def submit(
    runs: Sequence[RunDirectory],
    shape: Resources,
    settings: SlurmSettings,
    code: Path,
    folder: Path,
    name: str,
) -> list[tuple[str, Path]] | str:
    """Submit one job a run, as an array if there are several.

    Returns SLURM's id and the scheduler's log of each job, or in one line why there are none.
    """
    from submitit import SlurmExecutor
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    from .job import run_cell

    try:
        with outside_of_jobs():
            folder.mkdir(parents=True, exist_ok=True)
            executor = SlurmExecutor(folder)
            executor.update_parameters(**parameters(shape, settings, code, name))
            # submitit has values of its own for these; nothing said leaves them to SLURM.
            executor.parameters["wckey"] = None
            if settings.time is None:
                executor.parameters["time"] = None
            with executor.batch():
                jobs = [executor.submit(run_cell, str(run.path.absolute())) for run in runs]
            return [(job.job_id, Path(job.paths.stdout)) for job in jobs]
    except (FailedJobError, FailedSubmissionError, OSError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = [line for line in lines if line.startswith(("sbatch: error:", "sbatch:"))] or lines
        last = told[-1] if told else type(error).__name__
        return f"not submitted: {last.removeprefix('sbatch: ').removeprefix('error: ')}"


def _gpus(shape: Resources, settings: SlurmSettings) -> str | int | None:
    if not shape.gpu:
        return None
    return f"{settings.gpu_type}:{shape.devices}" if settings.gpu_type else shape.devices


def _exports(code: Path) -> list[str]:
    """Shell lines after the user's own, which may load modules that set PYTHONPATH."""
    names = variables(code, {})
    path = shlex.quote(names["PYTHONPATH"])
    return [
        f"export PYTHONSAFEPATH={names['PYTHONSAFEPATH']}",
        f"export PYTHONPATH={path}${{PYTHONPATH:+:$PYTHONPATH}}",
    ]
