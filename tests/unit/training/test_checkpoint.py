"""A checkpoint is whole or ignored, and only one's own are ever deleted."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from embedexp.config.errors import UserError
from embedexp.training import checkpoint, saving
from embedexp.training.world import World

KILLS = 20


def written(folder, step, loss=None):
    with checkpoint.writing(folder, step, loss=loss) as partial:
        (partial / "weights").write_bytes(b"w" * 100)
    return folder / checkpoint.name_of(step)


def steps(folder):
    return [checkpoint.step_of(path) for path in checkpoint.checkpoints(folder)]


def test_the_newest_whole_checkpoint_is_found(tmp_path):
    assert checkpoint.latest(tmp_path / "none") is None
    for step in (5, 100_000_000, 10):
        written(tmp_path, step)
    assert steps(tmp_path) == [5, 10, 100_000_000]
    assert checkpoint.latest(tmp_path) == tmp_path / "step-100000000"


def break_marker(path):
    (path / checkpoint.MARKER).unlink()


def cut_marker(path):
    (path / checkpoint.MARKER).write_text('{"step": 10, "fil')


def lose_file(path):
    (path / "weights").unlink()


def cut_file(path):
    (path / "weights").write_bytes(b"w" * 99)


@pytest.mark.parametrize("damage", [break_marker, cut_marker, lose_file, cut_file])
def test_a_damaged_checkpoint_is_put_aside_with_a_warning(tmp_path, caplog, damage):
    written(tmp_path, 5)
    damage(written(tmp_path, 10))
    assert checkpoint.latest(tmp_path) == tmp_path / "step-00000005"
    assert "ignoring the damaged checkpoint" in caplog.text
    assert (tmp_path / "damaged-step-00000010").is_dir()
    written(tmp_path, 10)
    assert checkpoint.latest(tmp_path) == tmp_path / "step-00000010"


def test_what_was_not_finished_has_no_name_and_goes_with_the_next(tmp_path):
    with pytest.raises(RuntimeError), checkpoint.writing(tmp_path, 5, loss=None):
        raise RuntimeError
    assert steps(tmp_path) == []
    written(tmp_path, 10)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000010"]


def test_the_newest_and_the_best_are_kept(tmp_path):
    for step, loss in {5: 3.0, 10: 0.5, 15: 0.7, 20: 0.9, 25: 1.1}.items():
        written(tmp_path, step, loss)
        checkpoint.prune(tmp_path, 2, 1)
    assert steps(tmp_path) == [10, 20, 25]
    assert [checkpoint.step_of(path) for path in checkpoint.best_of(tmp_path, 2)] == [10, 20]
    checkpoint.forget(tmp_path, 1)
    assert steps(tmp_path) == [10]
    checkpoint.forget(tmp_path, 0)
    assert not tmp_path.exists()


def test_nothing_else_is_deleted(tmp_path):
    others = ["step-5", "best", "step-00000005.ckpt", "my-step-00000005"]
    for name in others:
        (tmp_path / name).mkdir()
    another_run = tmp_path.with_name("another")
    written(another_run, 5)
    written(tmp_path, 10)
    checkpoint.prune(tmp_path, 0, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)
    assert steps(another_run) == [5]


class Small(nn.Module):
    """A module whose weights say after how many steps they were saved."""

    def __init__(self):
        super().__init__()
        self.objective = nn.Linear(50, 40)

    def on_save_checkpoint(self, extra):
        extra["steps"] = self.steps

    def on_load_checkpoint(self, extra):
        self.steps = extra["steps"]


def trained():
    module = Small()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
    total = SimpleNamespace(ready=0, completed=0)
    manual = SimpleNamespace(optim_step_progress=SimpleNamespace(total=total))
    epoch_loop = SimpleNamespace(manual_optimization=manual)
    trainer = SimpleNamespace(
        optimizers=[optimizer],
        lr_scheduler_configs=[SimpleNamespace(scheduler=schedule)],
        fit_loop=SimpleNamespace(epoch_loop=epoch_loop),
        global_step=0,
    )
    return trainer, module


def step(trainer, module):
    trainer.global_step += 1
    module.steps = trainer.global_step
    module.objective(torch.ones(3, 50)).sum().backward()
    trainer.optimizers[0].step()
    trainer.lr_scheduler_configs[0].scheduler.step()
    trainer.optimizers[0].zero_grad()
    with torch.no_grad():
        module.objective.bias.fill_(trainer.global_step)


def resumed(folder):
    trainer, module = trained()
    found = saving.restore(trainer, module, folder, World())
    trainer.global_step = found
    return trainer, module, found


def test_weights_optimizer_and_schedule_come_back(tmp_path):
    trainer, module = trained()
    for _ in range(3):
        step(trainer, module)
    saving.save(trainer, module, tmp_path, World(), loss=0.25)
    assert checkpoint.loss_of(checkpoint.latest(tmp_path)) == 0.25
    again, copy, found = resumed(tmp_path)
    assert found == copy.steps == 3
    for _ in range(2):
        step(trainer, module)
        step(again, copy)
    for name, value in module.state_dict().items():
        assert torch.equal(value, copy.state_dict()[name]), name
    objective = nn.Linear(50, 40)
    saving.load_weights(objective, checkpoint.latest(tmp_path))
    assert torch.equal(objective.bias, torch.full((40,), 3.0))


def test_weights_of_another_model_are_refused(tmp_path):
    trainer, module = trained()
    step(trainer, module)
    saving.save(trainer, module, tmp_path, World())
    with pytest.raises(UserError, match="can't be read"):
        saving.load_weights(nn.Linear(50, 41), checkpoint.latest(tmp_path))


def test_an_unreadable_checkpoint_gives_way_to_the_one_before(tmp_path, caplog):
    trainer, module = trained()
    for _ in range(2):
        step(trainer, module)
        saving.save(trainer, module, tmp_path, World())
    shards = tmp_path / "step-00000002" / "__0_0.distcp"
    shards.write_bytes(b"\0" * shards.stat().st_size)  # as long as it was, which looks whole
    assert resumed(tmp_path)[2] == 1
    assert "ignoring the damaged checkpoint" in caplog.text


def save_for_ever(folder, started):
    torch.set_num_threads(1)
    trainer, module, _ = resumed(folder)
    started.set()
    while True:
        step(trainer, module)
        saving.save(trainer, module, folder, World())
        checkpoint.prune(folder, 2, 0)


def test_killed_at_any_moment_of_saving_it_always_resumes(tmp_path):
    context, moments = multiprocessing.get_context("fork"), random.Random(0)
    reached = unfinished = 0
    for _ in range(KILLS):
        started = context.Event()
        process = context.Process(target=save_for_ever, args=(tmp_path, started), daemon=True)
        process.start()
        assert started.wait(60)
        time.sleep(moments.uniform(0, 0.3))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        unfinished += bool(list(tmp_path.glob(".partial-*")))
        _, module, found = resumed(tmp_path)
        assert found >= reached
        if found:
            assert module.steps == found
            assert torch.equal(module.objective.bias, torch.full((40,), float(found)))
        reached = found
    assert reached > 0
    assert unfinished > KILLS // 4  # it was in the midst of saving, or of deleting
    assert not list(tmp_path.glob("damaged-*"))
