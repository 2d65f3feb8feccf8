"""YAML files of sweeps and searches: read, and what is wrong said with its line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, closest, shorten
from embedexp.config.explain import invalid_yaml
from embedexp.config.locations import short
from embedexp.config.sources import line_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pydantic import ValidationError

FEW = 12
"""Names that a hint lists."""


def content_of(path: Path) -> Any:
    """What a file holds.

    Raises:
        UserError: it can't be read, or is no YAML.
    """
    import yaml

    try:
        with path.open(encoding="utf-8") as file:
            return yaml.load(file, Loader=_loader())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{short(path)} can't be read: {error}") from None
    except yaml.MarkedYAMLError as error:
        raise invalid_yaml(error) from None
    except yaml.YAMLError as error:  # a character that no YAML may have
        reason = str(error).partition("\n")[0]
        raise UserError(f"{short(path)} is no valid YAML: {reason}", hint="mend the file") from None


def _loader() -> Any:
    """YAML's safe loader, which refuses a label that is there twice instead of dropping one."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                problem = f"{key.value!r} is there twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)
        loader.flatten_mapping(node)
        return loader.construct_mapping(node, deep=True)

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return Loader


def place(path: Path, keys: Sequence[str]) -> str:
    """Where a key stands, or the nearest one above it: `in FILE:LINE`."""
    for end in range(len(keys), 0, -1):
        line = line_of(path, keys[:end])
        if line is not None:
            return f"in {short(path)}:{line}"
    return f"in {short(path)}"


def invalid(
    error: ValidationError,
    path: Path,
    kind: str,
    siblings: Callable[[Sequence[str]], Sequence[str]],
    below: Sequence[str] = (),
) -> UserError:
    """What to tell of the first thing in a file that does not fit its schema.

    `kind` is what the file holds, `siblings` gives the names that could stand in the place of a
    key, and `below` is where in the file what was validated stands.
    """
    # A key that is missing may be there under a wrong name.
    errors = error.errors(include_url=False)
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    keys = [*below, *(str(part) for part in first["loc"] if part != "[key]")]
    dotted, where = ".".join(keys), place(path, keys)
    if first["type"] == "extra_forbidden":
        known = siblings(keys)
        listed = f"known are: {', '.join(known)}" if len(known) <= FEW else "take it out"
        near = closest(keys[-1], known)
        hint = f"did you mean {' or '.join(near)}?" if near else listed
        return UserError(f"a {kind} has no key {shorten(dotted, 60)}", where=where, hint=hint)
    if first["type"] == "missing":
        return UserError(f"{dotted} is missing", where=where, hint="give it a value")
    given = first["input"]
    if first["type"] == "literal_error":
        words = first["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        words += ["search"] if dotted == "mode" else []  # of another kind of file, with a space
        near = closest(str(given), words)
        listed = f"one of {', '.join(words)}"
        hint = f"did you mean {' or '.join(near)}? {listed}" if near else listed
        what = f"{shorten(given, 60)} is no {keys[-1]}"
        return UserError(what, where=where, hint=hint)
    quoted = isinstance(given, bool | float) and first["type"] == "string_type"
    way = "quote labels and numbers in overrides" if quoted else None
    return UserError(f"{dotted}: {first['msg']}, not {shorten(given, 60)}", where=where, hint=way)
