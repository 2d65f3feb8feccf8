"""Texts with their prompts, as tokens: the one place where a prompt meets a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from embedexp.config.errors import UserError
from embedexp.config.schema.embedding import PLACEHOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .store import Tokenizer

PROBES = (("a", "b"), ("0", "1"))
"""Pairs of texts that differ in every token."""


class Frame(NamedTuple):
    """The token ids that a prompt puts before and after a text, special tokens included.

    A text may merge with the nearest of them into another token. Then fewer of them are found in
    its sequence, and the merged token belongs to the text.
    """

    before: list[int]
    after: list[int]


def sides(prompt: str) -> tuple[str, str]:
    """What a prompt puts before and after a text."""
    before, _, after = prompt.partition(PLACEHOLDER)
    return before, after


def frame(tokenizer: Tokenizer, prompt: str) -> Frame:
    """The tokens around a text, before it as the prompt alone has them, so that none has merged."""
    before, _ = sides(prompt)
    (alone,) = ids(tokenizer, "", [before])
    return Frame(alone[: len(alone) - len(ending(tokenizer, ""))], ending(tokenizer, prompt))


def ending(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """The tokens after a text: those in which sequences of unlike texts end alike."""
    longest: list[int] = []
    for texts in PROBES:
        first, second = ids(tokenizer, prompt, texts)
        count = shared(first[::-1], second[::-1])
        if count > len(longest):
            longest = first[-count:]
    return longest


def shared(first: Sequence[int], second: Sequence[int]) -> int:
    """How many leading numbers two sequences have in common."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def tokenise(
    tokenizer: Tokenizer, prompt: str, texts: Sequence[str], max_tokens: int
) -> list[list[int]]:
    """Token ids of each text with its prompt, of at most so many tokens with the special ones.

    What is too long loses the end of the text; what a template puts after the text stays.

    Raises:
        UserError: a template is so long that it leaves no token for the text.
    """
    if not sides(prompt)[1]:
        return ids(tokenizer, prompt, texts, truncation=True, max_length=max_tokens)
    around = frame(tokenizer, prompt)
    room = max_tokens - len(around.before) - len(around.after)
    if room < 1:
        raise UserError(
            f"the prompt {prompt!r} takes {max_tokens - room} tokens, the limit is {max_tokens}",
            where="embedding.prompts",
            hint="raise embedding.query_tokens and embedding.document_tokens, or shorten it",
        )
    return [cut(sequence, around, max_tokens) for sequence in ids(tokenizer, prompt, texts)]


def cut(sequence: list[int], around: Frame, max_tokens: int) -> list[int]:
    """A sequence without the end of its text, where it is too long."""
    excess = len(sequence) - max_tokens
    if excess <= 0:
        return sequence
    end = len(sequence) - shared(sequence[::-1], around.after[::-1])
    return sequence[: end - excess] + sequence[end:]


def ids(
    tokenizer: Tokenizer, prompt: str, texts: Sequence[str], **truncation: Any
) -> list[list[int]]:
    """Token ids of the whole of each text and its prompt, special tokens included."""
    if not texts:
        return []
    before, after = sides(prompt)
    found: list[list[int]] = tokenizer(
        [before + text + after for text in texts],
        add_special_tokens=True,
        padding=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        **truncation,
    )["input_ids"]
    return found
