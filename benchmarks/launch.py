"""What launching costs: planning a sweep, looking at its runs, and `-m` against a bare loop.

    python benchmarks/launch.py [--cells 1000] [--looped 6] [--limit 10] [--status-limit 1]

Processor time of composing, validating and freezing the cells in this process; of `status` on
as many runs; and wall time of a multirun of cells that train for one step, against a loop that
starts the same runs one after the other. Exits with 1 above a limit (seconds).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import Row, add_json, write

TINY = [
    "backbone=tiny",
    "tracking=none",
    "evaluation=none",
    "training.steps=1",
    "optimizer.warmup_steps=0",
    "batching.size=4",
    "data.max_examples=100",
]
ROUTINGS = ("dense", "moe", "mote", "switch")
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def cells(count: int, folder: Path) -> list[list[str]]:
    shared = ["backbone=tiny", "tracking=none", f"paths.runs={folder}"]
    return [
        [*shared, f"routing={ROUTINGS[number % 4]}", f"seed={number}"] for number in range(count)
    ]


def plan_seconds(count: int, folder: Path) -> tuple[float, float]:
    """Processor time and wall time of planning `count` cells."""
    from embedexp.launch.plan import plan

    wall, begin = time.perf_counter(), time.process_time()
    planned = plan(cells(count, folder))
    taken = time.process_time() - begin, time.perf_counter() - wall
    assert len(planned.to_run) == count
    return taken


def status_seconds(folder: Path) -> float:
    """User and system time of `status` on all runs below `folder`, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "embedexp", "status", "--runs", str(folder)],
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"status ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def run(arguments: list[str], folder: Path) -> None:
    command = [sys.executable, "-m", "embedexp", *arguments, *TINY, f"paths.runs={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


def loop_seconds(count: int, folder: Path) -> tuple[float, float]:
    """Wall time of `count` cells as a multirun, and one after the other in a bare loop."""
    run(["seed=99"], folder / "warm")  # data tokenised, files read
    begin = time.perf_counter()
    run(["-m", f"seed=range({count})"], folder / "multirun")
    multirun = time.perf_counter() - begin
    begin = time.perf_counter()
    for seed in range(count):
        run([f"seed={seed}"], folder / "loop")
    return multirun, time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--looped", type=int, default=6, help="cells that are trained; 0: none")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for planning")
    parser.add_argument("--status-limit", type=float, default=1.0, help="seconds for status")
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    given = parser.parse_args()
    if given.tiny:
        given.cells, given.looped = 8, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        planning, wall = plan_seconds(given.cells, folder / "planned")
        print(f"plan {given.cells} cells     {planning:7.2f} s  ({wall:.2f} s on the clock)")
        status = status_seconds(folder / "planned")
        rows = [
            Row(f"plan {given.cells:,} cells", "", [planning], "s", most=given.limit),
            Row(f"status of {given.cells:,} runs", "", [status], "s", most=given.status_limit),
        ]
        print(f"status of {given.cells} runs {status:7.2f} s")
        if given.looped:
            multirun, loop = loop_seconds(given.looped, folder)
            each = (multirun - loop) / given.looped
            what = f"{given.looped} cells with -m, on the clock"
            rows.append(Row(what, "a bare loop", [multirun / loop]))
            print(f"-m, {given.looped} cells         {multirun:7.2f} s")
            print(f"bare loop             {loop:7.2f} s  ({each:+.2f} s a cell with -m)")
    write(given.json, rows)
    return int(planning > given.limit or status > given.status_limit)


if __name__ == "__main__":
    raise SystemExit(main())
