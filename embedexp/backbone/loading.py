"""Building and loading models: configuration, weights, dropout, depth."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoModel
from transformers.initialization import no_init_weights

from embedexp.config.errors import UserError

from . import attention, lora, native_deepseek, quantization, weights
from .dropout import quicken
from .families import Family, deepseek, family_of
from .positions import convert, native
from .quiet import quiet
from .source import CONFIG, resolve
from .tokenizers import load_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from torch import nn
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from embedexp.config.schema.backbone import Backbone

native_deepseek.register()

if TYPE_CHECKING:
    Route = Callable[[PreTrainedModel], PreTrainedModel]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load(
    option: Backbone, device: str = "cpu", route: Route | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase | None]:
    """See `embedexp.backbone.load`."""
    if device == "meta":
        with torch.device("meta"):
            model = build(option)
        return (model if route is None else route(model)), None
    if option.weights == "random":
        model = build(option)
        model = model if route is None else route(model)
    else:
        model = pretrained(option, route)
    if option.lora is not None:
        lora.attach(option.lora, model, family_of(native(option)))
    quicken(model)
    return model.to(device), load_tokenizer(option)


def skeleton(option: Backbone) -> PreTrainedModel:
    """The model with the right shapes and arbitrary weights, to be filled from a state dict."""
    with no_init_weights():
        return build(option)


def build(option: Backbone) -> PreTrainedModel:
    """A model with random weights, drawn from torch's global generator."""
    architecture = native(option)
    family = family_of(architecture)
    configuration = AutoConfig.for_model(**architecture)
    adjust(configuration, option, family)
    with quiet():
        model = AutoModel.from_config(
            configuration,
            dtype=DTYPES[option.dtype],
            attn_implementation=attention.NAMES[option.attention],
            **family.model_arguments,
        )
    return ready(model, family)


def pretrained(option: Backbone, route: Route | None = None) -> PreTrainedModel:
    """The source's model with its weights, from safetensors only, positions converted if asked for.

    `route` makes experts of the dense model's MLPs. Where the source has experts already, it does
    so before weights are read, so that they are the source's. Weights are rounded, if asked for,
    when they are the source's and nothing new has been drawn yet.

    Raises:
        UserError: the source's configuration contradicts `architecture`, or lacks weights.
    """
    if option.quantization == "nf4":
        quantization.rounding()  # what is missing is told before anything is read
    folder = resolve(option)
    stated = weights.architecture_in(folder)
    experts = stated is not None and weights.experts_of(folder) is not None
    if stated is not None:
        agree(native(option), stated, folder, option.layers)
        model = skeleton(option)
        if route is not None and experts:
            model = route(model)
        model = weights.fill(model, weights.state_in(folder), folder)
    else:
        model = of_transformers(option, folder)
    if option.quantization == "nf4":
        quantization.round_weights(model, family_of(native(option)))
    return model if route is None or experts else route(model)


def of_transformers(option: Backbone, folder: Path) -> PreTrainedModel:
    """The model in a folder that transformers reads, positions converted if asked for.

    Raises:
        UserError: its configuration contradicts `architecture`, or it lacks weights.
    """
    theirs = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    architecture = native(option)
    if theirs.get("model_type") == architecture["model_type"]:
        agree(architecture, theirs, folder, option.layers)
        return read(option, architecture, folder, theirs)
    agree(option.architecture, theirs, folder, option.layers)
    if option.positions is None:
        return read(option, architecture, folder, theirs)
    absolute = option.model_copy(update={"positions": None})
    state = convert(read(absolute, native(absolute), folder, theirs).state_dict())
    model = skeleton(option)
    model.load_state_dict(state)
    return model.eval()


def read(
    option: Backbone, architecture: Mapping[str, Any], folder: Path, theirs: Mapping[str, Any]
) -> PreTrainedModel:
    """The model in a folder, whose configuration is `theirs`.

    Raises:
        UserError: it lacks weights.
    """
    family = family_of(architecture)
    if theirs.get("model_type") == deepseek.PUBLISHED:
        configuration = AutoConfig.for_model(**deepseek.translate(theirs))
    else:
        configuration = AutoConfig.from_pretrained(
            folder, trust_remote_code=option.trust_remote_code, local_files_only=True
        )
    adjust(configuration, option, family)
    with quiet():
        model, report = AutoModel.from_pretrained(
            folder,
            config=configuration,
            dtype=DTYPES[option.dtype],
            attn_implementation=attention.NAMES[option.attention],
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
    return ready(model, family)


def ready(model: PreTrainedModel, family: Family) -> PreTrainedModel:
    """Make a model count positions as packed batches do: from 0 in each sequence."""
    first = family.first_position(model.config.to_dict())
    if first:
        model.register_forward_pre_hook(partial(shift_positions, first), with_kwargs=True)
    return model


def shift_positions(
    first: int, model: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Let the positions of a packed batch start where the family's do; padded ones do already."""
    if keywords.get("packed_layout") is not None:
        keywords = {**keywords, "position_ids": keywords["position_ids"] + first}
    return arguments, keywords


def agree(
    architecture: Mapping[str, Any],
    theirs: Mapping[str, Any],
    folder: Path,
    layers: int | None = None,
) -> None:
    """Check the experiment's architecture against the source's, on the values that both state.

    A source that has been cut to the first `layers` already, by an earlier run, has those alone.

    Raises:
        UserError: a value differs; names the first.
    """
    for key, value in architecture.items():
        if key.endswith("layer_types") and value and key in theirs:
            value = value[: len(theirs[key])]  # an export may keep the first layers only
        if key == "num_hidden_layers" and layers is not None:
            value = min(value, max(layers, theirs.get(key, value)))
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
        for key in ("layer_types", "mlp_layer_types"):
            if kinds := getattr(configuration, key, None):
                setattr(configuration, key, kinds[: option.layers])
    configuration.use_cache = False
