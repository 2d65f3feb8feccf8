"""Names of languages for prompts, and the scripts that their texts are in."""

from __future__ import annotations

import unicodedata

NAMES = {
    "ar": "Arabic", "bn": "Bengali", "bg": "Bulgarian", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi",
    "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "km": "Khmer",
    "ko": "Korean", "ms": "Malay", "nl": "Dutch", "no": "Norwegian", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sv": "Swedish",
    "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "yo": "Yoruba", "zh": "Chinese",
}  # fmt: skip

_SCRIPTS = {
    "ar": ("ARABIC",), "fa": ("ARABIC",), "ur": ("ARABIC",), "bn": ("BENGALI",),
    "bg": ("CYRILLIC",), "ru": ("CYRILLIC",), "uk": ("CYRILLIC",), "el": ("GREEK",),
    "he": ("HEBREW",), "hi": ("DEVANAGARI",), "ja": ("HIRAGANA", "KATAKANA", "CJK"),
    "km": ("KHMER",), "ko": ("HANGUL", "CJK"), "ta": ("TAMIL",), "te": ("TELUGU",),
    "th": ("THAI",), "zh": ("CJK",),
}  # fmt: skip
LEAST = 0.25
"""Share of the letters: names and loan words are often in Latin script."""


def name(code: str) -> str:
    """The English name of a language; the code itself where it is not known."""
    return NAMES.get(code, code)


def in_script(text: str, code: str) -> bool:
    """Whether at least a quarter of a text's letters are of a script of its language.

    True for languages of unknown script and for texts without letters. It tells a text that was
    left in English from one in Russian, and no two languages of one script.
    """
    scripts = _SCRIPTS.get(code, ("LATIN",) if code in NAMES else ())
    letters = [c for c in text if c.isalpha()]
    if not scripts or not letters:
        return True
    own = sum(unicodedata.name(c, "").startswith(scripts) for c in letters)
    return own >= LEAST * len(letters)
