"""Forward and backward under each mask, packed and padded: attention alone, and whole models.

    python benchmarks/attention.py [--sequences 32] [--repeats 9] [--threads 1] [--tiny]

Sequences have natural lengths: log-normal, 8 to 256 tokens, the same for all variants. "equal"
rows are attention alone on sequences of one length; "packed" and "padded" rows are a Llama of two
layers on the natural lengths, with what a training step pays for: the layout and the mask of the
batch are made anew in each step. Padded is transformers' own sdpa with the same mask as an additive
`[n, 1, l, l]`. Variants take turns, so that a busy moment hits all alike; the table shows medians,
and the median over turns of the ratio to packed bidirectional attention (or, for attention alone,
to the bidirectional one). On a CPU it is processor time that is measured, on a GPU the clock.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import torch
from timing import Row, Variant, add_json, compare, write
from transformers import LlamaConfig, LlamaModel

from embedexp.backbone import attention
from embedexp.backbone.layout import PackedLayout
from embedexp.config.schema.mask_schedule import Bidirectional, Causal, Linear
from embedexp.mask_schedule import build

if TYPE_CHECKING:
    from collections.abc import Callable

    from embedexp.mask_schedule import MaskSchedule

    Step = Callable[[], None]

ALPHA = 0.5
TARGET = 1.15
"""The soft mask may cost so many times what bidirectional attention does."""

SCHEDULES: dict[str, MaskSchedule] = {
    "bidirectional": build(Bidirectional(name="bidirectional")),
    "causal": build(Causal(name="causal")),
    "soft": build(Linear(name="linear", form="column")),
}


def natural(sequences: int, longest: int) -> list[int]:
    """Lengths of texts: many short ones and a few long."""
    lengths = torch.empty(sequences).log_normal_(4.2, 0.6).round().clamp(8, longest)
    return [int(length) for length in lengths]


def alone(schedule: MaskSchedule, sequences: int, length: int, heads: int, device: str) -> Step:
    """Attention of equally long sequences; the layout is made once, as for a model's layers."""
    shape = (1, heads, sequences * length, 32)
    query, key, value = (torch.randn(shape, device=device, requires_grad=True) for _ in range(3))
    layout = PackedLayout.build([length] * sequences, schedule.mask(ALPHA), device)
    grad = torch.randn(1, sequences * length, heads, 32, device=device)
    module = torch.nn.Module()

    def run() -> None:
        query.grad = key.grad = value.grad = None
        output, _ = attention.packed_attention(
            module, query, key, value, None, packed_layout=layout
        )
        output.backward(grad)

    return run


def packed(model: LlamaModel, ids: list[torch.Tensor], schedule: MaskSchedule) -> Step:
    """A step on the packed batch."""
    flat = torch.cat(ids)[None]
    places = torch.cat([torch.arange(len(one), device=one.device) for one in ids])[None]
    lengths = [len(one) for one in ids]

    def run() -> None:
        model.zero_grad(set_to_none=True)
        layout = PackedLayout.build(lengths, schedule.mask(ALPHA), flat.device)
        output = model(input_ids=flat, position_ids=places, packed_layout=layout)
        output.last_hidden_state.square().sum().backward()

    return run


def padded(model: LlamaModel, ids: list[torch.Tensor], schedule: MaskSchedule) -> Step:
    """A step on the padded batch, with the same mask, in transformers' own attention."""
    lengths = torch.tensor([len(one) for one in ids], device=ids[0].device)
    batch = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    real = torch.arange(batch.shape[1], device=batch.device) < lengths[:, None]

    def run() -> None:
        model.zero_grad(set_to_none=True)
        closed = torch.zeros(batch.shape, device=batch.device).masked_fill(~real, float("-inf"))
        bias = schedule.bias(lengths, ALPHA) + closed[:, None]
        output = model(input_ids=batch, attention_mask=bias[:, None])
        output.last_hidden_state[real].square().sum().backward()

    return run


def variants(sequences: int, longest: int, device: str, *, tiny: bool) -> dict[str, Variant]:
    """Name -> step and the name of the variant that it is compared with."""
    heads = 2 if tiny else 12
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=32 * heads,
        num_hidden_layers=1 if tiny else 2,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        intermediate_size=96 * heads,
        use_cache=False,
        attn_implementation=attention.NAME,
    )
    model = LlamaModel(config).to(device)
    lengths = natural(sequences, longest)
    ids = [torch.randint(1, 1000, (length,), device=device) for length in lengths]
    print(
        f"natural lengths fill {sum(lengths) / (len(lengths) * max(lengths)):.2f} of a padded batch"
    )
    found: dict[str, Variant] = {}
    for length in (longest // 4, longest):
        count = max(1, sequences * longest // 4 // length)
        for name, schedule in SCHEDULES.items():
            label = f"equal {length}, "
            step = alone(schedule, count, length, heads, device)
            found[label + name] = Variant(step, label + "bidirectional")
    for make in (packed, padded):
        for name, schedule in SCHEDULES.items():
            step = make(model, ids, schedule)
            found[f"{make.__name__}, {name}"] = Variant(step, "packed, bidirectional")
    return found


def report(steps: dict[str, Variant], device: str, repeats: int) -> list[Row]:
    """Measure all variants in turns and print the table."""
    rows = []
    print(f"{'variant':28} {'ms':>9} {'ratio':>7}  to")
    for name, taken in compare(steps, device, repeats).items():
        peer = steps[name].against
        print(f"{name:28} {taken.milliseconds:9.1f} {taken.ratio:7.2f}  {peer}")
        soft = name == "packed, soft"
        if name != peer:
            rows.append(Row(name, peer, taken.ratios, most=TARGET if soft else None))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    sequences, longest, repeats = given.sequences, 256, given.repeats
    if given.tiny:
        sequences, longest, repeats = 4, 32, 2
    print(f"{given.device}, {given.threads} threads; target: soft at most {TARGET} x bidirectional")
    steps = variants(sequences, longest, given.device, tiny=given.tiny)
    write(given.json, report(steps, given.device, repeats))


if __name__ == "__main__":
    main()
