"""Training a tokenizer."""

from __future__ import annotations

from typing import ClassVar, Literal

from .base import Option, field


class SpecialTokens(Option):
    """Tokens with a role; null where the tokenizer has none."""

    pad: str = field("padding", min_length=1)
    eos: str | None = field("end of a text")
    bos: str | None = field("beginning of a text")
    cls: str | None = field("what stands before a text, for encoders")
    sep: str | None = field("what stands behind each text, for encoders")
    mask: str | None = field("in the place of a hidden word")
    unk: str | None = field("in the place of what is not in the vocabulary")
    more: list[str] = field("further ones, never split")


class TokenizerStage(Option):
    """Train a tokenizer on the texts of the data."""

    uses: ClassVar[tuple[str, ...]] = ("data", "stage", "compute", "tracking", "scale")
    name: Literal["tokenizer"] = field("option")
    model: Literal["byte_bpe", "wordpiece", "unigram"] = field("how words are cut")
    vocabulary: int = field("tokens, with the special ones", unit="tokens", ge=300)
    min_frequency: int = field("merges that are rarer are not made; not for unigram", ge=1)
    normalization: Literal["none", "nfc", "nfkc"] = field("of Unicode, before anything else")
    lowercase: bool = field("of all texts")
    split_digits: bool = field("every digit is a token of its own")
    special: SpecialTokens = field("tokens with a role")
    around: Literal["eos", "bos_eos", "cls_sep", "none"] = field("special tokens put around a text")
    max_length: int = field("longest text that the tokenizer promises", unit="tokens", ge=8)
    examples: int | None = field("first so many texts of each dataset; null: all", ge=1)
    holdout: int = field(
        "texts of each dataset, at most a tenth, kept to measure on", unit="texts", ge=1
    )
