"""Distillation: a teacher's scores of the positive and the hard negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from embedexp.config.errors import UserError

from .infonce import InfoNCELoss
from .output import LossOutput
from .precision import at_least_float32, exact, unit

if TYPE_CHECKING:
    from embedexp.batching.collate import TrainingBatch
    from embedexp.config.schema.loss import Distillation

Form = Literal["kl", "margin_mse"]


@exact
def distillation(
    student: Tensor,
    teacher: Tensor,
    form: Form = "kl",
    *,
    temperature: float = 1.0,
    teacher_temperature: float = 1.0,
) -> Tensor:
    """How far the student's scores are from the teacher's, a scalar.

    `student [n, 1+h]` are cosines and `teacher [n, 1+h]` any numbers, of the positive (column 0)
    and the negatives; a candidate whose teacher score is NaN takes no part, and a row that has
    fewer than two scores, or none of the positive, none either. Scores are first divided by
    `temperature` (the student's) and `teacher_temperature`.

    kl: mean over rows of KL(softmax(teacher) || softmax(student)). Its gradient is that of
    FlagEmbedding's `kl_div`; sentence-transformers' DistillKLDivLoss is this times temperature².
    margin_mse: mean over all negatives of (student's margin - teacher's margin)², a margin being
    the positive's score less the negative's, as sentence-transformers' MarginMSELoss.

    Raises:
        ValueError: no row has a score of the positive and of a negative.
    """
    student = at_least_float32(student)
    known = ~teacher.isnan()
    known &= known[:, :1]
    rows = known[:, 1:].any(1)
    if not rows.any():
        raise ValueError("no row has teacher scores of the positive and of a negative")
    student, known = student[rows] / temperature, known[rows]
    teacher = teacher[rows].to(student.dtype) / teacher_temperature
    if form == "margin_mse":
        real = known[:, 1:]
        ours, theirs = (s[:, :1] - s[:, 1:] for s in (student, teacher))
        return (ours[real] - theirs[real]).square().mean()
    ours = student.masked_fill(~known, float("-inf")).log_softmax(1)
    theirs = teacher.masked_fill(~known, float("-inf")).log_softmax(1)
    apart = (theirs - ours).masked_fill(~known, 0.0)  # -inf less -inf is no number
    return (theirs.exp() * apart).sum(1).mean()


class DistillationLoss(nn.Module):
    """Distillation over a training batch, with an InfoNCE beside it if wanted."""

    def __init__(
        self,
        form: Form,
        temperature: float,
        teacher_temperature: float,
        beside: InfoNCELoss | None = None,
        beside_weight: float = 1.0,
    ) -> None:
        super().__init__()
        self.form, self.temperature = form, temperature
        self.teacher_temperature = teacher_temperature
        self.beside, self.beside_weight = beside, beside_weight

    def forward(self, vectors: Tensor, batch: TrainingBatch) -> LossOutput:
        """Loss of `vectors [2q+m, d]`, the embeddings of `batch.tokens`.

        It is 0 where none of the examples happens to have a scored hard negative.

        Raises:
            UserError: no dataset of the batch has teacher scores, or none has hard negatives.
        """
        queries, positives, negatives, mask = batch.split(vectors)
        teacher = batch.teacher_scores
        if teacher is None or negatives is None or mask is None:
            raise _nothing_to_learn()
        queries = unit(queries)
        student = torch.cat(
            [
                (queries * unit(positives)).sum(1, keepdim=True),
                torch.einsum("qd,qhd->qh", queries, unit(negatives)),
            ],
            1,
        )
        real = torch.cat([torch.ones_like(mask[:, :1]), mask], 1)
        teacher = teacher.masked_fill(~real, float("nan"))
        try:
            value = distillation(
                student,
                teacher,
                self.form,
                temperature=self.temperature,
                teacher_temperature=self.teacher_temperature,
            )
        except ValueError:  # a few examples without, among others that have some
            value = student.sum() * 0
        if self.beside is None:
            return LossOutput(value, {self.form: value})
        beside = self.beside(vectors, batch)
        return LossOutput(
            value + self.beside_weight * beside.total, {self.form: value, **beside.terms}
        )


def _nothing_to_learn() -> UserError:
    return UserError(
        "loss=distillation met a batch without teacher scores of hard negatives",
        hint="give every dataset teacher scores and negatives (data.columns.teacher_scores)",
    )


def build(option: Distillation) -> DistillationLoss:
    """The loss of `loss=distillation`."""
    beside = option.infonce
    return DistillationLoss(
        option.form,
        option.temperature,
        option.teacher_temperature,
        InfoNCELoss(beside.temperature, beside.denominator) if beside.weight else None,
        beside.weight,
    )
