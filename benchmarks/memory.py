"""The estimate of a training step's memory against what steps really allocate.

Each configuration trains a few steps in a process of its own, whose allocations are counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import Row, add_json, write

BASE = [
    "tracking=none",
    "evaluation=none",
    "training.steps=2",
    "optimizer.warmup_steps=1",
    "backbone=tiny",
]
MEDIUM = [
    "backbone.architecture.hidden_size=384",
    "backbone.architecture.num_hidden_layers=6",
    "backbone.architecture.num_attention_heads=12",
    "backbone.architecture.intermediate_size=1536",
]
LLAMA = [
    "backbone=tiny_llama",
    "backbone.architecture.hidden_size=256",
    "backbone.architecture.num_hidden_layers=4",
    "backbone.architecture.intermediate_size=1024",
]
CASES: dict[str, list[str]] = {
    "one pass": MEDIUM,
    "chunk_tokens=512": [*MEDIUM, "training.chunk_tokens=512"],
    "chunk_tokens=256, moe": [*MEDIUM, "training.chunk_tokens=256", "routing=moe"],
    "one pass, moe": [*MEDIUM, "routing=moe", "batching.size=128"],
    "bf16_mixed": [*MEDIUM, "training.precision=bf16_mixed"],
    "decoder": [*LLAMA, "batching.size=128"],
    "mlm": [*MEDIUM, "stage=mlm", "batching.size=16"],
    "mlm, chunks": [*MEDIUM, "stage=mlm", "batching.size=16", "training.chunk_tokens=512"],
    "causal_lm": [*LLAMA, "stage=causal_lm", "batching.size=32"],
    "recomputed": [*MEDIUM, "stage=mlm", "batching.size=16",
                   "compute.activation_checkpointing=true"],
    "small batch": [*MEDIUM, "batching.size=4"],
}  # fmt: skip


def measure(overrides: list[str]) -> dict[str, float]:
    """Bytes that training allocates at its peak, the estimate, and the tokens of a step."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    import embedexp
    from embedexp.config.memory import estimate
    from embedexp.training import fit
    from embedexp.training.module import EmbeddingModule

    torch.set_num_threads(1)
    seen: dict[str, float] = {}
    original = EmbeddingModule.training_step

    def counted(self: EmbeddingModule, batch: object, index: int) -> None:
        """Count the second step: by then the optimizer has its state."""
        if index != 1:
            original(self, batch, index)
            return
        before = held(self)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            original(self, batch, index)
        level = highest = 0
        for event in profiler.profiler.kineto_results.events():
            if event.name() == "[memory]":
                level += event.nbytes()
                highest = max(highest, level)
        layout = batch.layout
        seen.update(peak=before + highest, tokens=int(layout.lengths.sum()))

    EmbeddingModule.training_step = counted
    assert fit is not None
    with tempfile.TemporaryDirectory() as folder:
        config = embedexp.compose([*overrides, f"paths.runs={folder}"])
        embedexp.run(config, quiet=True)
    expected = estimate(config, share=int(seen["tokens"]))
    return {**seen, "estimate": expected.total}


def held(module: object) -> int:
    """Bytes of weights and optimizer state; a step begins by letting gradients go."""
    sizes = [p.nbytes for p in module.parameters()]
    state = module.optimizers().state.values()
    sizes += [v.nbytes for entry in state for v in entry.values() if hasattr(v, "nbytes")]
    return sum(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="configurations whose name holds this")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument(
        "--tiny", action="store_true", help="one configuration, a check that it runs"
    )
    add_json(parser)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(json.loads(given.measure))))
        return
    cases = dict(list(CASES.items())[:1]) if given.tiny else CASES
    rows = []
    print(f"{'':24} {'tokens':>8} {'estimate MiB':>14} {'measured MiB':>14} {'ratio':>7}")
    for name, overrides in cases.items():
        if given.only and given.only not in name:
            continue
        command = [sys.executable, str(Path(__file__)), "--measure", json.dumps(BASE + overrides)]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        result = json.loads(found.splitlines()[-1])
        estimated, peak = result["estimate"] / 2**20, result["peak"] / 2**20
        print(
            f"{name:24} {result['tokens']:8.0f} {estimated:14.0f} {peak:14.0f} "
            f"{estimated / peak:7.2f}"
        )
        rows.append(Row(f"estimated memory, {name}", "measured", [estimated / peak]))
    write(given.json, rows)


if __name__ == "__main__":
    main()
