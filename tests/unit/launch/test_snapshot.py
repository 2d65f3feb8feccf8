"""The frozen copy of the code: made once per content, complete, and honest about its origin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from embedexp.launch import snapshot as module
from embedexp.runs.environment import code_version


def test_same_code_is_copied_once_and_other_code_beside_it(tmp_path: Path, monkeypatch) -> None:
    first = module.snapshot(tmp_path)
    assert module.snapshot(tmp_path) == first
    more = tmp_path / "more.py"
    more.write_text("x = 1")
    sources = list(module._sources())
    monkeypatch.setattr(module, "_sources", lambda: [*sources, ("embedexp/more.py", more)])
    second = module.snapshot(tmp_path)
    assert second != first
    assert (second / "embedexp" / "more.py").read_text() == "x = 1"
    assert {path.name for path in (tmp_path / ".code").iterdir()} == {first.name, second.name}


def test_copy_composes_on_its_own_and_tells_the_version_that_it_is_of(tmp_path: Path) -> None:
    folder = module.snapshot(tmp_path)
    assert not list(folder.rglob("__pycache__"))
    code = (
        "import embedexp, embedexp.config.locations as l, embedexp.launch.slurm_settings as s;"
        "print(embedexp.__file__, l.conf_dir(), s.profiles_folder(), sep='\\n');"
        "embedexp.compose(['routing=moe'])"
    )
    environment = os.environ | module.variables(folder)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[3],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(line.startswith(str(folder)) for line in done.stdout.splitlines())
    told = json.loads((folder / "code.json").read_text())
    assert code_version(folder / "embedexp") == told
    assert told == code_version(module.PACKAGE)


def test_variables_put_the_copy_first_and_keep_the_users_folders(tmp_path: Path) -> None:
    given = {"PYTHONPATH": os.pathsep.join(["/a", str(tmp_path)])}
    assert module.variables(tmp_path, given) == {
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), "/a"]),
    }
