"""What all tests share: one thread each, no network, and no skipped test where all must run."""

from __future__ import annotations

import logging
import os

# Libraries bind a handler to the stderr of the test that imports them first; once that is closed,
# their later records would be reported as errors of whichever test runs then.
logging.raiseExceptions = False

# Before torch is imported anywhere: workers share the cores, and sums keep their order.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["WANDB_MODE"] = "offline"

import pytest


def pytest_xdist_auto_num_workers(config):
    """One worker more than cores: many tests wait for processes that they have started."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """With EMBEDEXP_REQUIRE_ALL=1, a test that skips has failed: something it needs is missing."""
    report = yield
    if report.skipped and os.environ.get("EMBEDEXP_REQUIRE_ALL") == "1":
        report.outcome = "failed"
        report.longrepr = f"skipped, but EMBEDEXP_REQUIRE_ALL=1: {call.excinfo.value}"
    return report
