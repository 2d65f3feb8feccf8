"""Our embedder, as mteb wants to see an encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from mteb.models import ModelMeta
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ScoringFunction
from mteb.types import PromptType

from embedexp.config.tasks import instruction

from .prompts import Prompts

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from mteb import TaskMetadata
    from numpy.typing import NDArray

BLOCK = 16_384
"""Texts encoded between two moments at which the evaluation can be stopped."""


class Embedder(Protocol):
    """What evaluation asks of a model."""

    def encode(self, texts: Sequence[str], *, task: str) -> NDArray[np.float32]:
        """Texts under an instruction task, as vectors [n, d]."""


class Prompted(Protocol):
    """A model whose prompts can be replaced: an `embedexp.evaluation.subject.Subject`."""

    def encode(
        self, texts: Sequence[str], *, task: str, prompt: str | None = None
    ) -> NDArray[np.float32]:
        """Texts under an instruction task, with its prompt or another, as vectors [n, d]."""

    def treatment(self, task: str, prompt: str | None) -> Hashable:
        """What is done to a text: where it is equal, so are a text's vectors."""


def training_task(task_metadata: TaskMetadata) -> str:
    """The kind of training example that a kind of mteb task resembles.

    Reranking uses the instructions of retrieval; pair classification, similarity, summarization
    and bitext mining use that of classification (MoTE, section 4 and Table 3).
    """
    kind = task_metadata.simplified_task_type
    return kind if kind in ("retrieval", "clustering") else "classification"


class Encoder(AbsEncoder):  # type: ignore[misc]
    """Picks instruction and prompt by mteb's task and side, and encodes each distinct text once.

    `revision` is a hash of everything that makes the vectors what they are; mteb's own cache finds
    results by name and revision alone. `training_tasks` overrules, by task name, the kind of
    example that a task resembles. Vectors are shared where the same is done to a text, and kept
    for as long as the object lives; without `keep`, those of documents aren't, and the others
    until `forget`: a public corpus may have millions of texts. `on_texts` is told how many texts
    are about to be encoded, at most `BLOCK`.
    """

    def __init__(
        self,
        subject: Prompted,
        *,
        revision: str,
        prompts: Prompts | None = None,
        training_tasks: Mapping[str, str] | None = None,
        keep: bool = True,
        on_texts: Callable[[int], None] | None = None,
    ) -> None:
        self.subject, self.prompts = subject, prompts or Prompts()
        self.training_tasks = dict(training_tasks or {})
        self.keep, self.on_texts = keep, on_texts
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": "embedexp/model",
                "revision": revision,
                "similarity_fn_name": ScoringFunction.COSINE,
            }
        )
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
        prompt = self.prompts.of(task_metadata, prompt_type)
        texts = [text for batch in inputs for text in batch["text"]]
        kept = self.keep or prompt_type != PromptType.document
        treatment = self.subject.treatment(task, prompt)
        vectors = self._vectors.setdefault(treatment, {}) if kept else {}
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        for start in range(0, len(new), BLOCK):
            block = new[start : start + BLOCK]
            if self.on_texts:
                self.on_texts(len(block))
            encoded = self.subject.encode(block, task=task, prompt=prompt)
            vectors.update(zip(block, encoded, strict=True))
        return np.stack([vectors[text] for text in texts])

    def forget(self) -> None:
        """Let go of the vectors."""
        self._vectors.clear()

    def similarity(
        self, embeddings1: NDArray[np.float32], embeddings2: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Cosines [n, m] of vectors [n, d] and [m, d], as an array: mteb copies it."""
        return np.asarray(super().similarity(embeddings1, embeddings2))
