"""Progress is readable in a log."""

from __future__ import annotations

import io

import pytest

from embedexp.training.progress import TrainingProgress, duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (65.4, "1:05"), (3599, "59:59"), (7620, "2h07"), (-3, "0:00")],
)
def test_durations_are_short(seconds, text):
    assert duration(seconds) == text


def test_a_log_gets_a_line_now_and_then_and_always_the_last():
    stream = io.StringIO()
    progress = TrainingProgress(100, stream=stream, seconds=3600)
    progress.start(0)
    for step in range(1, 101):
        progress.show(step, 1 / step, 50.0, 2.0 * (100 - step))
    progress.close()
    assert stream.getvalue().splitlines() == [
        "step 1/100  loss 1.0000  50 samples/s  3:18 left",
        "step 100/100  loss 0.0100  50 samples/s  0:00 left",
    ]
