"""Texts per second of `Embedder.encode` against `SentenceTransformer.encode`.

    python benchmarks/encode.py [--texts 20000] [--repeats 3] [--backbone minilm] [--batch-size 32]

The same model, saved once and loaded by both, over the same texts: words of the built-in corpus,
lengths as in a mixed collection (a third of 1 to 8 words, a third of 9 to 40, a third of 41 to 150;
the longest are cut to the model's 128 tokens). Both tokenise, embed and normalise on all threads
that torch has, in float32, and take turns, so that a noisy machine is as noisy for both.
Columns: texts per second of the fastest turn, and the median of the ratios within a turn, of wall
time or, with `--cpu`, of processor time (for a machine that others use at the same time). Exits
with 1 if the vectors differ by more than 1e-5 in any dimension, or the ratio is below `--least`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from timing import Row, add_json, write

LENGTHS = ((1, 8), (9, 40), (41, 150))
CLOSE = 1e-5


def texts(count: int) -> list[str]:
    """Texts of mixed lengths, the same in every run."""
    from transformers import AutoTokenizer

    from embedexp.data import vendored

    vocabulary = AutoTokenizer.from_pretrained(vendored.tokenizer_folder()).get_vocab()
    words = sorted(word for word in vocabulary if word.isalpha() and len(word) > 2)
    chance = random.Random(0)
    return [
        " ".join(chance.choices(words, k=chance.randint(*chance.choice(LENGTHS))))
        for _ in range(count)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--backbone", default="minilm")
    parser.add_argument("--batch-size", type=int, default=32, help="of sentence-transformers")
    parser.add_argument("--least", type=float, default=1.3)
    parser.add_argument("--cpu", action="store_true", help="count processor time, not wall time")
    parser.add_argument("--threads", type=int, default=None, help="by default torch's own")
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    given = parser.parse_args()
    if given.tiny:
        given.texts, given.repeats, given.backbone, given.least = 64, 1, "tiny", 0.0
    clock = time.process_time if given.cpu else time.perf_counter

    import torch
    from sentence_transformers import SentenceTransformer

    import embedexp

    if given.threads is not None:
        torch.set_num_threads(given.threads)
    config = embedexp.compose([f"backbone={given.backbone}"])
    sample = texts(given.texts)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        embedexp.build_embedder(config).save(path)
        ours: Any = embedexp.load(path)
        theirs: Any = SentenceTransformer(path, device="cpu")

    def run_ours() -> Any:
        return ours.encode(sample)

    def run_theirs() -> Any:
        return theirs.encode(
            sample,
            batch_size=given.batch_size,
            prompt_name="search_document",
            show_progress_bar=False,
        )

    for model in (ours, theirs):
        model.encode(sample[:64])
    apart, seconds = 0.0, []
    for _ in range(given.repeats):
        begin = clock()
        vectors = run_ours()
        middle = clock()
        others = run_theirs()
        seconds.append((middle - begin, clock() - middle))
        apart = max(apart, float(np.abs(vectors - others).max()))
    ratios = [b / a for a, b in seconds]
    ratio = statistics.median(ratios)
    peer = "SentenceTransformer.encode"
    rows = [
        Row(f"encoding {given.texts:,} texts, times faster", peer, ratios, least=given.least),
        Row("largest difference of its vectors", peer, [apart], "", most=CLOSE),
    ]
    write(given.json, rows)

    print(f"{given.texts:,} texts, {given.backbone}, {torch.get_num_threads()} threads")
    for name, best in zip(
        ("embedexp", "sentence-transformers"),
        (min(column) for column in zip(*seconds, strict=True)),
        strict=True,
    ):
        print(f"{name:<24}{given.texts / best:>10,.1f} texts/s")
    print(f"{'ratio':<24}{ratio:>10.2f}  (at least {given.least:g})")
    print(f"{'largest difference':<24}{apart:>10.1e}  (at most {CLOSE:g})")
    return int(apart > CLOSE or ratio < given.least)


if __name__ == "__main__":
    sys.exit(main())
