"""analysis=prompt_robustness: similarities keep their order when the prompt changes, or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .context import pairs
from .report import Report
from .router_vectors import parts, with_prompt, with_source
from .task_similarity import cosines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from .context import Context

HIDDEN, ROUTING = "HS", "RW"
PUBLISHED = {"HS-HS": 0.52, "RW-RW": 0.63, "RW-HS": 0.51}
"""Means of figure 4 of MoEE, over STS12 and its own model."""


def correlations(similarities: Mapping[str, Sequence[float]]) -> NDArray[np.float64]:
    """Spearman's correlation between any two rows of similarities over the same pairs, `[k, k]`."""
    import numpy as np
    from scipy import stats

    names = list(similarities)
    found = np.eye(len(names))
    for i, first in enumerate(names):
        for j in range(i):
            value = stats.spearmanr(similarities[first], similarities[names[j]]).statistic
            found[i, j] = found[j, i] = value
    return found


def means(matrix: NDArray[np.float64], prompts: int) -> dict[str, float]:
    """Mean correlations between different prompts, from a matrix `[2p, 2p]`, hidden states first.

    HS-HS and RW-RW leave out the diagonal, where a prompt meets itself; so does RW-HS, whose
    diagonal is one prompt's two kinds of vectors.
    """
    import numpy as np

    apart = ~np.eye(prompts, dtype=bool)
    hidden, routing = slice(0, prompts), slice(prompts, 2 * prompts)
    return {
        "HS-HS": float(matrix[hidden, hidden][apart].mean()),
        "RW-RW": float(matrix[routing, routing][apart].mean()),
        "RW-HS": float(matrix[routing, hidden][apart].mean()),
    }


def analyse(context: Context) -> Report:
    """The report of `analysis=prompt_robustness`, and its picture beside it."""
    option = context.option
    both = pairs(option.texts, option.documents)
    texts = list(dict.fromkeys(text for pair in both for text in pair))
    row = {text: i for i, text in enumerate(texts)}
    sides = [[row[pair[side]] for pair in both] for side in (0, 1)]
    embedder = with_source(
        context.embedder, "concat", router=option.router, router_pooling=option.router_pooling
    )
    found: dict[str, dict[str, list[float]]] = {HIDDEN: {}, ROUTING: {}}
    for name, prompt in option.prompts.items():
        context.told(f"embedding with the prompt {name}")
        kinds = parts(
            with_prompt(embedder, prompt),
            texts,
            task="classification",
            standardize=option.standardize,
        )
        for kind, vectors in zip((HIDDEN, ROUTING), kinds, strict=True):
            found[kind][name] = cosines(vectors[sides[0]], vectors[sides[1]]).tolist()
    names = [f"{kind} {name}" for kind, own in found.items() for name in own]
    matrix = correlations(
        {f"{kind} {name}": values for kind, own in found.items() for name, values in own.items()}
    )
    count = len(option.prompts)
    averages = means(matrix, count)
    plot(matrix, names, context.folder / "prompt_robustness.png")
    return Report(
        name="prompt_robustness",
        title=f"Spearman's correlation of similarities under {count} prompts",
        unit=f"pair of texts ({len(both)}); means over pairs of different prompts",
        settings=context.settings,
        columns=("between", "mean", "MoEE, figure 4"),
        rows=[(name, value, PUBLISHED[name]) for name, value in averages.items()],
        data={"names": names, "correlations": matrix.tolist(), "means": averages},
        notes=["The paper's figures are of another model, over STS12."],
    )


def plot(matrix: NDArray[Any], names: Sequence[str], path: Path) -> None:
    """Write a PNG: the correlations as a heat map, hidden states first."""
    from embedexp.drawing import drawn, plain

    size = max(5.0, 0.42 * len(names) + 2.4)
    with drawn(path, (size + 0.8, size), "Agreement of similarities under two prompts") as figure:
        axes = figure.subplots()
        low = min(0.0, float(matrix.min()))
        picture = axes.imshow(matrix, cmap="viridis", vmin=low, vmax=1)
        labels = [plain(name.replace("_", " ")) for name in names]
        axes.set_xticks(range(len(names)), labels, rotation=90, fontsize=8)
        axes.set_yticks(range(len(names)), labels, fontsize=8)
        middle = len(names) / 2 - 0.5
        axes.axhline(middle, color="w", linewidth=1.5)
        axes.axvline(middle, color="w", linewidth=1.5)
        for i in range(len(names)):
            for j in range(len(names)):
                dark = matrix[i, j] < low + 0.6 * (1 - low)
                told = f"{round(float(matrix[i, j]), 2) + 0.0:.2f}".replace("0.", ".").replace(
                    "1.00", "1"
                )
                axes.text(
                    j, i, told, ha="center", va="center", fontsize=6, color="w" if dark else "k"
                )
        figure.colorbar(picture, ax=axes, shrink=0.8, label="Spearman's correlation")
