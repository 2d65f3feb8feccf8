"""How much memory training takes, by arithmetic: no torch, no model, no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .figures import figures
from .language_words import longest_example
from .model_checks import dimensions
from .resources import resources
from .schema.compute import Ddp, Fsdp
from .schema.merge import WhileTraining

if TYPE_CHECKING:
    from .experiment import Config

PADDING = 1.1
"""Slots of attention per real token: sequences of nearly one length are padded to the longest."""

STRIP = {True: 2**26, False: 2**23}
"""Bytes of the scores that the losses of embeddings hold at a time, on a GPU and on a CPU."""

VOCABULARY_SCORES = 2**26
"""Bytes of the scores over a vocabulary that exist at a time."""

_ROOT_MEAN_SQUARE = 3  # what such a norm keeps of each value, as transformers writes it out
_LAYER_NORM = 2  # likewise; a fused one


@dataclass(frozen=True)
class Memory:
    """Bytes at the peak of a training step, on one device: what holds them at that moment.

    `tokens` go through the model at once. Gradients grow while activations shrink, so that at the
    peak of a step in one chunk one of the two is nothing.
    """

    weights: float
    optimizer: float
    gradients: float
    gathered: float
    activations: float
    average: float
    tokens: int

    @property
    def total(self) -> float:
        """All of it."""
        held = self.weights + self.optimizer + self.average
        return held + self.gradients + self.gathered + self.activations

    def parts(self) -> str:
        """What holds how much, the empty parts left out."""
        named = {
            "weights": self.weights,
            "optimizer": self.optimizer,
            "average of the weights": self.average,
            "gradients": self.gradients,
            "gathered shards": self.gathered,
            f"activations of {self.tokens:,} tokens": self.activations,
        }
        return ", ".join(f"{name} {gib(size)}" for name, size in named.items() if size)


def gib(size: float) -> str:
    """Bytes in GiB; small amounts as a bound."""
    return f"{size / 2**30:.1f}" if size >= 0.05 * 2**30 else "under 0.1"


def longest_share(config: Config) -> int:
    """Tokens of a step that one process embeds at most, if all texts are as long as they may be."""
    step = figures(config).most_tokens // config.training.steps
    return -(-step // resources(config.compute).world)


def longest_sequence(config: Config) -> int:
    """Tokens of the longest text or block: never less than this goes through the model at once."""
    texts = max(config.embedding.query_tokens, config.embedding.document_tokens)
    return longest_example(config) or texts


def estimate(
    config: Config,
    *,
    share: int | None = None,
    chunk_tokens: int | None = None,
    checkpointing: bool | None = None,
    shards: int | None = None,
) -> Memory:
    """The peak of a training step on one device.

    `share` is how many tokens of a step the process embeds, by default the longest share. The
    others replace the config's values: tokens of a chunk, recomputation, and over how many devices
    FSDP spreads the weights.
    """
    share = longest_share(config) if share is None else share
    chunk = config.training.chunk_tokens if chunk_tokens is None else chunk_tokens
    tokens = min(share, max(chunk, longest_sequence(config))) if chunk else share
    model = _Model(config)
    spread = shards or _shards(config)
    weights, trained = model.bytes, model.trained_bytes

    table = model.vocabulary * model.width * 4.0  # the gradient of a table is as large as the table
    head = model.head_loss(tokens)
    checkpointing = (
        config.compute.activation_checkpointing if checkpointing is None else checkpointing
    )
    activations = model.activations(tokens, checkpointing) + head
    if config.loss.name not in ("mlm", "causal_lm", "sft"):
        activations += model.loss(share)
    late = trained / spread  # all gradients, when the activations are gone
    if chunk and share > chunk:  # gradients of earlier chunks wait, and a table gets another one
        gradients, activations = late, max(activations, table if trained == weights else 0.0)
    elif activations >= late:
        gradients = 0.0
    else:
        gradients, activations = late, 0.0
    if isinstance(config.compute, Ddp):  # buckets in which gradients travel, beside the gradients
        gradients += trained
    gathered = 0.0
    if spread > 1:  # the outer unit stays whole; of blocks, one computes while the next one comes
        gathered = model.outer_bytes + 4 * model.largest_block_bytes
    average = model.trained_wide_bytes / spread if isinstance(config.merge, WhileTraining) else 0.0
    return Memory(
        weights=weights / spread,
        optimizer=2 * trained / spread,
        gradients=gradients,
        gathered=gathered,
        activations=activations,
        average=average,
        tokens=int(tokens),
    )


def _shards(config: Config) -> int:
    compute = config.compute
    if not isinstance(compute, Fsdp):
        return 1
    return compute.devices * (1 if compute.sharding == "hybrid" else compute.nodes)


class _Model:
    """The sizes that matter, of a config's model."""

    def __init__(self, config: Config) -> None:
        from embedexp.backbone.counts import parameter_counts, routed_layers
        from embedexp.backbone.families import family_of
        from embedexp.backbone.positions import native

        self.config = config
        architecture: dict[str, Any] = native(config.backbone)
        self.architecture, self.family = architecture, family_of(architecture)
        counts, sizes = self.family.count(architecture), parameter_counts(config)
        self.layers: int = config.backbone.layers or architecture["num_hidden_layers"]
        self.width: int = architecture["hidden_size"]
        self.vocabulary: int = architecture["vocab_size"]
        self.size = 2 if config.backbone.dtype == "bfloat16" else 4
        self.mixed = config.training.precision == "bf16_mixed"
        self.gpu = resources(config.compute).gpu

        routing: Any = config.routing
        placed = routed_layers(getattr(routing, "placement", []), self.layers)
        self.routed = set(placed)
        own = [counts.of(layer) for layer in range(self.layers)]
        copies = getattr(routing, "num_experts", None)
        if routing.name == "mote":
            copies = 1 + max(routing.experts.values())
        blocks = [
            block.attention + block.norms + block.mlp * (copies or 1 if i in self.routed else 1)
            for i, block in enumerate(own)
        ]
        self.block_matrices = sum(blocks)
        self.largest_block_bytes = max(blocks) * self.size
        self.outer_bytes = (counts.embedding + counts.outside) * self.size
        self.bytes = float((sizes["total"] + self._head_parameters()) * self.size)
        self.trained_bytes = self.bytes
        self.trained_wide_bytes = self.bytes * 4 / self.size  # in float32
        if config.backbone.lora is not None:
            self.trained_bytes = float(self._adapters(config.backbone.lora) * 4)
            self.trained_wide_bytes = self.trained_bytes
            self.bytes += self.trained_bytes

    def _head_parameters(self) -> int:
        """A language model's head, beside the table that it shares with the model."""
        if self.config.loss.name not in ("mlm", "causal_lm", "sft"):
            return 0
        tied = self.architecture.get("tie_word_embeddings", not self.family.causal)
        matrix = 0 if tied else self.vocabulary * self.width
        transform = 0 if self.family.causal else self.width * (self.width + 3) + self.vocabulary
        return int(matrix + transform)

    def _adapters(self, lora: Any) -> int:
        """Parameters of low-rank adapters: two factors beside each matrix."""
        attention, inner = self._attention_width(), self._inner(False)
        matrices = {
            "attention": 4 * (self.width + attention),
            "mlp": (3 if self._gated() else 2) * (self.width + inner),
        }
        whole = "all" in lora.targets
        part = 1.0 if whole else min(1.0, len(lora.targets) / (7 if self._gated() else 6))
        return int(self.layers * lora.rank * sum(matrices.values()) * part)

    def _attention_width(self) -> int:
        heads = self.architecture["num_attention_heads"]
        head = self.architecture.get("head_dim") or self.width // heads
        return int(heads) * int(head)

    def _gated(self) -> bool:
        return self.family.causal or self.family.model_type in ("nomic_bert", "modernbert")

    def _inner(self, routed: bool) -> float:
        """Width of the MLP that one token meets, over all the experts that it meets."""
        architecture = self.architecture
        inner: float = architecture["intermediate_size"]
        if self.family.own_experts:
            one = architecture.get("moe_intermediate_size", inner)
            shared = architecture.get("shared_expert_intermediate_size", 0)
            shared += architecture.get("n_shared_experts", 0) * one
            inner = architecture["num_experts_per_tok"] * one + shared
        return inner * (self._met() if routed else 1)

    def _met(self) -> float:
        """Experts that a token meets in a routed layer."""
        routing: Any = self.config.routing
        return float(getattr(routing, "capacity", getattr(routing, "top_k", 1)))

    def _layer(self, tokens: float, routed: bool) -> float:
        """Bytes that one block keeps for its backward pass."""
        width, attention, inner = self.width, self._attention_width(), self._inner(routed)
        decoder = self.family.causal
        keeps = _ROOT_MEAN_SQUARE if decoder else _LAYER_NORM
        slots = PADDING if longest_example(self.config) is None else 1.0
        passes = 4 if self._gated() else 2  # gate, its activation, up and their product
        extra = (2 * self._met() * width + 2 * width) if routed else 0.0
        masks = 2 * width if self.config.backbone.dropout and not decoder else 0
        if self.mixed:
            # Norms are in float32; each matrix has an own bfloat16 copy of what it reads.
            copies = 3 + (2 if self._gated() else 1)
            norms = 2 * (keeps - 1) * 4 * width + copies * 2 * width
            heads = 4 * attention * slots * (2 if self.gpu else 4) + 2 * attention
            kept = norms + heads + 2 * passes * inner + 2 * extra
        else:
            wide = 2 * 4 * width if decoder and self.size == 2 else 0  # such norms are in float32
            slow = 4 if not self.gpu else self.size  # so is attention on a CPU
            kept = wide + slow * 4 * attention * slots
            kept += self.size * (2 * keeps * width + attention + passes * inner + extra)
        return tokens * (kept + masks + self._scores())

    def _scores(self) -> float:
        """Bytes of attention weights per token, where they exist as a whole."""
        backbone = self.config.backbone
        written = backbone.attention == "eager"
        if not written and (self.gpu or not backbone.attention_dropout):
            return 0.0
        heads, length = self.architecture["num_attention_heads"], longest_sequence(self.config)
        kept = 2 * self.size + (1 if backbone.attention_dropout else 0)  # weights twice, a mask
        return float(heads * length * kept)

    def activations(self, tokens: float, checkpointing: bool) -> float:
        """Bytes that a forward pass over so many tokens keeps, and its backward pass adds at once.

        With checkpointing, each block keeps what goes into it, and one block at a time the rest.
        """
        blocks = [self._layer(tokens, layer in self.routed) for layer in range(self.layers)]
        stream = tokens * self.width * (4 if self.mixed else self.size)
        whole = max(blocks) + self.layers * stream if checkpointing else sum(blocks)
        casts = 2.0 * self.block_matrices if self.mixed else 0.0  # of weights, kept for backward
        if checkpointing:
            casts /= self.layers
        ends = 3 * stream  # the embedding layer or the last norm, and pooling
        backward = tokens * 4 * (self.width + 2 * self._inner(bool(self.routed)))
        return whole + casts + ends + backward

    def loss(self, share: int) -> float:
        """Bytes of the vectors of a step with their gradients, and of a strip of scores."""
        config = self.config
        sequences = config.batching.size * (2 + getattr(config.negatives, "count", 0))
        width = dimensions(config) or self.width
        strip = min(STRIP[self.gpu], config.batching.size * sequences * 4)
        return 4.0 * sequences * width * 4 + strip

    def head_loss(self, tokens: float) -> float:
        """Bytes of a language model's head: its features, a table's gradient, some scores."""
        loss: Any = self.config.loss
        if loss.name not in ("mlm", "causal_lm", "sft"):
            return 0.0
        predicted = tokens * getattr(loss, "probability", 1.0)
        features = predicted * self.width * 4 * (2 if self.family.causal else 6)
        scores = 2 * min(VOCABULARY_SCORES, predicted * self.vocabulary * 4)
        table = self.vocabulary * self.width * 4.0
        return float(features + max(scores + table, 2 * table))
