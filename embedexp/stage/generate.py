"""stage=generate: tasks are proposed, then examples of them written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.files import write_atomically
from embedexp.generation import from_nothing

from .generating import FOLDER, LANGUAGE, finish, work

if TYPE_CHECKING:
    from embedexp.config import Config
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.world import World

    from .screen import Screen


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Leave `generated/tasks.jsonl`, `examples.jsonl` and a report in `directory`.

    Raises:
        UserError: the budget is used up, an endpoint does not answer, or nothing valid came.
    """
    option = config.stage
    assert option.name == "generate"
    asked = work(option, config, directory, stop)
    asked.ask(lambda: from_nothing.proposals(option), "proposing")
    tasks = from_nothing.tasks(asked.outcomes(from_nothing.proposals(option)))
    if not tasks:
        raise UserError(
            "not one proposal of tasks is valid",
            where="stage.propose_prompt",
            hint=f"look at the answers in {directory.path / FOLDER}",
        )
    lines = [
        json.dumps({"task": t.text, "labels": t.labels, "by": t.by}, ensure_ascii=False) + "\n"
        for t in tasks
    ]
    write_atomically(directory.path / FOLDER / "tasks.jsonl", "".join(lines))
    screen.say(f"  {len(tasks):,} distinct tasks of {option.tasks:,} asked for")
    columns = [LANGUAGE]
    if option.kind == "sts":
        columns += ["data.columns.score=score", "loss=cosent"]
        distinct: list[list[str]] = [["query", "positive"]]
    else:
        distinct = [["query"], ["positive"]] if option.kind == "retrieval" else [["query"]]
        if option.negatives:
            columns += ["data.columns.negatives=negatives", "negatives=own"]
    finish(
        asked,
        lambda: from_nothing.examples(option, config.seed, tasks),
        directory,
        screen,
        distinct=distinct,
        shares=option.languages,
        task=option.kind,
        columns=columns,
    )
