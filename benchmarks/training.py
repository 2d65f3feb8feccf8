"""Samples per CPU second of `python -m embedexp` and of sentence-transformers' trainer.

    python benchmarks/training.py [--batch 128] [--steps 6] [--repeats 3] [--threads 1]
        [--dropout 0.1] [--precision float32|bf16_mixed] [--cached] [--chunk-tokens 4096]
        [--chunk-texts 32] [--equal] [--bare] [--tiny]

Both train MiniLM (6 layers, width 384) on docstrings and code of the standard library with in-batch
negatives at temperature 0.05, fused AdamW, the same batch size, dropout, precision and longest
text (128 tokens). Each step has the same pairs, drawn once, so that all sides do the same work
however they shuffle. `--equal` takes only texts that fill 64 tokens, so that nothing is padded.
`--cached` compares the gradient cache with CachedMultipleNegativesRankingLoss, `--bare` the plain
step with the hand-written loop of `packed_loop.py`, which is the practical limit. Each
measurement is a process of its own, in turns; the clock is processor time from the end of the
second step to the end of the last, with everything that happens between: loading, logging,
clipping, the optimizer.
The table shows medians over repeats, the median ratio within a turn, and the peak memory of the
process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from timing import Row, add_json, step_ends, write

WARM_UPS = 2
LONGEST = 128
EQUAL = 64
LEARNING_RATE = 2e-5


def overrides(arguments: argparse.Namespace, folder: Path) -> list[str]:
    """Our side of the comparison."""
    tokens = EQUAL if arguments.equal else LONGEST
    composed = [
        "backbone=tiny" if arguments.tiny else "backbone=minilm",
        f"backbone.dropout={arguments.dropout}",
        f"backbone.attention_dropout={arguments.attention_dropout}",
        "data=jsonl",
        f"data.path={folder / 'pairs.jsonl'}",
        "data.holdout=0",
        f"batching.size={arguments.batch}",
        f"embedding.query_tokens={tokens}",
        f"embedding.document_tokens={tokens}",
        f"optimizer.learning_rate={LEARNING_RATE}",
        f"training.steps={arguments.steps + WARM_UPS}",
        f"training.precision={arguments.precision}",
        f"training.checkpoint_every={10 * arguments.steps}",
        "evaluation=none",
        "tracking=none",
        f"compute.threads={arguments.threads}",
        f"paths.cache={folder / 'cache'}",
        f"paths.runs={tempfile.mkdtemp(dir=folder)}",
    ]
    if arguments.cached:
        composed.append(f"training.chunk_tokens={arguments.chunk_tokens}")
    return composed


def ours(arguments: argparse.Namespace, folder: Path) -> list[float]:
    """Processor time at the end of each step of one of our runs."""
    return step_ends(overrides(arguments, folder))


def theirs(arguments: argparse.Namespace, folder: Path) -> list[float]:
    """Processor time at the end of each step of sentence-transformers' trainer."""
    import torch
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
        losses,
    )
    from transformers import TrainerCallback

    torch.set_num_threads(arguments.threads)
    model = SentenceTransformer(str(folder / "model"), device="cpu")
    model.max_seq_length = EQUAL if arguments.equal else LONGEST
    config = model[0].auto_model.config
    for module in model.modules():  # dropout is a module's value, made from the configuration
        if isinstance(module, torch.nn.Dropout):
            module.p = arguments.dropout
        if type(module).__name__.endswith("SelfAttention"):
            module.dropout.p = arguments.attention_dropout
    config.attention_probs_dropout_prob = arguments.attention_dropout
    lines = (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    data = Dataset.from_list([json.loads(line) for line in lines])
    if arguments.cached:
        loss: Any = losses.CachedMultipleNegativesRankingLoss(
            model, mini_batch_size=arguments.chunk_texts
        )
    else:
        loss = losses.MultipleNegativesRankingLoss(model)
    ends: list[float] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(time.process_time())

    settings = SentenceTransformerTrainingArguments(
        output_dir=tempfile.mkdtemp(dir=folder),
        per_device_train_batch_size=arguments.batch,
        max_steps=arguments.steps + WARM_UPS,
        learning_rate=LEARNING_RATE,
        warmup_steps=5,
        weight_decay=0.01,
        max_grad_norm=1.0,
        optim="adamw_torch_fused",
        bf16=arguments.precision == "bf16_mixed",
        use_cpu=True,
        save_strategy="no",
        report_to="none",
        logging_steps=1,
        disable_tqdm=True,
    )
    SentenceTransformerTrainer(
        model=model, args=settings, train_dataset=data, loss=loss, callbacks=[Clock()]
    ).train()
    return ends


def bare(arguments: argparse.Namespace, folder: Path) -> list[float]:
    """Processor time at the end of each step of the hand-written loop."""
    from packed_loop import packed_loop

    return packed_loop(
        folder,
        steps=arguments.steps + WARM_UPS,
        batch=arguments.batch,
        tokens=EQUAL if arguments.equal else LONGEST,
        rate=arguments.dropout,
        attention_rate=arguments.attention_dropout,
        learning_rate=LEARNING_RATE,
        bf16=arguments.precision == "bf16_mixed",
        threads=arguments.threads,
    )


SIDES = {"embedexp": ours, "sentence-transformers": theirs, "packed loop": bare}


def prepare(arguments: argparse.Namespace, folder: Path) -> str:
    """Write the pairs and the model that both sides read; says what the lengths are like."""
    import embedexp
    from embedexp import data

    few = ["data.max_examples=200"] if arguments.tiny else []
    config = embedexp.compose(
        ["data=stdlib_code", "data.holdout=0", *few, *overrides(arguments, folder)[:3]]
    )
    (dataset,) = data.load(config.data).train
    embedder = embedexp.build_embedder(config)
    embedder.save(folder / "model")
    tokens = EQUAL if arguments.equal else LONGEST
    count = embedder.text_tokenizer
    pairs = []
    for query, positive in zip(dataset.queries, dataset.positives, strict=True):
        lengths = [
            len(ids)
            for ids in count([query, positive], truncation=True, max_length=tokens)["input_ids"]
        ]
        if not arguments.equal or min(lengths) == tokens:
            pairs.append((query, positive, lengths))
    random.Random(0).shuffle(pairs)
    pairs = (pairs * (arguments.batch // len(pairs) + 1))[: arguments.batch]
    with (folder / "pairs.jsonl").open("w", encoding="utf-8") as file:
        for number, (query, positive, _) in enumerate(pairs):
            # Repeated pairs must differ, or they would not be each other's negatives.
            suffix = f" {number}" if arguments.equal else ""
            line = {"query": f"{query}{suffix}", "positive": f"{positive}{suffix}"}
            file.write(json.dumps(line) + "\n")
    columns = [[lengths[side] for _, _, lengths in pairs] for side in (0, 1)]
    real, padded = sum(map(sum, columns)), sum(len(each) * max(each) for each in columns)
    efficiency = real / padded
    return f"{len(pairs):,} pairs, {real:,} tokens, padding efficiency {efficiency:.2f}"


def measured(side: str, arguments: argparse.Namespace, folder: Path) -> tuple[float, float]:
    """Samples per CPU second and peak memory in MiB of one process."""
    command = [sys.executable, __file__, *sys.argv[1:], "--side", side, "--folder", str(folder)]
    threads = str(arguments.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr[-3000:]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return float(found["rate"]), float(found["memory"])


def one(side: str, arguments: argparse.Namespace, folder: Path) -> None:
    """Measure one side in this process and print the figures."""
    import resource

    ends = SIDES[side](arguments, folder)
    seconds = (ends[-1] - ends[WARM_UPS - 1]) / arguments.steps
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rate": arguments.batch / seconds, "memory": peak}))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--attention-dropout", type=float, default=None)
    parser.add_argument("--precision", choices=("float32", "bf16_mixed"), default="float32")
    parser.add_argument("--cached", action="store_true")
    parser.add_argument("--chunk-tokens", type=int, default=4096)
    parser.add_argument("--chunk-texts", type=int, default=32)
    parser.add_argument("--equal", action="store_true")
    parser.add_argument("--bare", action="store_true", help="against a bare loop")
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    parser.add_argument("--least", type=float, help="the ratio that is the target")
    parser.add_argument("--side", choices=tuple(SIDES))
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.batch, arguments.steps, arguments.repeats = 8, 1, 1
    if arguments.attention_dropout is None:
        arguments.attention_dropout = arguments.dropout
    return arguments


def main() -> None:
    """Compare both sides in turns."""
    arguments = parse()
    if arguments.side:
        one(arguments.side, arguments, arguments.folder)
        return
    other = "packed loop" if arguments.bare else "sentence-transformers"
    sides = (other, "embedexp")
    figures: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as name:
        print(prepare(arguments, Path(name)), flush=True)
        for _ in range(arguments.repeats):
            for side in sides:
                figures[side].append(measured(side, arguments, Path(name)))
                rate, memory = figures[side][-1]
                print(f"  {side:22} {rate:8.2f} samples/CPU s  {memory:8,.0f} MiB", flush=True)
    ratios = [
        mine[0] / peer[0] for peer, mine in zip(figures[other], figures["embedexp"], strict=True)
    ]
    print(f"{'':24}samples/CPU s   ratio    peak MiB")
    for side in sides:
        rate = statistics.median(found[0] for found in figures[side])
        memory = statistics.median(found[1] for found in figures[side])
        ratio = statistics.median(ratios) if side == "embedexp" else 1.0
        print(f"{side:24}{rate:13.2f}{ratio:8.2f}{memory:12,.0f}")
    peer = "CachedMultipleNegativesRankingLoss" if arguments.cached else other
    what = f"{arguments.precision}, dropout {arguments.dropout:g}, batch {arguments.batch:,}"
    what += ", equal lengths" if arguments.equal else ""
    write(arguments.json, [Row(f"{what}, times faster", peer, ratios, least=arguments.least)])


if __name__ == "__main__":
    main()
