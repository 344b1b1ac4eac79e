"""Questions about passages from local files: XQuAD and PubMedQA.

In `--data-dir`, a folder for each data set (its name may be left out) holds
JSON lines with `question`, `context` and `answer` or `label`, or the published
file, plain or gzipped (`.gz`); the first that exists is read:

    xquad/all.jsonl.gz       xquad/xquad.en.json, as SQuAD 1.1
    pubmedqa/all.jsonl.gz    pubmedqa/ori_pqal.json

A fifth, always the same, is the test part, and a tenth of the rest the
validation part. Parts are cut between passages, so that none is in two.
Questions without an answer are left out.
"""

import gzip
import json
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from typing import NamedTuple

import numpy as np

from examples.common import text_files

LABELS = ("yes", "no", "maybe")
SPLIT_SEED = 20180702
# A question, its passage, and its answers, as a file has them.
Row = tuple[str, str, list[str]]


class Question(NamedTuple):
    """A question, the passage it is about, and one answer or several."""

    question: str
    passage: str
    answers: tuple[str, ...]


class PassageData(NamedTuple):
    """A data set in three parts."""

    train: list[Question]
    validation: list[Question]
    test: list[Question]


def load(name: str, data_dir: str | Path) -> PassageData:
    """Reads one of `DATASETS`; no part is empty.

    Files that are missing or malformed are named in the error.
    """
    path, read = _find(name, Path(data_dir))
    rest, test = _split(_questions(path, read, name == "pubmedqa"), 5)
    data = PassageData(*_split(rest, 10), test)
    for part, questions in zip(data._fields, data):
        if not questions:
            raise ValueError(
                f"Data set {name}: expected at least one question with an "
                f"answer in each part. Received: none in {part}"
            )
    return data


def describe(data: PassageData) -> str:
    """How many questions there are, and how many passages are in two parts."""
    passages = {q.passage for q in (*data.train, *data.validation)}
    seen = sum(q.passage in passages for q in data.test)
    return (
        f"{len(data.train)} training, {len(data.validation)} validation and "
        f"{len(data.test)} test questions; {seen} test questions are about "
        "passages that are also in training or validation"
    )


def _flat(path: Path) -> Iterator[Row]:
    for _, line in text_files.lines(path, "utf8"):
        row = json.loads(line)
        answer = row["answer"] if "answer" in row else row["label"]
        yield row["question"], row["context"], [answer]


def _squad(path: Path) -> Iterator[Row]:
    for document in _json(path)["data"]:
        for paragraph in document["paragraphs"]:
            for row in paragraph["qas"]:
                answers = [answer["text"] for answer in row["answers"]]
                yield row["question"], paragraph["context"], answers


def _pubmedqa(path: Path) -> Iterator[Row]:
    for row in _json(path).values():
        passage = " ".join(row["CONTEXTS"])
        yield row["QUESTION"], passage, [row["final_decision"]]


_READERS: dict[str, dict[str, Callable[[Path], Iterator[Row]]]] = {
    "xquad": {"all.jsonl.gz": _flat, "xquad.en.json": _squad},
    "pubmedqa": {"all.jsonl.gz": _flat, "ori_pqal.json": _pubmedqa},
}
DATASETS = tuple(_READERS)


def _find(name: str, data_dir: Path) -> tuple[Path, Callable]:
    """The first file that exists, in a folder or beside it, and its reader."""
    for root in (data_dir / name, data_dir):
        for file, read in _READERS[name].items():
            for path in (root / file, root / f"{file}.gz"):
                if path.is_file():
                    return path, read
    wanted = ", ".join(str(data_dir / name / file) for file in _READERS[name])
    raise FileNotFoundError(
        f"No data for --dataset {name}. Expected one of: {wanted}"
    )


def _json(path: Path) -> Any:
    """What a JSON file holds."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return json.loads(content)


def _questions(path: Path, read: Callable, is_labelled: bool) -> list[Question]:
    """The questions of a file that have an answer."""
    questions: list[Question] = []
    try:
        for question, passage, answers in read(path):
            if is_labelled and answers[0] not in LABELS:
                raise ValueError(f"{answers[0]!r} is none of {LABELS}")
            answers = tuple(a.strip() for a in answers if a.strip())
            if answers and passage.strip():
                questions.append(Question(question.strip(), passage, answers))
    except (AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        raise ValueError(
            f"{path}: expected what examples/focused/passage_data.py describes "
            f"after {len(questions)} questions. Received: {error!r}"
        ) from error
    return questions


def _split(questions, share):
    """Takes off one in `share` passages, whatever the order of the file."""
    passages = sorted({q.passage for q in questions})
    order = np.random.default_rng(SPLIT_SEED).permutation(len(passages))
    taken = {passages[i] for i in order[: max(1, len(passages) // share)]}
    return (
        [q for q in questions if q.passage not in taken],
        [q for q in questions if q.passage in taken],
    )
