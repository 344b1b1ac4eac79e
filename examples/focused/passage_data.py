"""Questions about passages from local files: XQuAD, PubMedQA, SearchQA, MARCO.

In `--data-dir`, a folder for each data set (its name may be left out) holds
the published files; the first that exists is read:

    xquad/xquad.en.json                  as SQuAD 1.1
    pubmedqa/ori_pqal.json
    searchqa/{train,val,test}.txt        `snippets ||| question ||| answer`
    msmarco/{train,dev}_v2.1.json        one object of columns
    msmarco/{train,dev}_v1.1.json        an object a line

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
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
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
        ValueError: If a file is malformed; names path, place, and what was
            expected.
    """
    if name not in DATASETS:
        raise ValueError(
            f"Argument `name` must be one of {DATASETS}. "
            f"Received: name={name!r}"
        )
    parts = {
        part: [q for q in questions if q.answers and q.passage.strip()]
        for part, questions in _READERS[name](Path(data_dir)).items()
    }
    if "all" in parts:
        parts["train"], parts["test"] = _split(name, parts["all"], 5)
    if "validation" not in parts:
        parts["train"], parts["validation"] = _split(name, parts["train"], 10)
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


def _xquad(data_dir):
    path = _find(data_dir, "xquad", "all.jsonl.gz", "xquad.en.json")
    if ".jsonl" in path.name:
        return {"all": _questions(path, _json_lines(path), _flat)}
    try:
        rows = [
            (f"paragraph {i}, question {j}", (paragraph["context"], question))
            for i, paragraph in enumerate(
                (p for d in _json(path)["data"] for p in d["paragraphs"]), 1
            )
            for j, question in enumerate(paragraph["qas"], 1)
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected as SQuAD, `data`: `paragraphs`: `context`, "
            f"`qas`. Received: {error!r}"
        ) from error

    def extract(row):
        passage, question = row
        answers = [answer["text"] for answer in question["answers"]]
        return question["question"], passage, answers

    return {"all": _questions(path, rows, extract)}


def _pubmedqa(data_dir):
    path = _find(data_dir, "pubmedqa", "all.jsonl.gz", "ori_pqal.json")

    def extract(row):
        passage = " ".join(row["CONTEXTS"])
        return row["QUESTION"], passage, [row["final_decision"]]

    if ".jsonl" in path.name:
        questions = _questions(path, _json_lines(path), _flat)
    else:
        content = _json(path)
        if not isinstance(content, dict):
            raise ValueError(
                f"{path}: expected an object of questions. "
                f"Received: {type(content).__name__}"
            )
        rows = ((f"question {key}", row) for key, row in content.items())
        questions = _questions(path, rows, extract)
    for question in questions:
        if question.answers[0] not in LABELS:
            raise ValueError(
                f"{path}: expected an answer of {LABELS}. "
                f"Received: {question.answers[0]!r}"
            )
    return {"all": questions}


def _searchqa(data_dir):
    def extract(line):
        snippets, question, answer = line.split(" ||| ")
        return question, snippets, [answer]

    parts = {"train": "train", "validation": "val", "test": "test"}
    paths = {
        part: _find(data_dir, "searchqa", f"{name}.txt")
        for part, name in parts.items()
    }
    return {
        part: _questions(path, _lines(path), extract)
        for part, path in paths.items()
    }


def _msmarco(data_dir):
    def extract(row):
        passage = " ".join(p["passage_text"] for p in row["passages"])
        answers = [a for a in row["answers"] if a != NO_ANSWER]
        return row["query"], passage, answers

    names = ("train_v2.1.json", "train_v1.1.json")
    train = _find(data_dir, "msmarco", *names)
    test_name = train.name.removesuffix(".gz").replace("train", "dev")
    paths = {"train": train, "test": _find(data_dir, "msmarco", test_name)}
    read = _json_columns if "v2.1" in train.name else _json_lines
    return {
        part: _questions(path, read(path), extract)
        for part, path in paths.items()
    }


def _flat(row):
    answer = row["answer"] if "answer" in row else row["label"]
    return row["question"], row["context"], [answer]


def _find(data_dir: Path, folder: str, *names: str) -> Path:
    """The first file that exists, in a folder or beside it."""
    for root in (data_dir / folder, data_dir):
        for name in names:
            for path in (root / name, root / f"{name}.gz"):
                if path.is_file():
                    return path
    wanted = ", ".join(str(data_dir / folder / name) for name in names)
    raise FileNotFoundError(
        f"No data for --dataset {folder}. Expected one of: {wanted}"
    )


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Places and contents of lines."""
    for number, line in text_files.lines(path, "utf8"):
        yield f"line {number}", line


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Places and values of JSON lines."""
    for number, line in text_files.lines(path, "utf8"):
        try:
            yield f"line {number}", json.loads(line)
        except ValueError:
            text_files.fail(path, number, "a JSON object", line)


def _json(path: Path) -> Any:
    """What a JSON file holds."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf8") as file:
            return json.load(file)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path}: expected JSON. Received: {error}") from error


def _json_columns(path: Path) -> list[tuple[str, Any]]:
    """Places and rows of an object of columns."""
    names = ("query", "passages", "answers")
    columns = _json(path)
    try:
        return [
            (f"row {key}", {name: columns[name][key] for name in names})
            for key in columns["query"]
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected columns {names}. Received: {error!r}"
        ) from error


def _questions(
    path: Path, places: Iterable[tuple[str, Any]], extract: Callable
) -> list[Question]:
    """Questions of rows, each with the place where it stands."""
    questions = []
    for place, row in places:
        try:
            question, passage, answers = extract(row)
            for text in (question, passage, *answers):
                if not isinstance(text, str):
                    raise TypeError("not a string")
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}, {place}: expected question, passage and answer as "
                f"examples/focused/passage_data.py describes ({error!r}). "
                f"Received: {str(row)[:80]}"
            ) from error
        answers = tuple(a.strip() for a in answers if a.strip())
        questions.append(Question(question.strip(), passage, answers))
    return questions


def _split(name, questions, share):
    """Takes off one in `share` passages, whatever the order of the file."""
    passages = sorted({q.passage for q in questions})
    if len(passages) < 2:
        raise ValueError(
            f"Data set {name}: expected at least 2 passages where a part is "
            f"taken off. Received: {len(passages)}"
        )
    order = np.random.default_rng(SPLIT_SEED).permutation(len(passages))
    chosen = order[: max(1, len(passages) // share)]
    taken = {passages[i] for i in chosen}
    return (
        [q for q in questions if q.passage not in taken],
        [q for q in questions if q.passage in taken],
    )


_READERS = {
    "xquad": _xquad,
    "pubmedqa": _pubmedqa,
    "searchqa": _searchqa,
    "msmarco": _msmarco,
}
DATASETS = tuple(_READERS)
