"""MoEE's "sum" of hidden states and routing weights, by the rules of its official code.

They differ by type of task (arXiv 2410.10814, official code): similarities add up, predicted labels
and group numbers are averaged. Vectors hold the hidden state first, the routing weights behind it.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import MiniBatchKMeans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

SIMILARITIES = (
    "STS",
    "PairClassification",
    "Summarization",
    "Reranking",
    "Retrieval",
    "BitextMining",
)
"""Types whose similarities add up: cos(HS) + alpha cos(RW). The last two are ours."""

LABELS = ("Classification", "Clustering")
"""Types whose predictions are averaged: (HS + alpha RW) / (1 + alpha)."""

RULES = {
    **dict.fromkeys(SIMILARITIES, "similarity: cos(HS) + alpha cos(RW)"),
    "Classification": "label: two classifiers, whole part of (HS + alpha RW) / (1 + alpha)",
    "Clustering": "group: two k-means, equal (HS + alpha RW) / (1 + alpha)",
}


def mean_labels(
    first: NDArray[np.integer[Any]], second: NDArray[np.integer[Any]], alpha: float
) -> NDArray[np.int64]:
    """The whole part of (first + alpha second) / (1 + alpha), label numbers being averaged.

    So does the official code: where two classifiers disagree, the label lies between theirs.
    """
    found: NDArray[np.int64] = ((first + second * alpha) / (1 + alpha)).astype(np.int64)
    return found


def mean_groups(
    first: NDArray[np.integer[Any]], second: NDArray[np.integer[Any]], alpha: float
) -> NDArray[np.int64]:
    """Groups of equal (first + alpha second) / (1 + alpha), numbered from 0.

    There are more of them than either has, which V-measure rewards in part.
    """
    found: NDArray[np.int64]
    found = np.unique((first + second * alpha) / (1 + alpha), return_inverse=True)[1]
    return found.astype(np.int64)


class SummedClassifier(BaseEstimator):  # type: ignore[misc]
    """A classifier twice, on the first `hidden` dimensions and on the rest; see `mean_labels`."""

    def __init__(self, base: Any, hidden: int, alpha: float) -> None:
        self.base, self.hidden, self.alpha = base, hidden, alpha

    def fit(self, vectors: NDArray[Any], labels: Sequence[int]) -> SummedClassifier:
        """Fit both on vectors `[n, d]` and their labels `[n]`."""
        self.classifiers_ = [clone(self.base).fit(part, labels) for part in self._parts(vectors)]
        return self

    def predict(self, vectors: NDArray[Any]) -> NDArray[np.int64]:
        """The averaged labels, `[n]`."""
        first, second = (
            classifier.predict(part)
            for classifier, part in zip(self.classifiers_, self._parts(vectors), strict=True)
        )
        return mean_labels(first, second, self.alpha)

    def _parts(self, vectors: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return vectors[:, : self.hidden], vectors[:, self.hidden :]


class SummedKMeans:
    """Two mini-batch k-means with the same arguments, put together by `mean_groups`."""

    def __init__(self, hidden: int, alpha: float, **arguments: Any) -> None:
        self.hidden, self.alpha = hidden, alpha
        self.models = [MiniBatchKMeans(**arguments) for _ in range(2)]

    def fit(self, vectors: NDArray[Any]) -> SummedKMeans:
        """Group vectors `[n, d]`; `labels_` are the groups `[n]`."""
        first, second = (
            model.fit_predict(part)
            for model, part in zip(
                self.models, (vectors[:, : self.hidden], vectors[:, self.hidden :]), strict=True
            )
        )
        self.labels_ = mean_groups(first, second, self.alpha)
        return self

    def fit_predict(self, vectors: NDArray[Any]) -> NDArray[np.int64]:
        """The groups of vectors `[n, d]`, `[n]`."""
        return self.fit(vectors).labels_


@contextmanager
def averaged_predictions(hidden: int, alpha: float) -> Iterator[None]:
    """Have mteb classify and cluster by the official sum, while the block lasts."""
    from mteb._evaluators import clustering_evaluator
    from mteb._evaluators.sklearn_evaluator import SklearnEvaluator
    from mteb.abstasks import clustering

    kmeans, legacy, predict = (
        clustering.MiniBatchKMeans,
        clustering_evaluator.cluster,
        SklearnEvaluator.__call__,
    )

    def summed(self: Any, *vectors: Any) -> Any:
        own = self.evaluator_model
        self.evaluator_model = SummedClassifier(own, hidden, alpha)
        try:
            return predict(self, *vectors)
        finally:
            self.evaluator_model = own

    ours = partial(SummedKMeans, hidden, alpha)
    clustering.MiniBatchKMeans = ours
    clustering_evaluator.cluster = SimpleNamespace(MiniBatchKMeans=ours)
    SklearnEvaluator.__call__ = summed
    try:
        yield
    finally:
        clustering.MiniBatchKMeans = kmeans
        clustering_evaluator.cluster = legacy
        SklearnEvaluator.__call__ = predict
