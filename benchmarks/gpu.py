"""Is the GPU used well, and rightly? Checks and times of every fast path, in under 8 minutes.

    python benchmarks/gpu.py [--only PART ...] [--seconds 420] [--json FILE] [--tiny]

Each part first checks that the fast path equals its plain twin on this device, then times it
against a named peer in turns, in wall time, after warming up. Throughput is that of whole steps
(forward, backward, clipping, optimizer) with random weights, and is given as a share of the rate at
which this card multiplies 8,192 x 8,192 bf16 matrices, measured first. Results are printed, and
written to the JSON file, as they come. A check that fails, or a part that runs out of memory, is
printed and the rest goes on; the exit code is then 1. Nothing is read from a network.

Differences are ||fast - plain|| / ||plain||. Tolerances: 1e-4 for gradients in float32, 2e-2 for
what is computed in bf16, 1e-5 for the loss. `--tiny` tries everything at no size worth timing, also
on a CPU, which leaves out kernels that a CPU doesn't have.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import gpu_attention
import gpu_models
import infonce
import numpy as np
import routing
import torch
from gpu_bench import Bench, sizes_for
from timing import Row, Taken, Variant, add_json

from embedexp.config.schema.mask_schedule import Bidirectional, Linear
from embedexp.mask_schedule import build
from embedexp.training.contrastive import ContrastiveObjective
from embedexp.training.flops import ModelFlops

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from embedexp.batching.collate import TrainingBatch
    from embedexp.mask_schedule import MaskSchedule

FLOAT, HALF, LOSS = 1e-4, 2e-2, 1e-5
"""Tolerated relative differences."""

PACKED, EXPERTS, MATRIX, CACHE, SOFT = 1.6, 1.25, 0.5, 1.4, 1.15
"""Targets: packed over padded, experts over dense, share of the rate, cache, soft mask."""


def matrix_rate(bench: Bench) -> None:
    """Operations a second of the product of two square bf16 matrices."""
    n, device = bench.sizes.matrix, bench.device
    left, right = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    bench.check("bf16 product", left[:64] @ right, left[:64].double() @ right.double(), HALF)
    name = f"{n} x {n} bf16 product"
    taken = bench.time({name: Variant(lambda: torch.mm(left, right), name)})[name]
    bench.rate = 2 * n**3 / (1e-3 * taken.milliseconds)
    bench.row(Row(name, "", [bench.rate / 1e12], "TFLOP/s"))


def throughput(
    bench: Bench, name: str, config: Any, batch: TrainingBatch, taken: Taken, least: float | None
) -> None:
    """Tokens a second, and the model's operations as a share of the measured rate."""
    seconds = 1e-3 * taken.milliseconds
    bench.row(Row(f"{name}, throughput", "", [batch.layout.tokens / seconds], "tokens/s"))
    if bench.rate is not None:
        share = ModelFlops.of(config).of_batch(batch) / seconds / bench.rate
        bench.row(Row(f"{name}, operations", "the matrix rate", [share], least=least))


def encoder(bench: Bench) -> None:
    """Packed against padded training of a 137M encoder."""
    config = gpu_models.compose(*bench.sizes.encoder)
    lengths = gpu_models.natural(bench.sizes.pairs, bench.sizes.longest)
    batch = gpu_models.batch_of(lengths, bench.device)
    few = gpu_models.batch_of(gpu_models.natural(4, 64), bench.device)
    model = gpu_models.objective(config, bench.device)
    packed = gpu_models.gradients(model, few)
    gpu_models.padded_loss(model.embedder, few).backward()
    plain = gpu_models.flat_gradients(model)
    bench.check("gradients, packed and padded, float32", packed, plain, FLOAT)
    names = "packed training", "padded training"
    update = gpu_models.optimizer_of(config, model)
    steps = {
        names[0]: Variant(gpu_models.training_step(update, model, batch), names[1]),
        names[1]: Variant(gpu_models.padded_step(update, model, batch), names[1]),
    }
    print(f"  {lengths.sum():,} tokens, padding efficiency {gpu_models.efficiency(lengths):.2f}")
    taken = bench.time(steps)
    faster = [1 / ratio for ratio in taken[names[0]].ratios]
    bench.row(Row(f"{names[0]}, times faster", names[1], faster, least=PACKED))
    throughput(bench, names[0], config, batch, taken[names[0]], None)


def experts_model(bench: Bench) -> None:
    """Training of the encoder with 8 experts in every other layer, one per token, against dense."""
    lengths = gpu_models.natural(bench.sizes.pairs, bench.sizes.longest)
    batch = gpu_models.batch_of(lengths, bench.device)
    routed = [*bench.sizes.encoder, "routing=moe", "routing.top_k=1"]
    configs = {
        "dense model": gpu_models.compose(*bench.sizes.encoder),
        "MoE model, k=1": gpu_models.compose(*routed),
    }
    steps = {}
    for name, config in configs.items():
        model = gpu_models.objective(config, bench.device)
        step = gpu_models.training_step(gpu_models.optimizer_of(config, model), model, batch)
        steps[name] = Variant(step, "dense model")
    taken = bench.time(steps)
    name = "MoE model, k=1"
    bench.row(Row(name, "dense model", taken[name].ratios, most=EXPERTS))
    throughput(bench, name, configs[name], batch, taken[name], None)


def llama(bench: Bench) -> None:
    """Training of a 1B causal model that becomes bidirectional: each mask, and its cost."""
    sizes, device = bench.sizes, bench.device
    few = gpu_models.batch_of(np.array([5, 9, 12, 7]), device)
    exact = gpu_models.compose(*sizes.llama, "backbone.dtype=float32", "backbone.layers=2")
    model = gpu_models.objective(exact, device)
    for alpha, mask in ((0.0, "causal"), (0.5, "soft"), (1.0, "bidirectional")):
        packed = gpu_models.gradients(model, few, alpha)
        gpu_models.padded_loss(model.embedder, few, alpha).backward()
        plain = gpu_models.flat_gradients(model)
        bench.check(f"gradients, {mask} packed and padded, 2 layers, float32", packed, plain, FLOAT)
    del model, packed, plain
    config = gpu_models.compose(*sizes.llama)
    model = gpu_models.objective(config, device)
    update = gpu_models.optimizer_of(config, model)
    lengths = np.full(sizes.llama_sequences, sizes.llama_lengths)
    batch, against = gpu_models.batch_of(lengths, device), "bidirectional training"
    print(f"  {sizes.llama_sequences} sequences of {sizes.llama_lengths} tokens, weights in bf16")
    alphas = {"bidirectional training": 1.0, "soft-masked training": 0.5, "causal training": 0.0}
    steps = {
        name: Variant(gpu_models.training_step(update, model, batch, alpha), against)
        for name, alpha in alphas.items()
    }
    taken = bench.time(steps)
    throughput(bench, "1B, bidirectional training", config, batch, taken[against], MATRIX)
    name = "soft-masked training"
    bench.row(Row(f"1B, {name}", against, taken[name].ratios, most=SOFT))
    bench.row(Row("1B, causal training", against, taken["causal training"].ratios))


def kernels(bench: Bench) -> None:
    """Attention alone: ours, flex attention and varlen attention against padded sdpa."""
    count, heads, head = bench.sizes.attention
    lengths = gpu_models.natural(count, bench.sizes.longest)[count:].tolist()
    masks = {
        "bidirectional": (build(Bidirectional(name="bidirectional")), 1.0),
        "soft": (build(Linear(name="linear", form="column")), 0.5),
    }
    shape = (sum(lengths), heads, head)
    print(f"  {shape[0]:,} tokens of {count} sequences, {heads} heads of {head}")
    for mask, (schedule, alpha) in masks.items():
        rows = tuple(
            torch.randn(shape, device=bench.device, dtype=torch.bfloat16).requires_grad_()
            for _ in range(3)
        )
        back = torch.randn(shape, device=bench.device, dtype=torch.bfloat16)
        # Sequences do not see each other, so that the first ones can be checked alone.
        few, held = lengths[:8], tuple(tensor.detach() for tensor in rows)
        count_few = sum(few)
        plain = gpu_attention.by_sequence(few, schedule, alpha, tuple(r[:count_few] for r in held))
        peer = gpu_attention.Padded(lengths, schedule, alpha, rows, back)
        bench.check(f"padded, {mask}, bf16", peer.packed(peer.forward())[:count_few], plain, HALF)
        peer.run()
        steps = {"padded": Variant(peer.run, "padded")}
        for name, make in makers(bench, lengths, schedule, alpha).items():
            label = f"{name} attention, {mask}"
            with bench.guarded(label):
                attend = make()
                bench.check(f"{label}, bf16", attend(*held)[:count_few], plain, HALF)
                if name == "flex" and not bench.on_gpu:
                    print("  flex: torch has no backward pass for a CPU")
                    continue
                step = attention_step(attend, rows, back)
                step()
                for leaf, tensor, side in zip(peer.leaves, rows, "qkv", strict=True):
                    assert leaf.grad is not None
                    assert tensor.grad is not None
                    expected = peer.packed(leaf.grad)
                    bench.check(f"{label}, gradient of {side}, bf16", tensor.grad, expected, HALF)
                steps[name] = Variant(step, "padded")
        for name, one in bench.time(steps, 0.5).items():
            if name != "padded":
                bench.row(Row(f"{name} attention, {mask}", "padded sdpa", one.ratios))


def makers(
    bench: Bench, lengths: list[int], schedule: MaskSchedule, alpha: float
) -> dict[str, Callable[[], gpu_attention.Attention]]:
    """By name, what makes attention over packed rows, of those that have this mask."""
    own, device = (lengths, schedule, alpha, bench.device), bench.device
    found: dict[str, Callable[[], gpu_attention.Attention]] = {
        "embedexp": lambda: gpu_attention.ours(*own),
        "flex": lambda: gpu_attention.flex(*own, fused=bench.on_gpu),
    }
    if schedule.mask(alpha) == "bidirectional":
        if bench.on_gpu:
            found["varlen"] = lambda: gpu_attention.varlen(lengths, device)
        else:
            print("  varlen: torch has no kernel for a CPU")
    return found


def attention_step(
    attend: gpu_attention.Attention, rows: tuple[Tensor, ...], back: Tensor
) -> Callable[[], None]:
    """Forward and backward."""

    def run() -> None:
        for tensor in rows:
            tensor.grad = None
        attend(*rows).backward(back)

    return run


def experts_layer(bench: Bench) -> None:
    """A layer of 8 experts against a dense MLP at equal active work, and transformers' grouped."""
    tokens, width, inner = bench.sizes.experts
    for top_k in (1, 2):
        layer = routing.ours(routing.gated(width, inner), width, top_k).to(bench.device)
        for parameter in layer.parameters():  # upcycled experts are equal: any routing would pass
            torch.nn.init.normal_(parameter, std=width**-0.5)
        few = torch.randn(1, 64, width, device=bench.device)
        with torch.no_grad():
            bench.check(f"experts, k={top_k}, float32", layer(few), one_by_one(layer, few), FLOAT)
        layer = layer.to(torch.bfloat16)
        rows, repeated = (
            torch.randn(1, size, width, device=bench.device, dtype=torch.bfloat16)
            for size in (tokens, tokens * top_k)
        )
        dense = routing.gated(width, inner).to(bench.device, torch.bfloat16)
        theirs = routing.theirs(width, inner, top_k, "grouped_mm").to(bench.device, torch.bfloat16)
        steps = {
            "dense": Variant(routing.step(dense, repeated), "dense"),
            "embedexp": Variant(routing.step(layer, rows), "dense"),
            "transformers grouped_mm": Variant(routing.step(theirs, rows), "dense"),
        }
        taken = bench.time(steps, 0.5)
        print(f"  {tokens:,} tokens, {width} -> {inner}, k={top_k}, bf16")
        ours = taken["embedexp"].ratios
        bench.row(Row(f"experts, k={top_k}", "dense, equal work", ours, most=EXPERTS))
        others = taken["transformers grouped_mm"].ratios
        ratios = [a / b for a, b in zip(ours, others, strict=True)]
        bench.row(Row(f"experts, k={top_k}", "transformers grouped_mm", ratios, most=1.0))


def one_by_one(layer: Any, hidden: Tensor) -> Tensor:
    """The plain twin: every expert on every row, weighted by what the router chose."""
    rows = hidden[0]
    weights, chosen = layer.router(rows).float().softmax(-1).topk(layer.top_k, dim=-1)
    weights = weights / weights.sum(-1, keepdim=True)
    output = torch.zeros_like(rows)
    for number, expert in enumerate(layer.experts):
        share = (weights * (chosen == number)).sum(-1, keepdim=True)
        output += share.to(rows.dtype) * expert(rows)
    return (output if layer.bias is None else output + layer.bias)[None]


def contrast(bench: Bench) -> None:
    """InfoNCE in strips against the whole matrix, float32."""
    width, device = bench.sizes.width, bench.device

    def inputs(count: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        queries = torch.randn(count, width, device=device, dtype=dtype)
        positives = 2 * torch.randn(count, width, device=device, dtype=dtype) + queries
        return [queries.requires_grad_(), positives.requires_grad_()]

    def step(loss: Any, vectors: list[Tensor]) -> Callable[[], None]:
        def run() -> None:
            vectors[0].grad = vectors[1].grad = None
            loss(*vectors, None).backward()

        return run

    few = inputs(min(2048, bench.sizes.infonce[-1]))
    exact = [tensor.detach().double().requires_grad_() for tensor in few]
    strips, whole = infonce.ours(*few, None), infonce.naive(*exact, None)
    strips.backward()
    whole.backward()
    bench.check("InfoNCE in strips, loss", strips, whole, LOSS)
    for number, name in enumerate(("queries", "positives")):
        fast, plain = few[number].grad, exact[number].grad
        assert fast is not None
        assert plain is not None
        bench.check(f"InfoNCE in strips, gradient of {name}", fast, plain, FLOAT)
    del few, exact

    largest = bench.sizes.infonce[0]
    for count in bench.sizes.infonce:
        vectors = inputs(count)
        ours, naive = step(infonce.ours, vectors), step(infonce.naive, vectors)
        needs = bench.memory(ours), whole_memory(bench, naive)
        if needs[1] == float("inf"):
            print(f"  {count:,} pairs: the naive form runs out of memory")
            if count == largest:
                alone = bench.time({"alone": Variant(ours, "alone")}, 0.3)["alone"]
                bench.row(Row(f"InfoNCE, {count:,} pairs", "", [alone.milliseconds], "ms"))
            continue
        variants = {"embedexp": Variant(ours, "naive"), "naive": Variant(naive, "naive")}
        taken = bench.time(variants, 0.7)["embedexp"]
        bench.row(Row(f"InfoNCE, {count:,} pairs", "naive", taken.ratios))
        if needs[0] is not None and needs[1] is not None:
            ratio = [needs[0] / needs[1]]
            bench.row(Row(f"InfoNCE, {count:,} pairs, memory", "naive", ratio))
        return


def whole_memory(bench: Bench, run: Callable[[], None]) -> float | None:
    """What a call needs, infinity where there is no room; its tensors are gone afterwards."""
    try:
        return bench.memory(run)
    except torch.OutOfMemoryError:
        pass
    torch.cuda.empty_cache()
    return float("inf")


def cache(bench: Bench) -> None:
    """The gradient cache against the plain step: gradients, time and memory."""
    config = gpu_models.compose(*bench.sizes.encoder)
    lengths = gpu_models.natural(bench.sizes.pairs, bench.sizes.longest)
    batch = gpu_models.batch_of(lengths, bench.device)
    few = gpu_models.batch_of(gpu_models.natural(4, 64), bench.device)
    plain = gpu_models.objective(config, bench.device)

    def chunked(tokens: int) -> ContrastiveObjective:
        made = ContrastiveObjective(plain.embedder, plain.loss, config.routing, tokens)
        return made.to(bench.device).train()

    one, many = gpu_models.gradients(plain, few), gpu_models.gradients(chunked(64), few)
    bench.check("gradients, cached and plain, float32", many, one, FLOAT)
    budget = max(1, int(lengths.sum()) // 8)
    update = gpu_models.optimizer_of(config, plain)
    steps = {
        "plain step": gpu_models.training_step(update, plain, batch),
        "cached step": gpu_models.training_step(update, chunked(budget), batch),
    }
    for step in steps.values():
        step()  # the optimizer has its state afterwards
    needs = {name: bench.memory(step) for name, step in steps.items()}
    taken = bench.time({name: Variant(step, "plain step") for name, step in steps.items()})
    print(f"  {lengths.sum():,} tokens, in chunks of {budget:,}")
    bench.row(Row("cached step", "plain step", taken["cached step"].ratios, most=CACHE))
    cached, whole = needs["cached step"], needs["plain step"]
    if cached is not None and whole is not None:
        bench.row(Row("cached step, memory", "plain step", [cached / whole], most=1.0))


PARTS: dict[str, Callable[[Bench], None]] = {
    "rate": matrix_rate,
    "encoder": encoder,
    "llama": llama,
    "attention": kernels,
    "experts": experts_layer,
    "moe": experts_model,
    "infonce": contrast,
    "cache": cache,
}
"""In the order in which they run; the rate is what throughput is a share of."""


def run(bench: Bench, parts: list[str]) -> int:
    """All parts; 1 if a check failed, a part did, or time ran out before its turn."""
    for number, name in enumerate(parts):
        title = (PARTS[name].__doc__ or name).splitlines()[0]
        left = bench.end - time.perf_counter()
        print(f"{name}: {title}  ({left:.0f} s left)", flush=True)
        if left <= 0:
            print("  FAILED: left out, the time is over")
            bench.problems.append(f"{name} was left out")
            continue
        bench.left = len(parts) - number
        with bench.guarded(name):
            PARTS[name](bench)
    met = [row.facts()["met"] for row in bench.rows]
    print(f"targets: {met.count(True)} met, {met.count(False)} missed")
    for problem in bench.problems:
        print(f"FAILED: {problem}")
    return int(bool(bench.problems))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=420, help="for all parts together")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    given = parser.parse_args()
    if given.device == "cpu" and not given.tiny:
        parser.error("there is no GPU; --tiny tries the script on a CPU")
    torch.manual_seed(0)
    card = torch.cuda.get_device_name(given.device) if given.device != "cpu" else "CPU"
    print(f"{card}, torch {torch.__version__}")
    sizes = sizes_for(given.device, tiny=given.tiny)
    bench = Bench(given.device, sizes, given.seconds, given.json)
    parts = [name for name in PARTS if name in given.only]
    code = run(bench, parts)
    if given.tiny:
        print("a trial at tiny sizes: only the checks say something")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
