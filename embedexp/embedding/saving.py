"""Writing a model folder: all or nothing, and as plain as the model allows."""

from __future__ import annotations

import shutil
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.backbone.families import family_of
from embedexp.backbone.lora import merged
from embedexp.backbone.quiet import quiet
from embedexp.backbone.tokenizers import read_back
from embedexp.config.errors import UserError

from . import files, projection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .embedder import Embedder
    from .model_config import ModelConfig

FORMAT = 1
"""Version of `embedexp.json`."""


def save(embedder: Embedder, directory: str | Path) -> None:
    """Write a sentence-transformers folder, complete or not at all; an older model is replaced.

    A dense model whose mask is its family's own becomes a plain folder, for
    `SentenceTransformer(path)` on any machine. Other models (experts, other masks) name our own
    module, so `SentenceTransformer(path, trust_remote_code=True)` needs embedexp installed, and
    the folder has no `config.json`, lest something loads half of the model in silence.

    Raises:
        UserError: the folder exists and holds something else than such a model.
    """
    with staged(directory) as folder:
        write(embedder, folder)


@contextmanager
def staged(directory: str | Path) -> Iterator[Path]:
    """A folder to write a model into, which becomes `directory` if nothing goes wrong.

    Raises:
        UserError: the folder exists and holds something else than such a model.
    """
    target = Path(directory).expanduser().absolute()
    if target.exists() and not replaceable(target):
        raise UserError(
            f"{target} exists and is not a model folder",
            hint="choose another folder, or remove it yourself",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    token = uuid.uuid4().hex[:8]
    staging = target.with_name(f".{target.name}.{token}.new")
    staging.mkdir()
    try:
        yield staging
        if target.exists():
            old = target.with_name(f".{target.name}.{token}.old")
            target.rename(old)
            staging.rename(target)
            shutil.rmtree(old)
        else:
            staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def replaceable(folder: Path) -> bool:
    """Whether a path is an empty folder or a model folder of ours."""
    return folder.is_dir() and ((folder / files.OURS).is_file() or not any(folder.iterdir()))


def is_plain(embedder: Embedder) -> bool:
    """Whether sentence-transformers' own modules compute the same as the embedder."""
    return obstacle(embedder) is None and files.is_plain(embedder.config.embedding)


def obstacle(embedder: Embedder) -> str | None:
    """The first thing that keeps transformers' own classes from being the model; None if none."""
    family = family_of({"model_type": embedder.model.config.model_type})
    native = "causal" if family.causal else "bidirectional"
    config, schedule = embedder.config, embedder.schedule
    if config.routing.name != "dense":
        return f"it has experts (routing={config.routing.name})"
    if (mask := schedule.mask(schedule.final)) != native:
        ends = mask if isinstance(mask, str) else "partly open"
        return f"its mask is {ends} (mask_schedule={config.mask_schedule.name}), not {native}"
    if not family.plain:
        return f"transformers has no model of its own for {family.model_type}"
    if not read_back(embedder.text_tokenizer, family.model_type):
        return f"transformers takes another tokenizer for every {family.model_type}"
    return None


def write(embedder: Embedder, folder: Path) -> None:
    """Write all files of a model into an existing folder."""
    plain = is_plain(embedder)
    with merged(embedder.model):
        write_weights(embedder, folder, plain=plain)
    write_description(embedder, folder, plain=plain)


def write_description(embedder: Embedder, folder: Path, *, plain: bool) -> None:
    """Write what is in a model's folder beside the files of `write_weights`."""
    if embedder.tokenizer is None:
        raise RuntimeError("an embedder on the meta device cannot be saved")
    with quiet():
        embedder.tokenizer.save_pretrained(folder)
    config = self_contained(embedder)
    content = {"format": FORMAT, "model": config.model_dump(mode="json")}
    files.write_json(folder / files.OURS, content)
    files.write_json(folder / files.SETTINGS, files.settings(config, plain=plain))
    if plain:
        files.write_plain_modules(embedder, folder)
    else:
        files.write_modules(folder, [("", files.OUR_MODULE)])
    readme = files.readme(config.backbone.name, plain=plain)
    (folder / "README.md").write_text(readme, encoding="utf-8")


def write_weights(embedder: Embedder, folder: Path, *, plain: bool) -> None:
    """Weights as safetensors: in transformers' layout, or under our own modules' names."""
    if embedder.projection is not None:
        projection.write(embedder.projection, folder)
    if plain:
        with quiet():
            embedder.model.save_pretrained(folder)
        return
    from safetensors.torch import save_file

    state = {name: value.contiguous() for name, value in embedder.model.state_dict().items()}
    save_file(state, folder / files.WEIGHTS, metadata={"format": "pt"})


def self_contained(embedder: Embedder) -> ModelConfig:
    """The configuration of the folder itself: its own tokenizer and weights, its actual depth."""
    config = embedder.config
    architecture = {
        **config.backbone.architecture,
        "num_hidden_layers": embedder.model.config.num_hidden_layers,
    }
    update = {
        "source": None,
        "revision": None,
        "weights": "pretrained",
        "package": None,
        "tokenizer": None,
        "layers": None,
        "lora": None,
        "quantization": "none",  # the weights in the folder are the rounded ones
        "architecture": architecture,
    }
    return config.model_copy(update={"backbone": config.backbone.model_copy(update=update)})
