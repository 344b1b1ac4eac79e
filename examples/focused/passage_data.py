"""Questions about passages from local files: XQuAD, PubMedQA, SearchQA, MARCO.

In `--data-dir`, a folder for each data set (its name may be left out) holds
the published files; the first that exists is read:

    xquad/xquad.en.json                  as SQuAD 1.1
    pubmedqa/ori_pqal.json
    searchqa/{train,val,test}/*.json     `search_results`, `question`, `answer`
    searchqa/{train,val,test}.txt        `snippets ||| question ||| answer`
    msmarco/{train,dev}_v2.1.json        one object of columns
    msmarco/{train,dev}_v1.1.json        an object a line

each plain or gzipped (`.gz`), and for the first two also `all.jsonl.gz`, JSON
lines with `question`, `context` and `answer` or `label`.

XQuAD and PubMedQA have no parts: a fifth, always the same, is the test part.
The answers to MS MARCO's own test part are not public: its dev part is the test
part here. Where there is no validation part, a tenth of the rest becomes one.
Parts are cut between passages, so that none is in two.

Questions without an answer are left out. Of SearchQA's snippets the first 50
are read, as its authors do; of MS MARCO all passages, as which of them holds
the answer is not known at test.
"""

import json
from collections.abc import Callable
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from typing import NamedTuple

import numpy as np

from examples.common import text_files
from examples.focused import json_files

LABELS = ("yes", "no", "maybe")
SPLIT_SEED = 20180702
SNIPPETS = 50
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
    path = json_files.find(data_dir, "xquad", ["all.jsonl.gz", "xquad.en.json"])
    if ".jsonl" in path.name:
        return {"all": _questions(path, json_files.read_lines(path), _flat)}
    expected = "as SQuAD, `data`: `paragraphs`: `context`, `qas`"
    try:
        paragraphs = [
            p for d in json_files.read(path)["data"] for p in d["paragraphs"]
        ]
        places = [
            (f"paragraph {i}, question {j}", (paragraph, question))
            for i, paragraph in enumerate(paragraphs, start=1)
            for j, question in enumerate(paragraph["qas"], start=1)
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected {expected}. Received: {error!r}"
        ) from error

    def extract(row):
        paragraph, question = row
        answers = [answer["text"] for answer in question["answers"]]
        return question["question"], paragraph["context"], answers

    return {"all": _questions(path, places, extract)}


def _pubmedqa(data_dir):
    path = json_files.find(
        data_dir, "pubmedqa", ["all.jsonl.gz", "ori_pqal.json"]
    )
    if ".jsonl" in path.name:
        questions = _questions(path, json_files.read_lines(path), _flat)
    else:

        def extract(row):
            passage = " ".join(row["CONTEXTS"])
            return row["QUESTION"], passage, [row["final_decision"]]

        questions = _questions(path, json_files.read_items(path), extract)
    for question in questions:
        if question.answers[0] not in LABELS:
            raise ValueError(
                f"{path}: expected an answer of {LABELS}. "
                f"Received: {question.answers[0]!r}"
            )
    return {"all": questions}


def _searchqa(data_dir):
    files = {"train": "train", "validation": "val", "test": "test"}
    folder = data_dir / "searchqa"
    for root in (folder, data_dir):
        if any((root / "train").glob("*.json*")):
            return {p: _search_files(root / f) for p, f in files.items()}

    def extract(line):
        snippets, question, answer = line.split(" ||| ")
        return question, snippets, [answer]

    paths = {
        part: json_files.find(
            data_dir, "searchqa", [f"{file}.txt"], ["train/*.json"]
        )
        for part, file in files.items()
    }
    return {
        part: _questions(
            path,
            ((f"line {i}", x) for i, x in text_files.lines(path, "utf8")),
            extract,
        )
        for part, path in paths.items()
    }


def _search_files(folder):
    def extract(row):
        snippets = [result["snippet"] for result in row["search_results"]]
        passage = " ".join(s for s in snippets[:SNIPPETS] if s is not None)
        return row["question"], passage, [row["answer"]]

    paths = sorted(folder.glob("*.json*"))
    if not paths:
        raise FileNotFoundError(f"{folder}/*.json: no such file")
    return [
        question
        for path in paths
        for question in _questions(
            path, [("whole file", json_files.read(path))], extract
        )
    ]


def _msmarco(data_dir):
    for version in ("v2.1", "v1.1"):
        if json_files.present(data_dir, "msmarco", [f"train_{version}.json"]):
            break
    wanted = {"train": f"train_{version}.json", "test": f"dev_{version}.json"}
    paths = {
        part: json_files.find(data_dir, "msmarco", [file], ["train_v2.1.json"])
        for part, file in wanted.items()
    }

    def extract(row):
        passage = " ".join(p["passage_text"] for p in row["passages"])
        answers = [a for a in row["answers"] if a != NO_ANSWER]
        return row["query"], passage, answers

    return {
        part: _questions(path, _rows_or_columns(path), extract)
        for part, path in paths.items()
    }


def _rows_or_columns(path):
    """Rows of JSON lines, or of one object that holds columns."""
    _, first = next(text_files.lines(path, "utf8"))
    try:
        is_row = isinstance(json.loads(first)["query"], str)
    except (ValueError, KeyError, TypeError):
        is_row = False  # One object, written over several lines or malformed.
    if is_row:
        return json_files.read_lines(path)
    columns = json_files.read(path)
    names = ("query", "passages", "answers")
    try:
        return [
            (f"row {key}", {name: columns[name][key] for name in names})
            for key in columns["query"]
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected rows or columns {names}. Received: {error!r}"
        ) from error


def _flat(row):
    answer = row["answer"] if "answer" in row else row["label"]
    return row["question"], row["context"], [answer]


def _questions(
    path: Path, places: Iterable[tuple[str, Any]], extract: Callable
) -> list[Question]:
    """Questions of rows, each with the place where it stands."""
    questions = []
    for place, row in places:
        try:
            question, passage, answers = extract(row)
        except (KeyError, TypeError, ValueError) as error:
            _fail(path, place, row, error)
        texts = (question, passage, *answers)
        if not all(isinstance(text, str) for text in texts):
            _fail(path, place, row, TypeError("not a string"))
        answers = tuple(a.strip() for a in answers if a.strip())
        questions.append(Question(question.strip(), passage, answers))
    return questions


def _fail(path, place, row, error):
    received = str(row)
    received = received if len(received) <= 80 else received[:77] + "..."
    raise ValueError(
        f"{path}, {place}: expected question, passage and answer as "
        f"examples/focused/passage_data.py describes ({error!r}). "
        f"Received: {received}"
    ) from error


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
