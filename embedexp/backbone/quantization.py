"""Pretrained weights rounded to what 4-bit loading keeps of them, in the model's own type.

The numbers are those of bitsandbytes' 4-bit layers; the memory is not saved. Rounded are the
matrices that transformers 4 had as linear layers of the blocks, each by itself and row by row:
transformers 5 stacks those of experts, which its own 4-bit loading passes over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from embedexp.config.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor
    from transformers import PreTrainedModel

    from .families import Family

BLOCK = 64
"""Weights that share a scale."""


def rounding() -> Callable[[Tensor], Tensor]:
    """From a matrix to the nearest that NF4 can hold: `[m, n]` to `[m, n]`, of the same type.

    Each block of `BLOCK` is scaled by its largest magnitude, and the scales, less their mean, are
    rounded to 8 bits in blocks of 256 (QLoRA, arXiv 2305.14314, double quantisation).

    Raises:
        UserError: bitsandbytes is not installed.
    """
    try:
        from bitsandbytes.functional import dequantize_4bit, quantize_4bit
    except ImportError:
        raise UserError(
            "backbone.quantization=nf4 needs bitsandbytes, which is not installed",
            hint="pip install 'embedexp[quantization]', or set backbone.quantization=none",
        ) from None

    def rounded(matrix: Tensor) -> Tensor:
        # One row, because blocks run on over the ends of rows and the kernel wants even rows.
        codes, scales = quantize_4bit(
            matrix.reshape(1, -1), blocksize=BLOCK, compress_statistics=True, quant_type="nf4"
        )
        found: Tensor = dequantize_4bit(codes, scales)
        return found.view_as(matrix)

    return rounded


@torch.no_grad()
def round_weights(model: PreTrainedModel, family: Family) -> None:
    """Round the matrices of a model's blocks to NF4, in place.

    Raises:
        UserError: bitsandbytes is not installed.
    """
    rounded = rounding()
    for matrix in matrices(model.get_submodule(family.blocks), family):
        matrix.copy_(rounded(matrix))


def matrices(blocks: nn.Module, family: Family) -> Iterator[Tensor]:
    """Each matrix that is rounded by itself, `[out, in]`: views into the weights of the blocks.

    Embeddings and heads are no part of the blocks, and norms and biases no matrices.
    """
    for module in blocks.modules():
        if isinstance(module, nn.Linear):
            yield module.weight.detach()
        experts = getattr(module, "experts", None)
        stacked = getattr(experts, "gate_up_proj", None)  # [experts, gate and up, in]
        if experts is None or stacked is None:
            continue
        for both in stacked.detach():
            yield from both.chunk(2)
        yield from experts.down_proj.detach()
        if family.linear_router:
            yield module.get_parameter("gate.weight").detach()
