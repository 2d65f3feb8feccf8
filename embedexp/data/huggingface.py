"""`data=huggingface`: a dataset of the Hugging Face hub, or one saved in a folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, nearest, shorten

from . import files, reading
from .parquet import fields_of
from .rows import Reader, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embedexp.config.schema.data import HuggingFace

    from .dataset import Corpus
    from .rows import Wanted

BATCH = 1024  # rows turned into Python's values at a time


def load(option: HuggingFace, cache_dir: str | Path | None = None) -> Corpus:
    """The examples of the split's rows, some of them held out; only named columns are read.

    Raises:
        UserError: the dataset, its split or a column is missing, or rows are bad; see
            `reading.load`.
    """
    return reading.load(option, reader(option), fingerprint(option), cache_dir)


def reader(option: HuggingFace) -> Reader:
    """The rows, numbered from 1. Class labels are read as their names."""
    saved = _folder(option)
    dataset = _saved(saved, option) if saved else _of_the_hub(option)

    def rows(wanted: Wanted | None) -> Iterator[Row]:
        there = dataset.column_names
        kept = there if wanted is None else wanted(there)
        names = [name for name in there if name in kept]
        chosen = dataset.select_columns(names).with_format("arrow")
        labels = {
            name: feature.names
            for name in names
            if hasattr(feature := dataset.features[name], "names")
        }
        number = 0
        for table in chosen.iter(BATCH):
            for fields in fields_of(table):
                for name, words in labels.items():
                    label = fields[name]  # -1 where there is none
                    if label is not None:
                        fields[name] = words[label] if 0 <= label < len(words) else None
                number += 1
                yield Row(option.dataset, number, fields)

    return Reader(_title(option), rows, dataset.column_names, unit="row", total=len(dataset))


def fingerprint(option: HuggingFace) -> str:
    """SHA-256 of the files in a folder; for the hub, of the name, subset, split and revision."""
    if saved := _folder(option):
        part = _part(saved, option)
        return files.fingerprint(sorted(p for p in part.iterdir() if p.suffix == ".arrow"))
    parts = [option.dataset, option.subset, option.split, option.revision]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def describe(option: HuggingFace) -> list[tuple[str, str, int | None]]:
    """The dataset's name and task; which of its rows are examples would need reading."""
    _folder(option)
    return [(_title(option), option.task, None)]


def column_names(option: HuggingFace) -> list[str] | None:
    """The columns of a dataset in a folder; those of the hub are known when it is loaded."""
    saved = _folder(option)
    info = _part(saved, option) / "dataset_info.json" if saved else None
    if info is None or not info.is_file():
        return None
    features = json.loads(info.read_text(encoding="utf-8")).get("features")
    return list(features) if features else None


def _title(option: HuggingFace) -> str:
    name = Path(option.dataset).name
    return f"{name}_{option.subset}" if option.subset else name


def _folder(option: HuggingFace) -> Path | None:
    """The folder of a saved dataset; None where the name is one of the hub."""
    folder = Path(option.dataset).expanduser()
    where = f"data.dataset={option.dataset}"
    if not folder.exists():
        if option.dataset.startswith((".", "/", "~")) or option.dataset.count("/") > 1:
            names = [p.name for p in folder.parent.iterdir()] if folder.parent.is_dir() else []
            near = nearest(folder.name, names)
            hint = f"did you mean {folder.parent / near}?" if near else "mend data.dataset"
            raise UserError(f"{folder} does not exist", where=where, hint=hint)
        return None
    if not any((folder / name).is_file() for name in ("dataset_dict.json", "state.json")):
        raise UserError(
            f"{folder} holds no dataset of save_to_disk",
            where=where,
            hint="for files in a folder use data=parquet, data=jsonl or data=csv",
        )
    if option.subset is not None or option.revision is not None:
        key = "subset" if option.subset is not None else "revision"
        raise UserError(
            f"data.{key} has no meaning for a dataset in a folder",
            where=where,
            hint=f"set data.{key}=null, and name the folder of the {key}",
        )
    _part(folder, option)
    return folder


def _part(folder: Path, option: HuggingFace) -> Path:
    """The folder of the split: below that of all splits, or the only one."""
    listing = folder / "dataset_dict.json"
    if not listing.is_file():
        return folder
    splits = json.loads(listing.read_text(encoding="utf-8"))["splits"]
    if option.split not in splits:
        raise _no_split(option, splits)
    return folder / option.split


def _saved(folder: Path, option: HuggingFace) -> Any:
    from datasets import load_from_disk

    part = _part(folder, option)
    try:
        return load_from_disk(str(part))
    except Exception as error:
        raise UserError(
            f"{part} cannot be read ({_first(error)})", where=f"data.dataset={option.dataset}"
        ) from None


def _of_the_hub(option: HuggingFace) -> Any:
    """Downloaded, or found in the hub's cache."""
    from datasets import load_dataset

    where = f"data.dataset={option.dataset}"
    try:
        return load_dataset(
            option.dataset, option.subset, split=option.split, revision=option.revision
        )
    except ConnectionError as error:  # no network, and not in the cache
        raise UserError(
            f"the hub cannot be reached, and its cache does not hold this dataset "
            f"({_first(error)})",
            where=where,
            hint="download it where there is a network, or name a folder of save_to_disk",
        ) from None
    except Exception as error:  # the hub has many: no such name, subset, split, revision, access
        text = _first(error)
        if "split" in text.lower():
            raise UserError(text, where=where, hint="set data.split") from None
        if "config name is missing" in text.lower() or "builderconfig" in text.lower():
            raise UserError(text, where=where, hint="set data.subset") from None
        raise UserError(f"the dataset cannot be loaded: {text}", where=where) from None


def _no_split(option: HuggingFace, splits: list[str]) -> UserError:
    near = nearest(option.split, splits) or splits[0]
    return UserError(
        f"{option.dataset} has no split {option.split}; there are: {', '.join(splits)}",
        where=f"data.split={option.split}",
        hint=f"did you mean data.split={near}?",
    )


def _first(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return shorten(text, 240)
