"""The files of a model folder, as sentence-transformers lays them out, written without it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from embedexp.backbone.families import family_of
from embedexp.config.trained import OURS as OURS
from embedexp.data.prompted import sides

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

    from embedexp.config.schema.embedding import Embedding

    from .embedder import Embedder
    from .model_config import ModelConfig

MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"
LENGTHS = "sentence_bert_config.json"
WEIGHTS = "model.safetensors"

TRANSFORMER = "sentence_transformers.models.Transformer"
POOLING = "sentence_transformers.models.Pooling"
DENSE = "sentence_transformers.models.Dense"
NORMALIZE = "sentence_transformers.models.Normalize"
OUR_MODULE = "embedexp.embedding.sentence_transformers_module.EmbedderModule"

Pooling = Literal["mean", "last_token", "cls", "weighted_mean"]

POOLING_FLAGS: dict[Pooling, str] = {
    "mean": "pooling_mode_mean_tokens",
    "last_token": "pooling_mode_lasttoken",
    "cls": "pooling_mode_cls_token",
    "weighted_mean": "pooling_mode_weightedmean_tokens",
}

MTEB_TYPES: dict[str, tuple[str, ...]] = {
    "classification": (
        "BitextMining",
        "Classification",
        "MultilabelClassification",
        "PairClassification",
        "Regression",
        "STS",
        "Summarization",
    ),
    "clustering": ("Clustering",),
}
"""mteb's types of tasks whose texts are no queries and documents, by our instruction task."""


def write_json(path: Path, content: Any) -> None:
    """Write JSON for people to read."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read JSON; an empty mapping where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def prompts(config: ModelConfig) -> dict[str, str]:
    """Prompts by instruction task, and by the names that sentence-transformers and mteb use."""
    own: dict[str, str] = config.embedding.prompts.model_dump()
    if is_plain(config.embedding):
        own = {task: sides(prompt)[0] for task, prompt in own.items()}
    named = {**own, "query": own["search_query"], "document": own["search_document"]}
    if len({own["search_document"], own["classification"], own["clustering"]}) > 1:
        # By these names mteb asks for them; elsewhere it would take the default prompt.
        named |= {kind: own[task] for task, kinds in MTEB_TYPES.items() for kind in kinds}
    return named


def is_plain(option: Embedding) -> bool:
    """Whether sentence-transformers' own modules pool so, and put the prompts where they belong.

    They know prefixes, not templates, and what they leave out with `include_prompt=False` depends
    on how the prompt is tokenised when no text follows it.
    """
    return (
        option.name in POOLING_FLAGS
        and option.layers == "last"
        and not getattr(option, "exclude_instruction", False)
        and not any(sides(prompt)[1] for prompt in option.prompts.model_dump().values())
    )


def settings(config: ModelConfig, *, plain: bool) -> dict[str, Any]:
    """What sentence-transformers reads first: prompts, and the one used unless told otherwise.

    Our own module knows the default itself, since it must also follow a task given by name.
    """
    table = prompts(config)
    default = "search_document" if plain and table["search_document"] else None
    return {
        "model_type": "SentenceTransformer",
        "prompts": table,
        "default_prompt_name": default,
        "similarity_fn_name": "cosine",
    }


def write_plain_modules(embedder: Embedder, folder: Path) -> None:
    """Describe a dense model by sentence-transformers' own modules."""
    import torch

    option, hidden = embedder.config.embedding, int(embedder.model.config.hidden_size)
    lengths: dict[str, Any] = {
        "max_seq_length": max(option.query_tokens, option.document_tokens),
        "do_lower_case": False,
    }
    if option.query_tokens != option.document_tokens:
        # Read since version 5.7, where texts are encoded as queries or as documents.
        lengths |= {
            "query_length": option.query_tokens,
            "document_length": option.document_tokens,
        }
    arguments = family_of({"model_type": embedder.model.config.model_type}).model_arguments
    if arguments:
        # Spares the reader a report of missing parameters that no embedding needs (the pooler).
        lengths["model_args"] = dict(arguments)
    write_json(folder / LENGTHS, lengths)

    modules = [("", TRANSFORMER), ("1_Pooling", POOLING)]
    flags = {flag: name == option.name for name, flag in POOLING_FLAGS.items()}
    pooling = {"word_embedding_dimension": hidden, **flags}
    write_json(folder / "1_Pooling" / "config.json", pooling)
    dense: dict[str, Tensor] | None = None
    if embedder.projection is not None:
        # Its first dimensions alone are the first rows of the layer.
        state = embedder.projection.state_dict()
        dense = {name: rows[: embedder.width].clone() for name, rows in state.items()}
    elif embedder.width < hidden:
        # Truncation before normalisation, as a projection onto the first dimensions.
        dense = {"weight": torch.eye(embedder.width, hidden)}
    if dense is not None:
        modules.append(("2_Dense", DENSE))
        write_dense(folder / "2_Dense", dense)
    if option.normalize:
        modules.append((f"{len(modules)}_Normalize", NORMALIZE))
        (folder / modules[-1][0]).mkdir()
    write_modules(folder, modules)


def write_dense(folder: Path, state: Mapping[str, Tensor]) -> None:
    """A linear layer of sentence-transformers: `weight [out, in]` and maybe `bias [out]`."""
    from safetensors.torch import save_file

    width, hidden = state["weight"].shape
    write_json(
        folder / "config.json",
        {
            "in_features": hidden,
            "out_features": width,
            "bias": "bias" in state,
            "activation_function": "torch.nn.modules.linear.Identity",
        },
    )
    named = {f"linear.{name}": value.contiguous() for name, value in state.items()}
    save_file(named, folder / WEIGHTS)


def write_modules(folder: Path, modules: list[tuple[str, str]]) -> None:
    """The list of modules: folder and class of each."""
    entries = [
        {"idx": i, "name": str(i), "path": path, "type": kind}
        for i, (path, kind) in enumerate(modules)
    ]
    write_json(folder / MODULES, entries)


def readme(name: str, *, plain: bool) -> str:
    """How to use the folder, for whoever finds it."""
    arguments = "path" if plain else "path, trust_remote_code=True"
    note = (
        "This is an ordinary sentence-transformers model; embedexp is not needed."
        if plain
        else "sentence-transformers finds the model's class in the installed package embedexp and\n"
        "asks for `trust_remote_code=True` because it is not one of its own. `encode` takes\n"
        '`task="search_query"`, `"search_document"`, `"classification"` or `"clustering"`.'
    )
    return (
        "---\nlibrary_name: sentence-transformers\npipeline_tag: sentence-similarity\n---\n\n"
        f"# {name}\n\n"
        "```python\n"
        "from sentence_transformers import SentenceTransformer\n\n"
        f"model = SentenceTransformer({arguments})\n"
        'vectors = model.encode(["a text"])\n'
        "```\n\n"
        f'{note}\n\nWith embedexp: `embedexp.load(path).encode(["a text"])`.\n'
    )
