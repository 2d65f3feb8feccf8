"""Building and loading models: configuration, weights, dropout, depth."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoModel
from transformers.initialization import no_init_weights

from embedexp.config.errors import UserError

from . import attention
from .families import Family, family_of
from .quiet import quiet
from .source import CONFIG, resolve
from .tokenizers import load_tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from embedexp.config.schema.backbone import Backbone

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load(
    option: Backbone, device: str = "cpu"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase | None]:
    """See `embedexp.backbone.load`."""
    family = family_of(option.architecture)
    if device == "meta":
        with torch.device("meta"):
            return build(option, family), None
    model = build(option, family) if option.weights == "random" else pretrained(option, family)
    return model.to(device), load_tokenizer(option)


def skeleton(option: Backbone) -> PreTrainedModel:
    """The model with the right shapes and arbitrary weights, to be filled from a state dict."""
    with no_init_weights():
        return build(option, family_of(option.architecture))


def build(option: Backbone, family: Family) -> PreTrainedModel:
    """A model with random weights, drawn from torch's global generator."""
    configuration = AutoConfig.for_model(**option.architecture)
    adjust(configuration, option, family)
    with quiet():
        model = AutoModel.from_config(
            configuration,
            dtype=DTYPES[option.dtype],
            attn_implementation=attention.NAME,
            **family.model_arguments,
        )
    return model


def pretrained(option: Backbone, family: Family) -> PreTrainedModel:
    """The source's model with its weights, from safetensors only.

    Raises:
        UserError: the source's configuration contradicts `architecture`, or lacks weights.
    """
    folder = resolve(option)
    agree(option.architecture, folder)
    configuration = AutoConfig.from_pretrained(
        folder, trust_remote_code=option.trust_remote_code, local_files_only=True
    )
    adjust(configuration, option, family)
    with quiet():
        model, report = AutoModel.from_pretrained(
            folder,
            config=configuration,
            dtype=DTYPES[option.dtype],
            attn_implementation=attention.NAME,
            trust_remote_code=option.trust_remote_code,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
            **family.model_arguments,
        )
    missing = sorted(report["missing_keys"])
    if missing:
        raise UserError(
            f"{option.source} lacks {len(missing)} of the model's parameters, {missing[0]} first",
            where=str(folder),
            hint="it is not a checkpoint of this architecture; name another backbone.source",
        )
    return model


def agree(architecture: Mapping[str, Any], folder: Path) -> None:
    """Check the experiment's architecture against the source's, on the values that both state.

    Raises:
        UserError: a value differs; names the first.
    """
    theirs = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    for key, value in architecture.items():
        if key in theirs and theirs[key] != value:
            raise UserError(
                f"backbone.architecture.{key} is {value}, the source says {theirs[key]}",
                where=str(folder / CONFIG),
                hint=f"set backbone.architecture.{key}={theirs[key]}, or name another source",
            )


def adjust(configuration: PretrainedConfig, option: Backbone, family: Family) -> None:
    """Put the option's depth and dropout into a transformers configuration, in the family's words.

    Raises:
        UserError: the family has no such dropout, or not so many layers.
    """
    rates = {"dropout": option.dropout, "attention_dropout": option.attention_dropout}
    for key, rate in rates.items():
        name = getattr(family, key)
        if name is not None:
            setattr(configuration, name, rate)
        elif rate:
            raise UserError(
                f"{family.model_type} has no {key.replace('_', ' ')}",
                where=f"backbone.{key}={rate}",
                hint=f"set backbone.{key}=0",
            )
    if option.layers is not None:
        if option.layers > configuration.num_hidden_layers:
            raise UserError(
                f"{option.name} has {configuration.num_hidden_layers} layers, not {option.layers}",
                where="backbone.layers",
                hint=f"at most {configuration.num_hidden_layers}, or null for all",
            )
        configuration.num_hidden_layers = option.layers
    configuration.use_cache = False
