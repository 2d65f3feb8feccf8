"""mteb tasks with labels: classification by one or several, of pairs, and clustering."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datasets import DatasetDict
from mteb.abstasks import (
    AbsTaskClassification,
    AbsTaskClustering,
    AbsTaskMultilabelClassification,
    AbsTaskPairClassification,
)
from sklearn.linear_model import LogisticRegression

from .tasks import columns, metadata

if TYPE_CHECKING:
    from collections.abc import Sequence


class Classification(AbsTaskClassification):  # type: ignore[misc]
    """Tell a text's class by logistic regression on few examples of each; accuracy."""

    samples_per_label = 16
    n_experiments = 5

    def __init__(
        self, name: str, train: Sequence[tuple[str, str]], test: Sequence[tuple[str, str]]
    ) -> None:
        """From (text, label) pairs to draw examples from, and others to classify."""
        names = sorted({label for _, label in (*train, *test)})
        index = {label: i for i, label in enumerate(names)}
        splits: dict[str, dict[str, list[Any]]] = {
            split: {
                "text": [text for text, _ in rows],
                "label": [index[label] for _, label in rows],
            }
            for split, rows in (("train", train), ("test", test))
        }
        self.evaluator_model = LogisticRegression(max_iter=1000)
        parameters = [self.samples_per_label, self.n_experiments]
        self.metadata = metadata(name, "Classification", "accuracy", [names, splits, parameters])
        super().__init__()
        self.dataset = DatasetDict({split: columns(**rows) for split, rows in splits.items()})
        self.data_loaded = True

    def _calculate_scores(self, y_test: Sequence[int], y_pred: Any) -> Any:
        # A column of datasets decodes every label anew at each of scikit-learn's many passes.
        return super()._calculate_scores(list(y_test), y_pred)


class Clustering(AbsTaskClustering):  # type: ignore[misc]
    """Group texts by k-means; V-measure, the mean over resampled sets of texts."""

    max_fraction_of_documents_to_embed = None

    def __init__(self, name: str, rows: Sequence[tuple[str, str]]) -> None:
        """From (text, label) pairs."""
        texts, labels = (list(column) for column in zip(*rows, strict=True))
        self.max_documents_per_cluster = len(texts)
        self.metadata = metadata(name, "Clustering", "v_measure", [texts, labels, self.n_clusters])
        super().__init__()
        self.dataset = {"test": columns(sentences=texts, labels=labels)}
        self.data_loaded = True


class MultilabelClassification(AbsTaskMultilabelClassification):  # type: ignore[misc]
    """Tell all labels of a text from its nearest labelled neighbours; accuracy: none wrong."""

    def __init__(
        self,
        name: str,
        train: Sequence[tuple[str, Sequence[str]]],
        test: Sequence[tuple[str, Sequence[str]]],
    ) -> None:
        """From (text, labels) pairs to draw examples from, and others to classify."""
        names = sorted({label for _, labels in (*train, *test) for label in labels})
        index = {label: i for i, label in enumerate(names)}
        splits: dict[str, dict[str, list[Any]]] = {
            split: {
                "text": [text for text, _ in rows],
                "label": [sorted(index[label] for label in set(labels)) for _, labels in rows],
            }
            for split, rows in (("train", train), ("test", test))
        }
        parameters = [self.samples_per_label, self.n_experiments, self.evaluator_model.n_neighbors]
        self.metadata = metadata(
            name, "MultilabelClassification", "accuracy", [names, splits, parameters]
        )
        super().__init__()
        self.dataset = DatasetDict({split: columns(**rows) for split, rows in splits.items()})
        self.data_loaded = True


class PairClassification(AbsTaskPairClassification):  # type: ignore[misc]
    """Tell pairs that belong together from others by their similarity; average precision."""

    def __init__(self, name: str, pairs: Sequence[tuple[str, str, bool]]) -> None:
        """From (text, text, whether they belong together)."""
        first, second, together = (list(column) for column in zip(*pairs, strict=True))
        labels = [int(value) for value in together]
        self.metadata = metadata(name, "PairClassification", "max_ap", [first, second, labels])
        super().__init__()
        self.dataset = {"test": columns(sentence1=first, sentence2=second, labels=labels)}
        self.data_loaded = True
