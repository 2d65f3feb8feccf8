"""Training and measuring a tokenizer over columns of texts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .columns import batches, select
from .hashing import stable_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from embedexp.config.schema.tokenizer import TokenizerStage

    from .dataset import TextDataset

MOST = 10
"""At most one text in so many is held out."""

ROLES = ("pad", "eos", "bos", "cls", "sep", "mask", "unk")


@dataclass(frozen=True)
class Split:
    """A dataset's texts: those to train on, and those to measure on."""

    name: str
    language: str
    train: Sequence[str]
    held: Sequence[str]


@dataclass(frozen=True)
class Measured:
    """A tokenizer on held-out texts, without the special tokens around them.

    `unknown` is the share of tokens that stand for what is not in the vocabulary; `kept` the share
    of texts that come back whole (but for space and normalisation) when they are decoded; `used`
    the share of the vocabulary that occurs. Words are what space separates.
    """

    dataset: str
    language: str
    texts: int
    bytes_per_token: float
    tokens_per_word: float
    unknown: float
    kept: float
    used: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def split(dataset: TextDataset, option: TokenizerStage) -> Split:
    """Hold out the texts with the lowest hashes: which ones depends on the texts alone."""
    count = min(len(dataset), option.examples or len(dataset))
    rows = range(count)
    keys: list[tuple[int, int]] = []
    done = 0
    for some in batches(select(dataset.texts, rows)):
        keys += [(stable_hash("tokenizer", text), done + i) for i, text in enumerate(some)]
        done += len(some)
    held = sorted(row for _, row in sorted(keys)[: min(option.holdout, count // MOST)])
    apart = set(held)
    kept = [row for row in rows if row not in apart]
    return Split(
        dataset.name, dataset.language, select(dataset.texts, kept), select(dataset.texts, held)
    )


def train(splits: Sequence[Split], option: TokenizerStage, check: Callable[[], None]) -> Any:
    """A transformers tokenizer, trained on the splits; `check` is called while they are read."""
    from tokenizers import Tokenizer, decoders, models, trainers
    from transformers import PreTrainedTokenizerFast

    special = _special(option)
    unk = option.special.unk
    common: dict[str, Any] = {
        "vocab_size": option.vocabulary,
        "special_tokens": special,
        "show_progress": False,
    }
    if option.model == "byte_bpe":
        from tokenizers.pre_tokenizers import ByteLevel

        tokenizer = Tokenizer(models.BPE())
        trainer: Any = trainers.BpeTrainer(
            min_frequency=option.min_frequency, initial_alphabet=ByteLevel.alphabet(), **common
        )
        tokenizer.decoder = decoders.ByteLevel()
    elif option.model == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token=unk or "", max_input_chars_per_word=100))
        trainer = trainers.WordPieceTrainer(min_frequency=option.min_frequency, **common)
        tokenizer.decoder = decoders.WordPiece()
    else:
        tokenizer = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(unk_token=unk, **common)
        tokenizer.decoder = decoders.Metaspace()
    tokenizer.normalizer = _normalizer(option)
    tokenizer.pre_tokenizer = _pre_tokenizer(option)

    def texts() -> Iterator[Sequence[str]]:
        for each in splits:
            for some in batches(each.train):
                check()
                yield list(some)

    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.post_processor = _around(option, tokenizer)
    names = {
        f"{role}_token": token
        for role in ROLES
        if (token := getattr(option.special, role)) is not None
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=option.max_length,
        additional_special_tokens=list(option.special.more),
        clean_up_tokenization_spaces=False,
        **names,
    )


def load(folder: Path) -> Any:
    """The tokenizer of a folder, as transformers reads it."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def measure(tokenizer: Any, found: Split) -> Measured:
    """What a tokenizer makes of held-out texts."""
    size = tokens = words = unknown = kept = count = 0
    used: set[int] = set()
    unk, inner = tokenizer.unk_token_id, tokenizer.backend_tokenizer
    normal = inner.normalizer.normalize_str if inner.normalizer is not None else str
    for some in batches(found.held):
        encoded = tokenizer(list(some), add_special_tokens=False)["input_ids"]
        for text, ids in zip(some, encoded, strict=True):
            size += len(text.encode())
            tokens += len(ids)
            words += len(text.split())
            unknown += ids.count(unk) if unk is not None else 0
            kept += _squeezed(tokenizer.decode(ids)) == _squeezed(normal(text))
            used.update(ids)
            count += 1
    return Measured(
        found.name,
        found.language,
        count,
        size / max(tokens, 1),
        tokens / max(words, 1),
        unknown / max(tokens, 1),
        kept / max(count, 1),
        len(used) / len(tokenizer),
    )


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _special(option: TokenizerStage) -> list[str]:
    found = [getattr(option.special, role) for role in ROLES]
    return list(dict.fromkeys([token for token in (*found, *option.special.more) if token]))


def _normalizer(option: TokenizerStage) -> Any:
    from tokenizers import normalizers

    steps: list[Any] = []
    if option.normalization != "none":
        steps.append(normalizers.NFC() if option.normalization == "nfc" else normalizers.NFKC())
    if option.lowercase:
        steps.append(normalizers.Lowercase())
    return normalizers.Sequence(steps) if steps else None


def _pre_tokenizer(option: TokenizerStage) -> Any:
    from tokenizers import pre_tokenizers

    steps: list[Any] = []
    if option.split_digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    if option.model == "byte_bpe":
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False))
    elif option.model == "wordpiece":
        steps.append(pre_tokenizers.BertPreTokenizer())
    else:
        steps.append(pre_tokenizers.Metaspace())
    return pre_tokenizers.Sequence(steps)


def _around(option: TokenizerStage, tokenizer: Any) -> Any:
    """What puts special tokens around a text, or around a pair of them."""
    from tokenizers.processors import TemplateProcessing

    special = option.special
    before, after = {
        "eos": (None, special.eos),
        "bos_eos": (special.bos, special.eos),
        "cls_sep": (special.cls, special.sep),
        "none": (None, None),
    }[option.around]
    head, tail = ([f"{token}:0"] if token else [] for token in (before, after))
    second = [f"{after}:1"] if after else []
    ids = [(token, tokenizer.token_to_id(token)) for token in (before, after) if token]
    return TemplateProcessing(
        single=[*head, "$A:0", *tail],
        pair=[*head, "$A:0", *tail, "$B:1", *second],
        special_tokens=ids,
    )
