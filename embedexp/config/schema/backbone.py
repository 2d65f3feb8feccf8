"""Backbones: a Hugging Face architecture, its weights and its tokenizer."""

from __future__ import annotations

from typing import Any, Literal

from .base import Option, field


class Package(Option):
    """A Python package that carries a model's files, for machines without a model hub."""

    name: str = field("distribution name on the package index")
    version: str = field("pinned version")
    sha256: str = field("checksum of its model.safetensors", pattern="^[0-9a-f]{64}$")


class Rotary(Option):
    """Rotary positions in the place of a table of absolute ones."""

    base: float = field("wavelengths grow from 2 pi to 2 pi times this", gt=1)
    max_length: int = field("longest text", unit="tokens", ge=3)


class LoRA(Option):
    """Low-rank adapters, trained in the place of the weights and merged into them on export."""

    rank: int = field("columns of the two factors of each update", ge=1)
    alpha: float = field("updates are scaled by alpha / rank", gt=0)
    dropout: float = field("dropout before the adapters in training", ge=0, lt=1)
    targets: list[str] = field("linear layers, by the end of their names, or all", min_length=1)


class Backbone(Option):
    """The transformer that turns tokens into hidden states."""

    name: str = field("label of this backbone")
    source: str | None = field("hub name or local folder; null builds from the architecture")
    revision: str | None = field("branch, tag or commit on the hub")
    weights: Literal["pretrained", "random"] = field("where the weights come from")
    package: Package | None = field("a package that carries the same files")
    tokenizer: str | None = field("hub name, local folder, builtin, or null for the source's")
    layers: int | None = field("keep only the first so many layers", unit="layers", ge=1)
    positions: Rotary | None = field("null keeps the model's own, else rotary ones replace them")
    lora: LoRA | None = field("null trains all weights, else low-rank adapters only")
    dropout: float = field("hidden dropout in training", ge=0, lt=1)
    attention_dropout: float = field("dropout on attention weights in training", ge=0, lt=1)
    attention: Literal["sdpa", "eager"] = field("implementation of attention", identity=False)
    dtype: Literal["float32", "bfloat16"] = field("type of the weights")
    quantization: Literal["none", "nf4"] = field(
        "nf4 rounds the blocks' pretrained matrices as 4-bit loading does, but stores them in "
        "dtype: its numbers without its savings of memory",
        without="none",
    )
    trust_remote_code: bool = field("execute code that the source ships")
    architecture: dict[str, Any] = field("transformers configuration values, model_type among them")
