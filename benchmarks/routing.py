"""Forward and backward of one layer of routed experts, against dense MLPs and transformers.

    python benchmarks/routing.py [--tokens 4096 1024] [--repeats 9] [--threads 1] [--tiny]

The dense MLP gets k times the tokens, the experts' work without routing. transformers' experts are
those of OLMoE (gated, no biases), in each implementation that fits into memory; ours are measured
with the same gated MLP, and with the two-matrix one of BERT. Variants take turns, so that a busy
moment hits all alike; the table shows medians, and the median over turns of the ratio to the dense
MLP of the same kind. On a CPU it is processor time that is measured, on a GPU the clock.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import torch
from timing import Row, Variant, add_json, compare, write
from torch import nn
from transformers import LlamaConfig, OlmoeConfig
from transformers.models.llama.modeling_llama import LlamaMLP
from transformers.models.olmoe.modeling_olmoe import OlmoeSparseMoeBlock

from embedexp.backbone.mlp import MLP
from embedexp.config.schema.routing import MoE
from embedexp.routing.context import RoutingContext
from embedexp.routing.experts import MixtureOfExperts

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

EXPERTS = 8
TARGETS = {4096: 1.03, 1024: 1.25}
"""Times that the dense MLP takes, at most, by tokens."""

ROOM = 12 * 2**30
"""Bytes that a copy of each token's experts may take (transformers' batched_mm makes one)."""


def gated(width: int, inner: int) -> nn.Module:
    """Three matrices, no biases."""
    return LlamaMLP(LlamaConfig(hidden_size=width, intermediate_size=inner))


def two_matrices(width: int, inner: int) -> nn.Module:
    """Two matrices with biases and a GELU."""
    return MLP(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


def ours(dense: nn.Module, width: int, top_k: int, experts: int = EXPERTS) -> nn.Module:
    """Our layer, upcycled from a dense MLP."""
    option = MoE(
        name="moe",
        num_experts=experts,
        top_k=top_k,
        placement="every",
        renormalize="topk",
        biases="per_expert",
        router_init="normal",
        router_std=0.02,
        z_loss_coefficient=0.0,
        balance_coefficient=0.0,
        balance_normalization="switch",
    )
    return MixtureOfExperts(
        dense,
        width,
        option,
        top_k=top_k,
        renormalize="topk",
        biased_selection=False,
        layer=0,
        context=RoutingContext(),
    )


def theirs(width: int, inner: int, top_k: int, implementation: str) -> nn.Module:
    """OLMoE's layer of transformers, with the named implementation of its experts."""
    config = OlmoeConfig(
        hidden_size=width,
        intermediate_size=inner,
        num_local_experts=EXPERTS,
        num_experts=EXPERTS,
        num_experts_per_tok=top_k,
        norm_topk_prob=True,
    )
    config._experts_implementation = implementation
    block = OlmoeSparseMoeBlock(config)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.02)
    return block


def step(layer: nn.Module, rows: Tensor) -> Callable[[], None]:
    """One forward and backward pass, the gradient of the rows included."""
    rows = rows.clone().requires_grad_()
    grad = torch.randn_like(rows)

    def run() -> None:
        layer.zero_grad(set_to_none=True)
        rows.grad = None
        layer(rows).backward(grad)

    return run


def variants(
    width: int, inner: int, tokens: int, top_k: int, device: str
) -> dict[str, Variant | None]:
    """Name -> step, compared with the dense MLP of its kind; None where it is too large."""
    rows = torch.randn(1, tokens, width, device=device)
    repeated = torch.randn(1, tokens * top_k, width, device=device)
    steps: dict[str, Variant | None] = {}
    for kind, build in (("gated", gated), ("two-matrix", two_matrices)):
        dense = f"dense, {kind}"
        steps[dense] = Variant(step(build(width, inner).to(device), repeated), dense)
        layer = ours(build(width, inner), width, top_k).to(device)
        steps[f"embedexp, {kind}"] = Variant(step(layer, rows), dense)
    for name in ("eager", "grouped_mm", "batched_mm"):
        fits = name != "batched_mm" or 4 * tokens * top_k * 3 * width * inner <= ROOM
        layer = theirs(width, inner, top_k, name).to(device)
        timed = Variant(step(layer, rows), "dense, gated")
        steps[f"transformers {name}"] = timed if fits else None
    return steps


def report(width: int, inner: int, tokens: int, top_k: int, device: str, repeats: int) -> list[Row]:
    """Measure all variants in turns and print their rows of the table."""
    steps = variants(width, inner, tokens, top_k, device)
    fitting = {name: variant for name, variant in steps.items() if variant is not None}
    measured, rows = compare(fitting, device, repeats), []
    for name in steps:
        label = f"{tokens:>6}  {top_k}  {name:24}"
        if name not in measured:
            print(f"{label}  copies more than {ROOM / 2**30:.0f} GiB of weights: left out")
            continue
        taken, peer = measured[name], fitting[name].against
        print(f"{label} {taken.milliseconds:10.1f} {taken.ratio:9.2f}", flush=True)
        if name != peer:
            most = TARGETS.get(tokens) if name.startswith("embedexp") else None
            rows.append(Row(f"{name}, {tokens:,} tokens, k={top_k}", peer, taken.ratios, most=most))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[4096, 1024])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    width, inner, repeats, sizes = 768, 3072, given.repeats, given.tokens
    if given.tiny:
        width, inner, repeats, sizes = 32, 64, 2, [64]
    print(f"{EXPERTS} experts, {width} -> {inner}, {given.device}, {given.threads} threads")
    print(f"tokens  k  {'layer':24} {'ms':>10} {'/ dense':>9}")
    rows = []
    for tokens in sizes:
        for top_k in (1, 2):
            rows += report(width, inner, tokens, top_k, given.device, repeats)
    write(given.json, rows)


if __name__ == "__main__":
    main()
