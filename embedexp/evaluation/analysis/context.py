"""What an analysis is given, and the texts that it reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from embedexp.config.schema.evaluation import Evaluation
    from embedexp.embedding import Embedder


@dataclass(frozen=True)
class Context:
    """A model with everything that an analysis of it may need.

    `embedder` and `model` are the model and its name; `option` is the analysis' own; `load` reads
    another model; `say` and `told` tell a person and the run's status what is happening, and `told`
    raises when a stop was asked for; `folder` is where results go;
    `saved_prompts` came with a model made elsewhere, see `evaluation.evaluate`.
    """

    embedder: Embedder
    model: str
    option: Any
    evaluation: Evaluation
    seed: int
    folder: Path
    load: Callable[[str], Embedder]
    say: Callable[[str], None]
    told: Callable[[str], None]
    saved_prompts: Mapping[str, str] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The analysis' settings, and the model, as JSON."""
        return {"model": self.model, "seed": self.seed, **self.option.model_dump(mode="json")}


def documents(path: str | None, count: int) -> list[str]:
    """The first so many different texts of a file, one a line, or of the built-in held-out glosses.

    Raises:
        UserError: the file can't be read, or has fewer.
    """
    if path is None:
        from embedexp.data.builtin import heldout

        found = [gloss for _, _, gloss in heldout().definitions]
    else:
        found = _lines(path)
    return _first(list(dict.fromkeys(found)), count, path, "different texts")


def pairs(path: str | None, count: int) -> list[tuple[str, str]]:
    """The first so many pairs of a file, a tab between its texts, or of built-in glosses.

    Raises:
        UserError: the file can't be read, a line holds no pair, or there are fewer.
    """
    if path is None:
        from embedexp.data.builtin import heldout

        found = [(first, second) for first, second, _ in heldout().similarity]
        return _first(found, count, path, "pairs")
    found = []
    for line in _lines(path):
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != 2 or not all(parts):
            raise UserError(
                f"a line of {path} does not hold two texts with a tab between them: {line[:60]}",
                where="analysis.texts",
                hint="write one pair a line: TEXT<tab>TEXT",
            )
        found.append((parts[0], parts[1]))
    return _first(found, count, path, "pairs")


def _lines(path: str) -> list[str]:
    try:
        text = Path(path).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}", where="analysis.texts") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def _first(found: list[Any], count: int, path: str | None, what: str) -> list[Any]:
    if len(found) < count:
        source = path or "the built-in corpus"
        raise UserError(
            f"{source} has {len(found)} {what}, analysis.documents asks for {count}",
            hint=f"set analysis.documents={len(found)} or less",
        )
    return found[:count]
