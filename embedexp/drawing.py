"""Pictures as PNG files, of one look, whole or absent."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from .files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from matplotlib.figure import Figure

BLUE, GREY, RED = "#1f5fa8", "#9aa0a6", "#b3402a"


def plain(text: str) -> str:
    """A text that matplotlib draws as it is, without taking dollar signs for formulas."""
    return text.replace("$", r"\$")


@contextmanager
def drawn(path: Path, size: tuple[float, float], title: str | None = None) -> Iterator[Figure]:
    """A figure of `size` inches to draw into; the PNG is written when it is left."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=size, dpi=120, layout="constrained")
        FigureCanvasAgg(figure)
        if title:
            figure.suptitle(plain(title), fontsize=12)
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png")
