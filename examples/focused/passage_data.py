"""Questions about passages from local files: XQuAD and PubMedQA.

In `--data-dir`, a folder for each data set holds JSON lines with `question`,
`context` and `answer` or `label`, or the published file; the first that exists
is read:

    xquad/all.jsonl.gz       xquad/xquad.en.json, as SQuAD 1.1
    pubmedqa/all.jsonl.gz    pubmedqa/ori_pqal.json

A fifth, always the same, is the test part, and a tenth of the rest the
validation part. Parts are cut between passages, so that none is in two.
Questions without an answer are left out.
"""

import json
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from typing import NamedTuple

import numpy as np

from examples.common import text_files
from examples.common.arguments import WHERE_DATA_ARE

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
    """Reads one of `DATASETS`, in three parts."""
    rest, test = _split(read(name, data_dir), 5)
    return PassageData(*_split(rest, 10), test)


def read(name: str, data_dir: str | Path) -> list[Question]:
    """Reads one of `DATASETS`, in the order of its file."""
    path, rows_of = _find(name, Path(data_dir, name))
    return [
        Question(question.strip(), passage, tuple(answers))
        for question, passage, answers in rows_of(path)
        if any(answers) and passage.strip()
    ]


def _flat(path: Path) -> Iterator[Row]:
    for row in text_files.json_lines(path):
        answer = row["answer"] if "answer" in row else row["label"]
        yield row["question"], row["context"], [answer.strip()]


def _squad(path: Path) -> Iterator[Row]:
    for document in _json(path)["data"]:
        for paragraph in document["paragraphs"]:
            for row in paragraph["qas"]:
                answers = [x["text"].strip() for x in row["answers"]]
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


def _find(name: str, folder: Path) -> tuple[Path, Callable]:
    """The first file that exists, and its reader."""
    for file, read in _READERS[name].items():
        if (folder / file).is_file():
            return folder / file, read
    raise FileNotFoundError(
        f"No data for --dataset {name}. Expected in {folder} one of: "
        f"{', '.join(_READERS[name])}; {WHERE_DATA_ARE}"
    )


def _json(path: Path) -> Any:
    """What a JSON file holds."""
    return json.loads(path.read_text(encoding="utf8"))


def _split(questions, share):
    """Takes off one in `share` passages, whatever the order of the file."""
    passages = sorted({q.passage for q in questions})
    order = np.random.default_rng(SPLIT_SEED).permutation(len(passages))
    taken = {passages[i] for i in order[: max(1, len(passages) // share)]}
    return (
        [q for q in questions if q.passage not in taken],
        [q for q in questions if q.passage in taken],
    )
