"""Labelled rows for probes: from the hub, from a folder of files, or from the built-in WordNet."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, nearest, shorten

from . import files
from .lines import read_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BUILTIN = "builtin"
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
SAVED = ("dataset_dict.json", "state.json")


@dataclass(frozen=True)
class Address:
    """Where the rows of one split are; `where` is the config key that says so.

    `dataset` is a hub name, `builtin`, or a folder. A folder holds `SUBSET/SPLIT.jsonl` (or
    `.parquet`, in one file or as `SPLIT-00000-of-00002.parquet` and so on), without `SUBSET/`
    where there is none; or it was written by `datasets` with `save_to_disk`.
    """

    dataset: str
    subset: str | None
    split: str
    where: str

    @property
    def folder(self) -> Path | None:
        """The local folder, or None for a name on the hub and for `builtin`.

        Raises:
            UserError: the name can only mean a folder, and there is none.
        """
        if self.dataset == BUILTIN:
            return None
        folder = Path(self.dataset).expanduser()
        if folder.is_dir():
            return folder
        if self.dataset.startswith((".", "/", "~")) or self.dataset.count("/") > 1:
            raise UserError(
                f"{folder} is no folder", where=f"{self.where}.dataset", hint="mend the path"
            )
        return None

    def __str__(self) -> str:
        parts = (self.dataset, self.subset, self.split)
        return "/".join(part for part in parts if part is not None)


def rows(
    address: Address, columns: Iterable[str], limit: int | None = None
) -> list[dict[str, Any]]:
    """The named columns of the split's first `limit` rows; classes of the hub by their names.

    Raises:
        UserError: the data or a column is missing, or a file is damaged.
    """
    wanted = list(columns)
    found = list(islice(_rows(address, wanted), limit))
    if not found:
        raise UserError(f"{address} has no rows", where=address.where)
    return found


def fingerprint(address: Address) -> str:
    """SHA-256 of the files' bytes; for the hub, of name, subset and split."""
    if address.dataset == BUILTIN:
        from .vendored import manifest

        return str(manifest()["fingerprint"])
    if (folder := address.folder) is not None:
        saved = _saved(folder, address)
        if saved is not None:
            return files.fingerprint(sorted(saved.glob("*.arrow")))
        return files.fingerprint(_files(folder, address))
    return hashlib.sha256(str(address).encode()).hexdigest()


def _rows(address: Address, wanted: list[str]) -> Iterator[dict[str, Any]]:
    if address.dataset == BUILTIN:
        yield from _picked(_builtin(address), wanted, address)
        return
    folder = address.folder
    saved = _saved(folder, address) if folder is not None else None
    if folder is None or saved is not None:
        yield from _arrow(_hub(address) if saved is None else _disk(saved), wanted, address)
        return
    for path in _files(folder, address):
        if path.suffix == ".parquet":
            yield from _parquet(path, wanted, address)
        else:
            objects = (fields for _, fields in read_objects(path))
            yield from _picked(objects, wanted, address)


def _picked(
    found: Iterable[dict[str, Any]], wanted: list[str], address: Address
) -> Iterator[dict[str, Any]]:
    for fields in found:
        _require(fields, wanted, address)
        yield {name: fields[name] for name in wanted}


def _require(there: Iterable[str], wanted: list[str], address: Address) -> None:
    names = list(there)
    for name in wanted:
        if name not in names:
            near = nearest(name, names)
            raise UserError(
                f"{address} has no column {name}; it has {', '.join(names)}",
                where=address.where,
                hint=f"did you mean {near}?" if near else "name its columns in texts and label",
            )


def _files(folder: Path, address: Address) -> list[Path]:
    base = folder / address.subset if address.subset else folder
    for suffix in SUFFIXES:
        if (path := base / f"{address.split}{suffix}").is_file():
            return [path]
    if parts := sorted(base.glob(f"{address.split}-[0-9]*-of-[0-9]*.parquet")):
        return parts
    raise UserError(
        f"{base} has no {address.split}.jsonl or {address.split}.parquet",
        where=address.where,
        hint="folders hold SUBSET/SPLIT.jsonl or SUBSET/SPLIT.parquet; mend the path or the names",
    )


def _parquet(path: Path, wanted: list[str], address: Address) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    from .parquet import fields_of

    try:
        file = ParquetFile(path)
        _require(file.schema_arrow.names, wanted, address)
        for batch in file.iter_batches(1024, columns=wanted):
            yield from fields_of(batch)
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"{path.name} cannot be read as Parquet ({shorten(error, 120)})",
            where=f"in {path}",
            hint="copy or download it again",
        ) from None


def _saved(folder: Path, address: Address) -> Path | None:
    """The folder of the split of a dataset that `datasets` saved."""
    base = folder / address.subset if address.subset else folder
    for place in (base / address.split, base):
        if (place / SAVED[1]).is_file():
            return place
    return None


def _disk(folder: Path) -> Any:
    from datasets import load_from_disk

    return load_from_disk(str(folder))


def _hub(address: Address) -> Any:
    from datasets import load_dataset

    try:
        return load_dataset(address.dataset, address.subset, split=address.split)
    except Exception as error:  # the hub has many: no network, name, subset, split, access
        text = shorten(" ".join(str(error).split()) or type(error).__name__, 200)
        raise UserError(
            f"{address} cannot be loaded: {text}",
            where=address.where,
            hint="download it where there is a network and name the folder in dataset",
        ) from None


def _arrow(dataset: Any, wanted: list[str], address: Address) -> Iterator[dict[str, Any]]:
    _require(dataset.column_names, wanted, address)
    names = {
        name: feature.names
        for name in wanted
        if hasattr(feature := dataset.features[name], "names")
    }
    for fields in dataset.select_columns(wanted):
        for name, words in names.items():
            number = fields[name]
            known = number is not None and 0 <= number < len(words)
            fields[name] = words[number] if known else None
        yield fields


def _builtin(address: Address) -> Iterator[dict[str, Any]]:
    from . import builtin

    train = {dataset.name: dataset for dataset in builtin.training_datasets()}
    held = builtin.heldout()
    if address.split not in ("train", "validation"):
        raise UserError(f"{address} is unknown: its splits are train and validation")
    training = address.split == "train"
    if address.subset == "wordnet_classes":
        data = train["wordnet_classes"]
        classes = zip(data.queries, data.positives, strict=True) if training else held.classes
        yield from ({"text": text, "label": label} for text, label in classes)
    elif address.subset == "wordnet_similarity":
        data = train["wordnet_similarity"]
        scored = (
            zip(data.queries, data.positives, data.scores or (), strict=True)
            if training
            else held.similarity
        )
        yield from ({"text1": a, "text2": b, "score": score} for a, b, score in scored)
    else:
        raise UserError(
            f"{address} is unknown",
            where=address.where,
            hint="subsets of builtin: wordnet_classes, wordnet_similarity",
        )
