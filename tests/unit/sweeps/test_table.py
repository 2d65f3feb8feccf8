"""The table shows what was measured beside what was published, and says what is missing."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest

from embedexp.config import UserError
from embedexp.sweeps.formats import FORMATS, format_of, render
from embedexp.sweeps.planning import SweepPlan, plan
from embedexp.sweeps.schema import Sweep
from embedexp.sweeps.table import table

ROWS = {"a": ["loss.temperature=0.05"], "b": ["loss.temperature=0.02"]}
PUBLISHED = {"source": ["Table 1"], "values": {"a": 44.13, "b": 45.0}}


def planned(runs: str, **content: Any) -> SweepPlan:
    base = ["backbone=tiny", "tracking=none"]
    given = {"title": "T", "question": "Q", "base": base, "rows": ROWS, "seeds": [0, 1, 2]}
    return plan(Sweep.model_validate({**given, **content}), [runs])


def by_label(found: SweepPlan) -> dict[str, Any]:
    return {run.label: run for run in found.runs}


def finished(found: SweepPlan, finish: Any, values: dict[str, list[float]]) -> None:
    for row, numbers in values.items():
        for seed, value in enumerate(numbers):
            finish(by_label(found)[f"{row} · seed {seed}"], {"X": value})


VALUES = {"a": [0.50, 0.51, 0.52], "b": [0.53, 0.541, 0.552]}


def test_means_intervals_and_differences_are_right(runs: str, finish: Any) -> None:
    found = planned(runs, published=PUBLISHED)
    finished(found, finish, VALUES)
    made = table(found)
    entry = made.entries["a", "", "mean over tasks"]
    assert entry.ours.mean == pytest.approx(51.0)
    assert entry.ours.half == pytest.approx(2.484138, rel=1e-5)  # t(0.975, 2) / sqrt(3)
    assert entry.difference == pytest.approx(51.0 - 44.13)
    assert made.complete


def test_the_papers_direction_is_reproduced_or_contradicted(runs: str, finish: Any) -> None:
    found = planned(runs, published=PUBLISHED)
    finished(found, finish, VALUES)
    (one,) = table(found).comparisons
    assert (one.of, one.against, one.claim) == ("b", "a", 1)
    assert one.published == pytest.approx(0.87)
    assert one.test.difference == pytest.approx(3.1)
    assert one.verdict == "reproduced"
    turned = planned(runs, published={**PUBLISHED, "values": {"a": 45.0, "b": 44.0}})
    (one,) = table(turned).comparisons
    assert one.verdict == "contradicted"


def test_without_published_figures_nothing_is_claimed_unless_the_file_does(
    runs: str, finish: Any
) -> None:
    found = planned(runs)
    finished(found, finish, VALUES)
    assert [one.verdict for one in table(found).comparisons] == ["no claim"]
    claimed = planned(runs, comparisons=[{"of": "a", "against": "b", "claim": "higher"}])
    assert [one.verdict for one in table(claimed).comparisons] == ["contradicted"]


def test_one_seed_has_no_interval_and_no_verdict(runs: str, finish: Any) -> None:
    found = planned(runs, seeds=[0], published=PUBLISHED)
    finished(found, finish, {row: values[:1] for row, values in VALUES.items()})
    made = table(found)
    assert made.entries["b", "", "mean over tasks"].ours.half is None
    assert [one.verdict for one in made.comparisons] == ["undecided"]
    assert any("one seed" in note for note in made.footnotes)


def test_missing_and_failed_cells_are_seen_with_their_reason(
    runs: str, finish: Any, fail: Any
) -> None:
    found = planned(runs, published=PUBLISHED)
    finish(by_label(found)["a · seed 0"], {"X": 0.5})
    fail(by_label(found)["a · seed 1"], "the loss is NaN at step 7")
    made = table(found)
    assert made.entries["a", "", "mean over tasks"].missing == {
        1: "failed: the loss is NaN at step 7",
        2: "not run",
    }
    text = render(made, "terminal")
    assert "50.00 (2 missing)" in text
    assert "missing (not run)" in text
    assert "Missing: a · seed 1. Reason: failed: the loss is NaN at step 7." in text


def test_the_same_runs_give_the_same_table_byte_for_byte(runs: str, finish: Any) -> None:
    found = planned(runs, published=PUBLISHED)
    finished(found, finish, VALUES)
    for name in FORMATS:
        first = render(table(found), name)
        assert render(table(planned(runs, published=PUBLISHED)), name) == first


def test_figures_that_were_not_seen_stay_missing(runs: str, finish: Any) -> None:
    values = {"a": {"m": 1.5, "n": None}, "b": {"n": 2.5}}
    measures = {"m": {"tasks": ["X"]}, "n": {"tasks": ["Y"]}}
    found = planned(
        runs, seeds=[0], measures=measures, published={"source": ["s"], "values": values}
    )
    finish(by_label(found)["a · seed 0"], {"X": 0.5, "Y": 0.25})
    made = table(found)
    assert {place: entry.published for place, entry in made.entries.items()} == {
        ("a", "", "m"): 1.5,
        ("a", "", "n"): None,
        ("b", "", "m"): None,
        ("b", "", "n"): 2.5,
    }
    assert made.entries["a", "", "n"].values == {0: 25.0}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"a": 1.0, "bb": 2.0}, "names 'bb', which the table has not; did you mean 'b'"),
        ({"a": "44.13"}, "published.values.a is '44.13'"),
        ({"a": {"x": 1.0}}, "published.values.a is"),
    ],
)
def test_published_figures_stand_where_the_table_has_places(
    runs: str, values: dict[str, Any], told: str
) -> None:
    with pytest.raises(UserError, match=re.escape(told)):
        table(planned(runs, published={"source": ["s"], "values": values}))


@pytest.mark.parametrize(
    ("comparison", "told"),
    [
        (["a", "c"], "name the row 'c'"),
        ([["a", "z"], "b"], "name the column 'z'"),
        ({"of": "a", "against": "b", "measures": ["mm"]}, "name the measure 'mm'"),
    ],
)
def test_comparisons_name_what_the_table_has(runs: str, comparison: Any, told: str) -> None:
    columns = {"c1": ["batching.size=8"], "c2": ["batching.size=16"]}
    with pytest.raises(UserError, match=re.escape(told)):
        table(planned(runs, columns=columns, comparisons=[comparison]))


def test_cells_of_different_columns_can_be_compared(runs: str) -> None:
    columns = {"c1": ["batching.size=8"], "c2": ["batching.size=16"]}
    found = planned(runs, columns=columns, comparisons=[[["a", "c1"], ["a", "c2"]], ["a", "b"]])
    pairs = [(one.of, one.against, one.where) for one in table(found).comparisons]
    assert pairs == [("a · c1", "a · c2", ""), ("a", "b", "c1"), ("a", "b", "c2")]


def test_tables_of_differences_show_ours_as_differences(runs: str, finish: Any) -> None:
    published = {"source": ["s"], "values": {"b": 2.6}, "difference_to": "a"}
    found = planned(runs, published=published)
    finished(found, finish, VALUES)
    made = table(found)
    entry = made.entries["b", "", "mean over tasks"]
    assert entry.ours.mean == pytest.approx(3.1)
    # Differences 3.0, 3.1, 3.2: half is t(0.975, 2) 0.1 / sqrt(3).
    assert entry.ours.half == pytest.approx(0.2484138, rel=1e-5)
    assert made.entries["a", "", "mean over tasks"].ours is None
    assert "+3.10 ± 0.25" in render(made, "terminal")
    assert [(one.published, one.verdict) for one in made.comparisons] == [(2.6, "reproduced")]


@pytest.mark.parametrize("relative", [False, True])
def test_scores_at_demo_scale_are_not_subtracted_from_published_ones(
    runs: str, finish: Any, relative: bool
) -> None:
    published = {"source": ["s"], "values": {"b": 2.6}}
    published |= {"difference_to": "a"} if relative else {}
    found = planned(runs, published=published)
    shrunk = plan(found.sweep, [runs, "scale=demo"])
    finished(shrunk, finish, VALUES)
    made = table(shrunk)
    # Differences between rows, however, can be compared at any scale.
    (_, line) = csv.DictReader(io.StringIO(render(made, "csv")))
    assert bool(line["difference"]) is relative
    for name in FORMATS.keys() - {"csv"}:
        heading = render(made, name).split("comparison")[0]
        assert "paper" in heading
        assert (re.search(r"difference\b", heading) is not None) is relative


def test_measures_choose_tasks_types_phases_and_figures(runs: str, finish: Any) -> None:
    measures = {
        "X": {"tasks": ["X"]},
        "type": {"types": ["Retrieval"]},
        "other type": {"types": ["STS"]},
        "metric": {"tasks": ["X"], "metric": "recall_at_20"},
        "before": {"phase": "before"},
        "figure": {"figure": {"file": "analysis.json", "key": "p.0"}},
        "no figure": {"figure": {"file": "analysis.json", "key": "q"}},
        "full": {"tasks": ["X"], "at": "demo"},
    }
    found = planned(runs, rows={"a": []}, seeds=[0], measures=measures)
    run = finish(found.runs[0], {"X": 0.5, "Y": 0.3})
    (run.path / "analysis.json").write_text(json.dumps({"p": [0.125]}))
    entries = {place[2]: entry for place, entry in table(found).entries.items()}
    assert entries["X"].values == {0: 50.0}
    assert entries["type"].values == {0: pytest.approx(40.0)}
    assert entries["type"].tasks == ("X", "Y")
    assert entries["figure"].values == {0: 0.125}
    assert {name: entry.missing[0] for name, entry in entries.items() if entry.missing} == {
        "other type": "no task of type STS; there are Retrieval",
        "metric": "X has ndcg_at_10, not recall_at_20",
        "before": "no scores before training",
        "no figure": "analysis.json holds no q",
    }
    assert "full" not in entries


def test_means_over_other_tasks_are_not_compared(runs: str, finish: Any) -> None:
    found = planned(runs, seeds=[0, 1], published=PUBLISHED)
    both, hard = {"easy": 0.9, "hard": 0.3}, {"hard": 0.3}
    for label, scores in {"a · seed 0": hard, "a · seed 1": hard, "b · seed 0": both}.items():
        finish(by_label(found)[label], scores)
    finish(by_label(found)["b · seed 1"], {"easy": 0.91, "hard": 0.32})
    made = table(found)
    assert made.entries["a", "", "mean over tasks"].ours is None
    assert made.entries["a", "", "mean over tasks"].missing == dict.fromkeys(
        (0, 1), "measured without easy"
    )
    assert made.entries["b", "", "mean over tasks"].tasks == ("easy", "hard")
    assert [one.verdict for one in made.comparisons] == ["not measured"]
    assert any("Reason: measured without easy." in note for note in made.footnotes)


def test_a_task_that_one_seed_lacks_is_missing_in_the_measures_that_need_it(
    runs: str, finish: Any
) -> None:
    measures = {"all": {}, "hard": {"tasks": ["hard"]}, "types": {"average": "types"}}
    found = planned(runs, rows={"a": []}, seeds=[0, 1], measures=measures)
    finish(by_label(found)["a · seed 0"], {"easy": 0.9, "hard": 0.3})
    finish(by_label(found)["a · seed 1"], {"hard": 0.3})
    entries = {place[2]: entry for place, entry in table(found).entries.items()}
    assert set(entries["hard"].values) == {0, 1}
    for name in ("all", "types"):
        assert entries[name].values == {0: pytest.approx(60.0)}
        assert entries[name].missing == {1: "measured without easy"}


def test_runs_that_ignore_their_seed_show_no_interval(runs: str, finish: Any) -> None:
    found = planned(runs)
    finished(found, finish, {"a": [0.5, 0.5, 0.5], "b": VALUES["b"]})
    made = table(found)
    text = render(made, "terminal")
    assert made.entries["a", "", "mean over tasks"].ours.half is None
    assert "± 0.00" not in text
    assert "none where seeds do not vary" in text


def test_figures_vary_on_scales_of_their_own(runs: str, finish: Any) -> None:
    measures = {"f": {"figure": {"file": "f.json", "key": "x"}}}
    found = planned(runs, rows={"a": []}, measures=measures)
    for seed, run in enumerate(found.runs):
        (finish(run, {}).path / "f.json").write_text(json.dumps({"x": 0.5 + 1e-4 * seed}))
    entry = table(found).entries["a", "", "f"]
    assert entry.ours.half == pytest.approx(4.302653 * 1e-4 / 3**0.5, rel=1e-5)


def test_rows_may_show_scores_before_training(runs: str, finish: Any) -> None:
    rows = {"start": {"phase": "before"}, "end": []}
    found = planned(runs, rows=rows, seeds=[0])
    assert len(found.runs) == 1
    finish(found.runs[0], {"X": 0.2}, "before")
    made = table(found)
    assert made.entries["start", "", "mean over tasks"].values == {0: 20.0}
    assert made.entries["end", "", "mean over tasks"].missing == {0: "no scores after training"}


def test_seconds_of_a_run_that_two_cells_show_count_once(runs: str, finish: Any) -> None:
    found = planned(runs, rows={"start": {"phase": "before"}, "end": []}, seeds=[0])
    file = finish(found.runs[0], {"X": 0.2}).path / "status.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "seconds": 100.0}))
    assert "Seconds of all shown runs: 100." in table(found).footnotes


def test_footnotes_say_how_the_figures_were_made(runs: str, finish: Any) -> None:
    found = planned(runs, published=PUBLISHED, footnotes=["The text disagrees with the table."])
    finished(found, finish, VALUES)
    (run, *_) = found.runs
    run.directory.environment_file.write_text(
        json.dumps(
            {
                "data_fingerprint": "0123456789abcdef",
                "packages": {"torch": "2.13.0", "mteb": "2.26.24"},
                "hardware": {"cores": 2},
            }
        )
    )
    notes = "\n".join(table(found).footnotes)
    for part in (
        "mean over 3 seeds",
        "score of X, after training",
        "Prompts: none. Query / document tokens: 64 / 128.",
        "Precision: float32",
        "Data fingerprint: 0123456789ab",
        "torch 2.13.0, mteb 2.26.24",
        "Published figures: Table 1.",
        "The text disagrees with the table.",
    ):
        assert part in notes


def test_every_format_escapes_what_files_and_runs_say(runs: str, finish: Any) -> None:
    nasty = "<b>50% _x_ | a&b \x1b[31m=1+1"
    found = planned(
        runs, rows={nasty: [], "=cmd": ["loss.temperature=0.02"]}, title=nasty, seeds=[0]
    )
    finish(found.runs[0], {"X": 0.5})
    made = table(found)
    texts = {name: render(made, name) for name in FORMATS}
    assert all("\x1b" not in text for text in texts.values())
    assert "<b>" not in texts["html"]
    assert "&lt;b&gt;50% _x_ | a&amp;b" in texts["html"]
    assert r"\textless{}b\textgreater{}50\% \_x\_ \textbar{} a\&b" in texts["latex"]
    lines = [line for line in texts["markdown"].splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines[:4]}) == 1
    rows = list(csv.DictReader(io.StringIO(texts["csv"])))
    assert [row["row"] for row in rows] == ["<b>50% _x_ | a&b =1+1", "'=cmd"]
    assert float(rows[0]["mean"]) == 50.0


def test_csv_says_to_which_row_means_are_differences(runs: str, finish: Any) -> None:
    published = {"source": ["s"], "values": {"b": 2.6}, "difference_to": "a"}
    texts: list[str] = []
    for content in ({"published": published}, {}):
        found = planned(runs, **content)
        if not texts:
            finished(found, finish, VALUES)
        texts.append(render(table(found), "csv"))
    relative, absolute = (list(csv.DictReader(io.StringIO(text))) for text in texts)
    assert [row["relative_to"] for row in relative] == ["a", "a"]
    assert float(relative[1]["mean"]) == pytest.approx(3.1)
    assert [row["relative_to"] for row in absolute] == ["", ""]
    assert relative[1]["values_by_seed"] == absolute[1]["values_by_seed"]


@pytest.mark.parametrize(
    ("suffix", "name"), [(".md", "markdown"), (".tex", "latex"), (".csv", "csv"), ("", "terminal")]
)
def test_a_files_suffix_chooses_the_format(suffix: str, name: str) -> None:
    assert format_of(suffix) == name


@pytest.mark.parametrize("suffix", [".json", ".markdown"])
def test_a_suffix_of_no_format_is_refused_rather_than_filled_with_another(suffix: str) -> None:
    with pytest.raises(UserError, match=f"by {suffix}\n(.*)[.]md, [.]csv"):
        format_of(suffix)


def test_an_unknown_format_is_answered_with_the_nearest(runs: str) -> None:
    with pytest.raises(UserError, match="did you mean latex"):
        render(table(planned(runs)), "latx")


def test_cells_whose_difference_changed_nothing_are_named(runs: str, finish: Any) -> None:
    found = planned(runs)
    finished(found, finish, {"a": VALUES["a"], "b": VALUES["a"]})
    told = "a and b have the same scores to the last digit: what sets them apart has changed"
    assert any(note.startswith(told) for note in table(found).footnotes)


def test_cells_that_differ_in_one_seed_are_not_called_the_same(runs: str, finish: Any) -> None:
    found = planned(runs)
    finished(found, finish, {"a": VALUES["a"], "b": [*VALUES["a"][:2], 0.6]})
    assert not any("to the last digit" in note for note in table(found).footnotes)
