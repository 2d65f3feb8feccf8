"""Processor time of commands that start no work, against importing Hydra and pydantic alone.

    python benchmarks/startup.py [--repeats 7] [--limit 1.0]

User and system time of each command in a fresh process, the median of a few. Exits with 1 if a
command needs more than `--limit` seconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

from timing import Row, add_json, write

PEER = ["-c", "import hydra, pydantic, omegaconf"]
COMMANDS: dict[str, list[str]] = {
    "python -c 'import hydra, pydantic, omegaconf'": PEER,
    "--help": ["-m", "embedexp", "--help"],
    "--cfg job": ["-m", "embedexp", "--cfg", "job"],
    "--cfg job, overridden": [
        "-m",
        "embedexp",
        "--cfg",
        "job",
        "routing=moe",
        "loss.temperature=0.1",
    ],
    "show": ["-m", "embedexp", "show"],
    "show, overridden": ["-m", "embedexp", "show", "routing=mote", "training.steps=100"],
    "status": ["-m", "embedexp", "status"],
    "error: option": ["-m", "embedexp", "loss=infonc"],
    "error: key": ["-m", "embedexp", "loss.temprature=0.1"],
    "error: value": ["-m", "embedexp", "training.precision=float23"],
    "error: contradiction": ["-m", "embedexp", "loss=cosent", "data.tasks=[retrieval]"],
}


def seconds(name: str, folder: str) -> float:
    """User and system time of one process; it must end as it should."""
    process = subprocess.Popen(
        [sys.executable, *COMMANDS[name]],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    expected = 2 if name.startswith("error") else 0
    if process.returncode != expected:
        raise SystemExit(f"{name} ended with {process.returncode} instead of {expected}")
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--limit", type=float, default=1.0, help="seconds")
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    given = parser.parse_args()
    if given.tiny:
        given.repeats = 1
        for name in [name for name in COMMANDS if name not in (next(iter(COMMANDS)), "--help")]:
            del COMMANDS[name]
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(given.repeats):  # in turns, so that a busy moment hits all alike
            for name, times in taken.items():
                times.append(seconds(name, folder))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    peer = next(iter(medians.values()))
    print(f"{'command':46} {'seconds':>8} {'least':>8} {'ratio':>6}")
    for name, median in medians.items():
        print(f"{name:46} {median:8.2f} {min(taken[name]):8.2f} {median / peer:6.2f}")
    write(
        given.json,
        [Row(name, "", times, "s", most=given.limit) for name, times in list(taken.items())[1:]],
    )
    slow = [name for name, median in medians.items() if median > given.limit]
    if slow:
        print(f"above {given.limit:g} s: {', '.join(slow)}")
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
