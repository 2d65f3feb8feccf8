"""Put on PYTHONPATH by tests: a stage without a model, whose fate the seed decides.

1 to 9 finish, with a score; 11 raises; 12 kills itself with SIGKILL; 13 waits to be stopped and
saves, as training does; 14 hears no signal and never ends.
"""

from __future__ import annotations

import sys
import types


def run(config, *, quiet=False):
    import json
    import os
    import signal
    import time

    from embedexp.runs import Run, RunDirectory

    heard = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _: heard.append(number))
    directory = RunDirectory.of(config)
    directory.freeze(config)
    with directory.owned(), directory.recording():
        directory.start(config.stage.name, total_steps=2, seed=config.seed)
        if config.seed == 11:
            error = FloatingPointError("the loss is NaN at step 1")
            directory.log_traceback(error)
            directory.fail(error)
            raise error
        if config.seed == 12:
            os.kill(os.getpid(), signal.SIGKILL)
        while config.seed == 14 or (config.seed == 13 and not heard):
            directory.update(step=1)
            time.sleep(0.1)
        if heard:
            end = directory.cancel if directory.cancel_requested else directory.preempt
            end("stopped at step 1")
            return Run(directory)
        directory.evaluation.mkdir(exist_ok=True)
        score = {"task": "Toy", "type": "STS", "metric": "cosine_spearman", "seconds": 0.1}
        score |= {"value": 0.5 + config.seed / 100, "fingerprint": "x"}
        directory.scores_file.write_text(json.dumps({"before": [], "after": [score]}))
        directory.update(step=2)
        directory.finish()
    return Run(directory)


module = types.ModuleType("embedexp.stage.execute")
module.run = run
sys.modules["embedexp.stage.execute"] = module
