"""The page shows what runs hold, escapes what they say, and stays the same and small."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from embedexp.cli import main
from embedexp.config import UserError
from embedexp.sweeps.planning import plan
from embedexp.sweeps.report import charts, write
from embedexp.sweeps.report.curves import POINTS, Curve, Recorded, curves, losses
from embedexp.sweeps.report.differences import table as config_table
from embedexp.sweeps.report.lines import Line, earlier, shown
from embedexp.sweeps.report.results import differences_charts, levels_charts
from embedexp.sweeps.schema import Sweep
from embedexp.sweeps.statistics import Estimate
from embedexp.sweeps.table import table

from .report_help import finish, finish_all, planned, small

HOSTILE = "<script>alert(1)</script>\"'></style><!--]]> & $x^2$ \x1b[31m"
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Tags with their attributes, and each element's text; complains where tags don't match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data.strip()))


def written(found, folder):
    path = folder / "page.html"
    write(found, table(found), path)
    return path.read_text("utf-8")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A sweep with everything, beside its page."""
    folder = tmp_path_factory.mktemp("full")
    rows = {"6 layers": ["routing.placement=every_other"], "12 layers": ["routing.placement=every"]}
    published = {"source": ["s"], "values": {"6 layers": 44.13, "12 layers": 44.28}}
    found = planned(folder, rows=rows, columns={}, seeds=[0, 1], published=published)
    finish_all(found, analyses=True)
    written(found, folder)
    return found, folder / "page.html"


def test_it_has_the_table_and_every_part_that_runs_have(full):
    found, path = full
    page = Page(path.read_text())
    headings = [text for tag, text in page.texts if tag == "h2"]
    assert headings == [
        "Table",
        "Comparisons",
        "Training",
        "Router load",
        "Hardness of negatives",
        "Matryoshka",
        "Task similarity",
        "What differs",
        "Scores by task",
        "Runs",
        "Notes",
    ]
    cells = [text for tag, text in page.texts if tag == "td"]
    made = table(found)
    entry = made.entries["12 layers", "", "mean over tasks"]
    assert f"{entry.ours.mean:.2f} ± {entry.ours.half:.2f}" in cells
    assert f"{entry.difference:+.2f}" in cells
    assert any(text.startswith("paired t over 2 seeds") for text in cells)
    notes = [text for tag, text in page.texts if tag == "li"]
    assert [text for text in notes if text in made.footnotes] == list(made.footnotes)


def test_parts_without_anything_to_show_are_left_out(tmp_path):
    found = small(tmp_path)
    run = found.runs[0].directory
    run.freeze(found.runs[0].config)
    with run.owned():
        run.start("contrastive")
        run.fail("the loss is NaN at step 7")
    page = Page(written(found, tmp_path))
    headings = [text for tag, text in page.texts if tag == "h2"]
    assert headings == ["Table", "Comparisons", "What differs", "Runs", "Notes"]
    texts = [text for _, text in page.texts]
    assert "failed: the loss is NaN at step 7" in texts
    assert "0 of 2" in texts


def test_what_files_and_runs_say_is_shown_and_never_run(tmp_path):
    found = small(
        tmp_path,
        title=HOSTILE,
        question=HOSTILE,
        rows={HOSTILE: [], "b": ["loss.temperature=0.02"]},
        footnotes=[HOSTILE],
        published={"source": [HOSTILE], "values": {"b": 1.0}},
    )
    finish(found.runs[0], analyses=True, task=HOSTILE)
    finish(found.runs[1], everything=False)
    analysis = found.runs[0].directory.analysis / "matryoshka.json"
    content = json.loads(analysis.read_text())
    content |= {"name": HOSTILE, "title": HOSTILE, "columns": [HOSTILE], "rows": [[HOSTILE]]}
    analysis.write_text(json.dumps(content))
    text = written(found, tmp_path)
    page = Page(text)
    tags = [tag for tag, _ in page.tags]
    assert "script" not in tags
    assert tags.count("style") == 1
    assert "\x1b" not in text
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    clean = HOSTILE.replace("\x1b[31m", "").strip()
    assert dict(page.texts[:20])["title"] == clean
    assert {tag for tag, said in page.texts if clean in said} >= {"title", "h1", "th", "li", "p"}


def test_it_refers_to_nothing_outside(full):
    text = full[1].read_text()
    page = Page(text)
    policy = next(a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    for tag, attributes in page.tags:
        for name in ("src", "href", "xlink:href"):
            value = attributes.get(name)
            if value is not None:
                assert value.startswith(("#", "./")) or value.startswith("data:"), (tag, value)
    assert not re.search(r"url\((?!#)|@import|@font-face", text)


def test_links_lead_from_the_page_to_the_runs_wherever_it_lies(tmp_path):
    found = small(tmp_path / "a #1%?", rows={"a": []})
    finish_all(found, everything=False)
    target = tmp_path / "some where" / "page.html"
    write(found, table(found), target)
    hrefs = [a["href"] for tag, a in Page(target.read_text()).tags if tag == "a"]
    outside = [href for href in hrefs if not href.startswith("#")]
    paths = {Path(target.parent, unquote(href)).resolve() for href in outside}
    (run,) = found.runs
    assert paths == {run.directory.path, run.directory.config_file}
    assert not any(re.search("[#? ]", href) for href in outside)


def test_ids_are_unique_and_what_refers_to_them_finds_them(full):
    page = Page(full[1].read_text())
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for name in ("href", "xlink:href"):
            if (attributes.get(name) or "").startswith("#"):
                assert attributes[name][1:] in ids
        for one in (attributes.get("aria-labelledby") or "").split():
            assert one in ids
        clip = re.fullmatch(r"url\(#(.+)\)", attributes.get("clip-path") or "")
        assert clip is None or clip[1] in ids


def test_every_chart_has_its_figures_in_words(full):
    made = table(full[0])
    ours, paper = levels_charts(made)
    for row in made.rows:
        entry = made.entries[row, "", "mean over tasks"]
        assert f"{row} {entry.ours.mean:.2f} ± {entry.ours.half:.2f}" in ours.words
        assert f"{row} {entry.published:.2f}" in paper.words
    assert f'<desc id="levels-0-ours-0-words">{ours.words}</desc>' in ours.svg
    # Letters stay letters: a reader can search for them.
    assert re.search(r"<text[^>]*>[^<]*mean over tasks", ours.svg)


def test_the_same_runs_give_the_same_page(tmp_path):
    found = small(tmp_path)
    finish_all(found, everything=False)
    assert written(found, tmp_path) == written(small(tmp_path), tmp_path)


def test_a_large_sweep_stays_small(tmp_path):
    """Charts take eight cells each, so that 100 cells need 12.5 times the room of eight."""
    rows = {f"row {n}": [f"loss.temperature=0.{n + 10}"] for n in range(8)}
    found = small(tmp_path, rows=rows)
    for run in found.runs:
        finish(run, steps=1000, tasks=False)
    assert 12.5 * len(written(found, tmp_path).encode()) < 4e6


def test_a_damaged_run_does_not_hide_the_others(tmp_path):
    found = small(tmp_path)
    finish_all(found, analyses=True, everything=False)
    broken = found.runs[0].directory
    lines = [[], {"step": "x"}, {"step": 1, "loss": "NaN"}, {"step": True, "loss": 1}]
    odd = {"step": 2, "router": {"load": [[0.5], "x"]}, "negatives": 3, "terms": [1], "tasks": 1}
    broken.metrics.path.write_text("\n".join(json.dumps(one) for one in [*lines, odd]) + '\n{"st')
    for path in broken.analysis.glob("*.json"):
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "data": {"pairs": [{"tasks": 1}], "scores": 3}}))
    page = Page(written(found, tmp_path))
    assert "Training" in [text for tag, text in page.texts if tag == "h2"]


def test_curves_are_means_over_seeds_of_the_steps_that_all_reached(tmp_path):
    found = small(tmp_path, rows={"a": []}, seeds=[0, 1])
    line = Line("a", "", {run.config.seed: run for run in found.runs})
    seeds = [
        [{"step": step, "loss": 2.0 * step} for step in range(1, 5)],
        [{"step": step, "loss": 4.0 * step} for step in (1, 3)],
    ]
    (curve,) = curves([Recorded(line, seeds)], losses)["Loss", ""]
    assert curve.steps == [1, 2, 3]
    assert curve.mean == pytest.approx([3.0, 6.0, 9.0])
    assert curve.low == pytest.approx([2.0, 4.0, 6.0])
    assert curve.high == pytest.approx([4.0, 8.0, 12.0])
    long = [[{"step": step, "loss": 1.0} for step in range(1000)]]
    (curve,) = curves([Recorded(line, long)], losses)["Loss", ""]
    assert len(curve.steps) == POINTS
    assert (curve.steps[0], curve.steps[-1]) == (0, 999)


def test_losses_of_different_tasks_are_on_different_charts(tmp_path):
    found = small(tmp_path, rows={"a": []})
    line = Line("a", "", {0: found.runs[0]})
    rows = [{"step": n, "loss": float(n), "tasks": [("sts", "retrieval")[n % 2]]} for n in range(6)]
    made = curves([Recorded(line, [rows])], losses)
    assert {name: one.mean for (name, _), (one,) in made.items()} == {
        "Loss, batches of sts": [0.0, 2.0, 4.0],
        "Loss, batches of retrieval": [1.0, 3.0, 5.0],
    }


def curve(name, place, *values):
    steps = list(range(len(values)))
    return Curve(name, place, steps, values, values, values, 1)


def test_a_diverging_cell_leaves_the_chart_and_the_caption_says_so():
    fine = [curve("a", 0, 3.0, 1.0), curve("b", 1, 4.0, 1.0)]
    low, high = charts.limits([[*fine, curve("c", 2, 3.0, 1e6)]])
    assert low < 1.0
    assert 4.0 < high < 5.0
    made = charts.curves("k", "Loss", [*fine, curve("c", 2, 3.0, 1e6)], (low, high))
    assert made.caption == "Loss (leaving the chart: c)"
    assert charts.limits([[fine[0], curve("d", 1, 20.0, 1.0)]])[1] > 20
    assert charts.limits([[curve("flat", 0, 0.0, 0.0)]])[0] < 0


def test_what_has_no_interval_has_no_whiskers():
    def caps(*halves):
        cells = [Estimate(50.0, half, 3) for half in halves]
        return charts.levels("k", "c", ["x", "y"], {"a": (0, cells)}, "score").svg.count("<use")

    # Two whiskers with two caps each, beside the same markers.
    assert caps(1.0, 1.0) - caps(None, None) >= 4
    assert caps(1.0, None) == caps(1.0, 1.0) - 2


def test_a_row_has_its_colour_wherever_it_is_shown():
    alone = charts.curves("k", "Loss", [curve("b", 9, 2.0, 1.0)], (0, 3))
    assert "var(--series-1)" in alone.svg
    assert "var(--series-0)" not in alone.svg


def test_a_failed_seed_does_not_shorten_the_curve(tmp_path):
    found = small(tmp_path, rows={"a": []}, seeds=[0, 1])
    finish(found.runs[0])
    run = found.runs[1].directory
    run.freeze(found.runs[1].config)
    with run.owned():
        run.start("contrastive")
        run.metrics.append({"step": 1, "loss": 9.0})
        run.fail("x")
    (line,) = shown(found)
    assert [one.path for one in line.directories()] == [line.runs[0].directory.path]


def test_a_run_that_several_rows_show_is_one_line_and_its_predecessor_another(tmp_path):
    sweep = Sweep.model_validate(
        {
            "title": "T",
            "question": "Q",
            "mode": "chain",
            "base": ["backbone=tiny", "tracking=none"],
            "stages": {
                "pretrain": ["stage=mlm", "loss=mlm"],
                "finetune": ["backbone.weights=pretrained", "backbone.source={pretrain}"],
            },
            "rows": {"start": {"phase": "before"}, "end": []},
        }
    )
    found = plan(sweep, [f"paths.runs={tmp_path}"])
    assert [line.name for line in shown(found)] == ["start, end"]
    (before,) = earlier(found)
    assert before.first.stage == "pretrain"


def test_keys_that_differ_are_shown_and_shared_ones_are_not(tmp_path):
    grid, _ = config_table(shown(small(tmp_path, seeds=[0, 1])))
    assert [heading.text for heading in grid.headings[0]] == ["cell", "loss.temperature"]
    assert [[cell.text for cell in row] for row in grid.rows] == [["a", "0.05"], ["b", "0.02"]]
    assert [row[1].kind for row in grid.rows] == ["", "changed"]


def test_differences_of_measures_are_on_charts_of_their_own(tmp_path):
    measures = {"x": {"tasks": ["WordNetDefinitions"]}, "y": {"tasks": ["WordNetSimilarity"]}}
    found = small(tmp_path, seeds=[0, 1], measures=measures)
    finish_all(found, everything=False)
    drawn = differences_charts(table(found))
    assert [one.caption for one in drawn] == ["x: differences", "y: differences"]
    made = table(found)
    for chart, one in zip(drawn, made.comparisons, strict=True):
        assert f"ours {one.test.difference:+.2f}" in chart.words


def test_the_command_writes_the_page_and_says_where(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep = tmp_path / "mine.yaml"
    sweep.write_text(
        "title: T\nquestion: Q\nbase: [backbone=tiny, tracking=none]\n"
        "rows: {a: [loss.temperature=0.05], b: [loss.temperature=0.02]}\n"
    )
    assert main(["report", str(sweep), "--runs", str(tmp_path / "runs")]) == 2
    assert "no cell of" in capsys.readouterr().err
    finish_all(small(tmp_path), everything=False)
    assert main(["report", str(sweep), "--runs", str(tmp_path / "runs")]) == 0
    assert "mine.html" in capsys.readouterr().out
    assert "<h1>T</h1>" in (tmp_path / "mine.html").read_text()


def test_a_folder_that_can_not_be_written_is_said(tmp_path):
    found = small(tmp_path)
    finish(found.runs[0], everything=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't be written"):
        write(found, table(found), tmp_path / "file" / "page.html")
