from __future__ import annotations

import numpy as np
import pytest

from embedexp.cli import OK, RUN_FAILED, USER_ERROR, doctor, main

from ..embedding.conftest import build


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "model"
    build("tiny").save(folder)
    return folder


def test_texts_from_a_file_become_vectors_in_their_order(model, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("a cat\na dog\nrain\n")
    arguments = ["encode", str(model), str(tmp_path / "texts.txt"), "--to"]
    out = tmp_path / "out.npy"
    more = ["--shard-size", "2", "--task", "search_query", "--width", "16"]
    assert main([*arguments, str(out), *more]) == OK
    assert "3 texts, 2 pieces" in capsys.readouterr().out
    expected = build("tiny").encode(["a cat", "a dog", "rain"], task="search_query", width=16)
    np.testing.assert_allclose(np.load(out), expected, atol=1e-6)
    assert main([*arguments, str(out), "--task", "clustering"]) == USER_ERROR
    assert "task=search_query, not clustering" in capsys.readouterr().err


def test_a_device_that_is_not_there_is_told(model, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("a cat\n")
    arguments = ["encode", str(model), str(tmp_path / "texts.txt"), "--to", str(tmp_path / "o.npy")]
    for device in ("gpu", "cuda:99"):
        assert main([*arguments, "--device", device]) == USER_ERROR
        told = capsys.readouterr().err
        assert f"--device {device} can't be used here" in told
        assert len(told.strip().splitlines()) <= 3


def test_export_writes_a_folder_with_a_card(model, tmp_path, capsys):
    arguments = ["export", str(model), "--format", "huggingface", "--to", str(tmp_path / "out")]
    assert main(arguments) == OK
    assert (tmp_path / "out" / "config.json").is_file()
    assert "AutoModel" in (tmp_path / "out" / "README.md").read_text()
    assert "huggingface" in capsys.readouterr().out


def test_mistakes_are_told_in_three_lines(model, tmp_path, capsys):
    for arguments in (
        ["export", str(model), "--format", "gguf", "--to", str(tmp_path / "out")],
        ["export", str(model), "--format", "nomic", "--to", str(tmp_path / "out")],
        ["encode", str(model), str(tmp_path / "none.txt"), "--to", str(tmp_path / "out.npy")],
        ["encode", str(model), "--to", str(tmp_path / "out.npy"), "--shard-size", "0"],
    ):
        assert main(arguments) == USER_ERROR
        assert 1 <= len(capsys.readouterr().err.strip().splitlines()) <= 3
    assert not list(tmp_path.iterdir())


def test_the_doctor_names_what_is_missing_by_its_exit_code(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(doctor, "torch", lambda: iter(()))
    monkeypatch.setattr(doctor, "packages", lambda: doctor.Finding("packages", "ok", "all"))
    assert main(["doctor", "--runs", str(tmp_path)]) == OK
    assert "ok  runs" in capsys.readouterr().out
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["doctor", "--runs", str(blocked / "runs")]) == RUN_FAILED
    assert "!!  runs" in capsys.readouterr().out


def test_the_doctor_compares_versions_with_what_is_required(monkeypatch):
    assert doctor._problem("numpy>=2") is None
    assert doctor._problem("numpy>=99") == f"numpy {np.__version__} is not >=99"
    assert doctor._problem("no-such-package-here>=1") == "no-such-package-here is missing"
    assert doctor._problem('no-such-package-here>=1; extra == "onnx"') is None
