"""The page of a search shows every trial, escapes what files say, and starts nothing."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
import yaml
from optuna.trial import TrialState

from embedexp.cli import main
from embedexp.runs.trial import PRUNED
from embedexp.sweeps.search.file import read, settings_in
from embedexp.sweeps.search.loop import Search
from embedexp.sweeps.search.run import FOLDER, as_it_stands

from .search_help import Functions, Heard

HOSTILE = "<script>alert(1)</script> & $x^2$"


class Page(HTMLParser):
    """Tags with their attributes, and all words."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words += [data.strip()] if data.strip() else []


@pytest.fixture
def searched(tmp_path, monkeypatch):
    """A search file, and a way to have its trials told by a function of its learning rate."""
    monkeypatch.chdir(tmp_path)
    content = {
        "mode": "search",
        "title": HOSTILE,
        "question": "Which?",
        "base": ["backbone=tiny", f"paths.runs={tmp_path / 'runs'}"],
        "space": {
            "optimizer.learning_rate": {"low": 1e-4, "high": 1e-3},
            HOSTILE: {"choice": {"a": ["training.steps=3"], HOSTILE: ["training.steps=4"]}},
        },
        "search": {"trials": 12, "sampler": "random"},
    }
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))

    def made(function):
        file, space = read(path)
        settings = settings_in(file, [])
        with pytest.raises(Exception, match="not been started") as caught:
            as_it_stands(file.base, space, settings)
        folder = next(word for word in str(caught.value).split() if FOLDER in word)
        (tmp_path / folder).mkdir(parents=True)
        study = as_it_stands(file.base, space, settings).study
        Search(study, space, settings, Functions(function), Heard(), 0.0).run()
        return study

    return path, made


def page_of(path):
    target = path.with_suffix(".html")
    assert main(["report", str(path)]) == 0
    return target.read_text()


def test_every_trial_is_on_the_page_the_best_first_with_links_to_its_runs(searched):
    path, made = searched
    told = iter(range(20))

    def moody(**values):
        if next(told) == 1:
            raise RuntimeError("out of memory")
        return values["optimizer.learning_rate"]

    study = made(moody)
    pruned = study.ask()
    study._storage.set_trial_user_attr(pruned._trial_id, PRUNED, 4)
    study.tell(pruned.number, state=TrialState.PRUNED)
    text = page_of(path)
    page = Page(text)
    numbers = [f"{value:.4f}" for value in sorted((t.value for t in complete(study)), reverse=True)]
    shown = [word for word in page.words if word in numbers]
    assert shown[: len(numbers)] == numbers
    assert any("failed: out of memory" in word for word in page.words)
    assert "pruned at step 4" in page.words
    hrefs = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert sum(href.startswith("./runs/") for href in hrefs) == len(study.trials) - 1
    assert {"#trials", "#history", "#importance"} <= set(hrefs)
    assert sum(tag == "svg" for tag, _ in page.tags) == 2
    assert page_of(path) == text  # the same search gives the same page


def test_a_page_of_a_search_asks_nobody_and_runs_no_script(searched):
    path, made = searched
    made(lambda **values: values["optimizer.learning_rate"])
    text = page_of(path)
    page = Page(text)
    assert "script" not in {tag for tag, _ in page.tags}
    assert HOSTILE not in text
    links = [value for _, attributes in page.tags for value in attributes.values() if value]
    assert not [value for value in links if value.startswith("http") and "w3.org" not in value]


def test_a_search_that_was_not_started_has_no_page_and_nothing_is_made(searched, tmp_path, capsys):
    path, _ = searched
    assert main(["report", str(path)]) == 2
    assert "not been started" in capsys.readouterr().err
    for arguments in (["--wandb"], ["--only", "x"], ["--seeds", "1"]):
        assert main(["report", str(path), *arguments]) == 2
        assert "no effect" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["s.yaml"]


def test_a_search_without_a_complete_trial_says_that_nothing_can_be_told(searched):
    path, made = searched

    def never(**_):
        raise RuntimeError("no")

    made(never)
    assert "too few complete trials" in page_of(path)


def complete(study):
    return [trial for trial in study.trials if trial.state is TrialState.COMPLETE]
