"""What batches cost: a plan far into a run, and making batches beside a step of training.

    python benchmarks/batches.py [--steps 200] [--batch 64] [--threads 1] [--tiny] [overrides]

First, milliseconds to plan the batch of a step around step 10,000,000, for every option of
`batching`: the median and the longest of consecutive steps (options that exchange examples within
windows do so at the first step of one). Then the processor time of making a training batch of real
texts, as a share of that of the step which trains on it; the loader's worker does it meanwhile.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from timing import Row, add_json, write

import embedexp
from embedexp import batching, data
from embedexp.batching.sources import sources_of
from embedexp.config.locations import conf_dir
from embedexp.data.tokenise import TokenisedCorpus, tokenise
from embedexp.embedding import build_embedder
from embedexp.training.fit import batch_maker, objective_of
from embedexp.training.objective import Step

FAR = 10_000_000
PLAN_TARGET, SHARE_TARGET = 1.0, 3.0
"""Milliseconds of a plan; percent of a step."""


def options() -> list[str]:
    """The names in the config group."""
    return sorted(path.stem for path in Path(conf_dir(), "batching").glob("*.yaml"))


def corpus_of(config: Any, tokenizer: Any, cache: str) -> TokenisedCorpus:
    """The tokens of the config's training data."""
    return tokenise(data.load(config.data, cache), tokenizer, config.embedding, cache)


def planning(config: Any, corpus: TokenisedCorpus, steps: int) -> tuple[float, float, float]:
    """Median, mean and longest milliseconds of a step's plan, far into the run."""
    plan = batching.build(config.batching, sources_of(corpus, config.batching), config.seed)
    plan(FAR - 1)
    taken = []
    for step in range(FAR, FAR + steps):
        begin = time.process_time()
        plan(step)
        taken.append(1e3 * (time.process_time() - begin))
    return statistics.median(taken), statistics.mean(taken), max(taken)


def training(config: Any, embedder: Any, corpus: TokenisedCorpus, steps: int) -> tuple[float, ...]:
    """Median CPU milliseconds of making a batch and of the step on it (forward and backward)."""
    make, objective = batch_maker(config, corpus), objective_of(config, embedder).train()
    making, stepping = [], []
    for step in range(steps):
        begin = time.process_time()
        batch = make(step)
        made = time.process_time()
        objective.zero_grad(set_to_none=True)
        objective.step(batch, Step(step, 1.0, config.seed, 0, 1, objective))
        making.append(1e3 * (made - begin))
        stepping.append(1e3 * (time.process_time() - made))
    return statistics.median(making), statistics.median(stepping)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="steps that are planned")
    parser.add_argument("--trained", type=int, default=9, help="steps that are trained")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    parser.add_argument("overrides", nargs="*")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    overrides = [f"training.steps={2 * FAR}", *given.overrides]
    size = [f"batching.size={given.batch}"]
    if given.tiny:
        given.steps, given.trained = 4, 2
        overrides += ["backbone=tiny", "data.max_examples=500"]
        size = ["batching.size=16"]
    with tempfile.TemporaryDirectory() as cache:
        config = embedexp.compose([*overrides, *size])
        embedder = build_embedder(config)
        corpus = corpus_of(config, embedder.text_tokenizer, cache)
        print(f"batches of {config.batching.size}, at step {FAR:,}; target: {PLAN_TARGET} ms")
        rows = []
        print(f"{'batching':20} {'median ms':>10} {'mean ms':>10} {'longest ms':>11}")
        for name in options()[:2] if given.tiny else options():
            own = ["loss=task_aware"] if name == "one_task_per_rank" else size
            other = embedexp.compose([*overrides, f"batching={name}", *own])
            median, mean, longest = planning(other, corpus, given.steps)
            print(f"{name:20} {median:10.3f} {mean:10.3f} {longest:11.3f}", flush=True)
            rows.append(Row(f"plan of a step, {name}", "", [median], "ms", most=PLAN_TARGET))
        making, step = training(config, embedder, corpus, given.trained)
        share = 100 * making / step
        print(
            f"making a batch {making:.1f} ms, its step {step:.0f} ms: {share:.2f} % "
            f"(target: {SHARE_TARGET:.0f} %)"
        )
        what = "making a batch, share of its step"
        rows.append(Row(what, "", [share], "%", most=SHARE_TARGET))
    write(given.json, rows)


if __name__ == "__main__":
    main()
