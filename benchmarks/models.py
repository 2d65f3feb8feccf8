"""A step of whole routed models against dense ones with as many active parameters.

    python benchmarks/models.py [--pairs 32] [--layers 2] [--repeats 5] [--threads 1] [--tiny]

Forward and backward with InfoNCE, width 768, on packed pairs whose lengths spread as natural texts
do. Of a token-routed model with k experts per token, the dense twin has MLPs k times as wide where
experts are; a task-routed model's twin is the dense model itself. `moe` has experts in every other
layer, as Nomic Embed v2; `mote` in every layer, with pairs of all four instruction tasks.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
import torch
from timing import Row, Variant, add_json, compare, write

import embedexp
from embedexp.batching.token_batch import TokenBatch
from embedexp.config.tasks import INSTRUCTIONS, POSITIVE, QUERY
from embedexp.embedding import build_embedder
from embedexp.loss import info_nce

if TYPE_CHECKING:
    from collections.abc import Callable

    from embedexp.embedding import Embedder

TARGETS = {"moe, k=1": 1.15, "moe, k=2": 1.15, "mote": 1.05}
"""Times that the dense twin takes, at most."""


def architecture(width: int, inner: int, layers: int) -> list[str]:
    """Overrides that make the tiny backbone one of these sizes."""
    sizes = {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": max(2, width // 64),
    }
    own = [f"backbone.architecture.{key}={value}" for key, value in sizes.items()]
    return ["backbone=tiny", "backbone.dropout=0", *own]


def model(overrides: list[str]) -> Embedder:
    """A model to be trained."""
    return build_embedder(embedexp.compose(overrides)).train()


def widened(embedder: Embedder, layers: list[int], times: int) -> Embedder:
    """The dense model with MLPs `times` as wide in some layers: as much work as so many experts."""
    for number in layers:
        block = embedder.model.encoder.layer[number]
        block.intermediate.dense = _wider(block.intermediate.dense, 1, times)
        block.output.dense = _wider(block.output.dense, times, 1)
    return embedder


def _wider(linear: torch.nn.Linear, inner: int, outer: int) -> torch.nn.Linear:
    return torch.nn.Linear(linear.in_features * inner, linear.out_features * outer)


def pairs(count: int, longest: int) -> TokenBatch:
    """Queries, then positives, of natural lengths, with tasks in turn."""
    random = np.random.default_rng(0)
    lengths = np.clip(random.lognormal(3.0, 0.7, 2 * count).astype(int), 3, longest)
    texts = [random.integers(5, 8192, length).tolist() for length in lengths]
    tasks = [INSTRUCTIONS.index("search_query")] * count
    tasks += [INSTRUCTIONS.index(INSTRUCTIONS[i % 4]) for i in range(count)]
    return TokenBatch.pack(texts, tasks, [QUERY] * count + [POSITIVE] * count)


def step(embedder: Embedder, batch: TokenBatch, count: int) -> Callable[[], None]:
    """One step's gradients."""

    def run() -> None:
        embedder.zero_grad(set_to_none=True)
        vectors = embedder(batch).vectors
        info_nce(
            vectors[:count], vectors[count:], temperature=0.05, denominator=["other_positives"]
        ).backward()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    width, inner, layers, count, repeats = 768, 3072, given.layers, given.pairs, given.repeats
    if given.tiny:
        width, inner, layers, count, repeats = 32, 64, 2, 8, 1
    base, routed = architecture(width, inner, layers), list(range(1, layers, 2))
    batch = pairs(count, 128)
    models = {
        "dense": (model(base), "dense"),
        "moe, k=1": (model([*base, "routing=moe", "routing.top_k=1"]), "dense"),
        "dense, twice as wide": (widened(model(base), routed, 2), "dense, twice as wide"),
        "moe, k=2": (model([*base, "routing=moe"]), "dense, twice as wide"),
        "mote": (model([*base, "routing=mote"]), "dense"),
    }
    padding = batch.input_ids.numel() / (2 * count * int(batch.lengths.max()))
    print(
        f"width {width}, {layers} layers, {batch.input_ids.numel()} tokens of {2 * count} texts "
        f"(padding efficiency {padding:.2f}), {given.threads} threads"
    )
    print(f"{'model':22} {'ms':>9} {'/ dense twin':>13} {'target':>7}")
    variants = {
        name: Variant(step(embedder, batch, count), twin)
        for name, (embedder, twin) in models.items()
    }
    rows = []
    for name, taken in compare(variants, "cpu", repeats).items():
        target = TARGETS.get(name)
        print(f"{name:22} {taken.milliseconds:9.0f} {taken.ratio:13.2f} {target or '':>7}")
        if target is not None:
            rows.append(Row(name, variants[name].against, taken.ratios, most=target))
    write(given.json, rows)


if __name__ == "__main__":
    main()
