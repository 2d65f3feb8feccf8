"""What dynamic negatives cost a training step, beside the same number of fixed ones.

python benchmarks/dynamic_negatives.py [--steps 12] [--pools 8 32 128] [overrides]

Steps of one model on the same examples take turns, in CPU time: a batch is made, embedded and
differentiated, with fixed negatives of a file and with dynamic ones of the same file. Ratios are
medians within a turn. Then what only dynamic negatives do, choosing and judging, as the candidates
per example and the examples grow: it should stay what it is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
from timing import Row, Variant, add_json, compare, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timing import Taken

COUNT, BATCH = 4, 64


def candidates(folder: Path, overrides: list[str], pool: int) -> Path:
    """A file with `pool` candidates for each query of the data."""
    import embedexp
    from embedexp import data

    (dataset,) = data.load(embedexp.compose(overrides).data).train
    documents = list(dict.fromkeys(dataset.positives))
    path = folder / f"candidates-{pool}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for place, query in enumerate(dataset.queries):
            some = [documents[(place + 7 * k + 3) % len(documents)] for k in range(pool)]
            file.write(json.dumps({"query": query, "negatives": some}) + "\n")
    return path


def stepper(overrides: list[str], embedder: Any, folder: Path) -> Callable[[], None]:
    """A function that makes the next batch, embeds it and differentiates its loss."""
    import embedexp
    from embedexp import data, loss, negatives
    from embedexp.data.tokenise import tokenise
    from embedexp.training.contrastive import ContrastiveObjective
    from embedexp.training.dynamic import DynamicTraining
    from embedexp.training.fit import batch_maker
    from embedexp.training.objective import Step

    config = embedexp.compose(overrides)
    corpus = negatives.attach(config.negatives, data.load(config.data, str(folder)))
    tokens = tokenise(corpus, embedder.text_tokenizer, config.embedding, str(folder))
    changing = negatives.build(config.negatives, tokens)
    dynamic = None if changing is None else DynamicTraining(changing)
    objective = ContrastiveObjective(
        embedder, loss.build(config.loss), config.routing, config.training.chunk_tokens,
        None if dynamic is None else dynamic.observe,
    )  # fmt: skip
    choose = None if changing is None else changing.choose
    make = batch_maker(config, tokens, choose=choose)
    numbers = itertools.count()

    def run() -> None:
        number = next(numbers)
        objective.zero_grad()
        objective.step(make(number), Step(number, 0.0, config.seed, 0, 1, objective))

    return run


def judging(examples: int, pool: int, repeats: int = 50) -> float:
    """Milliseconds of choosing and judging one step's negatives, as its cosines fall."""
    from embedexp.negatives.replacement import DynamicNegatives, Rule

    random = np.random.default_rng(0)
    ids = np.arange(pool)[None].repeat(examples, 0)
    state = DynamicNegatives([ids], Rule(1.2, 0.7, 0.4, False, 1), count=COUNT, skip=0)
    present, times = np.ones((BATCH, COUNT), np.bool_), []
    for step in range(repeats):
        rows = random.integers(0, examples, BATCH)
        scores = random.random((BATCH, COUNT), np.float32)
        begin = time.process_time()
        state.choose(0, rows)
        state.observe(np.stack([np.zeros_like(rows), rows], 1), scores, present, step)
        times.append(time.process_time() - begin)
    return 1e3 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--pools", type=int, nargs="*", default=[8, 32, 128])
    parser.add_argument("--examples", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    parser.add_argument("overrides", nargs="*", help="of the model and the data")
    options = parser.parse_args()
    if options.tiny:
        options.steps, options.pools, options.examples = 2, [8], [1000]
    given = options.overrides or ["backbone=tiny", "data.max_examples=2000"]
    given = [*given, "data.max_examples=300"] if options.tiny else given
    common = ["data=builtin", "data.tasks=[retrieval]", f"batching.size={BATCH}", *given]
    with tempfile.TemporaryDirectory() as folder:
        times = whole_steps(Path(folder), common, options.pools, options.steps)
    print(f"{'':20}{'CPU ms a step':>14}{'times fixed':>13}")
    rows = []
    for name, taken in times.items():
        print(f"{name:20}{taken.milliseconds:14.1f}{taken.ratio:13.3f}")
        if name != "fixed":
            rows.append(Row(f"a step, {name}", "fixed negatives", taken.ratios))
    write(options.json, rows)
    print(f"\n{'choosing and judging':20}{'examples':>12}{'pool':>6}{'CPU ms':>9}")
    for examples in options.examples:
        for pool in options.pools:
            print(f"{'':20}{examples:12,}{pool:6}{judging(examples, pool):9.3f}")


def whole_steps(
    folder: Path, common: list[str], pools: Sequence[int], steps: int
) -> dict[str, Taken]:
    """Milliseconds, and the ratio to fixed negatives, of steps with each pool."""
    import embedexp
    from embedexp.embedding import build_embedder

    path = candidates(folder, common, max(pools))
    where = [f"negatives.path={path}", f"negatives.count={COUNT}"]
    embedder = build_embedder(embedexp.compose(common)).train()
    fixed = stepper([*common, "negatives=mined_file", *where], embedder, folder)
    variants = {"fixed": Variant(fixed, "fixed")}
    for pool in pools:
        arm = ["negatives=dynamic", *where, f"negatives.pool={pool}"]
        run = stepper([*common, *arm], embedder, folder)
        variants[f"dynamic, pool {pool}"] = Variant(run, "fixed")
    return compare(variants, "cpu", steps)


if __name__ == "__main__":
    main()
