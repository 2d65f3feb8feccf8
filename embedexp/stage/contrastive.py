"""stage=contrastive: score, train on pairs, save, score again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from embedexp import data, negatives
from embedexp.config.errors import UserError
from embedexp.config.training_checks import unfilled
from embedexp.data.tokenise import tokenise
from embedexp.embedding import build_embedder, load
from embedexp.training import tracking
from embedexp.training.fit import fit

from . import pictures
from .evaluate import measure

if TYPE_CHECKING:
    from embedexp.config import Config
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest

    from .screen import Screen


def device(config: Config) -> str:
    """The torch device of `compute`, with the threads that it asks for.

    Raises:
        UserError: `compute=gpu` on a machine without one.
    """
    if config.compute.name == "cpu":
        if config.compute.threads:
            torch.set_num_threads(config.compute.threads)
        return "cpu"
    if not torch.cuda.is_available():
        raise UserError(
            "compute=gpu, but torch sees no GPU here", hint="use compute=cpu, or a machine with one"
        )
    return "cuda"


def require_filled(config: Config, corpus: data.Corpus) -> None:
    """Check batches against data that had to be read to be counted.

    Raises:
        UserError: there are fewer examples than a batch holds; it would repeat some, which are
            no negatives of each other, and teach nothing.
    """
    counted = [(dataset.name, dataset.task, len(dataset)) for dataset in corpus.train]
    if problem := unfilled(config.batching, counted):
        raise UserError(problem.message, hint=problem.fix)


def run(config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen) -> None:
    """Train the composed embedder and leave its model, scores, metrics and plots in `directory`."""
    place = device(config)
    corpus = data.load(config.data, config.paths.cache)
    require_filled(config, corpus)
    corpus = negatives.attach(config.negatives, corpus)
    stop.check()
    tracker = tracking.start(config, directory.path)
    try:
        if directory.model.is_dir():  # a model is saved whole, after the last step
            embedder = load(directory.model).to(place)
        else:
            embedder = build_embedder(config).to(place)
            stop.check()
            if config.evaluation.name != "none" and config.evaluation.before:
                screen.say("scoring the model before training")
                measure(config, embedder, directory, corpus.heldout, "before", stop, screen)
            tokenised = tokenise(
                corpus, embedder.text_tokenizer, config.embedding, config.paths.cache
            )
            stop.check()
            directory.update(message="training", total_steps=config.training.steps)
            fit(
                config,
                embedder,
                tokenised,
                folder=directory.checkpoints,
                recorder=directory,
                stop=stop,
                screen=screen.training(config.training.steps),
                track=tracker,
            )
            embedder.save(directory.model)
        if config.evaluation.name != "none":
            screen.say("scoring the trained model")
        scores = measure(config, embedder, directory, corpus.heldout, "after", stop, screen)
        tracker.summary({f"scores/{score.task}": score.value for score in scores})
        pictures.draw(directory)
    finally:
        tracker.close()
    pictures.forget(directory)
