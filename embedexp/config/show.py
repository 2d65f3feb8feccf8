"""An experiment in words, and the difference between two."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import provenance
from .data_words import data_words
from .errors import printable
from .evaluation_words import evaluation_words
from .figures import Figures, figures, human, parameters
from .language_words import batch_words, loss_words
from .loss_words import embedding_loss_words
from .routing_words import routing_words
from .schema.merge import Ema, LastK, Ties
from .stage_words import stage_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .experiment import Config

Row = tuple[str, str, tuple[str, ...]]
"""A heading, what stands under it, and the groups or dotted keys that it speaks of."""


def show(config: Config) -> str:
    """The composed experiment in words: model, data, training, evaluation, identity, warnings.

    Where the config says where its values come from, each row ends with the marks of its keys
    (published, code, ours, changed), and a list of the marked values follows.
    """
    rows = _rows(config)
    lines = [f"{config.run_name}  ({config.stage.name}, seed {config.seed})", ""]
    lines += _table([(heading, text + _marks(config, keys)) for heading, text, keys in rows])
    if config.provenance:
        told = provenance.rows(config.provenance, config.to_dict())
        lines += ["", "where the values come from", *_table(told, indent="  ")]
        lines.append("  all other values are ours: the defaults of the options that are named")
    if config.demo:
        now = "stands" if config.scale.name == "demo" else "would stand"
        lines += ["", f"at scale=demo, this {now} in front of your overrides"]
        lines += _table([("", " ".join(config.demo))])
    lines += ["", *_table(_identity(config))]
    lines += [f"warning: {text}" for text in config.warnings]
    return printable_lines(lines)


def brief(config: Config) -> str:
    """Some six lines that say what is about to run."""
    rows: list[tuple[str, str]] = []
    uses = config.stage.uses
    if "backbone" in uses:
        counts, routing, schedule = parameters(config), config.routing, config.mask_schedule
        extras: list[str] = [routing.name] if routing.name != "dense" else []
        if schedule.name != "bidirectional":
            extras.append(f"mask {schedule.name}")
        text = f"{config.backbone.name}, {human(counts['total'])} parameters"
        text += f", {human(counts['active'])} active"
        rows.append(("model", ", ".join([text, *extras])))
    if "data" in uses:
        sizes = figures(config)
        known = [count for _, _, count in sizes.datasets if count is not None]
        total = f", {sum(known):,} examples" if len(known) == len(sizes.datasets) else ""
        tasks = ", ".join(dict.fromkeys(task for _, task, _ in sizes.datasets))
        rows.append(("data", f"{config.data.name}{total}: {tasks}"))
        against = f", negatives {config.negatives.name}" if "negatives" in uses else ""
        rows.append(("loss", config.loss.name + against))
        rows.append(("training", _training(config, sizes)[1]))
        if config.merge.name != "none":
            rows.append(_merge(config)[:2])
    rows += [(heading, text) for heading, text, _ in _rows(config) if heading == "evaluation"]
    rows += [(heading, text) for heading, text, _ in stage_words(config)]
    if "backbone" not in uses:
        rows = [(heading, text) for heading, text, _ in _rows(config)]
    lines = [f"{config.run_name}  ({config.stage.name}, seed {config.seed})", *_table(rows)]
    lines += [f"warning: {text}" for text in config.warnings]
    return printable_lines(lines)


def _rows(config: Config) -> list[Row]:
    """What the stage uses, group by group."""
    uses = config.stage.uses
    rows: list[Row] = []
    if "backbone" in uses:
        rows += [row for row in _model(config) if row[0] != "embedding" or "embedding" in uses]
    if "data" in uses:
        sizes = figures(config)
        rows.append(_data(config, sizes))
        if "training" in uses:
            rows += [_batch(config), _loss(config)]
            rows += [_negatives(config)] if "negatives" in uses else []
            rows += [_training(config, sizes), _optimizer(config), _memory(config)]
    if "merge" in uses and config.merge.name != "none":
        rows.append(_merge(config))
    if config.stage.name == "evaluate" or config.stage.name == "analyse":
        rows.append(("model", config.stage.model, ("stage.model",)))
    if config.stage.name == "analyse":
        rows.append(("analysis", config.analysis.name, ("analysis",)))
    if config.stage.name == "mine":
        rows.append(("teachers", ", ".join(config.stage.teachers), ("stage.teachers",)))
        rows.append(("negatives", f"at most {config.stage.count} a query", ("stage.count",)))
    if config.stage.name == "filter":
        rows.append(("teacher", config.stage.teacher, ("stage.teacher",)))
        top_k, floor = config.stage.top_k, config.stage.min_score
        kept = [] if top_k is None else [f"in the top {top_k}"]
        kept += [] if floor is None else [f"at a cosine of at least {floor:g}"]
        text = f"pairs whose document is {' and '.join(kept)}"
        rows.append(("keeps", text, ("stage.top_k", "stage.min_score")))
    rows += stage_words(config)
    if "evaluation" in uses and (config.stage.name != "analyse" or config.analysis.evaluates):
        rows.append(_evaluation(config))
    return rows


def _merge(config: Config) -> Row:
    merge = config.merge
    if isinstance(merge, Ema):
        late = f", from step {merge.start}" if merge.start else ""
        often = f" every {merge.every} steps" if merge.every > 1 else ""
        text = f"the model is the weights' moving average, decay {merge.decay:g}{often}{late}"
    elif isinstance(merge, LastK):
        apart = f"{merge.every} steps" if merge.every > 1 else "a step"
        text = (
            f"the model is the average of the weights at the last {merge.k} moments, {apart} apart"
        )
    else:
        text = f"{merge.name} of {', '.join(getattr(merge, 'inputs', ()))}"
        text += f", changes since {merge.base}" if isinstance(merge, Ties) else ""
    return "merge", text, ("merge",)


def _model(config: Config) -> list[Row]:
    backbone, architecture = config.backbone, config.backbone.architecture
    counts, depth = parameters(config), architecture.get("num_hidden_layers")
    kept = f"{min(backbone.layers, depth or backbone.layers)} of " if backbone.layers else ""
    origin = f"{backbone.weights} weights"
    if backbone.weights == "pretrained":
        origin += f" of {backbone.source or (backbone.package and backbone.package.name)}"
    if backbone.positions is not None:
        origin += f", positions made rotary (base {backbone.positions.base:g})"
    if backbone.quantization != "none":
        origin += f", rounded to {backbone.quantization.upper()}"
    if backbone.lora is not None:
        origin += f", trained through adapters of rank {backbone.lora.rank}"
    embedding, width = config.embedding, config.embedding.width
    cut = f", first {width} dimensions" if width else ""
    prompts = ", ".join(f"{k}={v!r}" for k, v in embedding.prompts.model_dump().items() if v)
    return [
        (
            "model",
            f"{backbone.name} ({architecture.get('model_type')}), {kept}{depth} layers, "
            f"width {architecture.get('hidden_size')}, {origin}, {backbone.dtype}",
            ("backbone",),
        ),
        (
            "parameters",
            f"{human(counts['total'])} total, {human(counts['active'])} active, "
            f"{human(counts['embedding'])} of them embeddings "
            f"({counts['total']:,} / {counts['active']:,} / {counts['embedding']:,})",
            (),
        ),
        ("routing", routing_words(config), ("routing",)),
        ("attention", _attention(config), ("mask_schedule",)),
        (
            "embedding",
            f"{_pooling(embedding)}{cut}, "
            f"{'length 1' if embedding.normalize else 'not normalised'}; "
            f"queries to {embedding.query_tokens} tokens, "
            f"documents to {embedding.document_tokens}; "
            f"prompts: {prompts or 'none'}",
            ("embedding",),
        ),
    ]


def _pooling(embedding: Any) -> str:
    if embedding.name == "moee":
        parts = {"concat": "hidden state and routing weights", "sum": "the sum of their cosines"}
        text = f"moee, {parts.get(embedding.source, embedding.source.replace('_', ' '))}"
        if embedding.source != "hidden_state":
            whose = embedding.router_pooling.replace("_", " ")
            text += f" (router {embedding.router}, {whose}; alpha {embedding.alpha:g})"
        clean = ", texts cleaned" if embedding.clean else ""
        return f"{text}, standardised over: {embedding.standardize}{clean}"
    excluded = getattr(embedding, "exclude_instruction", False)
    words = [embedding.name.replace("_", " ")]
    words += ["without the instruction"] if excluded else []
    words += ["over all layers"] if embedding.layers == "all" else []
    words += [f"and a linear layer to {embedding.projection}"] if embedding.projection else []
    return " ".join(words)


def _attention(config: Config) -> str:
    schedule = config.mask_schedule
    form = getattr(schedule, "form", None)
    if form is None:
        return schedule.name
    return f"causal to bidirectional, {schedule.name} in training progress, form {form}"


def _data(config: Config, sizes: Figures) -> Row:
    parts = [
        f"{name} ({task}{f', {count:,}' if count is not None else ''})"
        for name, task, count in sizes.datasets
    ]
    more = data_words(config.data)
    text = f"{config.data.name}: {', '.join(parts)}" + (f"; {more}" if more else "")
    return "data", text, ("data",)


def _batch(config: Config) -> Row:
    batching = config.batching
    words = [batch_words(config) or f"{batching.size} examples, {batching.name}"]
    if batching.name == "one_task_per_rank":
        sizes = batching.sizes.model_dump().items()
        words[0] += f" ({', '.join(f'{task} {size}' for task, size in sizes if size is not None)})"
    if batching.no_duplicates:
        words.append("equal texts kept apart")
    if batching.lengths == "bucketed":
        words.append("like lengths together")
    if batching.sampling.temperature is not None:
        words.append(
            f"drawn by weight and {batching.sampling.by} size to the power of "
            f"{batching.sampling.temperature:g}"
        )
    return "batch", ", ".join(words), ("batching",)


def _loss(config: Config) -> Row:
    return "loss", loss_words(config) or embedding_loss_words(config), ("loss",)


def _negatives(config: Config) -> Row:
    negatives = config.negatives
    count = getattr(negatives, "count", 0)
    text = f"{negatives.name}, {count} per query" if count else "none beside the batch's own"
    return "negatives", text, ("negatives",)


def _training(config: Config, sizes: Figures) -> Row:
    epochs = f" ({sizes.epochs:.3g} epochs)" if sizes.epochs is not None else ""
    text = (
        f"{config.training.steps} steps of {config.batching.size}: "
        f"{sizes.examples_seen:,} examples{epochs}, at most {human(sizes.most_tokens)} tokens, "
        f"{config.training.precision}"
    )
    return "training", text, ("training",)


def _optimizer(config: Config) -> Row:
    optimizer = config.optimizer
    clip = f"{optimizer.max_grad_norm:g}" if optimizer.max_grad_norm is not None else "none"
    text = (
        f"{optimizer.name}, learning rate {optimizer.learning_rate:g} after "
        f"{optimizer.warmup_steps} steps, then {optimizer.schedule}; "
        f"decay {optimizer.weight_decay:g}, clipping {clip}"
    )
    return "optimizer", text, ("optimizer",)


def _memory(config: Config) -> Row:
    from .memory import estimate, gib
    from .resources import resources

    needed = estimate(config)
    each = " on each device" if resources(config.compute).world > 1 else ""
    return "memory", f"at most {gib(needed.total)} GiB{each}: {needed.parts()}", ("compute",)


def _evaluation(config: Config) -> Row:
    evaluation = config.evaluation
    if evaluation.name == "none":
        return "evaluation", "none", ("evaluation",)
    before = ", before and after" if evaluation.before and "training" in config.stage.uses else ""
    return "evaluation", f"{evaluation_words(evaluation)}{before}", ("evaluation",)


def _identity(config: Config) -> list[tuple[str, str]]:
    return [
        ("signature", f"{config.signature}  (without the seed: {config.cell})"),
        ("directory", str(Path(config.paths.runs) / config.run_name)),
        (
            "compute",
            f"{config.compute.name}, tracking {config.tracking.name}, scale {config.scale.name}",
        ),
    ]


def _marks(config: Config, keys: tuple[str, ...]) -> str:
    """The marks on the keys that a row speaks of."""
    found = {
        provenance.split(mark)[0]
        for dotted, mark in config.provenance.items()
        if any(dotted == key or dotted.startswith(f"{key}.") for key in keys)
    }
    return f"  [{', '.join(m for m in provenance.MARKS if m in found)}]" if found else ""


def spell(value: Any) -> str:
    """A value as an override would write it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(spell(item) for item in value)}]"
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value) if value != "" else "''"


def _table(rows: Iterable[tuple[str, str]], indent: str = "") -> list[str]:
    """Heading and text in two columns, the text wrapped."""
    rows = list(rows)
    width = max((len(heading) for heading, _ in rows), default=0)
    lines: list[str] = []
    for heading, text in rows:
        first = f"{indent}{heading.ljust(width)}  "
        rest = " " * len(first)
        lines += textwrap.wrap(
            text,
            100,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]
    return lines


def printable_lines(lines: Iterable[str]) -> str:
    """The lines as one text, each without control characters."""
    return "\n".join(printable(line) if line else "" for line in lines)


def diff(a: Config, b: Config) -> str:
    """The keys in which two experiments differ: those that change results, apart from the rest.

    A key that one of the two does not have is shown as `-`.
    """
    from .difference import differences

    counted, other = differences(a, b)
    names = (a.run_name, b.run_name)
    if not counted and not other:
        return f"the same experiment: {names[0]}"
    lines: list[str] = []
    for title, rows in (("changes the result", counted), ("does not", other)):
        if rows:
            lines += [*([""] if lines else []), title, *_columns([("", *names), *rows])]
    if not counted:
        lines += ["", f"the same experiment: both have the signature {a.signature}"]
    return printable_lines(lines)


def _columns(rows: list[tuple[str, str, str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return [f"  {row[0].ljust(widths[0])}  {row[1].ljust(widths[1])}  {row[2]}" for row in rows]
