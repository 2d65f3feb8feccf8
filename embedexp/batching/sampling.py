"""How often each dataset is drawn: its own weight, and its size to the power of a temperature."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.config.schema.batching import Sampling

    from .plan import Source


def weighted(sources: Sequence[Source], sampling: Sampling) -> list[Source]:
    """The sources with the weights that `sampling` gives them.

    By dataset, a weight w becomes w times size ** temperature. By language, the datasets of a
    language of n examples share the weight n ** temperature (Conneau et al. 2020), in proportion
    to w times size. A dataset of weight 0 is never drawn, and its examples count nowhere. Without
    a temperature the weights stay as they are.

    Raises:
        UserError: languages count, and no source has one.
    """
    if sampling.temperature is None:
        return list(sources)
    if sampling.by == "language" and not any(source.language for source in sources):
        raise UserError(
            "batching.sampling.by=language, but no dataset says which language it is in",
            hint="give the data a language, or use batching.sampling.by=dataset",
        )
    if sampling.by == "dataset":
        return [
            replace(source, weight=source.weight * source.size**sampling.temperature)
            for source in sources
        ]
    languages: dict[str, list[Source]] = {}
    for source in sources:
        if source.weight > 0:
            languages.setdefault(source.language, []).append(source)
    scales = {
        language: sum(member.size for member in members) ** sampling.temperature
        / sum(member.size * member.weight for member in members)
        for language, members in languages.items()
    }
    return [
        replace(source, weight=source.weight * source.size * scales.get(source.language, 0.0))
        for source in sources
    ]
