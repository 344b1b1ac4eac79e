"""Questions about passages from local files: XQuAD, PubMedQA, SearchQA, MARCO.

In `--data-dir`, a folder for each data set (its name may be left out) holds
the published files; the first that exists is read:

    xquad/xquad.en.json                  as SQuAD 1.1
    pubmedqa/ori_pqal.json
    searchqa/{train,val,test}.txt        `snippets ||| question ||| answer`
    msmarco/{train,dev}_v2.1.json        one object of columns

each plain or gzipped (`.gz`), and for the first two also `all.jsonl.gz`, JSON
lines with `question`, `context` and `answer` or `label`.

XQuAD and PubMedQA have no parts: a fifth, always the same, is the test part.
The answers to MS MARCO's own test part are not public: its dev part is the test
part here. Where there is no validation part, a tenth of the rest becomes one.
Parts are cut between passages, so that none is in two.

Questions without an answer are left out. Of MS MARCO all passages are read, as
which of them holds the answer is not known at test.
"""

import gzip
import json
from pathlib import Path
from typing import Any
from typing import NamedTuple

import numpy as np

from examples.common import text_files

LABELS = ("yes", "no", "maybe")
SPLIT_SEED = 20180702
NO_ANSWER = "No Answer Present."


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
    """Reads a data set.

    Args:
        name: One of `DATASETS`.
        data_dir: Folder that holds it.

    Returns:
        A `PassageData`, no part of it empty.

    Raises:
        FileNotFoundError: If its files are not there; names what is missing.
        ValueError: If a file is malformed; names path and row.
    """
    parts = {
        part: _questions(path, read)
        for part, (path, read) in _READERS[name](Path(data_dir)).items()
    }
    if "all" in parts:
        parts["train"], parts["test"] = _split(parts["all"], 5)
    if "validation" not in parts:
        parts["train"], parts["validation"] = _split(parts["train"], 10)
    data = PassageData(parts["train"], parts["validation"], parts["test"])
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


# Each reader yields (question, passage, answers) of a file's rows.


def _flat(path):
    for _, line in text_files.lines(path, "utf8"):
        row = json.loads(line)
        answer = row["answer"] if "answer" in row else row["label"]
        yield row["question"], row["context"], [answer]


def _squad(path):
    for document in _json(path)["data"]:
        for paragraph in document["paragraphs"]:
            for row in paragraph["qas"]:
                answers = [answer["text"] for answer in row["answers"]]
                yield row["question"], paragraph["context"], answers


def _pubmedqa(path):
    for row in _json(path).values():
        passage = " ".join(row["CONTEXTS"])
        yield row["QUESTION"], passage, [row["final_decision"]]


def _labelled(read):
    """A reader whose answers must be labels."""

    def read_labels(path):
        for row in read(path):
            if row[2][0] not in LABELS:
                raise ValueError(f"{row[2][0]!r} is none of {LABELS}")
            yield row

    return read_labels


def _searchqa(path):
    for _, line in text_files.lines(path, "utf8"):
        snippets, question, answer = line.split(" ||| ")
        yield question, snippets, [answer]


def _msmarco(path):
    columns = _json(path)
    for key, question in columns["query"].items():
        passages = columns["passages"][key]
        passage = " ".join(p["passage_text"] for p in passages)
        answers = [a for a in columns["answers"][key] if a != NO_ANSWER]
        yield question, passage, answers


_READERS = {
    "xquad": lambda folder: {
        "all": _find(
            folder, "xquad", {"all.jsonl.gz": _flat, "xquad.en.json": _squad}
        )
    },
    "pubmedqa": lambda folder: {
        "all": _find(
            folder,
            "pubmedqa",
            {
                "all.jsonl.gz": _labelled(_flat),
                "ori_pqal.json": _labelled(_pubmedqa),
            },
        )
    },
    "searchqa": lambda folder: {
        part: _find(folder, "searchqa", {f"{file}.txt": _searchqa})
        for part, file in zip(PassageData._fields, ("train", "val", "test"))
    },
    "msmarco": lambda folder: {
        part: _find(folder, "msmarco", {f"{file}_v2.1.json": _msmarco})
        for part, file in (("train", "train"), ("test", "dev"))
    },
}
DATASETS = tuple(_READERS)


def _find(data_dir: Path, folder: str, readers: dict) -> tuple[Path, Any]:
    """The first file that exists, in a folder or beside it, and its reader."""
    for root in (data_dir / folder, data_dir):
        for name, read in readers.items():
            for path in (root / name, root / f"{name}.gz"):
                if path.is_file():
                    return path, read
    wanted = ", ".join(str(data_dir / folder / name) for name in readers)
    raise FileNotFoundError(
        f"No data for --dataset {folder}. Expected one of: {wanted}"
    )


def _json(path: Path) -> Any:
    """What a JSON file holds."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return json.loads(content)


def _questions(path: Path, read: Any) -> list[Question]:
    """The questions of a file that have an answer."""
    questions: list[Question] = []
    try:
        for question, passage, answers in read(path):
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
