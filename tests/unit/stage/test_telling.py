"""What was skipped is seen where the run was started, not in a log file alone."""

import logging

from embedexp.stage.screen import Screen
from embedexp.stage.telling import telling


def test_warnings_of_the_data_and_progress_are_on_the_screen(capsys):
    for name in ("embedexp.data.progress", "embedexp.data.reading", "embedexp.training"):
        logging.getLogger(name).setLevel(logging.INFO)
    with telling(Screen()):
        logging.getLogger("embedexp.data.reading").warning("%d rows [skipped]", 3)
        logging.getLogger("embedexp.data.reading").info("a detail")
        logging.getLogger("embedexp.data.progress").info("read 5 examples")
        logging.getLogger("embedexp.training").warning("not the data's")
    logging.getLogger("embedexp.data.reading").warning("too late")
    assert capsys.readouterr().out == "warning: 3 rows [skipped]\nread 5 examples\n"


def test_scores_that_count_for_nothing_are_told(capsys):
    with telling(Screen()):
        logging.getLogger("embedexp.evaluation.scores").warning("scores can't be read")
    assert capsys.readouterr().out == "warning: scores can't be read\n"


def test_a_quiet_screen_stays_quiet(capsys):
    with telling(Screen(quiet=True)):
        logging.getLogger("embedexp.data").warning("skipped")
    assert capsys.readouterr().out == ""
