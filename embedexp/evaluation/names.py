"""The names of mteb's benchmarks and text tasks, written down for those who can't wait for mteb.

`python -m embedexp.evaluation.names` writes them anew, after mteb has changed.
"""

from __future__ import annotations

import json
from typing import Any

from embedexp.config.catalogue import PATH


def names() -> dict[str, Any]:
    """Version, benchmarks with their tasks, aliases, and tasks by type, as mteb itself has them."""
    import mteb
    from mteb.benchmarks.get_benchmark import get_benchmarks
    from mteb.get_tasks import TASK_LIST

    text = {task.metadata.name for task in TASK_LIST if task.metadata.modalities == ["text"]}
    benchmarks: dict[str, list[str]] = {}
    aliases: dict[str, str] = {}
    for benchmark in get_benchmarks():
        tasks = [task.metadata.name for task in benchmark.tasks]
        if text.issuperset(tasks):
            benchmarks[benchmark.name] = tasks
            aliases |= dict.fromkeys(benchmark.aliases or (), benchmark.name)
    types: dict[str, list[str]] = {}
    for task in TASK_LIST:
        if task.metadata.name in text:
            types.setdefault(task.metadata.type, []).append(task.metadata.name)
    return {
        "mteb": mteb.__version__,
        "benchmarks": dict(sorted(benchmarks.items())),
        "aliases": dict(sorted(aliases.items())),
        "tasks": {kind: sorted(found) for kind, found in sorted(types.items())},
    }


def main() -> None:
    """Write the file that `embedexp.config.catalogue` reads."""
    found = names()
    PATH.write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{PATH}: mteb {found['mteb']}, {len(found['benchmarks'])} benchmarks")


if __name__ == "__main__":
    main()
