"""Do mined negatives beat in-batch ones on the built-in retrieval task?

python benchmarks/mined_negatives.py [--seeds 3] [--steps 60] [--negatives 4] [--ranks 1000]
    [--arms random mined] [overrides ...]

Mines the built-in retrieval pairs once, with MiniLM as teacher and 0.95 of the positive as limit:
the best below it, as in NV-Retriever, among so many ranks that nearly every query has some. Then it
fine-tunes MiniLM with in-batch negatives only, with random ones and with the mined ones: the
same data, batches, steps and seeds. The table shows nDCG@10 of WordNetDefinitions (held-out words)
by seed, and differences within a seed with the interval of a paired t-test (95 %). Runs that are
finished are reused, so that a stopped comparison goes on; a full one takes about an hour on two
cores (hard negatives make a step about 2.5 times as long).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Any

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
TASK = "WordNetDefinitions"
DATA = ["data=builtin", "data.tasks=[retrieval]"]


def run(overrides: list[str]) -> Any:
    """The finished run of a config, executed in a process of its own."""
    import embedexp
    from embedexp.runs import Run, RunDirectory

    subprocess.run([sys.executable, "-m", "embedexp", *overrides], check=True)
    return Run(RunDirectory.of(embedexp.compose(overrides)))


def score(finished: Any, phase: str = "after") -> float:
    """nDCG@10 of the retrieval task."""
    return next(float(s["value"]) for s in finished.scores[phase] if s["task"] == TASK)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--negatives", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=1000, help="candidates looked at")
    parser.add_argument("--arms", nargs="*", default=["random", "mined"])
    parser.add_argument("overrides", nargs="*", help="further overrides of all training runs")
    options = parser.parse_args()
    count = f"negatives.count={options.negatives}"
    mined = run(
        [
            "stage=mine", "name=mined", *DATA, f"stage.count={options.negatives}",
            "stage.rules.percent_of_positive=0.95", f"stage.rules.rank_max={options.ranks}",
            *[o for o in options.overrides if o.startswith(("data.", "paths."))],
        ]
    )  # fmt: skip
    arms = {
        "in-batch only": ["negatives=none"],
        "random": ["negatives=random", count],
        "mined": ["negatives=mined_file", f"negatives.path={mined.path}", count],
    }
    arms = {name: arm for name, arm in arms.items() if name in ("in-batch only", *options.arms)}
    common = [
        *DATA, "name=negatives", f"evaluation.tasks=[{TASK}]", f"training.steps={options.steps}",
        "tracking=none", *options.overrides,
    ]  # fmt: skip
    scores: dict[str, list[float]] = {name: [] for name in arms}
    before = float("nan")
    for seed in range(options.seeds):
        for name, arm in arms.items():
            finished = run([*common, *arm, f"seed={seed}"])
            scores[name].append(score(finished))
            before = score(finished, "before")
    print(f"\nnDCG@10 of {TASK}, before training {before:.4f}, {options.steps} steps")
    base = np.array(scores["in-batch only"])
    for name, values in scores.items():
        line = f"{name:15}" + "".join(f"{value:9.4f}" for value in values)
        line += f"   mean {np.mean(values):.4f}"
        if name != "in-batch only":
            line += f"   {interval(np.array(values) - base)}"
        print(line)


def interval(differences: np.ndarray) -> str:
    """Mean difference and the half width of its 95 % interval."""
    from scipy.stats import t

    mean, n = differences.mean(), len(differences)
    if n < 2:
        return f"difference {mean:+.4f}"
    half = t.ppf(0.975, n - 1) * differences.std(ddof=1) / n**0.5
    verdict = "undecided" if abs(mean) <= half else "better" if mean > 0 else "worse"
    return f"difference {mean:+.4f} +- {half:.4f}: {verdict}"


if __name__ == "__main__":
    main()
