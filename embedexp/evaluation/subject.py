"""The model that is measured, as the evaluation asks for it: lengths, width, precision, prompts."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from embedexp.config.errors import UserError
from embedexp.embedding import Embedder
from embedexp.embedding import pooling as poolings
from embedexp.embedding.encoding import default_role, max_tokens

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from embedexp.config.schema.embedding import Embedding
    from embedexp.config.schema.evaluation import Measured

    from .encoder import Embedder as Encodes

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Subject:
    """An embedder under an option's lengths, width, precision and batches.

    The embedder itself stays as it is: the subject shares its weights, or has a copy of them in
    another precision. What is no `Embedder` of ours is taken as it comes.

    Raises:
        UserError: the option asks for more dimensions or positions than the model has.
    """

    def __init__(self, embedder: Encodes, option: Measured | None = None) -> None:
        self.batch_tokens = option.batch_tokens if option is not None else None
        self.embedder: Encodes = embedder
        if option is not None and isinstance(embedder, Embedder):
            self.embedder = adapted(embedder, option)
        self._variants: dict[tuple[str, str], Embedder] = {}

    def encode(
        self, texts: Sequence[str], *, task: str, prompt: str | None = None
    ) -> NDArray[np.float32]:
        """Vectors `[n, d]` of texts under an instruction task, with its prompt or another one.

        Raises:
            TypeError: another prompt is asked of what is no `Embedder` of ours.
        """
        if not isinstance(self.embedder, Embedder):
            if prompt is not None:
                raise TypeError("only an Embedder can be given another prompt")
            return self.embedder.encode(texts, task=task)
        return self._with(task, prompt).encode(texts, task=task, batch_tokens=self.batch_tokens)

    def treatment(self, task: str, prompt: str | None) -> Hashable:
        """What an instruction task does to a text: where it is equal, so are a text's vectors."""
        if not isinstance(self.embedder, Embedder):
            return task, prompt
        if prompt is None:
            prompt = getattr(self.embedder.config.embedding.prompts, task)
        length = max_tokens(self.embedder, default_role(task))
        return prompt, length, self.embedder.expert_of([task])

    def _with(self, task: str, prompt: str | None) -> Embedder:
        """The embedder with one of its prompts replaced, so that pooling knows it too."""
        assert isinstance(self.embedder, Embedder)
        option = self.embedder.config.embedding
        if prompt is None or prompt == getattr(option.prompts, task):
            return self.embedder
        if (task, prompt) not in self._variants:
            prompts = option.prompts.model_copy(update={task: prompt})
            changed = {"prompts": prompts}
            self._variants[task, prompt] = variant(self.embedder, changed)
        return self._variants[task, prompt]


def adapted(embedder: Embedder, option: Measured) -> Embedder:
    """The embedder under an option's lengths, width and precision.

    Raises:
        UserError: more dimensions or positions are asked for than there are.
    """
    changed: dict[str, Any] = {}
    for key in ("query_tokens", "document_tokens"):
        tokens, most = getattr(option, key), positions(embedder)
        if tokens is not None:
            if most is not None and tokens > most:
                raise UserError(
                    f"evaluation.{key}={tokens}, but the model has {most} positions",
                    hint=f"set evaluation.{key}={most} or less",
                )
            changed[key] = tokens
    if option.width is not None:
        if option.width > embedder.width:
            raise UserError(
                f"evaluation.width={option.width} is more than the {embedder.width} dimensions "
                "of the model",
                hint=f"set evaluation.width={embedder.width} or less; null keeps all",
            )
        changed["width"] = option.width
    precise = option.precision is None or all(
        parameter.dtype == DTYPES[option.precision] for parameter in embedder.parameters()
    )
    if not changed and precise:
        return embedder
    found = variant(embedder, changed)
    if not precise:
        for name, part in embedder.named_children():
            found.add_module(name, cast(copy.deepcopy(part), DTYPES[str(option.precision)]))
    return found


def variant(embedder: Embedder, changed: Mapping[str, Any]) -> Embedder:
    """The same model, weights shared, with some keys of its embedding changed.

    Not built anew: building one registers hooks with the model that it is given.
    """
    found = copy.copy(embedder)
    found._modules = dict(embedder._modules)  # otherwise shared, and what is set in one is in both
    embedding: Embedding = embedder.config.embedding.model_copy(update=dict(changed))
    found.config = embedder.config.model_copy(update={"embedding": embedding})
    if embedding.name != "moee":
        found._pooling = poolings.build(embedding, found.model, found.tokenizer)
    return found


def cast(model: Any, dtype: torch.dtype) -> Any:
    """The model with its weights in another type.

    Buffers stay: rotary frequencies in half precision would turn positions by a visible angle, and
    transformers keeps them in float32 when it loads a model in half precision.
    """
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model


def positions(embedder: Embedder) -> int | None:
    """How many positions a model has learned; None where nothing limits them."""
    from embedexp.config.model_checks import LEARNED_POSITIONS

    if embedder.config.backbone.positions is not None:
        return embedder.config.backbone.positions.max_length
    config = embedder.model.config
    offset = LEARNED_POSITIONS.get(config.model_type)
    rows = getattr(config, "max_position_embeddings", None)
    return rows - offset if rows and offset is not None else None
