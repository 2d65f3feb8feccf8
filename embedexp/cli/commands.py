"""The commands: what a bare first word may be."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from embedexp.config.errors import UserError, nearest

from . import OK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from embedexp.config import Config


@dataclass(frozen=True)
class Command:
    """A command: its arguments in words, what it does in one line, and who does it."""

    usage: str
    summary: str
    carry_out: Callable[[Sequence[str]], int]
    details: str = ""


class _Parser(argparse.ArgumentParser):
    """Complaints of at most three lines, as for every other mistake of the user."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{self.prog}: {message}", hint=f"see: python -m embedexp help {self.prog}")


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Carry out the command `name`; returns the exit code.

    Raises:
        UserError: there is no such command, or its arguments are wrong.
    """
    command = find_command(name)
    if any(argument in ("--help", "-h") for argument in arguments):
        print(command_help(name))
        return OK
    return command.carry_out(arguments)


def find_command(name: str) -> Command:
    """The command called `name`; UserError with the nearest one if there is none."""
    if name in COMMANDS:
        return COMMANDS[name]
    best = nearest(name, COMMANDS)
    raise UserError(
        f"there is no command {name!r}" + (f"; did you mean {best}?" if best else ""),
        where=f"commands: {', '.join(COMMANDS)}",
        hint="overrides have an equals sign: group=option, key=value",
    )


def command_help(name: str) -> str:
    """Usage, summary and details of one command."""
    command = find_command(name)
    text = f"usage: python -m embedexp {name} {command.usage}\n\n{command.summary}"
    return f"{text}\n{command.details}" if command.details else text


def _help(arguments: Sequence[str]) -> int:
    from .help import overview

    print(command_help(arguments[0]) if arguments else overview())
    return OK


def _status(arguments: Sequence[str]) -> int:
    from .operate import status

    return status(arguments)


def _logs(arguments: Sequence[str]) -> int:
    from .operate import logs

    return logs(arguments)


def _retry(arguments: Sequence[str]) -> int:
    from .operate import retry

    return retry(arguments)


def _cancel(arguments: Sequence[str]) -> int:
    from .operate import cancel

    return cancel(arguments)


def _cell(arguments: Sequence[str]) -> int:
    from .search import cell

    return cell(arguments)


def _sweep(arguments: Sequence[str]) -> int:
    from .sweeps import sweep

    return sweep(arguments)


def _table(arguments: Sequence[str]) -> int:
    from .sweeps import show_table

    return show_table(arguments)


def _report(arguments: Sequence[str]) -> int:
    from .report import report

    return report(arguments)


def _show(arguments: Sequence[str]) -> int:
    from embedexp.config.show import show

    parser = run_parser("show")
    parser.add_argument("--config-dir", "-cd", action="append", default=[])
    parser.add_argument("--plot", metavar="FILE", type=Path)
    parser.add_argument("overrides", nargs="*")
    given = parser.parse_intermixed_args(list(arguments))
    if len(given.overrides) == 1:
        config = experiment(given.overrides[0], given.runs, given.config_dir)
    else:
        from embedexp.config import compose

        config = compose(given.overrides, given.config_dir)
    print(show(config))
    if given.plot is not None:
        if "mask_schedule" not in config.stage.uses:
            raise UserError(
                f"--plot draws an attention mask, and stage={config.stage.name} has none",
                hint="drop --plot",
            )
        from embedexp.mask_schedule.drawing import draw

        draw(config.mask_schedule, given.plot, steps=config.training.steps)
        print(f"the mask over training: {given.plot}")
    return OK


def _diff(arguments: Sequence[str]) -> int:
    from embedexp.config.compose import paper_overrides
    from embedexp.config.show import diff

    parser = run_parser("diff")
    parser.add_argument("--config-dir", "-cd", action="append", default=[])
    parser.add_argument("a")
    parser.add_argument("b", nargs="?")
    given = parser.parse_intermixed_args(list(arguments))
    # One experiment alone is compared with its paper's file, or else with the defaults.
    pair = (given.a, given.b)
    if given.b is None:
        typed = shlex.split(given.a, posix=False) if "=" in given.a else []
        pair = (" ".join(paper_overrides(typed, given.config_dir)), given.a)
    first, second = (experiment(text, given.runs, given.config_dir) for text in pair)
    print(diff(first, second))
    return OK


def _resume(arguments: Sequence[str]) -> int:
    from embedexp.runs import Run, RunDirectory, State
    from embedexp.runs.registry import resolve

    from .experiments import execute

    parser = run_parser("resume")
    parser.add_argument("run")
    given = parser.parse_intermixed_args(list(arguments))
    run = resolve(given.run, given.runs or default_runs())
    config = run.config
    # Wherever the directory lies by now, the run goes on in it.
    here = config.paths.model_copy(update={"runs": str(run.path.parent)})
    config = config.model_copy(update={"paths": here, "rerun": False})
    if RunDirectory.of(config).name != run.name:
        raise UserError(
            f"{run.path} can't go on: its experiment is now {config.run_name}",
            where="the data it reads or its config.yaml has changed since, or it was renamed",
            hint="start anew from the same overrides; this directory stays as it is",
        )
    if run.status.state is State.FINISHED:
        print(f"{run.path} is finished")
        _print_results(Run(run))
        return OK
    return execute(config)


def _results(arguments: Sequence[str]) -> int:
    from embedexp.runs import Run
    from embedexp.runs.registry import resolve

    parser = run_parser("results")
    parser.add_argument("run")
    given = parser.parse_intermixed_args(list(arguments))
    _print_results(Run(resolve(given.run, given.runs or default_runs())))
    return OK


def _compare(arguments: Sequence[str]) -> int:
    from .compare import compare

    return compare(arguments)


def _consolidate(arguments: Sequence[str]) -> int:
    from embedexp.runs.registry import resolve

    parser = run_parser("consolidate")
    parser.add_argument("run")
    parser.add_argument("--step", type=int, metavar="N")
    parser.add_argument("--best", action="store_true")
    parser.add_argument("--to", type=Path, metavar="FOLDER")
    given = parser.parse_intermixed_args(list(arguments))
    if given.best and given.step is not None:
        raise UserError("--best and --step exclude each other", hint="leave one of them out")
    run = resolve(given.run, given.runs or default_runs())
    from embedexp.stage.consolidate import consolidate

    model = consolidate(run, step=given.step, best=given.best, to=given.to)
    print(f"model    {model}  (SentenceTransformer loads it)")
    return OK


def _export(arguments: Sequence[str]) -> int:
    from .hand_over import export

    return export(arguments)


def _encode(arguments: Sequence[str]) -> int:
    from .encode import encode

    return encode(arguments)


def _doctor(arguments: Sequence[str]) -> int:
    from .doctor import doctor

    return doctor(arguments)


def _print_results(run: object) -> None:
    from embedexp.evaluation import analysis
    from embedexp.evaluation.scores import ScoreFile
    from embedexp.evaluation.table import table
    from embedexp.runs import Run
    from embedexp.runs.tables import console
    from embedexp.runs.text import markup

    assert isinstance(run, Run)
    out = console()
    analyses = analysis.read(run.directory.analysis)
    file = ScoreFile(run.directory.evaluation)
    before, after, failed = file.read("before"), file.read("after"), file.failed("after")
    if before or after or failed:
        out.print(table(before, after, failed))
    elif not analyses:
        shown = run.status.shown
        out.print(markup(f"{run.path} has no scores; it is {shown}"), soft_wrap=True)
    for report in analyses:
        out.print(analysis.table(report))
    out.print(markup(f"run    {run.path}"), soft_wrap=True)
    if run.model.is_dir():
        out.print(markup(f"model  {run.model}"), soft_wrap=True)


def experiment(text: str, runs: str | None, config_dirs: Sequence[str | Path] = ()) -> Config:
    """The experiment that `text` means: a run, a config.yaml, or overrides in one string.

    Raises:
        UserError: no run fits, or the overrides are wrong.
    """
    from embedexp.config import Config, compose
    from embedexp.runs.registry import resolve

    path = Path(text).expanduser()
    if text and path.is_file():
        return Config.load(path)
    if text and "=" not in text and not text.startswith(("+", "~")):
        return resolve(text, runs or default_runs()).config
    return compose(shlex.split(text, posix=False), config_dirs)


def default_runs() -> str:
    """The folder where runs are made unless `paths.runs` says otherwise."""
    from .help import root_config

    return str(root_config()["paths"]["runs"])


def run_parser(name: str) -> argparse.ArgumentParser:
    """A parser for the arguments of the command `name`, with the folder of runs among them."""
    parser = _Parser(prog=name, add_help=False, allow_abbrev=False)
    parser.add_argument("--runs")
    return parser


_RUN = (
    "RUN is a run directory, a run's name, or the start of its name or signature.\n"
    "--runs FOLDER looks there instead of in the default folder."
)

_MANY = (
    _RUN
    + "\nMULTIRUN is the id of a multirun, or the sweep file that it was launched for: all its\n"
    "cells. FOLDER: all runs in it."
)

_SWEEP = (
    "FILE is a sweep file, such as sweeps/nomic_embed_v2/table7_expert_placement.yaml.\n"
    "OVERRIDES hold for all its cells (scale=demo), STAGE:key=value for one stage of each.\n"
    "--only LABEL: only cells with this label; several for several. --seeds 0,1: these seeds.\n"
)

COMMANDS: dict[str, Command] = {
    "show": Command(
        "[OVERRIDES | RUN] [--plot FILE]",
        "the composed experiment in words; nothing is run",
        _show,
        "Parameters, data, steps, loss, and warnings about what may not be meant.\n"
        "--plot FILE draws the attention mask over training as a PNG.",
    ),
    "diff": Command(
        "[A] B",
        "how two experiments differ",
        _diff,
        "A and B: a RUN, a config.yaml, or overrides in quotes ('routing=moe seed=1').\n"
        "Without A: how B differs from the paper whose +paper=NAME/STAGE it chooses, or else from\n"
        "the defaults.\n" + _RUN,
    ),
    "sweep": Command(
        "FILE [OVERRIDES] [--plan] [--only LABEL]... [--seeds N,N] [--wandb [--to FILE]]",
        "run what is missing of a table's cells, then print the table",
        _sweep,
        _SWEEP
        + "--plan says what would be run and runs nothing. hydra.launcher.processes=2 runs two\n"
        "at a time, hydra/launcher=slurm submits; a cell's stages become jobs that wait for each\n"
        "other. Finished cells are never run again; one that fails stops only what reads it.\n"
        "A file with mode: search is searched: hydra.sweeper.trials=50 and the other settings of\n"
        "hydra/sweeper=optuna. --wandb writes the sweep for W&B's agents, and runs nothing.",
    ),
    "cell": Command(
        "FILE AXIS=LABEL... [seed=N] [OVERRIDES]",
        "run one cell of a sweep in this process, as W&B's agents do",
        _cell,
        _SWEEP + "Of a search: KEY=VALUE for each key of the space.",
    ),
    "table": Command(
        "FILE [OVERRIDES] [--format FORMAT] [--to FILE] [--only LABEL]... [--seeds N,N]",
        "the table of a sweep file, from the runs that have finished",
        _table,
        _SWEEP
        + "FORMAT: terminal, markdown, csv, latex, html; by default what FILE's suffix says.",
    ),
    "report": Command(
        "FILE [OVERRIDES] [--to PAGE.html] [--wandb [--to FILE]] [--only LABEL]... [--seeds N,N]",
        "a page about a sweep: table, verdicts, curves, what differs, links to its runs",
        _report,
        _SWEEP
        + "The page is one file that needs no network; by default FILE's name with .html, here.\n"
        "--wandb saves the same as a draft on W&B, or writes its specification --to a JSON file.",
    ),
    "status": Command(
        "[RUN | MULTIRUN | FOLDER]...",
        "what is running, how far, what failed and why",
        _status,
        "Without RUN: a table of all runs. SLURM is asked about jobs that are silent.\n" + _MANY,
    ),
    "logs": Command(
        "RUN [-f] [--rank K] [--job]",
        "a run's log; -f follows it until the run ends",
        _logs,
        "--rank K shows the log of another rank, --job what the scheduler has recorded.\n" + _RUN,
    ),
    "retry": Command(
        "[RUN | MULTIRUN | FOLDER]... [--only REASON] [hydra.launcher.KEY=VALUE]...",
        "launch again what did not finish, from its checkpoints",
        _retry,
        "By the launcher and with the settings of before, but for those given.\n"
        "REASON: failed, timeout, killed, out-of-memory, nan, error, cancelled, interrupted,\n"
        "preempted, skipped; several with commas. Without it: all but cancelled ones.\n" + _MANY,
    ),
    "cancel": Command(
        "(RUN | MULTIRUN | FOLDER)... [--yes]",
        "stop runs for good, those that run after they have saved",
        _cancel,
        "Asks before it cancels more than one, unless --yes is given.\n" + _MANY,
    ),
    "resume": Command(
        "RUN", "go on with a planned or interrupted run, from its frozen config", _resume, _RUN
    ),
    "consolidate": Command(
        "RUN [--step N | --best] [--to FOLDER]",
        "the model of a checkpoint, however many processes wrote it",
        _consolidate,
        "The newest checkpoint, that of step N, or the one with the lowest training loss; written\n"
        "to FOLDER, by default RUN/model-step-N. The run itself is left alone.\n" + _RUN,
    ),
    "results": Command("RUN", "a run's scores before and after training", _results, _RUN),
    "compare": Command(
        "RUN RUN... [--different] [--json FILE]",
        "finished runs side by side: ranks, means, paired differences",
        _compare,
        "Borda votes and means as in mteb; differences from the first run, with intervals and\n"
        "their unit; means by language family and resource class where there are languages.\n"
        "Runs measured in different ways are refused, unless --different is given.\n" + _RUN,
    ),
    "export": Command(
        "(RUN | MODEL) --to FOLDER [--format FORMAT] [--dtype TYPE]",
        "a model in the format that another program reads, with a model card",
        _export,
        "FORMAT: sentence_transformers (the default), huggingface, onnx, nomic. What it cannot\n"
        "express is refused. TYPE: float32, float16, bfloat16; the model's own unless given.\n"
        "MODEL is a model folder or a name on the hub.\n" + _RUN,
    ),
    "encode": Command(
        "(RUN | MODEL) [FILE | -] --to OUT [OPTION]...",
        "vectors of many texts, in pieces; the same command again goes on where it stopped",
        _encode,
        "FILE: .txt (a text a line), .jsonl, .csv or .parquet with --column NAME; - is stdin.\n"
        "OUT: a .npy or .parquet file, or a folder of pieces (--format npy | parquet).\n"
        "--task TASK      search_query, search_document (the default), classification, clustering\n"
        "--role ROLE      query or document: which length texts are cut to\n"
        "--width N        dimensions that are kept\n"
        "--dtype TYPE     float32 (the default) or float16\n"
        "--shard-size N   texts a piece, 10000 unless given\n"
        "--device DEVICE  cpu, cuda, ...; by default the first GPU, if there is one\n" + _RUN,
    ),
    "doctor": Command(
        "",
        "whether this machine has what experiments need",
        _doctor,
        "Exit code 1 if something that every run needs is missing.",
    ),
    "help": Command("[COMMAND]", "this overview, or all about one command", _help),
}
