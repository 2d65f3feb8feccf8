"""A picture of the mask over training: a strip of weights, and how alpha rises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.drawing import BLUE

from . import build

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.config.schema.mask_schedule import MaskSchedule as Option

LENGTH = 16
"""Tokens of the sequence that is drawn."""

PANELS = 7


def draw(option: Option, path: Path, *, steps: int) -> None:
    """Write a PNG: the weights of key (column) for query (row) at seven steps of so many.

    Raises:
        UserError: the file cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    schedule = build(option)
    form = getattr(option, "form", None)
    title = f"{option.name}, form {form}" if form else option.name
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(14, 4.6), dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(f"mask_schedule={title}: weight of each key for each query", fontsize=11)
        grid = figure.add_gridspec(2, PANELS, height_ratios=(2.2, 1))
        for panel in range(PANELS):
            step = round(panel * steps / (PANELS - 1))
            alpha = schedule.progress(step, steps)
            axes = figure.add_subplot(grid[0, panel])
            weights = schedule.weights(LENGTH, alpha).numpy()
            axes.imshow(weights, vmin=0, vmax=1, cmap="Blues")
            axes.set_title(f"step {step}, alpha {alpha:.2f}", fontsize=9)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_xlabel("key")
            if panel == 0:
                axes.set_ylabel("query")
        axes = figure.add_subplot(grid[1, :])
        moments = [steps * i / 100 for i in range(101)]
        axes.plot(moments, [schedule.progress(moment, steps) for moment in moments], color=BLUE)
        axes.set(xlabel="step", ylabel="alpha", xlim=(0, steps), ylim=(-0.05, 1.05))
        try:
            figure.savefig(path, format="png")
        except OSError as error:
            raise UserError(
                f"cannot write {path}: {error.strerror}", hint="name a file in a folder that exists"
            ) from error
