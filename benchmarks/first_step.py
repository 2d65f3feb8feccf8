"""From the imports to the end of the first step: the default run and a bare Lightning start.

    python benchmarks/first_step.py [--repeats 3] [--limit 15]

The default experiment (`python -m embedexp`, without the scores before training), with no texts
tokenised yet (`cold`) and with all of them tokenised by a run before (`warm`); and the start that
lightning-hydra-template has: a composed Hydra config, a LightningModule around the same model, a
loader that tokenises each batch, a CSV logger and a checkpoint callback. Each is a process of its
own, in turns. Processor time from the end of the imports, which are the same for all, to the end
of the first step. Exits with 1 if the default run's median is above `--limit` seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from timing import Row, add_json, step_ends, write

SIDES = ("bare Lightning", "cold", "warm")
IMPORTS = ("wandb", "wandb.sdk.launch", "lightning", "sentence_transformers", "transformers")
"""In the order of a run (`tracking.import_early`)."""
BATCH = 64
LENGTHS = (64, 128)


def ours(folder: Path, cache: Path, *, tiny: bool) -> float:
    """When the first step of the default experiment ends."""
    small = ["backbone=tiny", "data.max_examples=200"] if tiny else []
    words = ["evaluation=none", "training.steps=1", f"paths.runs={folder}", f"paths.cache={cache}"]
    return step_ends([*small, *words])[0]


def bare(folder: Path, model: Path, *, tiny: bool) -> float:
    """When the first step of the bare start ends."""
    import lightning
    import torch
    from hydra import compose, initialize_config_dir
    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.loggers import CSVLogger
    from transformers import AutoModel, AutoTokenizer

    import embedexp
    from embedexp import data

    conf = folder / "conf"
    conf.mkdir()
    (conf / "config.yaml").write_text(f"lr: 1.0e-4\nbatch: {BATCH}\ntemperature: 0.05\n")
    with initialize_config_dir(str(conf), version_base=None):
        config = compose("config")
    # The pairs are those of the default run; composing it costs the bare start something, too.
    few = ["data.max_examples=200"] if tiny else []
    sets = data.load(embedexp.compose(few).data).train
    pairs = [pair for part in sets for pair in zip(part.queries, part.positives, strict=True)]
    tokenizer = AutoTokenizer.from_pretrained(model)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(model).train()

        def training_step(self, batch: Any, _: int) -> Any:
            sides = []
            for tokens in batch:
                hidden = self.model(**tokens).last_hidden_state
                mask = tokens["attention_mask"][..., None]
                mean = (hidden * mask).sum(1) / mask.sum(1)
                sides.append(torch.nn.functional.normalize(mean, dim=-1))
            scores = sides[0] @ sides[1].T / config.temperature
            loss = torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=config.lr)

        def on_train_batch_end(self, *_: Any) -> None:
            ends.append(time.process_time())

    def collate(some: list[tuple[str, str]]) -> Any:
        given = {"padding": True, "truncation": True, "return_tensors": "pt"}
        return [
            tokenizer(list(side), max_length=length, **given)
            for length, side in zip(LENGTHS, zip(*some, strict=True), strict=True)
        ]

    ends: list[float] = []
    loader = torch.utils.data.DataLoader(
        pairs,
        batch_size=config.batch,
        shuffle=True,
        collate_fn=collate,
    )
    lightning.Trainer(
        max_steps=1,
        accelerator="cpu",
        default_root_dir=folder,
        logger=CSVLogger(folder),
        callbacks=[ModelCheckpoint(folder / "checkpoints")],
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(Module(), loader)
    return ends[0]


def one(side: str, folder: Path, cache: Path, model: Path, *, tiny: bool) -> None:
    """Measure one side in this process and print the seconds."""
    for name in IMPORTS:
        import_module(name)
    begin = time.process_time()
    end = bare(folder, model, tiny=tiny) if side == SIDES[0] else ours(folder, cache, tiny=tiny)
    print(json.dumps(end - begin))


def measured(side: str, cache: Path, model: Path, given: argparse.Namespace) -> float:
    """Seconds of one process."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--side", side, "--folder", folder, "--cache", str(cache), "--model", str(model)]
        done = subprocess.run(
            [sys.executable, __file__, *words, *(["--tiny"] if given.tiny else [])],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        )
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr[-3000:]}")
    return float(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=15.0, help="seconds")
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--model", type=Path)
    add_json(parser)
    given = parser.parse_args()
    if given.side:
        one(given.side, given.folder, given.cache, given.model, tiny=given.tiny)
        return 0
    if given.tiny:
        given.repeats = 1
    sides = SIDES[:2] if given.tiny else SIDES
    taken: dict[str, list[float]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as kept:
        import embedexp

        model = Path(kept) / "model"
        composed = embedexp.compose(["backbone=tiny"] if given.tiny else [])
        embedexp.build_embedder(composed).save(model)
        for turn in range(given.repeats):
            cache = Path(kept) / f"cache {turn}"  # `warm` finds what `cold` has left
            for side, times in taken.items():
                times.append(measured(side, cache, model, given))
    print(f"{'from imports to the first step':34}{'seconds':>8}{'ratio':>7}")
    ratios = {
        side: [a / b for a, b in zip(times, taken[SIDES[0]], strict=True)]
        for side, times in taken.items()
    }
    for side, times in taken.items():
        middle = statistics.median(times)
        print(f"{side:34}{middle:8.2f}{statistics.median(ratios[side]):7.2f}")
    rows = []
    for side in sides[1:]:
        rows.append(Row(f"first step, {side}", "", taken[side], "s", most=given.limit))
        rows.append(Row(f"first step, {side}", "a bare Lightning start", ratios[side]))
    write(given.json, rows)
    return int(statistics.median(taken["cold"]) > given.limit)


if __name__ == "__main__":
    sys.exit(main())
