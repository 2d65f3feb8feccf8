"""Stages: what one run does. Each names the groups that it uses; only those are its identity."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import Option, field
from .generate import GenerateQueriesStage, GenerateStage, TranslateStage
from .probe import ProbeStage
from .tokenizer import TokenizerStage

MODEL_GROUPS = ("backbone", "routing", "mask_schedule", "embedding")
ALWAYS = ("stage", "compute", "tracking", "scale")


class Contrastive(Option):
    """Train on pairs, then evaluate."""

    uses: ClassVar[tuple[str, ...]] = (
        *MODEL_GROUPS,
        "data",
        "batching",
        "negatives",
        "loss",
        "optimizer",
        "training",
        "merge",
        "evaluation",
        *ALWAYS,
    )
    name: Literal["contrastive"] = field("option")


LANGUAGE_GROUPS = (
    *MODEL_GROUPS,
    "data",
    "batching",
    "loss",
    "optimizer",
    "training",
    "merge",
    "evaluation",
    *ALWAYS,
)
Documents = Literal["apart", "joined"]


class MLMStage(Option):
    """Masked language modelling on plain texts."""

    uses: ClassVar[tuple[str, ...]] = LANGUAGE_GROUPS
    name: Literal["mlm"] = field("option")
    block_tokens: int = field("tokens of a block, batching's example", unit="tokens", ge=2)
    documents: Documents = field("whether attention crosses the documents of a block")
    holdout: int = field(
        "blocks of each dataset, at most a tenth, kept to measure the loss on", unit="blocks", ge=0
    )


class CausalLMStage(Option):
    """Causal language modelling on plain texts."""

    uses: ClassVar[tuple[str, ...]] = LANGUAGE_GROUPS
    name: Literal["causal_lm"] = field("option")
    block_tokens: int = field("tokens of a block, batching's example", unit="tokens", ge=2)
    documents: Documents = field("whether attention crosses the documents of a block")
    holdout: int = field(
        "blocks of each dataset, at most a tenth, kept to measure the loss on", unit="blocks", ge=0
    )


class SFTStage(Option):
    """Supervised fine-tuning of a causal language model on pairs."""

    uses: ClassVar[tuple[str, ...]] = LANGUAGE_GROUPS
    name: Literal["sft"] = field("option")
    input_tokens: int = field("longest prompt, the first text in it", unit="tokens", ge=2)
    output_tokens: int = field("longest second text, its end token included", unit="tokens", ge=2)
    holdout: int = field(
        "pairs of each dataset, at most a tenth, kept to measure the loss on", unit="pairs", ge=0
    )


class MergeStage(Option):
    """Average trained models, then evaluate."""

    uses: ClassVar[tuple[str, ...]] = ("merge", "evaluation", *ALWAYS)
    name: Literal["merge"] = field("option")


class EvaluateStage(Option):
    """Evaluate a trained model."""

    uses: ClassVar[tuple[str, ...]] = ("evaluation", *ALWAYS)
    name: Literal["evaluate"] = field("option")
    model: str = field("a run or model directory, a hub name, or a pretrained backbone option")


class ZeroShotStage(Option):
    """Evaluate the composed model without training it."""

    uses: ClassVar[tuple[str, ...]] = (*MODEL_GROUPS, "evaluation", *ALWAYS)
    name: Literal["zero_shot"] = field("option")


class AnalyseStage(Option):
    """Analyse a trained model."""

    uses: ClassVar[tuple[str, ...]] = ("analysis", "evaluation", *ALWAYS)
    name: Literal["analyse"] = field("option")
    model: str = field("a run or model directory, a hub name, or a pretrained backbone option")


class MiningRules(Option):
    """Which candidates, ranked without the query's positives, may become negatives."""

    rank_min: int = field("nearest candidates passed over", unit="documents", ge=0)
    rank_max: int = field("candidates looked at", unit="documents", ge=1)
    percent_of_positive: float | None = field("a negative scores at most this times the positive")
    relative_margin: float | None = field("at most the positive less this share of its size", ge=0)
    absolute_margin: float | None = field("at most the positive less this", ge=0)
    max_score: float | None = field("no negative scores more")
    min_score: float | None = field("no negative scores less")
    reference: Literal["min", "max", "each"] = field(
        "of a query's several positives: the lowest, the highest, or each with negatives of its own"
    )
    sampling: Literal["top", "random"] = field("the best of what is left, or a random choice")


class SearchTile(Option):
    """How much is compared at once; it bounds memory and changes no result."""

    queries: int = field("queries of a tile", ge=1, identity=False)
    documents: int = field("documents of a tile", ge=1, identity=False)
    block: int = field("queries for which the documents are read once", ge=1, identity=False)


class IVFIndex(Option):
    """Inverted lists: documents in clusters, of which a query sees the nearest."""

    lists: int = field("clusters", ge=1)
    probes: int = field("clusters that a query sees", ge=1)


class HNSWIndex(Option):
    """A graph of near documents, walked from far to near."""

    links: int = field("edges of a document", ge=2)
    build_breadth: int = field("documents kept in view when the graph is built", ge=1)
    breadth: int = field("documents kept in view when a query walks", ge=1)


class MiningSearch(Option):
    """How a query's nearest documents are found."""

    method: Literal["exact", "faiss_flat", "faiss_ivf", "faiss_hnsw"] = field("exact or an index")
    tile: SearchTile = field("of the exact search")
    ivf: IVFIndex = field("of faiss_ivf")
    hnsw: HNSWIndex = field("of faiss_hnsw")


class BM25(Option):
    """The lexical teacher."""

    k1: float = field("saturation of a term's frequency", ge=0)
    b: float = field("normalisation by length", ge=0, le=1)


class TeacherEmbeddings(Option):
    """How a teacher's vectors are made and kept."""

    precision: Literal["float32", "float16"] = field("of the vectors that are kept")
    block: int = field("texts embedded between two writes to the cache", ge=1, identity=False)
    batch_tokens: int | None = field(
        "tokens embedded at once; null: 2,048 on a CPU, 8,192 elsewhere",
        unit="tokens",
        ge=1,
        identity=False,
    )


class MineStage(Option):
    """Mine hard negatives for the training data."""

    uses: ClassVar[tuple[str, ...]] = ("data", *ALWAYS)
    name: Literal["mine"] = field("option")
    teachers: list[str] = field(
        "runs, folders, hub names, names of pretrained backbone options, or bm25", min_length=1
    )
    combination: Literal["union", "mean", "agreement"] = field("of several teachers")
    count: int = field("negatives per query at most", unit="documents", ge=1)
    rules: MiningRules = field("which candidates may become negatives")
    search: MiningSearch = field("how candidates are found")
    bm25: BM25 = field("of the teacher bm25")
    cross_encoder: str | None = field("folder of a cross-encoder that scores the candidates again")
    embeddings: TeacherEmbeddings = field("how a teacher's vectors are made and kept")
    shards: int = field("parts of each dataset's queries, written one by one", ge=1)
    shard: int | None = field(
        "mine only this part, counted from 0; null mines what is missing", ge=0
    )


class FilterStage(Option):
    """Drop pairs of the training data whose document is not among the query's nearest."""

    uses: ClassVar[tuple[str, ...]] = ("data", *ALWAYS)
    name: Literal["filter"] = field("option")
    teacher: str = field("a run, a folder, a hub name, or a pretrained backbone option's name")
    top_k: int | None = field(
        "places of which the document must hold one; null drops none by its rank",
        unit="documents",
        ge=1,
    )
    shard_pairs: int = field("pairs compared with each other", unit="pairs", ge=1)
    shuffle: bool = field("shards are drawn at random, else cut as the data comes")
    min_score: float | None = field("pairs with a lower cosine are dropped; null drops none")
    tile: SearchTile = field("of the search")
    embeddings: TeacherEmbeddings = field("how the teacher's vectors are made and kept")


Stage = Annotated[
    Contrastive
    | MLMStage
    | CausalLMStage
    | SFTStage
    | MergeStage
    | EvaluateStage
    | AnalyseStage
    | MineStage
    | FilterStage
    | ZeroShotStage
    | ProbeStage
    | GenerateStage
    | GenerateQueriesStage
    | TranslateStage
    | TokenizerStage,
    Field(discriminator="name"),
]
