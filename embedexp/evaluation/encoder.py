"""Our embedder, as mteb wants to see an encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from mteb.models import ModelMeta
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ScoringFunction
from mteb.types import PromptType

from embedexp.config.tasks import instruction

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from mteb import TaskMetadata
    from numpy.typing import NDArray


class Embedder(Protocol):
    """What evaluation asks of a model."""

    def encode(self, texts: Sequence[str], *, task: str) -> NDArray[np.float32]:
        """Texts under an instruction task, as vectors [n, d]."""


def training_task(task_metadata: TaskMetadata) -> str:
    """The kind of training example that a kind of mteb task resembles.

    Reranking uses the instructions of retrieval; pair classification, similarity, summarization
    and bitext mining use that of classification (MoTE, section 4 and Table 3).
    """
    kind = task_metadata.simplified_task_type
    return kind if kind in ("retrieval", "clustering") else "classification"


class Encoder(AbsEncoder):  # type: ignore[misc]
    """Picks the instruction by mteb's task and side, and encodes each distinct text once.

    `revision` is a hash of everything that makes the vectors what they are. `training_tasks`
    overrules, by task name, the kind of example that a task resembles. `treatment` says what an
    instruction does to a text: where it is equal, vectors are shared. They are kept for as long
    as the object lives.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        revision: str,
        treatment: Callable[[str], Hashable] | None = None,
        training_tasks: Mapping[str, str] | None = None,
    ) -> None:
        self.embedder = embedder
        self.training_tasks = dict(training_tasks or {})
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": "embedexp/model",
                "revision": revision,
                "similarity_fn_name": ScoringFunction.COSINE,
            }
        )
        self.treatment = treatment or (lambda task: task)
        self._vectors: dict[Hashable, dict[str, NDArray[np.float32]]] = {}

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: TaskMetadata,
        prompt_type: PromptType | None = None,
        **_: Any,
    ) -> NDArray[np.float32]:
        """Vectors [n, d] of mteb's batches of texts, in their order."""
        kind = self.training_tasks.get(task_metadata.name) or training_task(task_metadata)
        task = instruction(kind, is_query=prompt_type == PromptType.query)
        texts = [text for batch in inputs for text in batch["text"]]
        vectors = self._vectors.setdefault(self.treatment(task), {})
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        if new:
            vectors.update(zip(new, self.embedder.encode(new, task=task), strict=True))
        return np.stack([vectors[text] for text in texts])

    def similarity(
        self, embeddings1: NDArray[np.float32], embeddings2: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Cosines [n, m] of vectors [n, d] and [m, d], as an array: mteb copies it."""
        return np.asarray(super().similarity(embeddings1, embeddings2))
