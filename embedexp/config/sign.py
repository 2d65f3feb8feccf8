"""The identity of an experiment: a hash of everything that changes its result."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from .predecessors import data_options, data_paths, enclosing_run, run_signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from .schema import Experiment

SCHEMA_VERSION = 1
"""Raised when keys change their meaning, so that old results are not taken for new ones."""

DIGITS = 10

_WHOLE_BYTES, _SAMPLE_BYTES = 2**30, 65_536


def signature(config: Experiment, *, with_seed: bool = True) -> str:
    """Ten hexadecimal digits of the SHA-256 of the experiment's identity.

    Raises `UserError` where a file whose content counts cannot be read.
    """
    return hashlib.sha256(canonical_json(identity(config, with_seed)).encode()).hexdigest()[:DIGITS]


def identity(config: Experiment, with_seed: bool = True) -> dict[str, Any]:
    """What the signature is made of: the groups in use without the keys that do not count.

    The content of files counts, wherever they lie: `fingerprints` holds their hashes. Of a run
    that is read, its signature counts, which is known before the run has been computed.
    """
    uses = set(config.stage.uses)
    sections = {
        name: _counted(getattr(config, name)) for name in type(config).model_fields if name in uses
    }
    sections = _without_places(sections, config)
    identity: dict[str, Any] = {name: section for name, section in sections.items() if section}
    if with_seed:
        identity["seed"] = config.seed
    if found := fingerprints(config):
        identity["fingerprints"] = found
    return identity | {"schema_version": SCHEMA_VERSION}


def _without_places(sections: dict[str, Any], config: Experiment) -> dict[str, Any]:
    """The sections without the paths of runs: wherever these lie, their signatures count."""
    runs = {path: run for _, path in models(config) if (run := run_signature(path))}

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replaced(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [replaced(entry) for entry in value]
        return f"run {runs[value]}" if isinstance(value, str) and value in runs else value

    return replaced(sections) if runs else sections


def fingerprints(config: Experiment) -> dict[str, str]:
    """Hash of the content of everything that the experiment reads, by group."""
    found: dict[str, str] = {}
    if "data" in config.stage.uses:
        found["data"] = _data(config)
    negatives_path = getattr(config.negatives, "path", None)
    if "negatives" in config.stage.uses and negatives_path is not None:
        from embedexp.data import mined

        run = run_signature(negatives_path)
        found["negatives"] = (
            f"run {run}" if run else mined.fingerprint(negatives_path, "negatives.path")
        )
    if "analysis" in config.stage.uses and (texts := getattr(config.analysis, "texts", None)):
        found["analysis.texts"] = file_hash(Path(texts).expanduser())
    if config.stage.name == "probe":
        from .probe_data import fingerprint as probe_fingerprint

        found["probes"] = probe_fingerprint(config.stage)
    from .prompt_files import of_stage, read

    for key, name in of_stage(config.stage).items():
        found[key] = hashlib.sha256(read(name, key).encode()).hexdigest()
    for key, path in models(config):
        if run := run_signature(path):
            found[key] = f"run {run}"
        elif folder := _model_folder(path):
            found[key] = model_hash(folder)
    return found


def _data(config: Experiment) -> str:
    """Hash of the data; for files that a run writes, its signature and their names."""
    from embedexp.data import fingerprint

    inside = {key: enclosing_run(path) for key, path in data_paths(config)}
    if not any(inside.values()):
        return fingerprint(config.data)
    found: dict[str, str] = {}
    for key, option in data_options(config):
        run = inside.get(f"{key}.path")
        found[key] = f"run {run_signature(run[0])} {run[1]}" if run else fingerprint(option)
    return hashlib.sha256(canonical_json(found).encode()).hexdigest()


def models(config: Experiment) -> list[tuple[str, str]]:
    """Models that the experiment reads, by dotted key."""
    found: list[tuple[str, str]] = []
    uses = config.stage.uses
    if "backbone" in uses and config.backbone.weights == "pretrained" and config.backbone.source:
        found.append(("backbone.source", config.backbone.source))
    if config.stage.name == "evaluate" or config.stage.name == "analyse":
        found.append(("stage.model", config.stage.model))
    if config.stage.name == "analyse" and (baseline := getattr(config.analysis, "baseline", None)):
        found.append(("analysis.baseline", baseline))
    tokenizer = config.backbone.tokenizer
    if "backbone" in uses and tokenizer is not None and run_signature(tokenizer):
        found.append(("backbone.tokenizer", tokenizer))
    if config.stage.name == "mine":
        found += [(f"stage.teachers.{i}", path) for i, path in enumerate(config.stage.teachers)]
        found += [("stage.cross_encoder", path) for path in [config.stage.cross_encoder] if path]
    if config.stage.name == "filter":
        found.append(("stage.teacher", config.stage.teacher))
    if "merge" in uses:
        from .merge_checks import inputs

        found += inputs(config.merge)
    return found


def _model_folder(path: str) -> Path | None:
    """The local folder that holds a model's weights; None for a name on the hub."""
    folder = Path(path).expanduser()
    return next((f for f in (folder / "model", folder) if any(f.glob("*.safetensors"))), None)


def model_hash(folder: Path) -> str:
    """Hash of a model folder: settings, tokenizer and weights.

    Weights of more than a gigabyte are read in samples, the beginning of each tensor, so that a
    large model is told apart in seconds even if only a part of it was trained.
    """
    result = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".json", ".safetensors", ".txt", ".model") or not path.is_file():
            continue
        result.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode())
        if path.stat().st_size <= _WHOLE_BYTES:
            result.update(bytes.fromhex(file_hash(path)))
        else:
            _sample_tensors(path, result.update)
    return result.hexdigest()


def _sample_tensors(path: Path, update: Callable[[bytes], None]) -> None:
    """Feed a safetensors file's header and the beginning of each of its tensors to `update`."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(length)
        update(header)
        for name, tensor in sorted(json.loads(header).items()):
            if name != "__metadata__":
                start, end = tensor["data_offsets"]
                file.seek(8 + length + start)
                update(file.read(min(end - start, _SAMPLE_BYTES)))


def data_fingerprint(config: Experiment) -> str | None:
    """Hash of the content of the data, or None in stages that read none."""
    return fingerprints(config).get("data")


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, hexadecimal; raises `UserError` if it cannot be read."""
    from .errors import UserError

    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def canonical_json(value: Any) -> str:
    """JSON in one spelling: sorted keys, no spaces, whole floats as integers (1.0 is 1)."""
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _counted(value: Any) -> Any:
    """The value without the keys whose schema says `identity: False`."""
    if isinstance(value, BaseModel):
        return {
            name: _counted(getattr(value, name))
            for name, info in type(value).model_fields.items()
            if counts(info) and not _asks_nothing(info, getattr(value, name))
        }
    if isinstance(value, dict):
        return {name: _counted(entry) for name, entry in value.items()}
    return value


def counts(info: Any) -> bool:
    """Whether a field of the schema is part of the identity."""
    extra = info.json_schema_extra
    return not isinstance(extra, dict) or bool(extra.get("identity", True))


def _asks_nothing(info: Any, value: Any) -> bool:
    """Whether a field has the value that its schema names in `without`."""
    extra = info.json_schema_extra
    return isinstance(extra, dict) and "without" in extra and bool(extra["without"] == value)
