"""A bare training loop over packed batches: a step with everything around it taken away.

The practical limit for `training.py`: BERT's own modules called by hand over packed tokens, with
attention in groups of nearly equal length, in-batch negatives, clipping and fused AdamW. It logs
nothing, saves nothing, resumes nothing, and knows one architecture and one loss.
"""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout, normalize, scaled_dot_product_attention

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TEMPERATURE = 0.05
WASTE = 1.15
"""The longest text of a group is at most so many times as long as its shortest."""


def groups(lengths: Sequence[int]) -> list[tuple[Tensor, Tensor | None]]:
    """For each group its tokens `[n, l]` among the packed ones, and a mask where lengths differ."""
    starts = torch.tensor([0, *lengths]).cumsum(0).tolist()
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    found, first = [], 0
    for last in range(1, len(order) + 1):
        if last < len(order) and lengths[order[last]] <= WASTE * lengths[order[first]]:
            continue
        some = order[first:last]
        longest = lengths[some[-1]]
        size = torch.tensor([lengths[i] for i in some])[:, None]
        place = torch.arange(longest)[None, :]
        index = torch.tensor([starts[i] for i in some])[:, None] + place.clamp(max=size - 1)
        inside = place < size
        found.append((index, None if bool(inside.all()) else inside))
        first = last
    return found


def embed(model: Any, texts: list[list[int]], rate: float, attention_rate: float) -> Tensor:
    """Mean of the last hidden states of each text, normalised, `[n, d]`."""
    lengths = [len(text) for text in texts]
    ids = torch.tensor([token for text in texts for token in text])
    positions = torch.cat([torch.arange(length) for length in lengths])
    which = torch.repeat_interleave(torch.arange(len(texts)), torch.tensor(lengths))
    table = model.embeddings
    hidden = table.word_embeddings(ids) + table.position_embeddings(positions)
    hidden = dropout(table.LayerNorm(hidden + table.token_type_embeddings.weight[0]), rate)
    buckets = groups(lengths)
    heads = model.config.num_attention_heads
    back = torch.empty(ids.numel(), dtype=torch.int64)
    total = 0
    for index, inside in buckets:
        rows = torch.arange(total, total + index.numel()).view(index.shape)
        kept = slice(None) if inside is None else inside
        back[index[kept]] = rows[kept]
        total += index.numel()
    for layer in model.encoder.layer:
        attention = layer.attention
        projected = [
            part(hidden)
            for part in (attention.self.query, attention.self.key, attention.self.value)
        ]
        outputs = []
        for index, inside in buckets:
            query, key, value = (
                part[index].unflatten(-1, (heads, -1)).transpose(1, 2) for part in projected
            )
            mask = None if inside is None else inside[:, None, None, :]
            mixed = scaled_dot_product_attention(query, key, value, mask, attention_rate)
            outputs.append(mixed.transpose(1, 2).flatten(2).flatten(0, 1))
        mixed = torch.cat(outputs)[back]
        hidden = attention.output.LayerNorm(dropout(attention.output.dense(mixed), rate) + hidden)
        inner = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(hidden))
        hidden = layer.output.LayerNorm(dropout(layer.output.dense(inner), rate) + hidden)
    sums = torch.zeros(len(texts), hidden.shape[-1]).index_add(0, which, hidden.float())
    return normalize(sums / torch.tensor(lengths)[:, None], dim=-1)


def packed_loop(
    folder: Path,
    *,
    steps: int,
    batch: int,
    tokens: int,
    rate: float,
    attention_rate: float,
    learning_rate: float,
    bf16: bool,
    threads: int,
) -> list[float]:
    """Processor time at the end of each step over the pairs and the model of `training.prepare`."""
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = AutoModel.from_pretrained(folder / "model").train()
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, weight_decay=0.01, fused=True
    )
    lines = (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    pairs = [json.loads(line) for line in lines]
    ends = []
    for _ in range(steps):
        some = pairs[:batch]
        texts = [pair["query"] for pair in some] + [pair["positive"] for pair in some]
        ids = tokenizer(texts, truncation=True, max_length=tokens)["input_ids"]
        with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
            vectors = embed(model, ids, rate, attention_rate)
        scores = vectors[: len(some)] @ vectors[len(some) :].T / TEMPERATURE
        cross_entropy(scores, torch.arange(len(some))).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        ends.append(time.process_time())
    return ends
