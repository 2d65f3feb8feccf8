"""Checks of the embedding: prompts, pooling, and what a mixture of experts must have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .language_checks import LANGUAGE
from .problems import Problem, Rule, rule, warning
from .schema.embedding import PLACEHOLDER
from .trained import folder_of, options_of

if TYPE_CHECKING:
    from .experiment import Config

NUMBERS_OF_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""What architectures call it; one that has none of these keys has no routers."""


@rule("embedding")
def templates_hold_one_text(config: Config) -> Problem | None:
    """A prompt is a prefix, or a template in which the text stands once."""
    for task, prompt in config.embedding.prompts.model_dump().items():
        where = f"embedding.prompts.{task}"
        others = [name for name in re.findall(r"\{\w*\}", prompt) if name != PLACEHOLDER]
        if others:
            return Problem(
                f"{where} has the placeholder {others[0]}, which nothing fills",
                f"the text stands at {PLACEHOLDER}; write all else out",
            )
        if prompt.count(PLACEHOLDER) > 1:
            return Problem(
                f"{where} has {PLACEHOLDER} {prompt.count(PLACEHOLDER)} times",
                f"keep one {PLACEHOLDER}, or none to put the prompt before the text",
            )
    return None


@rule("embedding")
def an_instruction_can_be_excluded(config: Config) -> Problem | None:
    """Leaving out the instruction's tokens takes an instruction."""
    embedding = config.embedding
    excluded = getattr(embedding, "exclude_instruction", False)
    if not excluded or any(embedding.prompts.model_dump().values()):
        return None
    return warning(
        "embedding.exclude_instruction=true has no effect without prompts",
        "add +prompts=nomic, or set embedding.exclude_instruction=false",
    )


@rule("embedding", "mask_schedule")
def the_first_token_sees_the_text(config: Config) -> Problem | None:
    """The first token of a causal model sees nothing but itself."""
    if config.embedding.name != "cls" or config.mask_schedule.name != "causal":
        return None
    return Problem(
        "embedding=cls takes the first token, which sees only itself with mask_schedule=causal",
        "use embedding=last_token, or mask_schedule=bidirectional",
    )


@rule("backbone", "routing", "embedding")
def routing_weights_have_routers(config: Config) -> Problem | None:
    """Routing weights come from routers over tokens."""
    embedding, architecture = config.embedding, config.backbone.architecture
    if embedding.name != "moee" or embedding.source == "hidden_state":
        return None
    native = any(architecture.get(key) for key in NUMBERS_OF_EXPERTS)
    if native or config.routing.name not in ("dense", "mote"):
        return None
    return Problem(
        f"embedding=moee takes routing weights, but {config.backbone.name} with "
        f"routing={config.routing.name} has no routers",
        "use routing=moe, a backbone with experts, or embedding=last_token",
    )


@rule("embedding")
def parts_of_the_vector_are_there(config: Config) -> Problem | None:
    """Settings of a part that the vector does not have would do nothing."""
    embedding = config.embedding
    if embedding.name != "moee":
        return None
    idle: dict[str, tuple[object, object]] = {}
    if embedding.source in ("hidden_state", "routing_weights"):
        idle["alpha"] = (embedding.alpha, 1.0)
    if embedding.source == "hidden_state":
        idle["router"] = (embedding.router, "probabilities")
        idle["router_pooling"] = (embedding.router_pooling, "last_token")
    for key, (value, neutral) in idle.items():
        if value != neutral:
            return Problem(
                f"embedding.{key}={value} has no effect with embedding.source={embedding.source}",
                f"set embedding.{key}={neutral}, or embedding.source=concat",
            )
    return None


@rule("embedding")
def vectors_stand_alone(config: Config) -> Problem | None:
    """Standardising over a batch makes a text's vector depend on the others."""
    if getattr(config.embedding, "standardize", None) != "batch":
        return None
    return warning(
        "with embedding.standardize=batch, a vector depends on the texts that are encoded with it",
        "set embedding.standardize=vector",
    )


@rule("embedding")
def layers_can_be_watched(config: Config) -> Problem | None:
    """What each block gives is read by hooks, for whose sake it would be compiled anew."""
    if getattr(config.embedding, "layers", "last") == "last" or not config.compute.compile:
        return None
    return Problem(
        "embedding.layers=all reads what each block gives, which compute.compile=true hides",
        "set compute.compile=false",
    )


@rule("embedding", "training")
def training_reads_texts_as_they_are(config: Config) -> Problem | None:
    """Texts are cleaned where they are encoded."""
    if not getattr(config.embedding, "clean", False):
        return None
    return Problem(
        f"embedding.clean=true is not done to the texts of stage={config.stage.name}",
        "set embedding.clean=false",
    )


@rule()
def a_projection_learns(config: Config) -> Problem | None:
    """Language modelling has no vectors: a layer behind them would stay as it was drawn."""
    width, stage = getattr(config.embedding, "projection", None), config.stage
    if width is None or _of_the_source(config) == width:
        return None
    if stage.name in LANGUAGE:
        return Problem(
            f"embedding.projection={width} has no effect in stage={stage.name}, "
            "which trains no vectors",
            "set embedding.projection=null, and name it in the stage that follows",
        )
    if "embedding" in stage.uses and "training" not in stage.uses:
        return warning(
            f"embedding.projection={width} is drawn at random and not trained, unless "
            "backbone.source ends in such a layer",
            "set embedding.projection=null",
        )
    return None


def _of_the_source(config: Config) -> int | None:
    """The width of the linear layer that a source of ours ends in."""
    source = config.backbone.source
    if config.backbone.weights != "pretrained" or not source:
        return None
    embedding = (options_of(folder_of(source)) or {}).get("embedding") or {}
    found: int | None = embedding.get("projection")
    return found


RULES: tuple[Rule, ...] = (
    templates_hold_one_text,
    an_instruction_can_be_excluded,
    the_first_token_sees_the_text,
    routing_weights_have_routers,
    parts_of_the_vector_are_there,
    vectors_stand_alone,
    layers_can_be_watched,
    training_reads_texts_as_they_are,
    a_projection_learns,
)
