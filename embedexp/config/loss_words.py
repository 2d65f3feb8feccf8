"""A loss of embeddings in words, for `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .schema.loss import Angle, CoSENT, Distillation, InfoNCE, TaskAwareLoss

if TYPE_CHECKING:
    from .experiment import Config


def embedding_loss_words(config: Config) -> str:
    """What is learned, in one line."""
    loss: Any = config.loss
    words = _words(loss)
    if loss.matryoshka.widths is not None:
        weights = loss.matryoshka.weights or [1] * len(loss.matryoshka.widths)
        pairs = zip(loss.matryoshka.widths, weights, strict=False)
        widths = [str(width) if weight == 1 else f"{weight:g} x {width}" for width, weight in pairs]
        words += f"; summed over widths {', '.join(widths)}"
    return words


def _words(loss: Any) -> str:
    if isinstance(loss, InfoNCE):
        learned = f" at first, learned above {loss.min_temperature:g}"
        text = f"{loss.name}, temperature {loss.temperature:g}"
        text += learned if loss.learnable_temperature else ""
        text += f", against {', '.join(loss.denominator)}"
        if loss.directions != ["query_to_document"]:
            text += f", {' and '.join(loss.directions)}"
        return text + _margin(loss.false_negative_margin)
    if isinstance(loss, CoSENT | Angle):
        return f"{loss.name}, scale {loss.scale:g}"
    if isinstance(loss, Distillation):
        text = f"distillation, {loss.form}, temperatures {loss.temperature:g} (student) and "
        text += f"{loss.teacher_temperature:g} (teacher)"
        if not (beside := loss.infonce).weight:
            return text
        return (
            f"{text}; {beside.weight:g} x infonce, temperature {beside.temperature:g}, "
            f"against {', '.join(beside.denominator)}"
        )
    return _task_aware(loss)


def _task_aware(loss: TaskAwareLoss) -> str:
    tasks = [task for task in loss.tasks if task != "sts"]
    temperatures = ", ".join(f"{t} {getattr(loss.temperatures, t):g}" for t in tasks)
    denominators = "; ".join(
        f"{t} against {', '.join(getattr(loss.denominators, t))}"
        + _margin(getattr(loss.false_negative_margins, t))
        for t in tasks
    )
    text = f"task_aware, temperatures {temperatures}; {denominators}"
    if "sts" in loss.tasks:
        text += f"; sts by {loss.sts} {loss.scale:g}"
    weights = {t: getattr(loss.weights, t) for t in loss.tasks}
    if set(weights.values()) != {1.0}:
        text += f"; weights {', '.join(f'{t} {w:g}' for t, w in weights.items())}"
    return text


def _margin(margin: float | None) -> str:
    return "" if margin is None else f", without negatives above the positive by {margin:g}"
