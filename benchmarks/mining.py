"""Hard-negative mining from given embeddings: time and memory beside sentence-transformers.

python benchmarks/mining.py [--queries 10000] [--documents 100000] [--repeats 3]

Both mine 4 negatives per query with a relative margin of 0.05 among the 41 nearest documents. They
take turns in fresh processes of the same number of threads; the ratio is the median of those within
a turn. Times are CPU seconds, memory is the peak beyond what the process held with its inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
import psutil
from timing import Row, add_json, write

TARGET = 2
"""Times that mine_hard_negatives takes, at least."""

WIDTH, NEGATIVES, NEAREST, MARGIN = 384, 4, 41, 0.05
NAMES = ("embedexp", "embedexp faiss_flat", "sentence-transformers", "sentence-transformers faiss")


def inputs(queries: int, documents: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors with a falling spectrum; query i is near document i."""
    random = np.random.default_rng(0)
    scale = ((1 + np.arange(WIDTH)) ** -0.5).astype(np.float32)

    def unit(rows: np.ndarray) -> np.ndarray:
        rows /= np.sqrt(np.einsum("nd,nd->n", rows, rows))[:, None]
        return rows

    corpus = random.standard_normal((documents, WIDTH), np.float32)
    corpus *= scale
    noise = random.standard_normal((queries, WIDTH), np.float32) * scale
    unit(corpus)
    return unit(corpus[:queries] + 0.5 * unit(noise)), corpus


def ours(queries: np.ndarray, documents: np.ndarray, method: str) -> Any:
    """Mine with embedexp; returns a function that gives lists of documents by query."""
    import torch  # noqa: F401 - as on the other side, it is there since the teacher embedded

    from embedexp.negatives.mining import mine_with
    from embedexp.negatives.rules import Rules
    from embedexp.negatives.teachers import Embeddings
    from embedexp.negatives.vectors import Normalised

    find = None
    if method != "exact":
        from embedexp.config.schema.stage import HNSWIndex, IVFIndex, MiningSearch, SearchTile
        from embedexp.negatives.indexes import FaissSearch

        tile = SearchTile(queries=1024, documents=2048, block=16384)
        ivf, hnsw = IVFIndex(lists=1, probes=1), HNSWIndex(links=2, build_breadth=1, breadth=1)
        find = FaissSearch(MiningSearch(method="faiss_flat", tile=tile, ivf=ivf, hnsw=hnsw))
    rules = Rules(NEGATIVES, rank_max=NEAREST, relative_margin=MARGIN)

    def run() -> list[list[int]]:
        teacher = Embeddings(Normalised(queries), Normalised(documents), find=find)
        positives = [[i] for i in range(len(queries))]
        counts = len(queries), len(documents)
        return mine_with([teacher], *counts, positives, [rules]).negatives

    return run


def theirs(queries: np.ndarray, documents: np.ndarray, faiss: bool) -> Any:
    """The same with `sentence_transformers.util.mine_hard_negatives`."""
    import torch
    from datasets import Dataset
    from sentence_transformers.util import cos_sim, mine_hard_negatives, pairwise_cos_sim

    class Given:
        device = torch.device("cpu")
        similarity, similarity_pairwise = staticmethod(cos_sim), staticmethod(pairwise_cos_sim)

        def get_embedding_dimension(self) -> int:
            return WIDTH

        def encode_query(self, texts: list[str], **_: object) -> np.ndarray:
            return queries

        def encode_document(self, texts: list[str], **_: object) -> np.ndarray:
            return documents

    corpus = [f"d{i}" for i in range(len(documents))]
    pairs = {"q": [f"q{i}" for i in range(len(queries))], "p": corpus[: len(queries)]}
    dataset = Dataset.from_dict(pairs)

    def run() -> list[list[int]]:
        found = mine_hard_negatives(
            dataset, Given(), corpus=corpus, relative_margin=MARGIN, num_negatives=NEGATIVES,
            range_max=NEAREST, use_faiss=faiss, output_format="triplet", verbose=False,
        )  # fmt: skip
        lists: list[list[int]] = [[] for _ in range(len(queries))]
        for query, negative in zip(found["q"], found["negative"], strict=True):
            lists[int(query[1:])].append(int(negative[1:]))
        return lists

    return run


def measure(name: str, queries: int, documents: int) -> dict[str, Any]:
    """In this process: CPU seconds, wall seconds, mebibytes, and a summary of the result."""
    given = inputs(queries, documents)
    if name.startswith("embedexp"):
        run = ours(*given, "faiss_flat" if name.endswith("faiss_flat") else "exact")
    else:
        run = theirs(*given, name.endswith("faiss"))
    before = psutil.Process().memory_info().rss / 2**20
    cpu, wall = time.process_time(), time.perf_counter()
    found = run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10 - before
    return {"cpu": cpu, "wall": wall, "memory": memory, "lists": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--names", nargs="*", default=[NAMES[0], NAMES[2]], choices=NAMES)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    options = parser.parse_args()
    if options.tiny:
        options.queries, options.documents, options.repeats = 50, 500, 1
    if options.one:
        print(json.dumps(measure(options.one, options.queries, options.documents)))
        return
    threads = os.environ.setdefault("OMP_NUM_THREADS", "1")
    sizes = ["--queries", str(options.queries), "--documents", str(options.documents)]
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in options.names}
    for _ in range(options.repeats):
        for name in options.names:
            command = [sys.executable, __file__, *sizes, "--one", name]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            results[name].append(json.loads(done.stdout.splitlines()[-1]))
    first, rows = results[options.names[0]], []
    print(f"{options.queries:,} queries x {options.documents:,} documents, {threads} thread(s)")
    print(
        f"{'':30}{'CPU s':>8}{'wall s':>8}{'MiB':>8}{'times ' + options.names[0]:>20}  same lists"
    )
    for name, runs in results.items():
        ratios = [a["cpu"] / b["cpu"] for a, b in zip(runs, first, strict=True)]
        ratio = statistics.median(ratios)
        if name == NAMES[2] and options.names[0] == NAMES[0]:
            what = f"{options.queries:,} queries, {options.documents:,} documents, times faster"
            rows.append(Row(what, "mine_hard_negatives", ratios, least=TARGET))
        cpu, wall, memory = (
            statistics.median(run[key] for run in runs) for key in ("cpu", "wall", "memory")
        )
        lists = zip(runs[0]["lists"], first[0]["lists"], strict=True)
        same = sum(a == b for a, b in lists) / options.queries
        print(f"{name:30}{cpu:8.1f}{wall:8.1f}{memory:8.0f}{ratio:20.2f}  {same:.2%}")
    write(options.json, rows)


if __name__ == "__main__":
    main()
