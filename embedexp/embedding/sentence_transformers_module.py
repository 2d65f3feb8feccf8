"""Our models inside sentence-transformers, where its own modules cannot express them.

`SentenceTransformer(path, trust_remote_code=True)` finds this class through the folder's
modules.json; the flag is what sentence-transformers asks for any class that is not its own, and
runs nothing but the installed embedexp.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentence_transformers.base.modules.input_module import InputModule

from embedexp.batching.token_batch import TokenBatch
from embedexp.config.errors import UserError
from embedexp.config.tasks import INSTRUCTIONS, POSITIVE, QUERY

from . import saving
from .encoding import default_role, known, max_tokens, tokenize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from .embedder import Embedder

ALIASES = {"query": "search_query", "document": "search_document"}
"""sentence-transformers' own names for the two sides of retrieval."""


class EmbedderModule(InputModule):  # type: ignore[misc]
    """An embedder as the only module of a SentenceTransformer.

    `encode(texts, task="clustering")` chooses the task; `prompt_name` does too, where the task's
    prompt tells it apart; `encode_query` and `encode_document` are the two sides of retrieval;
    without any of them it is `search_document`, as in `Embedder.encode`.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        self.embedder = embedder
        self.tokenizer = embedder.tokenizer

    def preprocess(
        self,
        inputs: Sequence[str],
        prompt: str | None = None,
        task: str | None = None,
        **kwargs: Any,
    ) -> dict[str, Tensor]:
        """Tokenise texts into a packed batch.

        Raises:
            UserError: unknown task, a prompt that does not tell which expert is meant, or one whose
                tokens the pooling would not know.
        """
        task = self.task_of(prompt) if task is None else ALIASES.get(task, task)
        known("task", task, INSTRUCTIONS)
        option = self.embedder.config.embedding
        own = getattr(option.prompts, task)
        if prompt not in (None, own) and getattr(option, "exclude_instruction", False):
            raise UserError(
                f"the prompt {prompt!r} is not one of the model's, whose tokens it leaves out",
                hint=f'use encode(texts, task="{task}"), whose prompt is {own!r}',
            )
        role = default_role(task)
        sequences = tokenize(self.embedder, list(inputs), task=task, role=role, prompt=prompt)
        batch = TokenBatch.pack(
            sequences,
            [INSTRUCTIONS.index(task)] * len(sequences),
            [QUERY if role == "query" else POSITIVE] * len(sequences),
        )
        return {
            "input_ids": batch.input_ids,
            "cu_seqlens": batch.cu_seqlens,
            "task_ids": batch.task_ids,
            "roles": batch.roles,
        }

    def task_of(self, prompt: str | None) -> str:
        """The instruction task that a prompt stands for.

        Raises:
            UserError: several tasks with different experts have this prompt.
        """
        if prompt is None:
            return "search_document"
        prompts = self.embedder.config.embedding.prompts
        tasks = [task for task in INSTRUCTIONS if getattr(prompts, task) == prompt]
        if len(tasks) > 1 and self.embedder.expert_of(tasks) is None:
            raise UserError(
                f"the prompt {prompt!r} belongs to {' and '.join(tasks)}, with different experts",
                hint=f'say which is meant: encode(texts, task="{tasks[0]}")',
            )
        return "search_document" if not tasks or "search_document" in tasks else tasks[0]

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Embed the packed batch: adds `sentence_embedding [n, d]`."""
        batch = TokenBatch(
            features["input_ids"], features["cu_seqlens"], features["task_ids"], features["roles"]
        )
        features["sentence_embedding"] = self.embedder(batch).vectors
        return features

    def get_embedding_dimension(self) -> int:
        """Dimensions of the vectors."""
        return self.embedder.width

    @property
    def max_seq_length(self) -> int:
        """The longest text, in tokens."""
        return max(max_tokens(self.embedder, "query"), max_tokens(self.embedder, "document"))

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the model's files into sentence-transformers' folder."""
        saving.write(self.embedder, Path(output_path))

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> EmbedderModule:
        """Read the model's files, from a folder or the hub."""
        from .loading import load

        hub = {
            key: kwargs.get(key)
            for key in ("token", "cache_folder", "revision", "local_files_only")
        }
        folder = cls.load_dir_path(model_name_or_path, subfolder=subfolder, **hub)
        return cls(load(folder or model_name_or_path))
