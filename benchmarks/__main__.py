"""All comparisons on this machine's CPU, one after the other, and their table.

    python benchmarks [--only NAME ...] [--threads 1] [--to FOLDER] [--into FILE ...] [--tiny]

About two hours on two quiet cores. Every benchmark is a process of its own with its threads pinned,
and can be run alone with other sizes. `table.md`, `results.json` and a log of each are written into
the folder `--to` as they come; lines of others that were measured there before, on the same machine
and with the same sizes, are kept. `--into` puts the table between the marks of Markdown files:
the whole one after `<!-- benchmarks: begin -->`, only comparisons with a peer that have a target
after `<!-- benchmarks with targets: begin -->`.
Ratios are medians over turns within a run, with the lowest and the highest. A benchmark that gives
no figures is named at the end, and the exit code is then 1; a missed target is a line of the table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
BEGIN_SHORT = "<!-- benchmarks with targets: begin -->"
PACKAGES = ("torch", "transformers", "sentence-transformers")


class Benchmark(NamedTuple):
    """A script with the sizes that it gets here."""

    script: str
    arguments: tuple[str, ...] = ()
    threads: bool = False  # whether it takes --threads; all find them in the environment


TRAINING = ("--steps", "2", "--repeats")
CACHED = ("--steps", "2", "--repeats", "2", "--cached")

BENCHMARKS: dict[str, Benchmark] = {
    "startup": Benchmark("startup.py"),
    "first_step": Benchmark("first_step.py"),
    "launch": Benchmark("launch.py", ("--looped", "3")),
    "batches": Benchmark("batches.py", (), True),
    "cosent": Benchmark("cosent.py", (), True),
    "attention": Benchmark("attention.py", (), True),
    "routing": Benchmark("routing.py", (), True),
    "models": Benchmark("models.py", (), True),
    "dynamic_negatives": Benchmark("dynamic_negatives.py"),
    "gradient_cache": Benchmark("gradient_cache.py"),
    "memory": Benchmark("memory.py"),
    "mining": Benchmark("mining.py"),
    "scaling": Benchmark("scaling.py", (), True),
    "infonce": Benchmark("infonce.py", ("--repeats", "2"), True),
    "encode": Benchmark("encode.py", ("--texts", "1500", "--repeats", "3"), True),
    "training": Benchmark("training.py", (*TRAINING, "3", "--least", "1.7"), True),
    "training_no_dropout": Benchmark(
        "training.py", (*TRAINING, "2", "--dropout", "0", "--least", "1.5"), True
    ),
    "training_bf16": Benchmark(
        "training.py",
        (*TRAINING, "2", "--dropout", "0", "--precision", "bf16_mixed", "--least", "1.8"),
        True,
    ),
    "training_equal": Benchmark(
        "training.py", (*TRAINING, "2", "--equal", "--least", "1.05"), True
    ),
    "training_bare": Benchmark("training.py", (*TRAINING, "3", "--bare", "--least", "0.95"), True),
    "training_cached": Benchmark(
        "training.py",
        (*CACHED, "--batch", "256", "--dropout", "0", "--least", "1.5"),
        True,
    ),
    "training_cached_bf16": Benchmark(
        "training.py",
        (
            *CACHED,
            "--batch",
            "256",
            "--dropout",
            "0",
            "--precision",
            "bf16_mixed",
            "--least",
            "1.7",
        ),
        True,
    ),
}
"""By name, quick ones first; sizes that fit into two hours, which a script's own may not."""

APART = ("gpu.py", "tokenising.py", "mined_negatives.py")
"""Not comparisons of time on a CPU: run by themselves."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(BENCHMARKS), default=list(BENCHMARKS))
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--to", type=Path, default=Path("runs/benchmarks"), help="a folder")
    parser.add_argument("--into", nargs="+", type=Path, default=[], help="files with the marks")
    parser.add_argument("--tiny", action="store_true", help="check that all run: no real figures")
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users compile once
    for file in given.into:
        marked(file)
    given.to.mkdir(parents=True, exist_ok=True)
    about = machine(given.threads)
    kept = earlier(given.to, about, tiny=given.tiny)
    results = {name: each for name, each in kept.items() if same_sizes(name, each)}
    failed: list[str] = []
    print(about, flush=True)
    names = [name for name in BENCHMARKS if name in given.only]
    for number, name in enumerate(names, 1):
        begin, load = time.perf_counter(), os.getloadavg()[0]
        print(f"\n[{number}/{len(names)}] {name}", flush=True)
        rows = run(name, given.threads, given.to, tiny=given.tiny)
        print(f"    {time.perf_counter() - begin:.0f} s on the clock", flush=True)
        results.pop(name, None)
        if rows is None:
            failed.append(name)
        else:
            sizes = list(BENCHMARKS[name].arguments)
            day = time.strftime("%Y-%m-%d")
            results[name] = {"load": load, "date": day, "sizes": sizes, "rows": rows}
        facts = {"machine": about, "tiny": given.tiny, "failed": failed, "results": results}
        (given.to / "results.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
        written = table(results, failed, about, tiny=given.tiny)
        (given.to / "table.md").write_text(written, encoding="utf-8")
    print(f"\n{written}\n{given.to / 'table.md'}")
    for file in given.into:
        short = marked(file)[1] == BEGIN_SHORT
        put(table(results, failed, about, tiny=given.tiny, short=short), file)
    return int(bool(failed))


def earlier(folder: Path, about: str, *, tiny: bool) -> dict[str, Any]:
    """Results in a folder that are of this machine and these versions of libraries."""
    try:
        facts = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    same = facts.get("machine") == about and facts.get("tiny") == tiny
    return dict(facts["results"]) if same else {}


def same_sizes(name: str, result: dict[str, Any]) -> bool:
    """Whether a result is of the benchmark as it is now."""
    return name in BENCHMARKS and result.get("sizes") == list(BENCHMARKS[name].arguments)


def run(name: str, threads: int, folder: Path, *, tiny: bool) -> list[dict[str, Any]] | None:
    """The rows of a benchmark, shown while it runs and kept in a log; None if it gave none."""
    benchmark, file = BENCHMARKS[name], folder / f"{name}.json"
    file.unlink(missing_ok=True)
    pinned = ["--threads", str(threads)] if benchmark.threads else []
    command = [sys.executable, str(HERE / benchmark.script), *benchmark.arguments, *pinned]
    command += ["--json", str(file.resolve()), *(["--tiny"] if tiny else [])]
    own = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    own |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    with (
        (folder / f"{name}.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | own | {"PYTHONPATH": path},
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            print(f"    {line}", end="", flush=True)
    if not file.is_file():
        print(f"    ended with {process.returncode} and gave no figures")
        return None
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return rows


def machine(threads: int) -> str:
    """What the figures are of, in a line."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [f"{processor}, {cores} cores, {threads} thread(s) a process"]
    parts.append(f"Python {platform.python_version()}")
    parts += [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join(parts)


def table(
    results: dict[str, Any], failed: list[str], about: str, *, tiny: bool, short: bool = False
) -> str:
    """Markdown: a line for each comparison, where and when it was measured, and what failed.

    If it is to be `short`, only comparisons with a peer that have a target.
    """
    lines = ["| benchmark | peer | median | lowest to highest | target | |"]
    lines.append("|---|---|---|---|---|---|")
    for name in filter(results.__contains__, BENCHMARKS):
        for row in results[name]["rows"]:
            if short and not (row["peer"] and target(row)):
                continue
            cells = [f"{name}: {row['name']}", row["peer"] or "-", figure(row, "median")]
            several = len(row["values"]) > 1
            cells.append(f"{row['low']:.3g} to {row['high']:.3g}" if several else "once")
            cells.append(target(row) or "-")
            cells.append({True: "met", False: "**missed**", None: ""}[row["met"]])
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"Measured on {about}{moments(results)}."]
    if tiny:
        lines.append("A trial at tiny sizes: these figures say nothing.")
    if failed:
        lines.append(f"Without figures, since they failed: {', '.join(failed)}.")
    return "\n".join(lines) + "\n"


def moments(results: dict[str, Any]) -> str:
    """The load of the machine when benchmarks began, and the days."""
    if not results:
        return ""
    loads = sorted(each["load"] for each in results.values())
    days = sorted({each["date"] for each in results.values()})
    return f", load {loads[0]:.1f} to {loads[-1]:.1f} before each, {' and '.join(days)}"


def figure(row: dict[str, Any], key: str) -> str:
    """A value with its unit."""
    unit = row["unit"]
    return f"{row[key]:.3g}" + ("x" if unit == "x" else f" {unit}" if unit else "")


def target(row: dict[str, Any]) -> str:
    """What the median should be."""
    limits = (("≤ ", "most"), ("≥ ", "least"))
    return ", ".join(sign + figure(row, key) for sign, key in limits if row[key] is not None)


def marked(path: Path) -> tuple[str, str, str]:
    """What stands before the place of the table, its first mark, and what stands after it.

    Raises:
        SystemExit: the file has no such place.
    """
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for mark in (BEGIN, BEGIN_SHORT):
        before, begin, rest = text.partition(mark)
        _, end, after = rest.partition(END)
        if begin and end:
            return before, mark, after
    raise SystemExit(f"{path} has no lines {BEGIN} and {END}, between which the table goes")


def put(text: str, path: Path) -> None:
    """The table into its place."""
    before, mark, after = marked(path)
    path.write_text(f"{before}{mark}\n\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
