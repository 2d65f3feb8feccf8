"""Sections from metrics.jsonl: training curves, router load, hardness of negatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import charts
from .curves import Curve, curves, hardness, losses, optimisation, routing, terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .curves import Reader, Recorded
    from .svg import Chart

Part = tuple[str, str, "list[str]", "list[Chart]", "list[tuple[str, list[Chart]]]"]
"""Key, heading, words, charts, and what opens on demand."""
Told = Callable[[str], None]
_MAPS = 24


def parts(
    cells: Sequence[Recorded], before: Sequence[Recorded], told: Told = lambda _: None
) -> Iterator[Part]:
    """The sections for which runs have recorded something; `told` hears of every chart."""
    for key, heading, some in (
        ("training", "Training", cells),
        ("earlier", "Training of the runs that cells build on", before),
    ):
        shown = _charts(f"{key}-loss", some, losses, told, smooth=True)
        if shown:
            folded = [
                ("Terms of the loss", _charts(f"{key}-terms", some, terms, told, smooth=True)),
                (
                    "Gradient norm and learning rate",
                    _charts(f"{key}-more", some, optimisation, told),
                ),
            ]
            words = [
                "Exponentially smoothed; bands reach from the lowest to the highest seed. Losses "
                "can be compared only between cells with the same objective, temperature and "
                "number of negatives."
            ]
            yield key, heading, words, shown, [(name, made) for name, made in folded if made]
    everything = [*cells, *before]
    shown = _charts("router", everything, routing, told)
    if shown:
        maps = list(_maps(everything))
        words = ["Shares are means over routed layers; at balance every expert has an equal one."]
        if len(maps) == _MAPS:
            words.append(f"Maps of the load are shown for the first {_MAPS} cells.")
        folded = [("Load of each expert over the whole training", maps)] if maps else []
        yield "router", "Router load", words, shown, folded
    shown = _charts("negatives", everything, hardness, told)
    if shown:
        words = ["Of dynamic negatives, since the line of metrics before; not smoothed."]
        yield "negatives", "Hardness of negatives", words, shown, []


def _charts(
    prefix: str,
    some: Sequence[Recorded],
    reader: Reader,
    told: Told,
    *,
    smooth: bool = False,
) -> list[Chart]:
    """A chart for each quantity and facet, so many lines at a time, on a common scale."""
    found = curves(some, reader, smooth=smooth)
    by_quantity: dict[str, list[tuple[str, list[Curve]]]] = {}
    for (quantity, facet), lines in found.items():
        parts: dict[int, list[Curve]] = {}
        for line in lines:
            parts.setdefault(line.place // charts.TOGETHER, []).append(line)
        for position, part in enumerate(parts.values(), 1):
            which = f"part {position} of {len(parts)}" if len(parts) > 1 else ""
            name = ", ".join(text for text in (facet, which) if text)
            by_quantity.setdefault(quantity, []).append((name, part))
    made: list[Chart] = []
    for quantity, groups in by_quantity.items():
        limits = charts.limits([lines for _, lines in groups])
        for name, lines in groups:
            caption = f"{quantity} · {name}" if name else quantity
            told(caption)
            one = charts.curves(f"{prefix}-{len(made)}", caption, lines, limits)
            one.group = quantity
            made.append(one)
    return made


def _maps(some: Sequence[Recorded]) -> Iterator[Chart]:
    count = 0
    for one in some:
        load = next((found for rows in one.rows if (found := _load(rows)) is not None), None)
        if load is not None and count < _MAPS:
            yield charts.load(f"load-{count}", f"{one.line.full_name}, first seed", load)
            count += 1


def _load(rows: Sequence[Any]) -> list[list[float]] | None:
    """Layers' shares in the last line that has any; None where they are no rectangle of numbers."""
    for row in reversed(rows):
        router = row.get("router")
        found = router.get("load") if isinstance(router, dict) else None
        if not found:
            continue
        try:
            shares = [[float(share) for share in layer] for layer in found]
        except (TypeError, ValueError):
            return None
        return shares if shares[0] and len({len(layer) for layer in shares}) == 1 else None
    return None
