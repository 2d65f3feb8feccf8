"""Several sources become one corpus: exact numbers, the same examples every time, nothing lost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from embedexp import data
from embedexp.config import UserError, compose
from embedexp.config.mixture_counts import wanted
from embedexp.config.schema.data import Each, Mixture, Part

from . import options


@pytest.fixture
def write(tmp_path):
    def write(name, count, **more):
        path = tmp_path / f"{name}.jsonl"
        rows = [{"query": f"{name} {n}", "positive": f"class {n % 7}"} | more for n in range(count)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def part(option, **changes):
    return Part(
        **{"count": None, "share": None, "weight": 1.0, "language": ""} | changes, data=option
    )


def mixture(sources, total=None, one_dataset_per_task=False):
    return Mixture(
        name="mixture",
        sources=sources,
        each=Each(count=None, share=None, weight=1.0, language=""),
        total=total,
        one_dataset_per_task=one_dataset_per_task,
    )


def test_shares_of_a_total_are_exact():
    option = options.jsonl("unread.jsonl")
    six = {name: part(option, share=1.0) for name in "cafebd"}
    counts = wanted(mixture(six, total=100_000))
    assert counts == dict.fromkeys("abcd", 16_667) | dict.fromkeys("ef", 16_666)
    assert wanted(mixture(dict(reversed(six.items())), total=100_000)) == counts
    uneven = {
        "a": part(option, share=0.1),
        "b": part(option, share=0.7),
        "c": part(option, count=9),
    }
    assert wanted(mixture(uneven, total=50)) == {"a": 5, "b": 36, "c": 9}


def test_what_one_source_holds_out_is_trained_on_in_none(tmp_path):
    def source(name, count):
        rows = [{"query": f"q{n}", "positive": f"{name} {n}"} for n in range(count)]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return part(options.jsonl(tmp_path / name, holdout=20))

    corpus = data.load(mixture({"a": source("a.jsonl", 100), "b": source("b.jsonl", 400)}))
    held = {query for dataset in corpus.heldout for query in dataset.queries}
    trained = [set(dataset.queries) for dataset in corpus.train]
    assert 20 < len(held) <= 40  # the sources hold out different queries
    assert not held & set.union(*trained)
    assert [len(held | queries) for queries in trained] == [len(held | trained[0]), 400]
    assert len(trained[0]) == 100 - sum(int(query[1:]) < 100 for query in held)


def test_a_source_gives_as_many_as_it_is_asked_for_and_the_same_ones_in_any_company(write):
    qwen, llama = (options.jsonl(write(name, 100)) for name in ("qwen", "llama"))
    together = data.load(mixture({"qwen": part(qwen, count=30), "llama": part(llama)}))
    assert [(d.name, len(d)) for d in together.train] == [("llama", 100), ("qwen", 30)]
    alone = data.load(mixture({"qwen": part(qwen, count=30)})).train[0]
    assert list(alone.queries) == list(together.train[1].queries)
    more = data.load(mixture({"qwen": part(qwen, count=31)})).train[0]
    assert len(set(more.queries) - set(alone.queries)) == 1
    numbers = [int(query.split()[1]) for query in alone.queries]
    assert numbers == sorted(numbers)
    assert max(numbers) > 60  # a sample of the whole file, not its beginning


def test_counts_may_cut_several_datasets_and_rows_stay_whole(write):
    words = options.builtin(tasks=["retrieval", "classification"], max_examples=200)
    corpus = data.load(mixture({"words": part(words, count=200)}))
    whole = {d.name: d for d in data.load(words).train}
    assert sum(map(len, corpus.train)) == 200
    for dataset in corpus.train:
        source, _, name = dataset.name.partition("/")
        assert source == "words"
        assert 60 < len(dataset) < 140
        pairs = set(zip(whole[name].queries, whole[name].positives, strict=True))
        assert pairs >= set(zip(dataset.queries, dataset.positives, strict=True))


def test_weights_and_languages_are_the_sources(write):
    option = options.builtin(tasks=["retrieval", "sts"], max_examples=20, wordnet_similarity=3.0)
    pairs = options.jsonl(write("pairs", 5))
    corpus = data.load(
        mixture({"w": part(option, weight=0.5, language="en"), "p": part(pairs, language="de")})
    )
    assert [(d.name, d.weight, d.language) for d in corpus.train] == [
        ("p", 1.0, "de"),
        ("w/wordnet_definitions", 2.0, "en"),
        ("w/wordnet_similarity", 1.5, "en"),
    ]


def test_what_sources_hold_out_is_kept_whatever_is_chosen(write):
    option = options.jsonl(write("pairs", 100), holdout=20)
    alone = data.load(option)
    mixed = data.load(mixture({"pairs": part(option, count=10)}))
    assert [replace(d, name="") for d in mixed.heldout] == [
        replace(d, name="") for d in alone.heldout
    ]
    assert not set(mixed.train[0].queries) & set(mixed.heldout[0].queries)


def test_sources_of_one_task_can_be_one_dataset(write):
    qwen = options.jsonl(write("qwen", 20, topic="1"), task="classification", group="topic")
    llama = options.jsonl(write("llama", 10, bad=["no"]), task="classification", negatives="bad")
    sources = {"qwen": qwen, "llama": llama, "other": options.jsonl(write("other", 5))}
    parts = {name: part(source) for name, source in sources.items()}
    option = mixture(parts, one_dataset_per_task=True)
    classes, pairs = data.load(option).train
    assert (classes.name, classes.task) == ("classification", "classification")
    assert (len(classes), classes.weight) == (30, 2.0)
    assert (pairs.name, len(pairs)) == ("retrieval", 5)
    assert [list(texts) for texts in classes.negatives] == [["no"]] * 10 + [[]] * 20
    assert classes.groups[:10] == [None] * 10
    assert len(set(classes.groups[10:])) == 1
    described = data.describe(option)
    assert described == [(task, task, None) for task in ("classification", "retrieval")]


def test_examples_of_joined_sources_keep_their_language(write):
    files = {name: options.jsonl(write(name, 3)) for name in ("a", "b")}
    parts = {"a": part(files["a"], language="en"), "b": part(files["b"], language="de")}
    (joined,) = data.load(mixture(parts, one_dataset_per_task=True)).train
    assert (joined.language, joined.languages) == ("", ["en"] * 3 + ["de"] * 3)
    same = {name: part(file, language="en") for name, file in files.items()}
    (joined,) = data.load(mixture(same, one_dataset_per_task=True)).train
    assert (joined.language, joined.languages) == ("en", None)


def test_what_a_mixture_says_of_a_source_counts_more_than_its_column(write):
    named = options.jsonl(write("a", 3, code="fr"), language="code")
    (said,) = data.load(mixture({"a": part(named, language="en")})).train
    (silent,) = data.load(mixture({"a": part(named)})).train
    assert (said.language, said.languages) == ("en", None)
    assert (silent.language, silent.languages) == ("", ["fr"] * 3)


def test_equal_groups_of_different_sources_stay_apart(write):
    files = {name: options.jsonl(write(name, 4, topic="1"), group="topic") for name in ("a", "b")}
    option = mixture({name: part(file) for name, file in files.items()}, one_dataset_per_task=True)
    (joined,) = data.load(option).train
    assert joined.groups[0] == joined.groups[3] != joined.groups[4] == joined.groups[7]


def test_the_fingerprint_is_that_of_the_contents(write):
    a, b = options.jsonl(write("a", 4)), options.jsonl(write("b", 4))
    first = data.fingerprint(mixture({"x": part(a), "y": part(b)}))
    assert first == data.fingerprint(mixture({"y": part(b), "x": part(a)}))
    assert first == data.load(mixture({"x": part(a), "y": part(b)})).fingerprint
    assert first != data.fingerprint(mixture({"x": part(b), "y": part(a)}))
    write("b", 5)
    assert first != data.fingerprint(mixture({"x": part(a), "y": part(b)}))


def test_more_than_a_source_has_is_refused_with_both_numbers(write):
    option = mixture({"qwen": part(options.jsonl(write("qwen", 20)), count=21)})
    with pytest.raises(UserError, match="qwen has 20 training examples, 21 of them are asked for"):
        data.load(option)
    known = mixture({"words": part(options.builtin(max_examples=5), count=21)})
    with pytest.raises(UserError, match="words has 20 training examples, 21"):
        data.describe(known)
    bounded = options.jsonl(write("qwen", 20), max_examples=8)
    with pytest.raises(UserError, match="qwen has 8 training examples, 9"):
        data.describe(mixture({"qwen": part(bounded, count=9)}))


def test_an_error_of_a_source_names_its_keys(write):
    option = mixture({"qwen": part(options.jsonl(write("qwen", 3), query="qury"))})
    with pytest.raises(UserError) as refusal:
        data.load(option)
    assert refusal.value.hint == "did you mean data.sources.qwen.data.columns.query=query?"


def composed(*overrides):
    return compose(["data=mixture", "batching.size=8", *overrides]).data


def test_sources_are_given_on_the_command_line(write):
    qwen, llama = write("qwen", 60), write("llama", 60)
    option = composed(
        f"+data.sources.qwen={{data: {{name: jsonl, path: {qwen}, holdout: 0}}, weight: 2.0}}",
        f"+data.sources.llama={{data: {{name: jsonl, path: {llama}}}}}",
        "data.each.share=1",
        "data.total=50",
        "data.sources.llama.data.holdout=10",
    )
    assert (option.sources["qwen"].weight, option.sources["llama"].weight) == (2.0, 1.0)
    assert option.sources["qwen"].data.columns.query == "query"  # of the source's own file
    assert option.sources["llama"].data.holdout == 10
    assert data.describe(option) == [("llama", "retrieval", 25), ("qwen", "retrieval", 25)]


def test_sources_are_given_in_a_file(write, tmp_path):
    folder = tmp_path / "conf" / "data"
    folder.mkdir(parents=True)
    (folder / "my_pairs.yaml").write_text(
        f"# Mine.\ndefaults: [jsonl, _self_]\npath: {write('pairs', 70)}\nholdout: 5\n"
    )
    (folder / "two.yaml").write_text(
        "# Two sources.\ndefaults: [mixture, _self_]\nsources:\n"
        "  pairs: {data: {name: my_pairs, task: clustering}, count: 20}\n"
        "  words: {data: {name: builtin}}\n"
    )
    overrides = [
        "data=two",
        "batching.size=8",
        "data.sources.pairs.count=30",
        "loss.tasks=[retrieval,clustering]",
    ]
    option = compose(overrides, [folder.parent]).data
    assert (option.sources["pairs"].data.name, option.sources["pairs"].data.holdout) == ("jsonl", 5)
    assert option.sources["pairs"].data.task == "clustering"
    assert option.sources["pairs"].count == 30
    assert option.sources["words"].data.tasks == ["retrieval", "clustering"]


def test_the_signature_follows_content_and_counts_and_nothing_else(write, tmp_path):
    def signature(*more):
        return compose(["data=mixture", *more]).signature

    one = f"+data.sources.a={{data: {{name: jsonl, path: {write('one', 600)}}}}}"
    same = write("one", 600).rename(tmp_path / "moved.jsonl")
    two = f"+data.sources.a={{data: {{name: jsonl, path: {same}}}, count: 90}}"
    write("one", 600)
    assert signature(one, "data.each.count=90") == signature(two)
    assert signature(two) != signature(two, "data.sources.a.count=80")


WORDS = "+data.sources.a={data: {name: builtin}"  # to be closed


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], "data=mixture has no sources"),
        ([WORDS + ", cuont: 5}"], "did you mean data.sources.a.count"),
        (
            ["+data.sources.a={data: {name: jsonl, pth: x}}"],
            "did you mean data.sources.a.data.path",
        ),
        (["+data.sources.a={data: {name: jsonl, path: x.jsonl}}"], "data.sources.a.data.path"),
        (["+data.sources.a={data: {name: jsonl}}"], "data.sources.a.data.path has no value yet"),
        (["+data.sources.a={data: {name: jsnol}}"], "did you mean jsonl?"),
        (["+data.sources.a={data: {name: jsnol}}"], "data.sources.a.data.name=jsnol is no option"),
        (["+data.sources.a={data: {name: mixture}}"], "stdlib_code"),
        ([WORDS.replace("s.a", "s.qwen") + "}", "data.sources.qwne.count=5"], "sources.qwen.count"),
        ([WORDS + ", share: 1}"], "set data.total=NUMBER"),
        ([WORDS + "}", "data.total=9"], "set data.sources.a.share=1"),
        ([WORDS + ", share: 1, count: 1}"], "both a count and a share"),
        ([WORDS + ", count: 100000}"], "100000 of them are asked for"),
        ([WORDS + ", count: 0}"], "data.sources.a.count=0"),
    ],
)
def test_mistakes_are_told_with_the_key_of_the_source(overrides, message):
    with pytest.raises(UserError) as refusal:
        composed(*overrides)
    assert message in str(refusal.value)
    assert len(str(refusal.value).splitlines()) <= 3


def test_bounds_of_scale_reach_the_sources():
    option = composed(
        "+data.sources.a={data: {name: builtin}, count: 20000}",
        "+data.sources.b={data: {name: builtin}, share: 1}",
        "data.total=50000",
        "scale=demo",
    )
    assert option.sources["a"].count == option.sources["a"].data.max_examples == 2000
    assert option.total == 4000
