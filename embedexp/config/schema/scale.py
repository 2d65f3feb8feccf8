"""Scale: upper bounds put on whatever is composed. The bounded values count, not the bounds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field


class Full(Option):
    """Exactly what is composed."""

    name: Literal["full"] = field("option", identity=False)


class Demo(Option):
    """Upper bounds that let any composed experiment run on a laptop."""

    name: Literal["demo"] = field("option", identity=False)
    steps: int = field("optimizer steps", ge=1, identity=False)
    batch_size: int = field("examples per step", ge=1, identity=False)
    tokens: int = field("longest query and document", ge=3, identity=False)
    layers: int = field("backbone layers", ge=1, identity=False)
    examples: int = field("examples per dataset", ge=1, identity=False)
    evaluation_queries: int = field("queries per retrieval task", ge=10, identity=False)
    evaluation_documents: int = field("documents per retrieval task", ge=10, identity=False)
    evaluation_examples: int = field("texts or pairs per other task", ge=50, identity=False)


Scale = Annotated[Full | Demo, Field(discriminator="name")]
