"""The loader of questions about passages."""

import json

import pytest

from examples.focused import xquad
from examples.focused.xquad import Question
from tests.examples.files import write_lines

ROWS = [
    {"question": f"q {i}? ", "context": f"passage {i // 2}", "answer": f"a{i}"}
    for i in range(6)
]


def squad(rows):
    """Rows as SQuAD has them: two questions a paragraph, one text for all."""
    paragraphs = [
        {
            "context": row["context"],
            "qas": [
                {"question": x["question"], "answers": [{"text": x["answer"]}]}
                for x in rows
                if x["context"] == row["context"]
            ],
        }
        for row in rows[::2]
    ]
    return {"version": "1.1", "data": [{"paragraphs": paragraphs}]}


def test_both_layouts(tmp_path):
    empty = {"question": "q?", "context": "passage 3", "answer": " "}
    write_lines(tmp_path / "flat" / "xquad" / "all.jsonl.gz", [*ROWS, empty])
    published = tmp_path / "squad" / "xquad" / "xquad.en.json"
    published.parent.mkdir(parents=True)
    published.write_text(json.dumps(squad(ROWS)))
    found = xquad.read(tmp_path / "flat")
    assert found == xquad.read(tmp_path / "squad")
    assert len(found) == 6
    assert found[3] == Question("q 3?", "passage 1", ("a3",))
    with pytest.raises(FileNotFoundError, match="XQuAD.*xquad.en.json"):
        xquad.read(tmp_path)
