"""A page of tables below a picture, without scripts; every text is shown as it is."""

from __future__ import annotations

import html
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from embedexp.drawing import drawn
from embedexp.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

LONGEST = 400  # characters of a text that are shown
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; margin: 2rem auto; max-width: 78rem;
  padding: 0 1rem; }
h1 { font-size: 1.35rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
img { max-width: 100%; } p { max-width: 46rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid #ddd; overflow-wrap: anywhere; }
th { font-weight: 600; border-bottom-color: #888; white-space: nowrap; }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
"""


class Section(NamedTuple):
    """A heading, a table as HTML, and words between them."""

    heading: str
    content: str
    words: str = ""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as HTML; cells are plain text, those that are figures stand right."""
    if not rows:
        return "<p>None.</p>"
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>\n{body}</table></div>'


def _cell(text: str) -> str:
    figures = text.replace(",", "").removesuffix("%").replace(".", "", 1).lstrip("-+").isdigit()
    short = text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
    return f'<td class="number">{short}</td>' if figures else f"<td>{html.escape(short)}</td>"


def write_page(path: Path, title: str, picture: str, sections: Sequence[Section]) -> None:
    """Write the page; `picture` is a file beside it."""
    name = html.escape(title)
    parts = [
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>',
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>',
        f'<h1>{name}</h1>\n<img src="{html.escape(picture)}" alt="Distributions">',
    ]
    for section in sections:
        words = f"<p>{html.escape(section.words)}</p>" if section.words else ""
        parts.append(f"<h2>{html.escape(section.heading)}</h2>\n{words}{section.content}")
    write_atomically(path, "\n".join([*parts, "</body></html>\n"]))


@contextmanager
def figure(path: Path, title: str, rows: int, columns: int) -> Iterator[Sequence[Sequence[Axes]]]:
    """Axes `[rows][columns]` to draw into; the PNG is written when they are left."""
    with drawn(path, (4.4 * columns, 0.6 + 3.1 * rows), title) as figure_:
        yield [list(row) for row in figure_.subplots(rows, columns, squeeze=False)]


def histogram(axes: Axes, series: Mapping[str, tuple[Sequence[float], str]]) -> None:
    """Histograms over common bins, each as shares of its own values."""
    everything = np.concatenate([np.asarray(values, float) for values, _ in series.values()])
    everything = everything[np.isfinite(everything)]
    if not len(everything):
        return
    low, high = float(everything.min()), float(everything.max())
    edges = np.linspace(low, high if high > low else low + 1e-6, 51)
    for label, (values, colour) in series.items():
        found = np.asarray(values, float)
        found = found[np.isfinite(found)]
        if len(found):
            weights = np.full(len(found), 1 / len(found))
            axes.hist(found, edges.tolist(), weights=weights, color=colour, alpha=0.55, label=label)
    axes.legend(frameon=False, loc="upper right")  # "best" searches, which takes seconds
