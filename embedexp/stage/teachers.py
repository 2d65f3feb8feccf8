"""Teachers of a stage: any embedder, with its vectors kept in the cache."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embedexp.config.tasks import instruction
from embedexp.embedding import build_embedder, load
from embedexp.negatives.cache import EmbeddingCache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from embedexp.config.schema.backbone import Backbone
    from embedexp.config.schema.stage import TeacherEmbeddings
    from embedexp.embedding import Embedder
    from embedexp.negatives.cache import CachedVectors


@dataclass(frozen=True)
class TextTeacher:
    """An embedder that is asked for vectors of texts, and where they are kept.

    `content` is a hash of what the model is made of, so that the same model elsewhere is the same
    teacher.
    """

    name: str
    embedder: Embedder
    content: str
    option: TeacherEmbeddings
    cache: Path

    def vectors(
        self,
        texts: Sequence[str],
        task: str,
        *,
        is_query: bool,
        on_block: Callable[[int, int], None] | None = None,
    ) -> CachedVectors:
        """Vectors of one side of a training task, with the prompt and length of that side."""
        named = instruction(task, is_query=is_query)
        role = "query" if named == "search_query" else "document"
        config, embedding = self.embedder.config, self.embedder.config.embedding.model_dump()
        prompts = embedding.pop("prompts")
        identity = {
            "model": self.content,
            "embedding": embedding,
            "routing": config.routing.model_dump(),
            "mask": config.mask_schedule.model_dump(),
            "instruction": named,
            "prompt": prompts[named],
            "role": role,
            "precision": self.option.precision,
            "arithmetic": config.backbone.dtype,
        }
        found = EmbeddingCache(self.cache, identity, block=self.option.block)
        return found.vectors(
            texts,
            lambda some: self.embedder.encode(
                some, task=named, batch_tokens=self.option.batch_tokens
            ),
            self.option.precision,
            on_block,
        )


def teacher(name: str, option: TeacherEmbeddings, cache: Path, device: str) -> TextTeacher:
    """The teacher of a name: a pretrained backbone option, a run, a folder, or a hub name.

    Raises:
        UserError: there is no such model.
    """
    from embedexp.backbone.source import resolve
    from embedexp.config import compose
    from embedexp.config.sign import model_hash
    from embedexp.config.sources import option_files
    from embedexp.embedding.foreign import locate

    if name in option_files("backbone"):
        config = compose([f"backbone={name}"])
        embedder = build_embedder(config)
        pretrained = config.backbone.weights == "pretrained" and config.backbone.source
        files = model_hash(resolve(config.backbone)) if pretrained else ""
        content = _content_of(config.backbone, files)
    else:
        embedder, content = load(name), model_hash(locate(name))
    return TextTeacher(name, embedder.to(device).eval(), content, option, cache)


def _content_of(option: Backbone, files: str) -> str:
    """A hash of a backbone's options and of its source's files, wherever these lie.

    The files alone are not the model: two options may read one source and differ in what they
    make of it (positions, layers), and random weights have none.
    """
    made = option.model_dump(exclude={"name", "source", "revision", "package"})
    return hashlib.sha256(json.dumps([files, made], sort_keys=True).encode()).hexdigest()
