"""Models made elsewhere: where they are, and the options that describe them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.backbone import nomic_layout
from embedexp.backbone.families import Family, family_of
from embedexp.backbone.source import complete, looks_local, resolve
from embedexp.config.compose import compose
from embedexp.config.errors import UserError, nearest
from embedexp.config.schema.backbone import Backbone
from embedexp.config.schema.embedding import Cls, Embedding, LastToken, Mean, Prompts, WeightedMean
from embedexp.config.schema.mask_schedule import Bidirectional, Causal
from embedexp.config.schema.routing import Dense, MoE
from embedexp.config.sources import option_files

from . import files, projection
from .model_config import ModelConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_ARCHITECTURE = ("architectures", "auto_map", "dtype", "torch_dtype", "transformers_version")
POOLING_NAMES: Mapping[str, files.Pooling] = {
    "mean": "mean",
    "lasttoken": "last_token",
    "cls": "cls",
    "weightedmean": "weighted_mean",
}
ORDER = ("Transformer", "Pooling", "Dense", "Normalize")
"""sentence-transformers' modules that our poolings are, each at its place."""
WANTED = "a run directory, a model folder, or a model on the hub as owner/name"
UNLIMITED = 100_000
"""A tokenizer that allows more tokens than this states no limit."""


def locate(path: str | Path) -> Path:
    """The folder of a model: given, inside a run directory, or fetched.

    Fetched are models by their hub name, and the published weights of a backbone option.

    Raises:
        UserError: there is none.
    """
    folder = Path(path).expanduser()
    if (folder / "model" / files.MODULES).is_file():
        return folder / "model"
    if (folder / files.OURS).is_file() or complete(folder, weights=False):
        return folder
    if (folder / "status.json").is_file():
        raise UserError(
            f"the run in {folder} has no model yet",
            hint=f"run it to the end: python -m embedexp resume {folder}",
        )
    if folder.exists() or looks_local(str(path)):
        raise UserError(f"no model in {folder}", hint=f"name {WANTED}")
    options = option_files("backbone")
    if str(path) in options:
        option = compose([f"backbone={path}"]).backbone
        if option.weights != "pretrained":
            raise UserError(
                f"backbone={path} has no published weights",
                hint="train it, and name the run",
            )
        return resolve(option)
    try:
        return resolve(backbone(str(path), {}, None))
    except UserError as error:
        hint = error.hint or ""
        if close := nearest(str(path), options):
            hint = f"did you mean {close}?"
        elif "backbone.source" in hint:  # no key of what asks here
            hint = f"name {WANTED}"
        raise UserError(error.what, hint=hint) from None


def describe(folder: Path) -> ModelConfig:
    """The options of a Hugging Face or sentence-transformers folder.

    Raises:
        UserError: its family, its pooling or one of its modules is not supported.
    """
    raw = files.read_json(folder / "config.json")
    routing = None
    if nomic_layout.is_published(raw):
        routing = nomic_layout.routing(raw)
        raw = nomic_layout.architecture(raw)
    family = family_of(raw)
    mask = Causal(name="causal") if family.causal else Bidirectional(name="bidirectional")
    return ModelConfig(
        backbone=backbone(str(folder), raw, family),
        routing=Dense(name="dense") if routing is None else MoE.model_validate(routing),
        mask_schedule=mask,
        embedding=embedding(folder, raw, family),
        seed=0,
    )


def backbone(source: str, raw: Mapping[str, Any], family: Family | None) -> Backbone:
    """The backbone option of a source with the `config.json` in `raw`."""

    def rate(key: str | None) -> float:
        return float(raw.get(key) or 0.0) if key is not None else 0.0

    stored = raw.get("dtype") or raw.get("torch_dtype")
    return Backbone(
        name=Path(source).name,
        source=source,
        revision=None,
        weights="pretrained",
        package=None,
        tokenizer=None,
        layers=None,
        positions=None,
        lora=None,
        dropout=rate(family.dropout) if family else 0.0,
        attention_dropout=rate(family.attention_dropout) if family else 0.0,
        attention="sdpa",
        dtype="bfloat16" if stored == "bfloat16" else "float32",
        quantization="none",
        trust_remote_code=False,
        architecture={key: raw[key] for key in raw if key not in NOT_ARCHITECTURE},
    )


def embedding(folder: Path, raw: Mapping[str, Any], family: Family) -> Embedding:
    """Pooling, prompts and lengths, from sentence-transformers' files where there are any."""
    modules = files.read_json(folder / files.MODULES)
    kinds = [entry["type"].rsplit(".", 1)[-1] for entry in modules]
    for kind in kinds:
        if kind not in ORDER:
            raise UserError(
                f"module {kind} of the model is not supported",
                where=str(folder / files.MODULES),
                hint=f"supported: {', '.join(ORDER)}",
            )
    if kinds != sorted(kinds, key=ORDER.index):
        raise UserError(
            f"modules of the model in this order are not supported: {', '.join(kinds)}",
            where=str(folder / files.MODULES),
            hint=f"supported: {', '.join(ORDER)}",
        )
    default: files.Pooling = "last_token" if family.causal else "mean"
    paths = [entry["path"] for entry, kind in zip(modules, kinds, strict=True) if kind == "Pooling"]
    tokens = longest(folder, raw, family)
    sides = files.read_json(folder / files.LENGTHS)
    stated = files.read_json(folder / files.SETTINGS)
    saved = stated.get("prompts") or {}
    # What sentence-transformers puts before a text that it is told nothing of.
    usual = saved.get(stated.get("default_prompt_name")) or ""
    query = saved.get("search_query", saved.get("query", usual)) or ""
    document = saved.get("search_document", saved.get("document", saved.get("passage", usual)))
    common: dict[str, Any] = {
        "normalize": "Normalize" in kinds or not kinds,
        "width": None,
        "query_tokens": min(sides.get("query_length") or tokens, tokens),
        "document_tokens": min(sides.get("document_length") or tokens, tokens),
        "prompts": Prompts(
            search_query=query,
            search_document=document or "",
            classification=saved.get("classification", usual) or "",
            clustering=saved.get("clustering", usual) or "",
        ),
    }
    name = pooling(folder / paths[0] / "config.json") if paths else default
    common |= {"layers": "last", "projection": projection.width_of(folder)}
    if name == "last_token":
        return LastToken(name=name, **common)
    if name == "cls":
        return Cls(name=name, **common)
    if name == "mean":
        return Mean(name=name, exclude_instruction=False, **common)
    return WeightedMean(name=name, exclude_instruction=False, **common)


def pooling(path: Path) -> files.Pooling:
    """The name of the pooling in a sentence-transformers file, in its older or newer form.

    Raises:
        UserError: it is not supported.
    """
    content = files.read_json(path)
    flags: list[files.Pooling] = [
        name for name, flag in files.POOLING_FLAGS.items() if content.get(flag)
    ]
    others = [
        key
        for key, value in content.items()
        if key.startswith("pooling_mode_") and value and key not in files.POOLING_FLAGS.values()
    ]
    mode = content.get("pooling_mode")
    if mode in POOLING_NAMES:
        return POOLING_NAMES[mode]
    if mode is None and len(flags) == 1 and not others:
        return flags[0]
    raise UserError(
        f"pooling {mode or ' + '.join(others + flags) or 'unknown'} is not supported",
        where=str(path),
        hint=f"supported: {', '.join(POOLING_NAMES)}",
    )


def longest(folder: Path, raw: Mapping[str, Any], family: Family) -> int:
    """How many tokens the model takes: as its files say, at most what it has positions for."""
    positions = int(raw.get("max_position_embeddings") or 512)
    stated = files.read_json(folder / files.LENGTHS).get("max_seq_length")
    if stated is None:
        stated = files.read_json(folder / "tokenizer_config.json").get("model_max_length")
    if stated is None or stated > UNLIMITED:
        stated = positions
    return min(int(stated), positions)
