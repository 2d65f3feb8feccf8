"""A sweep whose runs look finished, with everything in them that a report can show."""

from __future__ import annotations

import json
import math
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from embedexp.evaluation.analysis import Report
from embedexp.sweeps.planning import PlannedRun, SweepPlan, plan
from embedexp.sweeps.schema import Sweep

if TYPE_CHECKING:
    from pathlib import Path

ROWS = {"6 layers": ["routing.placement=every_other"], "12 layers": ["routing.placement=every"]}
COLUMNS = {"batch 16": ["batching.size=16"], "batch 32": ["batching.size=32"]}
TASKS = {"WordNetDefinitions": "Retrieval", "WordNetSimilarity": "STS"}
FIGURES = {
    "6 layers": {"batch 16": 44.13, "batch 32": 45.89},
    "12 layers": {"batch 16": 44.28, "batch 32": 45.48},
}


def planned(folder: Path, **content: Any) -> SweepPlan:
    """A sweep of two rows and two columns with three seeds, unless `content` says otherwise."""
    given = {
        "title": "Which layers become experts: every other, or every",
        "question": "Do experts in all layers retrieve better than experts in half of them?",
        "paper": {"name": "nomic_embed_v2", "table": "Table 7", "arxiv": "2502.07972"},
        "base": ["backbone=tiny", "tracking=none", "routing=moe"],
        "rows": ROWS,
        "columns": COLUMNS,
        "seeds": [0, 1, 2],
        "published": {"source": ["Table 7 of arXiv 2502.07972v3"], "values": FIGURES},
        **content,
    }
    return plan(Sweep.model_validate(given), [f'paths.runs="{folder}/runs"'])


def small(folder: Path, **content: Any) -> SweepPlan:
    """Two rows, one seed, no paper."""
    given = {"title": "T", "question": "Q", "paper": None, "published": None, "columns": {}}
    rows = {"a": ["loss.temperature=0.05"], "b": ["loss.temperature=0.02"]}
    base = ["backbone=tiny", "tracking=none"]
    return planned(folder, **{**given, "base": base, "rows": rows, "seeds": [0], **content})


def finish(
    run: PlannedRun, *, steps: int = 40, level: float = 0.3, analyses: bool = False, **more: Any
) -> None:
    """Make `run` finished: it has learned for some steps, was measured, and perhaps analysed."""
    noise = random.Random(run.config.signature)
    directory = run.directory
    directory.freeze(run.config)
    with directory.owned():
        directory.start("contrastive", seed=run.config.seed, total_steps=steps)
        lines = [_line(step, steps, noise, **more) for step in range(1, steps + 1)]
        directory.metrics.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        scores = {
            phase: [
                {"task": task, "type": kind, "metric": "ndcg_at_10", "seconds": 1.0}
                | {"value": base + noise.uniform(-0.01, 0.01), "fingerprint": "x"}
                for task, kind in TASKS.items()
            ]
            for phase, base in (("before", 0.1), ("after", level))
        }
        directory.evaluation.mkdir()
        directory.scores_file.write_text(json.dumps({**scores, "settings": {}}))
        if analyses:
            _analyse(directory.analysis, noise)
        directory.update(step=steps)
        directory.finish()


def _line(
    step: int,
    steps: int,
    noise: random.Random,
    *,
    task: str = "retrieval",
    tasks: bool = True,
    everything: bool = True,
) -> dict[str, Any]:
    """What a step records; a dense run without dynamic negatives unless `everything` is wanted."""
    loss = 0.6 + 2.5 * math.exp(-4 * step / steps) + noise.uniform(-0.15, 0.15)
    line: dict[str, Any] = {
        "step": step,
        "loss": loss,
        "terms": {"contrastive": loss - 0.02, "balance": 0.02},
        "gradient_norm": 1 + noise.random(),
        "learning_rate": 1e-3 * (1 - step / steps),
        "router": {"max_load": 0.2 + 0.3 / step, "min_load": 0.08, "entropy": 2.0, "dead": 0.0},
        "negatives": {
            "judged": 8,
            "replaced": noise.randrange(4),
            "exhausted": 0,
            "hardness": 0.4 + 0.3 * step / steps + noise.uniform(-0.03, 0.03),
        },
        **({"tasks": [task]} if tasks else {}),
    }
    if not everything:
        return {"step": step, "loss": loss}
    if step == steps:
        line["router"]["load"] = [[0.125 + noise.uniform(-0.05, 0.05) for _ in range(8)]] * 6
    return line


def _analyse(folder: Path, noise: random.Random) -> None:
    names = ("search_query", "classification", "clustering")
    pairs = [
        {"tasks": [a, b], "cosines": [noise.uniform(0.5, 0.95) for _ in range(50)]}
        | {"baseline_cosines": [noise.uniform(0.8, 0.99) for _ in range(50)]}
        for a, b in pairwise(names)
    ]
    Report(
        "task_similarity",
        "Cosines of a text's vectors under two instructions",
        "text (50 in each arm)",
        {},
        ["instructions", "cosine"],
        [["search query & classification", 0.71], ["classification & clustering", 0.8]],
        {"pairs": pairs},
        ["Welch's one-sided test."],
    ).write(folder)
    scores = {task: [0.2, 0.26, 0.3] for task in TASKS}
    Report(
        "matryoshka",
        "Scores against the dimensions that are kept",
        "task (2)",
        {},
        ["task", "32", "64", "128"],
        [[task, *values] for task, values in scores.items()],
        {"widths": [32, 64, 128], "scores": scores, "mean": [0.2, 0.26, 0.3]},
    ).write(folder)


def finish_all(found: SweepPlan, *, analyses: bool = False, everything: bool = True) -> None:
    """Finish every run; later ones are better."""
    for position, run in enumerate(found.runs):
        finish(run, level=0.3 + 0.01 * position, analyses=analyses, everything=everything)
