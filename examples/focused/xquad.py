"""Questions about passages: XQuAD, English, from a local file.

In `--data-dir`, the folder `xquad` holds `all.jsonl.gz`, JSON lines with
`question`, `context` and `answer`, or the published `xquad.en.json`. Questions
without an answer are left out.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from examples.common import text_files
from examples.common.arguments import WHERE_DATA_ARE


class Question(NamedTuple):
    """A question, the passage it is about, and one answer or several."""

    question: str
    passage: str
    answers: tuple[str, ...]


def read(data_dir: str | Path) -> list[Question]:
    """Reads the questions, in the order of the file."""
    folder = Path(data_dir, "xquad")
    for name, rows_of in (("all.jsonl.gz", _flat), ("xquad.en.json", _squad)):
        if (folder / name).is_file():
            rows = rows_of(folder / name)
            return [x for x in rows if any(x.answers) and x.passage.strip()]
    raise FileNotFoundError(
        f"No XQuAD. Expected in {folder} one of: all.jsonl.gz, xquad.en.json; "
        f"{WHERE_DATA_ARE}"
    )


def _flat(path: Path) -> Iterator[Question]:
    for row in text_files.json_lines(path):
        answers = (row["answer"].strip(),)
        yield Question(row["question"].strip(), row["context"], answers)


def _squad(path: Path) -> Iterator[Question]:
    for document in json.loads(path.read_text(encoding="utf8"))["data"]:
        for paragraph in document["paragraphs"]:
            for row in paragraph["qas"]:
                answers = tuple(x["text"].strip() for x in row["answers"])
                question = row["question"].strip()
                yield Question(question, paragraph["context"], answers)
