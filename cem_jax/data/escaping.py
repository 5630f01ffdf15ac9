"""Escaping: what sentencepiece would lose of a text, as characters that it keeps.

=========================================  ==========================
in the text                                 escaped
=========================================  ==========================
U+2581, sentencepiece's sign for a space    U+E000 ``1``
U+DC00 + b, a byte b that is not UTF-8      U+E000, U+E000 + b
U+E000 itself                               U+E000 ``0``
=========================================  ==========================

b is 0x80 to 0xFF, so its second character is U+E080 to U+E0FF. As U+E000 is escaped wherever it
stands, what follows one says which of the three it is. Both characters of a byte are of private
use, so that training can join them to one piece: in Latin-1 text a letter is one byte.
"""

from __future__ import annotations

import re

SPACE, ESCAPE = "\u2581", "\ue000"

LOST = re.compile("[\u2581\ue000\udc80-\udcff]")
ESCAPED = re.compile("\ue000([01\ue080-\ue0ff])")


def escape(text: str) -> str:
    """The text without what sentencepiece would lose."""
    return text if text.isascii() else LOST.sub(lambda found: _escaped(found[0]), text)


def unescape(text: str) -> str:
    """The text that was escaped; an U+E000 that escapes nothing stays."""
    return text if text.isascii() else ESCAPED.sub(lambda found: _meant(found[1]), text)


def _escaped(character: str) -> str:
    if character == SPACE:
        return ESCAPE + "1"
    if character == ESCAPE:
        return ESCAPE + "0"
    return ESCAPE + chr(ord(character) - 0xDC00 + 0xE000)


def _meant(sign: str) -> str:
    if sign == "1":
        return SPACE
    return ESCAPE if sign == "0" else chr(ord(sign) - 0xE000 + 0xDC00)
