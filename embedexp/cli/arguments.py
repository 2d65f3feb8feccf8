"""Hydra's flags and overrides, and the ones among them that would silently do nothing here."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, NoReturn

from embedexp.config.errors import UserError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

# Hydra's own keys that work here. Runs write into their run directory and log there, so the
# others (hydra.run.dir, hydra.job_logging, ...) would have no effect.
_ALWAYS = ("hydra.searchpath", "hydra.mode")
_MULTIRUN = ("hydra/launcher", "hydra.launcher", "hydra/sweeper", "hydra.sweeper")
_HYDRA_KEY = re.compile(r"[+~]*(hydra[./][^=@:]*)")

_INSTEAD = {
    "hydra.run.dir": "set paths.runs=FOLDER and name=NAME instead",
    "hydra.sweep.dir": "set paths.runs=FOLDER instead",
    "hydra.verbose": "each run's log.txt holds everything from level INFO on",
}


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are the user's to read, without a usage text."""

    def error(self, message: str) -> NoReturn:
        unknown = re.search(r"unrecognized arguments: (\S+)", message)
        if unknown:
            best = nearest(unknown[1].split("=")[0], self._option_string_actions)
            message = f"unknown option {unknown[1]}" + (f"; did you mean {best}?" if best else "")
        raise UserError(message, hint="all options: python -m embedexp --help")


def parser() -> argparse.ArgumentParser:
    """The flags of Hydra that work here, with Hydra's names."""
    made = _Parser(prog="python -m embedexp", add_help=False, allow_abbrev=False)
    made.add_argument("overrides", nargs="*")
    for names, keywords in _FLAGS.items():
        made.add_argument(*names, **keywords)  # type: ignore[arg-type]
    return made


_FLAGS: dict[tuple[str, ...], dict[str, object]] = {
    ("--help", "-h"): {"action": "store_true", "help": "this help"},
    ("--hydra-help",): {"action": "store_true", "help": "Hydra's own help"},
    ("--version",): {"action": "store_true", "help": "the version"},
    ("--multirun", "-m"): {"action": "store_true", "help": "one run per combination of a=1,2"},
    ("--run", "-r"): {"action": "store_true", "help": "one run; the default"},
    ("--cfg", "-c"): {
        "choices": ["job", "hydra", "all"],
        "help": "print the composed config and check it; nothing is run",
    },
    ("--resolve",): {"action": "store_true", "help": "with --cfg: resolve interpolations"},
    ("--package", "-p"): {"help": "with --cfg: only this part, such as loss"},
    ("--info", "-i"): {
        "nargs": "?",
        "const": "all",
        "choices": ["all", "config", "defaults", "defaults-tree", "plugins", "searchpath"],
        "help": "how the config is composed",
    },
    ("--config-dir", "-cd"): {
        "action": "append",
        "default": [],
        "help": "a folder with options of your own",
    },
    ("--shell-completion", "-sc"): {
        "action": "store_true",
        "help": 'completion: eval "$(embedexp -sc install=bash)"',
    },
    ("--config-name", "-cn"): {"help": argparse.SUPPRESS},
    ("--config-path", "-cp"): {"help": argparse.SUPPRESS},
    ("--experimental-rerun",): {"help": argparse.SUPPRESS},
}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse and check a command line of Hydra's grammar.

    `hydra.mode=MULTIRUN` among the overrides becomes the flag that it stands for.

    Raises:
        UserError: unknown flags, flags that exclude each other, or that have no effect here.
    """
    given = parser().parse_intermixed_args(list(arguments))
    _refuse_unsupported(given)
    modes = [item for item in given.overrides if re.match(r"\+*hydra\.mode=", item)]
    given.overrides = [item for item in given.overrides if item not in modes]
    given.multirun = given.multirun or any(item.endswith("=MULTIRUN") for item in modes)
    wanted = {
        "--run": given.run,
        "--multirun": given.multirun,
        "--cfg": given.cfg is not None,
        "--info": given.info is not None,
        "--shell-completion": given.shell_completion,
    }
    chosen = [name for name, value in wanted.items() if value]
    if len(chosen) > 1:
        raise UserError(f"{' and '.join(chosen)} exclude each other", hint="leave one of them out")
    if given.cfg is None and (given.resolve or given.package):
        flag = "--resolve" if given.resolve else "--package"
        raise UserError(
            f"{flag} has no effect without --cfg", hint=f"add --cfg job, or drop {flag}"
        )
    if given.cfg is None and given.info is None and not given.shell_completion:
        refuse_without_effect(given.overrides, multirun=given.multirun)
    return given


def refuse_without_effect(overrides: Sequence[str], *, multirun: bool) -> None:
    """Raise UserError for the first override of Hydra's own config that would do nothing."""
    for override in overrides:
        match = _HYDRA_KEY.match(override)
        if match is None:
            continue
        key = match[1]
        if _is_below(key, _ALWAYS):
            continue
        if _is_below(key, _MULTIRUN):
            if multirun:
                continue
            raise UserError(
                f"{override} has no effect on a single run",
                hint="add -m for a multirun, or drop it",
            )
        start = re.match(r"hydra[./][^./]*", key)
        best = nearest(start[0] if start else key, (*_MULTIRUN, *_ALWAYS), cutoff=0.75)
        suggestion = f"did you mean {best}?" if best else "drop it"
        raise UserError(
            f"{override} has no effect here: runs write and log in their run directory only",
            hint=_INSTEAD.get(key, suggestion),
        )


def _is_below(key: str, prefixes: Sequence[str]) -> bool:
    return any(key == prefix or key.startswith((f"{prefix}.", f"{prefix}/")) for prefix in prefixes)


def _refuse_unsupported(given: argparse.Namespace) -> None:
    if given.config_name is not None or given.config_path is not None:
        raise UserError(
            "--config-name and --config-path are not supported: there is one root config",
            hint="options of your own: --config-dir FOLDER, then group=option",
        )
    if given.experimental_rerun is not None:
        raise UserError(
            "--experimental-rerun is not supported: it reads a pickle",
            hint="each run keeps its config: python -m embedexp resume RUN",
        )
