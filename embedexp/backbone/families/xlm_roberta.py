"""XLM-RoBERTa: blocks as in BERT, absolute positions counted from behind the padding index."""

from __future__ import annotations

from . import bert
from .family import Family

FAMILY = Family(
    model_type="xlm-roberta",
    causal=False,
    blocks=bert.FAMILY.blocks,
    mlp=bert.FAMILY.mlp,
    norms=bert.FAMILY.norms,
    dropout=bert.FAMILY.dropout,
    attention_dropout=bert.FAMILY.attention_dropout,
    max_positions=bert.FAMILY.max_positions,
    count=bert.count,
    prepare=bert.prepare,
    model_arguments=bert.FAMILY.model_arguments,
    positions_after_padding=True,
)
