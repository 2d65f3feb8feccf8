"""Floating-point operations of the model itself, so that throughput compares between machines."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embedexp.backbone.counts import parameter_counts
from embedexp.backbone.positions import native

if TYPE_CHECKING:
    import torch

    from embedexp.config import Config

FORWARD_AND_BACKWARD = 3
"""A backward pass takes two products of matrices for each one of the forward pass."""

LANGUAGE = ("mlm", "causal_lm", "sft")


@dataclass(frozen=True)
class ModelFlops:
    """What one step asks of the model, by arithmetic.

    Each token meets `parameters` outside of tables, each a multiplication and an addition. A
    sequence of l tokens adds `per_pair` for each of its l² pairs of tokens, half of which a causal
    mask closes; each token that is predicted adds `per_prediction`. What is computed again, by a
    gradient cache or instead of keeping activations, is not counted, nor are tables read.
    """

    parameters: int
    per_pair: float
    per_prediction: float
    passes: float

    @classmethod
    def of(cls, config: Config) -> ModelFlops:
        """Of an experiment's model.

        Raises:
            UserError: the family is not supported, or the architecture lacks a value.
        """
        counts, architecture = parameter_counts(config), native(config.backbone)
        heads = architecture["num_attention_heads"]
        head = architecture.get("head_dim") or architecture["hidden_size"] // heads
        layers = config.backbone.layers or architecture["num_hidden_layers"]
        # Two products, of queries with keys and of weights with values, 2 operations each.
        attended = 0.5 if config.mask_schedule.name == "causal" else 1.0
        vocabulary = architecture["vocab_size"] * architecture["hidden_size"]
        return cls(
            counts["active"] - counts["embedding"],
            4.0 * heads * head * layers * attended,
            2.0 * vocabulary if config.loss.name in LANGUAGE else 0.0,
            # The gradients of weights that stay as they are need not be computed.
            FORWARD_AND_BACKWARD if config.backbone.lora is None else FORWARD_AND_BACKWARD - 1,
        )

    def of_batch(self, batch: Any) -> float:
        """Operations of a step on a global batch, forward and backward."""
        lengths = batch.layout.lengths.astype(float)
        forward = 2.0 * self.parameters * lengths.sum() + self.per_pair * (lengths**2).sum()
        predictions: int = getattr(batch, "predictions", 0)
        return float(self.passes * (forward + self.per_prediction * predictions))


def peak_flops(device: torch.device, *, bf16: bool) -> float | None:
    """The most operations a second that a GPU's maker promises, in bf16 or else in float32.

    None where that is not known.
    """
    if device.type != "cuda":
        return None
    import torch
    from lightning.fabric.utilities import throughput

    dtype = torch.bfloat16 if bf16 else torch.float32
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unknown device is no reason to worry anybody
        known: float | None = throughput.get_available_flops(device, dtype)
        if known is None and torch.cuda.get_device_name(device).lower().endswith("h200"):
            # Lightning expects a suffix that drivers do not report, and counts sparse matrices. Its
            # arithmetic is an H100's, with more memory beside.
            known = throughput._CUDA_FLOPS["h100 sxm"].get(dtype)
    return None if known is None else float(known)


def memory_gib(device: torch.device) -> float:
    """The peak so far, in GiB: of what torch allocated on a GPU, else of the process."""
    if device.type == "cuda":
        import torch

        return float(torch.cuda.max_memory_allocated(device)) / 2**30
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
