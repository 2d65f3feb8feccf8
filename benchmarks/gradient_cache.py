"""The gradient cache against one pass: peak memory and CPU time of a training step.

Each variant runs in a process of its own, since a process's peak never falls.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
import torch
from timing import Row, add_json, write

TIME = 1.4
"""Times that the plain step takes, at most."""

ARCHITECTURE = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
PLAIN = 0  # in place of a number of tokens


def step(pairs: int, query_tokens: int, document_tokens: int, chunk_tokens: int) -> None:
    """Take a step's gradients; print its CPU seconds and the peak of memory beyond the model."""
    import made_up

    import embedexp
    from embedexp import loss
    from embedexp.batching.collate import collate
    from embedexp.batching.plan import Rows
    from embedexp.training.contrastive import ContrastiveObjective
    from embedexp.training.objective import Step

    sizes = [f"backbone.architecture.{key}={value}" for key, value in ARCHITECTURE.items()]
    config = embedexp.compose(
        ["backbone=tiny", "backbone.architecture.num_attention_heads=12", "evaluation=none", *sizes]
    )
    embedder = embedexp.build_embedder(config)
    objective = ContrastiveObjective(
        embedder, loss.build(config.loss), config.routing, chunk_tokens or None
    ).train()
    rows = np.arange(pairs)
    corpus = made_up.corpus(np.repeat([query_tokens, document_tokens], pairs))
    before = peak()
    for number, count in enumerate((min(2, pairs), pairs)):  # the first one warms up
        batch = collate(corpus, [Rows("retrieval", 0, rows[:count])])
        objective.zero_grad()
        begin = time.process_time()
        objective.step(batch, Step(number, 1.0, 0, 0, 1, objective))
    print(time.process_time() - begin, peak() - before)


def peak() -> float:
    """The largest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=32)
    parser.add_argument("--query-tokens", type=int, default=16)
    parser.add_argument("--document-tokens", type=int, default=128)
    parser.add_argument("--chunks", type=int, nargs="+", default=[PLAIN, 2048, 1024, 512])
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    given = parser.parse_args()
    torch.set_num_threads(1)
    pairs = 4 if given.tiny else given.pairs
    given.chunks = [PLAIN, 256] if given.tiny else given.chunks
    if given.measure is not None:
        step(pairs, given.query_tokens, given.document_tokens, given.measure)
        return
    tokens = pairs * (given.query_tokens + given.document_tokens)
    print(f"{pairs} pairs, {tokens} tokens, 6 layers of width 384, float32, one thread")
    print(f"{'chunk_tokens':>14} {'CPU s':>8} {'/ plain':>8} {'MiB':>8} {'/ plain':>8}")
    first, rows = None, []
    for chunk in given.chunks:
        command = [sys.executable, __file__, *sys.argv[1:], f"--measure={chunk}"]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, memory = map(float, output.split()[-2:])
        first = first or (seconds, memory)
        name = "null" if chunk == PLAIN else str(chunk)
        ratios = seconds / first[0], memory / first[1]
        print(f"{name:>14} {seconds:8.2f} {ratios[0]:8.2f} {memory:8.0f} {ratios[1]:8.2f}")
        if chunk != PLAIN:
            what = f"a step with chunk_tokens={chunk}"
            rows.append(Row(what, "the plain step", [ratios[0]], most=TIME))
            rows.append(Row(f"{what}, memory", "the plain step", [ratios[1]], most=1.0))
    write(given.json, rows)


if __name__ == "__main__":
    main()
