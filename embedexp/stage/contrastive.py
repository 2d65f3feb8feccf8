"""stage=contrastive: score, train on pairs, save, score again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from embedexp import data, negatives
from embedexp.config.errors import UserError
from embedexp.config.resources import resources
from embedexp.config.training_checks import unfilled
from embedexp.data.tokenise import tokenise
from embedexp.embedding import build_embedder, load
from embedexp.training import checkpoint, strategy, tracking
from embedexp.training.fit import batch_maker, fit
from embedexp.training.pages import keep_pages
from embedexp.training.world import World

from . import building, pictures, pruning
from .evaluate import after, before
from .preflight import require_memory_for

if TYPE_CHECKING:
    from embedexp.config import Config
    from embedexp.data.tokenise import TokenisedCorpus
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest

    from .screen import Screen

SAMPLE = 8  # steps whose batches say how many tokens a step has


def device(config: Config, world: World | None = None) -> str:
    """The torch device of this rank among `world`, with the threads that `compute` asks for.

    Raises:
        UserError: a GPU is asked for on a machine without one.
    """
    option, world = config.compute, world or World()
    if not resources(option).gpu:
        threads = getattr(option, "threads", None)
        if threads is None and world.size > 1:
            threads = max(1, len(os.sched_getaffinity(0)) // world.local_size)
        if threads:
            torch.set_num_threads(threads)
        keep_pages()
        return "cpu"
    if not torch.cuda.is_available():
        raise UserError(
            f"compute={option.name}, but torch sees no GPU here",
            hint="use compute=cpu, or a machine with one",
        )
    return f"cuda:{world.local_rank}"


def require_filled(config: Config, corpus: data.Corpus) -> None:
    """Check batches against data that had to be read to be counted.

    Raises:
        UserError: there are fewer examples than a batch holds; it would repeat some, which are
            no negatives of each other, and teach nothing.
    """
    counted = [(dataset.name, dataset.task, len(dataset)) for dataset in corpus.train]
    if problem := unfilled(config.batching, counted):
        raise UserError(problem.message, hint=problem.fix)


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Train the composed embedder and leave its model, scores, metrics and plots in `directory`.

    All ranks of `world` train; the first one alone scores, saves and draws.
    """
    place = device(config, world)
    corpus = world.in_turn(lambda: data.load(config.data, config.paths.cache))
    require_filled(config, corpus)
    corpus = negatives.attach(config.negatives, corpus)
    stop.check()
    finished = world.tell(directory.model.is_dir())  # a model is saved whole, after the last step
    tracker = tracking.start(config, directory.path) if world.first else tracking.Tracker()
    try:
        if not finished:
            _train(config, directory, stop, screen, world, corpus, tracker)
        if not world.first:
            return
        embedder = load(directory.model).to(place)
        after(config, embedder, directory, corpus.heldout, stop, screen, tracker)
    finally:
        tracker.close()
    pictures.forget(config, directory)


def _train(
    config: Config,
    directory: RunDirectory,
    stop: StopRequest,
    screen: Screen,
    world: World,
    corpus: data.Corpus,
    tracker: tracking.Tracker,
) -> None:
    """Score the untrained model, train it on all ranks, and save it on the first."""
    embedder = build_embedder(config).to(device(config, world))
    stop.check()
    if world.first:
        before(config, embedder, directory, corpus.heldout, stop, screen)
    tokenised = world.in_turn(
        lambda: tokenise(corpus, embedder.text_tokenizer, config.embedding, config.paths.cache)
    )
    stop.check()
    require_memory_for(config, embedder, tokens_of_a_step(config, tokenised, world))
    directory.update(message="training", total_steps=config.training.steps)
    fit(
        config,
        embedder,
        tokenised,
        folder=directory.checkpoints,
        recorder=directory,
        stop=stop,
        screen=screen.training(config.training.steps),
        track=pruning.watched(
            config, directory, stop, tracker, pruning.scoring(config, embedder, corpus.heldout)
        ),
        world=world,
    )
    if world.first:
        if strategy.kind_of(config.compute, world.size) == "fsdp":
            embedder = from_shards(config, directory).embedder
        embedder.save(directory.model)


def tokens_of_a_step(config: Config, corpus: TokenisedCorpus, world: World) -> int:
    """The most tokens that this rank embeds in one of the first steps."""
    make = batch_maker(config, corpus, world.rank, world.size)
    steps = range(min(config.training.steps, SAMPLE))
    return max(len(make(step).tokens.input_ids) for step in steps)


def from_shards(config: Config, directory: RunDirectory) -> building.Trained:
    """What ranks hold in shards, in one piece: the last checkpoint, which the last step wrote."""
    last = checkpoint.latest(directory.checkpoints)
    assert last is not None
    return building.trained(config, last)
