"""Read a frozen config back, as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import UserError
from .locations import short
from .schema.base import WRITTEN_BEFORE

if TYPE_CHECKING:
    from pathlib import Path

    from .experiment import Config


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

    def origin(dotted: str) -> str:
        line = line_of(file, dotted.split("."))
        return f"in {short(file)}" + (f":{line}" if line else "")

    try:
        return Config.model_validate(content, context=WRITTEN_BEFORE)
    except ValidationError as exc:
        raise invalid(exc, origin) from exc
