"""stage=tokenizer: train a tokenizer on the data's texts, and measure it on others."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from embedexp import data
from embedexp.config.errors import UserError
from embedexp.data import vocabulary
from embedexp.data.texts import texts_of
from embedexp.files import write_atomically

if TYPE_CHECKING:
    from embedexp.config import Config
    from embedexp.data.vocabulary import Measured
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.world import World

    from .screen import Screen

FOLDER = "tokenizer"


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Leave `tokenizer/`, which AutoTokenizer loads, and a report in `directory`.

    The folder is whole or absent. Training itself can't be interrupted and taken up again.

    Raises:
        UserError: there are no texts.
    """
    option = config.stage
    assert option.name == "tokenizer"
    corpus = data.load(config.data, config.paths.cache)
    texts = texts_of(corpus, config.paths.cache)
    if not any(map(len, texts)):
        raise UserError("the data has no texts", where="data", hint="name a file with texts")
    splits = [vocabulary.split(dataset, option) for dataset in texts]
    folder = directory.path / FOLDER
    if not (folder / "tokenizer.json").is_file():
        count = sum(len(split.train) for split in splits)
        screen.say(f"training {option.model} with {option.vocabulary:,} tokens on {count:,} texts")
        directory.update(message=f"training on {count:,} texts")
        trained = vocabulary.train(splits, option, stop.check)
        if len(trained) < option.vocabulary:
            screen.say(
                f"warning: the texts hold material for {len(trained):,} tokens only, "
                f"not {option.vocabulary:,}"
            )
        temporary = folder.with_name(f".{FOLDER}")
        shutil.rmtree(temporary, ignore_errors=True)
        trained.save_pretrained(temporary)
        temporary.replace(folder)
    stop.check()
    tokenizer = vocabulary.load(folder)
    found = [vocabulary.measure(tokenizer, split) for split in splits]
    _report(directory, len(tokenizer), found)
    for line in _table(found):
        screen.say(f"  {line}")
    screen.say(f"tokenizer {folder}")
    screen.say(
        f"use it    backbone.tokenizer={directory.path} "
        f"backbone.architecture.vocab_size={len(tokenizer)} "
        f"+backbone.architecture.pad_token_id={tokenizer.pad_token_id}"
    )


def _report(directory: RunDirectory, size: int, found: list[Measured]) -> None:
    content = {"vocabulary": size, "datasets": [each.to_dict() for each in found]}
    write_atomically(directory.path / FOLDER / "report.json", json.dumps(content, indent=2) + "\n")
    lines = [f"# {directory.name}", "", f"{size:,} tokens, measured on held-out texts.", ""]
    lines += _table(found)
    write_atomically(directory.path / FOLDER / "report.md", "\n".join(lines) + "\n")


def _table(found: list[Measured]) -> list[str]:
    lines = [
        "| texts | held out | bytes per token | tokens per word | unknown | kept whole | used |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in found:
        name = f"{each.dataset} {each.language}".strip().replace("|", "\\|")
        lines.append(
            f"| {name} | {each.texts:,} | {each.bytes_per_token:.2f} | "
            f"{each.tokens_per_word:.2f} | {each.unknown:.3%} | {each.kept:.1%} | {each.used:.1%} |"
        )
    return lines
