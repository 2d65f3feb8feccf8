"""Making transformers' own auto classes and weight converters know DeepSeekMoE's blocks."""

from __future__ import annotations

from transformers import AutoModel
from transformers.conversion_mapping import (
    get_checkpoint_conversion_mapping,
    register_checkpoint_conversion_mapping,
)
from transformers.models.deepseek_ocr2.configuration_deepseek_ocr2 import DeepseekOcr2TextConfig
from transformers.models.deepseek_ocr2.modeling_deepseek_ocr2 import DeepseekOcr2TextModel


def register() -> None:
    """Let `AutoModel` build the text model alone, and read checkpoints with one file per expert.

    Published checkpoints name experts as Qwen MoE's do, so its conversion (stacking them) serves.
    """
    AutoModel.register(DeepseekOcr2TextConfig, DeepseekOcr2TextModel, exist_ok=True)
    register_checkpoint_conversion_mapping(
        DeepseekOcr2TextConfig.model_type,
        get_checkpoint_conversion_mapping("qwen2_moe"),
        overwrite=True,
    )
