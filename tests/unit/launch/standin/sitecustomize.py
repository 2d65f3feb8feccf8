"""Put on PYTHONPATH by tests: a stage without a model, whose fate the seed decides.

0, 1, 2 finish (with a score); 11 raises; 12 kills itself; 13 waits to be stopped and saves;
14 dies before it owns its run; 15 ignores being asked to stop.
"""

from __future__ import annotations

import sys
import types


def run(config, *, quiet=False):
    import json
    import os
    import pathlib
    import signal
    import time

    from embedexp.runs import Run, RunDirectory

    directory = RunDirectory.of(config)
    if config.seed == 14:
        print("no such device")
        os._exit(7)
    directory.freeze(config)
    with directory.owned(), directory.recording():
        directory.start(config.stage.name, total_steps=2, seed=config.seed)
        import embedexp

        print(f"threads {os.environ['OMP_NUM_THREADS']}", flush=True)
        print(f"code {pathlib.Path(embedexp.__file__).parents[1]}", flush=True)
        if config.seed == 12:
            os.kill(os.getpid(), signal.SIGKILL)
        if config.seed == 15:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            time.sleep(60)
        try:
            if config.seed == 11:
                raise FloatingPointError("the loss is NaN at step 1")
            if config.seed == 13:
                time.sleep(60)
        except FloatingPointError as error:
            directory.fail(error)
            raise
        except KeyboardInterrupt:
            directory.preempt("stopped at step 1")
            return Run(directory)
        directory.update(step=2, rate=10.0)
        directory.evaluation.mkdir()
        score = {"task": "Toy", "type": "STS", "metric": "cosine_spearman", "seconds": 0.1}
        score |= {"value": 0.5 + config.seed / 100, "fingerprint": "x"}
        content = {"before": [], "after": [score], "settings": {}}
        directory.scores_file.write_text(json.dumps(content))
        directory.finish()
    return Run(directory)


module = types.ModuleType("embedexp.stage.execute")
module.run = run
sys.modules["embedexp.stage.execute"] = module
