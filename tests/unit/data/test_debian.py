"""Package lists become pairs: one for each source, without near-copies, on any compression."""

import gzip
import lzma

import pytest

from embedexp import data
from embedexp.config.errors import UserError
from embedexp.data import debian

from . import options

PACKAGES = "mirror_debian_dists_stable_main_binary-amd64_Packages"
DESCRIPTIONS = "mirror_debian_dists_stable_main_i18n_Translation-en"
LONG = "A sufficiently long description of what this package is good for, word by word, of"


def stanza(**fields):
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\n".join(lines) + "\n\n"


@pytest.fixture
def lists(tmp_path):
    def write(packages, suffix="", compress=bytes):
        first = second = ""
        for name, (source, section, short, long) in packages.items():
            md5 = f"md5-{name}"
            more = {"Source": source} if source else {}
            first += stanza(Package=name, Section=section, Description_md5=md5, **more)
            text = f"{short}\n {long}"
            second += stanza(Package=name, Description_md5=md5, Description_en=text)
        (tmp_path / (PACKAGES + suffix)).write_bytes(compress(first.encode()))
        (tmp_path / (DESCRIPTIONS + suffix)).write_bytes(compress(second.encode()))
        (tmp_path / "lock").write_text("")
        return tmp_path

    return write


def pairs(folder, **more):
    (train,) = data.load(options.debian(folder, **more)).train
    return dict(zip(train.queries, train.positives, strict=True))


PLAIN = {
    "dog": ("", "misc", "barks at visitors", f"{LONG} a dog.\n .\n It has\n   two paragraphs."),
    "cat": ("felines (1.2)", "misc", "sleeps all day", f"{LONG[:60]} rather a cat, which purrs."),
}


@pytest.mark.parametrize(
    ("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_short_and_long_descriptions_become_pairs(lists, suffix, compress):
    assert pairs(lists(PLAIN, suffix, compress)) == {
        "barks at visitors": f"{LONG} a dog. It has two paragraphs.",
        "sleeps all day": f"{LONG[:60]} rather a cat, which purrs.",
    }


def test_source_gives_one_pair_from_its_main_package(lists):
    packages = {
        "libdog-dev": ("dog", "libdevel", "development files for dogs", f"Headers. {LONG}"),
        "dog-doc": ("dog", "doc", "documentation for dogs", f"Manual. {LONG}"),
        "dog": ("", "misc", "barks at visitors", LONG),
    }
    assert pairs(lists(packages)) == {"barks at visitors": LONG}


@pytest.mark.parametrize(
    ("section", "short", "long"),
    [
        ("debug", "something else", f"Different. {LONG}"),
        ("rust", "something else", f"Different. {LONG}"),
        ("misc", "transitional package for cats", f"Different. {LONG}"),
        ("misc", "BARKS at visitors", f"Different. {LONG}"),
        ("misc", "something else", LONG.upper() * 2),
        ("misc", "something else", "Too short."),
    ],
)
def test_what_says_nothing_new_is_left_out(lists, section, short, long):
    kept = ("", "misc", "barks at visitors", LONG * 2)
    packages = {"aardvark": kept, "zebra": ("", section, short, long)}
    assert list(pairs(lists(packages))) == ["barks at visitors"]


def test_long_descriptions_are_cut_at_a_word(lists):
    (long,) = pairs(lists({"dog": ("", "misc", "barks", "word " * 500)})).values()
    assert debian.LONGEST - 5 <= len(long) <= debian.LONGEST
    assert set(long.split()) == {"word"}


def test_holdout_and_limit(lists):
    packages = {f"p{n}": ("", "misc", f"short {n}", f"{n} {LONG}") for n in range(40)}
    corpus = data.load(options.debian(lists(packages), holdout=10, max_examples=5))
    assert (len(corpus.train[0]), len(corpus.heldout[0])) == (5, 10)
    assert not set(corpus.train[0].queries) & set(corpus.heldout[0].queries)


def test_fingerprint_follows_the_lists(lists):
    folder = lists(PLAIN)
    before = data.fingerprint(options.debian(folder))
    (folder / "lock").write_text("changed")
    assert data.fingerprint(options.debian(folder)) == before
    lists({"dog": PLAIN["dog"]})
    assert data.fingerprint(options.debian(folder)) != before


def test_missing_lists_are_explained(lists, tmp_path):
    with pytest.raises(UserError, match="package lists of Debian or Ubuntu"):
        data.load(options.debian(tmp_path / "nowhere"))
    folder = lists(PLAIN)
    (folder / DESCRIPTIONS).unlink()
    with pytest.raises(UserError, match="has no descriptions") as refusal:
        data.fingerprint(options.debian(folder))
    assert "apt-get update" in refusal.value.hint
    with pytest.raises(UserError, match="has no descriptions"):
        data.describe(options.debian(folder))


@pytest.mark.skipif(not debian.APT_HELPER.exists(), reason="apt is not installed")
def test_other_compressions_go_through_apt(lists):
    folder = lists(PLAIN, ".lz4", bytes)  # not really compressed
    with pytest.raises(UserError, match="apt cannot read"):
        data.load(options.debian(folder))


def test_other_compressions_without_apt_are_explained(lists, monkeypatch, tmp_path):
    monkeypatch.setattr(debian, "APT_HELPER", tmp_path / "no-apt")
    with pytest.raises(UserError, match="can only be decompressed by apt"):
        data.load(options.debian(lists(PLAIN, ".lz4", bytes)))
