"""stage=mine: hard negatives for the training data, shard by shard, and a report about them."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embedexp import data
from embedexp.config.errors import UserError
from embedexp.data.mined import FOLDER
from embedexp.negatives import mining_report
from embedexp.negatives.bm25 import BM25Teacher
from embedexp.negatives.examples import Examples
from embedexp.negatives.indexes import FaissSearch
from embedexp.negatives.mining import mine_with
from embedexp.negatives.rules import Rules
from embedexp.negatives.search import Tile
from embedexp.negatives.teachers import Embeddings
from embedexp.negatives.vectors import Mean, Normalised
from embedexp.negatives.writing import seeds_of, shard_name, write_manifest, write_shard
from embedexp.runs import RunDirectory

from .contrastive import device
from .teachers import TextTeacher, teacher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from embedexp.config import Config
    from embedexp.config.schema.stage import MineStage
    from embedexp.data import Dataset
    from embedexp.negatives.cache import CachedVectors
    from embedexp.negatives.mining import Combination, Rescore
    from embedexp.negatives.teachers import Teacher
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.world import World

    from .screen import Screen

log = logging.getLogger(__name__)

LEXICAL = "bm25"


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Mine every dataset with queries and documents; leave Parquet, a manifest and a report.

    Shards that are there are kept, those that runs with `stage.shard` made are taken over, and the
    rest is mined in order: the same command goes on after a stop, and repeats one shard at most.
    """
    option = config.stage
    assert option.name == "mine"
    corpus = data.load(config.data, config.paths.cache)
    datasets = [dataset for dataset in corpus.train if dataset.task != "sts"]
    if not datasets:
        raise UserError(
            "there is nothing to mine: scored pairs have no hard negatives",
            hint="choose data with pairs of queries and documents",
        )
    folder = directory.path / FOLDER
    wanted = range(option.shards) if option.shard is None else [option.shard]
    names = [shard_name(each.name, shard, option.shards) for each in datasets for shard in wanted]
    if option.shard is None:
        _take_over(config, folder, [each.name for each in datasets], option.shards)
    miner = _Miner(config, directory, stop, screen)
    for dataset in datasets:
        missing = [
            shard
            for shard in wanted
            if not (folder / shard_name(dataset.name, shard, option.shards)).is_file()
        ]
        if missing:
            miner.mine(dataset, missing, folder)
    write_manifest(
        folder,
        names,
        complete=len(names) == len(datasets) * option.shards,
        shards=option.shards,
        teachers=list(option.teachers),
        datasets=[dataset.name for dataset in datasets],
    )
    found = mining_report.collect([folder / name for name in names])
    mining_report.write(found, directory.path, title=directory.name, rules=_said(option))
    for line in mining_report.words(found):
        screen.say(f"  {line}")
    screen.say(f"negatives  {folder}")
    screen.say(f"report     {directory.path / mining_report.PAGE}")


def _take_over(config: Config, folder: Path, datasets: Sequence[str], shards: int) -> None:
    """Copy shards that runs of one shard each have mined."""
    for shard in range(shards if shards > 1 else 0):
        stage = config.stage.model_copy(update={"shard": shard})
        other = RunDirectory.of(config.model_copy(update={"stage": stage})).path / FOLDER
        for name in (shard_name(dataset, shard, shards) for dataset in datasets):
            if (other / name).is_file() and not (folder / name).is_file():
                folder.mkdir(parents=True, exist_ok=True)
                temporary = folder / f".{name}.{os.getpid()}"
                shutil.copyfile(other / name, temporary)
                temporary.replace(folder / name)
                log.info("taken over from %s: %s", other, name)


@dataclass
class _Miner:
    """Mines datasets; teachers are loaded when the first one is mined."""

    config: Config
    directory: RunDirectory
    stop: StopRequest
    screen: Screen

    def __post_init__(self) -> None:
        self.loaded: dict[str, TextTeacher] = {}

    @property
    def option(self) -> MineStage:
        """The stage's option."""
        assert self.config.stage.name == "mine"
        return self.config.stage

    def mine(self, dataset: Dataset, shards: Sequence[int], folder: Path) -> None:
        """Mine shards of a dataset's queries and write their files."""
        examples = Examples.of(dataset)
        self.screen.say(
            f"mining {dataset.name}: {len(examples.queries):,} queries, "
            f"{len(examples.documents):,} documents"
        )
        teachers = self._teachers(examples)
        rules = Rules(self.option.count, **self.option.rules.model_dump())
        seeds = seeds_of(examples.queries, self.config.seed)
        combination: Combination = (
            "agreement" if self.option.combination == "agreement" else "union"
        )
        rescore = self._cross_encoder(examples)
        edges = np.linspace(0, len(examples.queries), self.option.shards + 1).astype(int)
        for shard in shards:
            rows = slice(int(edges[shard]), int(edges[shard + 1]))
            name = shard_name(dataset.name, shard, self.option.shards)

            def on_block(done: int, name: str = name) -> None:
                self._tell(f"searching {name}: {done:,} queries")

            mined = mine_with(
                teachers,
                len(examples.queries),
                len(examples.documents),
                examples.positives,
                [rules] * len(teachers),
                combination=combination,
                rescore=rescore,
                seeds=seeds,
                forbidden=examples.forbidden,
                rows=rows,
                block=self.option.search.tile.block,
                on_block=on_block,
            )
            write_shard(folder / name, examples, mined)
            self._tell(f"mined {name}")

    def _tell(self, message: str) -> None:
        self.directory.update(message=message)
        self.stop.check()

    def _teachers(self, examples: Examples) -> list[Teacher]:
        option = self.option
        dense: dict[str, tuple[Normalised, Normalised]] = {}
        lexical: list[Teacher] = []
        for name in option.teachers:
            if name == LEXICAL:
                words = BM25Teacher.build(
                    examples.queries, examples.documents, option.bm25.k1, option.bm25.b
                )
                lexical.append(words)
            else:
                dense[name] = (
                    Normalised(self._vectors(name, examples, examples.queries, is_query=True)),
                    Normalised(self._vectors(name, examples, examples.documents, is_query=False)),
                )
        tile = Tile(**option.search.tile.model_dump())
        if option.combination == "mean":
            queries, documents = (Mean(side) for side in zip(*dense.values(), strict=True))
            return [Embeddings(queries, documents, tile, self._index())]
        found: list[Teacher] = [
            Embeddings(queries, documents, tile, self._index())
            for queries, documents in dense.values()
        ]
        # The first teacher named is the one whose scores are kept.
        return lexical + found if option.teachers[0] == LEXICAL else found + lexical

    def _index(self) -> FaissSearch | None:
        return None if self.option.search.method == "exact" else FaissSearch(self.option.search)

    def _vectors(
        self, name: str, examples: Examples, texts: list[str], *, is_query: bool
    ) -> CachedVectors:
        if name not in self.loaded:
            self.loaded[name] = teacher(
                name, self.option.embeddings, Path(self.config.paths.cache), device(self.config)
            )
        side = "queries" if is_query else "documents"

        def on_block(done: int, missing: int) -> None:
            self._tell(f"{name} embeds {side} of {examples.name}: {done:,} of {missing:,}")

        return self.loaded[name].vectors(texts, examples.task, is_query=is_query, on_block=on_block)

    def _cross_encoder(self, examples: Examples) -> Rescore | None:
        path = self.option.cross_encoder
        if path is None:
            return None
        from sentence_transformers import CrossEncoder

        try:
            model = CrossEncoder(path, device=device(self.config), trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise UserError(
                f"no cross-encoder can be loaded from {path}",
                where=str(error).splitlines()[0],
                hint="set stage.cross_encoder to a folder that sentence-transformers wrote",
            ) from None

        def rescore(rows: NDArray[np.int64], documents: NDArray[np.int64]) -> NDArray[np.float64]:
            pairs = [
                (examples.queries[row], examples.documents[document])
                for row, document in zip(rows, documents, strict=True)
            ]
            scores = model.predict(pairs, show_progress_bar=False)
            return np.asarray(scores, np.float64).reshape(len(pairs))

        return rescore


def _said(option: MineStage) -> dict[str, object]:
    """The rules in use, for the report."""
    rules = {name: value for name, value in option.rules.model_dump().items() if value is not None}
    several = {"combination": option.combination} if len(option.teachers) > 1 else {}
    return {"teachers": ", ".join(option.teachers), **several, "count": option.count, **rules}
