"""analysis=router_agreement: hidden states and routing weights group texts alike, or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .context import documents
from .report import Report
from .router_vectors import parts, with_source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from .context import Context

PUBLISHED = {"AMI": 0.29, "NMI": 0.29, "Jaccard": 0.06, "exact matching": 0.4554}
"""Table 1 of MoEE, over its own texts and models."""


def agreement(first: Sequence[int], second: Sequence[int]) -> dict[str, float]:
    """How far two groupings of the same texts agree: 1 where they are equal but for names.

    AMI and NMI are scikit-learn's adjusted and normalised mutual information (arithmetic mean).
    `exact matching` is the share of texts in the same group, after the groups of one are renamed
    one to one so that the most texts match. `Jaccard` is that of pairs of texts: those together in
    both groupings, over those together in either. MoEE names the last two without defining them.
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn import metrics
    from sklearn.metrics.cluster import contingency_matrix, pair_confusion_matrix

    table = contingency_matrix(first, second)
    rows, columns = linear_sum_assignment(table, maximize=True)
    (_, one), (other, both) = pair_confusion_matrix(first, second)
    return {
        "AMI": float(metrics.adjusted_mutual_info_score(first, second)),
        "NMI": float(metrics.normalized_mutual_info_score(first, second)),
        "Jaccard": float(both / (both + one + other)) if both + one + other else 1.0,
        "exact matching": float(table[rows, columns].sum() / len(first)),
    }


def groups(
    vectors: NDArray[np.floating[Any]], clusters: int, *, restarts: int, seed: int
) -> list[int]:
    """scikit-learn's k-means over vectors `[n, d]`: the group of each, in double precision."""
    import numpy as np
    from sklearn.cluster import KMeans

    model = KMeans(n_clusters=clusters, n_init=restarts, random_state=seed)
    return [int(group) for group in model.fit_predict(np.asarray(vectors, np.float64))]


def analyse(context: Context) -> Report:
    """The report of `analysis=router_agreement`, and its picture beside it."""
    option = context.option
    texts = documents(option.texts, option.documents)
    context.told("embedding")
    embedder = with_source(
        context.embedder, "concat", router=option.router, router_pooling=option.router_pooling
    )
    hidden, routing = parts(embedder, texts, task=option.task, standardize=option.standardize)
    context.told("grouping")
    of = {
        name: groups(vectors, option.clusters, restarts=option.restarts, seed=context.seed)
        for name, vectors in (("hidden state", hidden), ("routing weights", routing))
    }
    found = agreement(of["hidden state"], of["routing weights"])
    plot(of, option.clusters, context.folder / "router_agreement.png")
    return Report(
        name="router_agreement",
        title="Agreement of k-means on hidden states and on routing weights",
        unit=f"text ({len(texts)}); for Jaccard, pair of texts",
        settings=context.settings,
        columns=("measure", "value", "MoEE, table 1"),
        rows=[(name, value, PUBLISHED[name]) for name, value in found.items()],
        data={"groups": of, "agreement": found},
        notes=["The paper's figures are of other models and texts."],
    )


def plot(of: dict[str, list[int]], clusters: int, path: Path) -> None:
    """Write a PNG: how many texts each pair of groups shares."""
    from sklearn.metrics.cluster import contingency_matrix

    from embedexp.drawing import drawn

    (rows, first), (columns, second) = of.items()
    table = contingency_matrix(first, second)
    with drawn(path, (4.6, 4.2), "Texts that two groups share") as figure:
        axes = figure.subplots()
        axes.imshow(table, cmap="Blues", vmin=0)
        for i in range(table.shape[0]):
            for j in range(table.shape[1]):
                dark = table[i, j] > table.max() * 0.6
                axes.text(
                    j, i, str(table[i, j]), ha="center", va="center", color="w" if dark else "k"
                )
        axes.set(xlabel=f"group by {columns}", ylabel=f"group by {rows}")
        axes.set_xticks(range(table.shape[1]), [str(1 + j) for j in range(table.shape[1])])
        axes.set_yticks(range(table.shape[0]), [str(1 + i) for i in range(table.shape[0])])
