"""Labels as the hub writes them, and what is told where they are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from embedexp.config import compose
from embedexp.config.errors import UserError
from embedexp.data.labelled import Address
from embedexp.evaluation.probe.examples import _Reader

ADDRESS = Address("aps/super_glue", "copa", "train", "stage.tasks.xcopa")


def read(values: list[Any]) -> Any:
    stage: Any = compose(["stage=probe", "probes@stage.tasks=xtreme_r", "backbone=tiny"]).stage
    return _Reader(stage.tasks["xcopa"], stage, None)._labels(values, ADDRESS)


def test_answers_are_numbered_or_named_by_their_place() -> None:
    np.testing.assert_array_equal(read(["choice1", "choice2", 1]), [0, 1, 1])


@pytest.mark.parametrize("value", ["choice", "choiceB", "choice3", 2, None])
def test_what_names_no_answer_is_told(value: Any) -> None:
    with pytest.raises(UserError, match=r"row 2 .* not one of 0 to 1"):
        read(["choice1", value])
