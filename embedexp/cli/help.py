"""Help: what can be composed, which commands there are, and examples."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING, Any

from .arguments import parser
from .commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_WIDTH = 100

_USAGE = """\
usage: python -m embedexp [overrides]        one run: group=option, key=value
       python -m embedexp -m [overrides]     a run for each combination of a=1,2 b=x,y
       python -m embedexp COMMAND ...        a command below; help COMMAND tells more"""

_EXAMPLES = """\
examples:
  python -m embedexp                                        train, evaluate, print scores
  python -m embedexp routing=mote mask_schedule=linear
  python -m embedexp -m routing=dense,moe loss.temperature=0.02,0.05 hydra.launcher.processes=2
  python -m embedexp show routing=moe                       what would be run, in words
  python -m embedexp status                                 what is running, how far, what failed"""


def overview(config_dirs: Sequence[str | Path] = ()) -> str:
    """The text of `--help`: usage, commands, groups with their options, flags, examples."""
    commands = {f"{name} {command.usage}": command.summary for name, command in COMMANDS.items()}
    parts = [
        "embedexp: declarative experiments with text-embedding models",
        _USAGE,
        "commands:\n" + _columns(commands),
        "groups (* is the default):\n" + _columns(_groups(config_dirs)),
        "flags:\n" + _columns(_flags()),
        _EXAMPLES,
    ]
    return "\n\n".join(parts)


def _groups(config_dirs: Sequence[str | Path]) -> dict[str, str]:
    from embedexp.config.locations import search_folders

    options: dict[str, set[str]] = {}
    for folder in search_folders(config_dirs):
        for file in folder.rglob("*.yaml"):
            group = file.parent.relative_to(folder).as_posix()
            if group != ".":
                options.setdefault(group, set()).add(file.stem)
    default = _defaults()
    listed = [group for group in default if group in options]
    listed += sorted(group for group in options if group not in default)
    return {
        group: "  ".join(
            f"{name}*" if name == default.get(group) else name for name in sorted(options[group])
        )
        for group in listed
    }


def _defaults() -> dict[str, str]:
    defaults = {}
    for entry in root_config()["defaults"]:
        if isinstance(entry, dict):
            ((group, option),) = entry.items()
            defaults[group.removeprefix("override ").removeprefix("/")] = str(option)
    return defaults


def root_config() -> dict[str, Any]:
    """The root of all experiments, as its file says it, without composing anything."""
    import yaml

    from embedexp.config.locations import conf_dir

    content = yaml.safe_load((conf_dir() / "config.yaml").read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def _flags() -> dict[str, str]:
    flags = {}
    for action in parser()._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            names = ", ".join(action.option_strings)
            value = f" {{{'|'.join(action.choices)}}}" if action.choices else ""
            if action.choices is None and action.nargs != 0:
                value = f" {action.dest.upper()}"
            flags[names + value] = action.help or ""
    return flags


def _columns(rows: dict[str, str], longest: int = 36) -> str:
    width = min(max(map(len, rows)), longest) + 4
    lines = []
    for left, right in rows.items():
        folded = textwrap.wrap(right, _WIDTH - width, break_on_hyphens=False) or [""]
        if len(left) + 4 > width:
            lines.append(f"  {left}")
            left = ""
        lines.append(f"  {left:<{width - 2}}{folded[0]}")
        lines.extend(" " * width + line for line in folded[1:])
    return "\n".join(lines)
