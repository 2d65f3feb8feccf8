"""Apply the upper bounds of `scale` to a composed experiment."""

from __future__ import annotations

import copy
from typing import Any, TypeGuard

# Dotted key of a bounded value -> key of its bound in the group scale.
BOUNDS: dict[str, str] = {
    "training.steps": "steps",
    "batching.size": "batch_size",
    "embedding.query_tokens": "tokens",
    "embedding.document_tokens": "tokens",
    "backbone.layers": "layers",
    "stage.block_tokens": "tokens",
    "stage.input_tokens": "tokens",
    "stage.output_tokens": "tokens",
    "stage.max_tokens": "tokens",
    "stage.max_steps": "steps",
    "stage.max_train_examples": "examples",
    "stage.max_examples": "evaluation_examples",
    "stage.examples": "examples",
    "data.max_examples": "examples",
    "evaluation.max_queries": "evaluation_queries",
    "evaluation.max_documents": "evaluation_documents",
    "evaluation.max_examples": "evaluation_examples",
}


def apply(experiment: dict[str, Any]) -> dict[str, Any]:
    """A copy of a composed experiment, none of its sizes above the bounds of `scale`.

    Null, where it is allowed, means all, and so becomes the bound. Warm-up keeps its share of the
    steps. Values of the wrong type stay as they are: the schema reports them.
    """
    scale = experiment.get("scale")
    if not isinstance(scale, dict):
        return experiment
    scaled = copy.deepcopy(experiment)
    for dotted, bound in BOUNDS.items():
        group, key = dotted.split(".")
        limit, section = scale.get(bound), scaled.get(group)
        if not _whole(limit) or not isinstance(section, dict) or key not in section:
            continue
        if _whole(section[key]):
            section[key] = min(section[key], limit)
        elif section[key] is None and not _shallow(dotted, section, limit):
            section[key] = limit
    _bound_sources(scaled.get("data"), scale.get(BOUNDS["data.max_examples"]))
    _bound_sub_batches(scaled.get("batching"), scale.get(BOUNDS["batching.size"]))
    _keep_warmup_share(scaled, experiment)
    return scaled


def _bound_sources(data: Any, limit: Any) -> None:
    """Bound the sources of a mixture, each of them and what they are asked for."""
    sources = data.get("sources") if isinstance(data, dict) else None
    if not isinstance(sources, dict) or not _whole(limit):
        return
    counted = 0
    for source in sources.values():
        if not isinstance(source, dict):
            continue
        inner = source.get("data")
        if isinstance(inner, dict) and "max_examples" in inner:
            inner["max_examples"] = _least(inner["max_examples"], limit)
        if _whole(source.get("count")):
            source["count"] = _least(source["count"], limit)
            counted += source["count"]
    if _whole(data.get("total")):
        data["total"] = _least(data["total"], limit + counted)


def _least(value: Any, limit: int) -> Any:
    if value is None:
        return limit
    return min(value, limit) if _whole(value) else value


def _bound_sub_batches(batching: Any, limit: Any) -> None:
    """Make the sub-batches of the tasks smaller in proportion, so that a step is within bounds.

    None becomes smaller than 2: an example alone has nothing to be compared with.
    """
    sizes = batching.get("sizes") if isinstance(batching, dict) else None
    if not isinstance(sizes, dict) or not _whole(limit):
        return
    total = sum(size for size in sizes.values() if _whole(size))
    for task, size in sizes.items():
        if _whole(size) and total > limit:
            sizes[task] = min(size, max(2, size * limit // total))


def _shallow(dotted: str, section: dict[str, Any], limit: int) -> bool:
    """Whether a backbone that keeps all its layers is within the bound anyway."""
    if dotted != "backbone.layers":
        return False
    architecture = section.get("architecture")
    depth = architecture.get("num_hidden_layers") if isinstance(architecture, dict) else None
    return _whole(depth) and depth <= limit


def _keep_warmup_share(scaled: dict[str, Any], experiment: dict[str, Any]) -> None:
    try:
        steps, bounded = experiment["training"]["steps"], scaled["training"]["steps"]
        warmup = experiment["optimizer"]["warmup_steps"]
    except (KeyError, TypeError):
        return
    if _whole(steps) and _whole(bounded) and _whole(warmup) and 0 < bounded < steps:
        scaled["optimizer"]["warmup_steps"] = round(warmup * bounded / steps)


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
