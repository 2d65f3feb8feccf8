"""Read a frozen config back, as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import UserError
from .locations import short

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .experiment import Config


LATER: Mapping[str, Mapping[str, Any]] = {"backbone": {"quantization": "none"}}
"""Keys that older files lack, by group, at the value at which they ask for nothing."""


def completed(groups: Mapping[str, Any]) -> dict[str, Any]:
    """The groups of a file with the keys that came after it was written."""
    return {
        name: {**LATER[name], **options} if name in LATER and isinstance(options, dict) else options
        for name, options in groups.items()
    }


def load(path: Path) -> Config:
    """The config in a file, or in the `config.yaml` of a run directory."""
    import yaml
    from pydantic import ValidationError

    from .experiment import Config
    from .invalid import invalid
    from .sources import line_of

    file = path / "config.yaml" if path.is_dir() else path
    try:
        content: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as exc:
        raise UserError(f"cannot read {short(file)}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise UserError(f"{short(file)} is no text file") from exc
    except yaml.YAMLError as exc:
        raise UserError(f"{short(file)} is no valid YAML", hint=str(exc)) from exc
    if not isinstance(content, dict):
        raise UserError(f"{short(file)} holds no experiment", hint="name a run's config.yaml")

    content.setdefault("analysis", {"name": "none"})
    content.setdefault("demo", [])  # which older files do not have
    content = completed(content)

    def origin(dotted: str) -> str:
        line = line_of(file, dotted.split("."))
        return f"in {short(file)}" + (f":{line}" if line else "")

    try:
        return Config.model_validate(content)
    except ValidationError as exc:
        raise invalid(exc, origin) from exc
