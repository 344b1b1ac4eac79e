"""Loaders of questions about passages."""

import json

import pytest

from examples.focused import passage_data
from examples.focused.passage_data import Question
from tests.examples.files import write_lines

FLAT = [
    {"question": f"q {i}?", "context": f"passage {i // 2}", "answer": f"a{i}"}
    for i in range(40)
]


def write(path, content):
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))


def squad(rows):
    """Rows as SQuAD has them: two questions a paragraph, one text for all."""
    paragraphs = [
        {
            "context": row["context"],
            "qas": [
                {
                    "question": r["question"],
                    "answers": [{"text": r["answer"], "answer_start": 0}],
                }
                for r in rows
                if r["context"] == row["context"]
            ],
        }
        for row in rows[::2]
    ]
    return {"version": "1.1", "data": [{"paragraphs": paragraphs}]}


def test_xquad_in_both_layouts(tmp_path):
    write_lines(tmp_path / "flat" / "xquad" / "all.jsonl.gz", FLAT)
    write(tmp_path / "squad" / "xquad" / "xquad.en.json", squad(FLAT))
    write(tmp_path / "turned" / "xquad" / "xquad.en.json", squad(FLAT[::-1]))
    flat, published, turned = (
        passage_data.load("xquad", tmp_path / layout)
        for layout in ("flat", "squad", "turned")
    )
    assert flat == published
    assert [set(part) for part in flat] == [set(part) for part in turned]
    assert sum(flat, []).count(Question("q 7?", "passage 3", ("a7",))) == 1
    assert [len(part) for part in flat] == [30, 2, 8]
    passages = [{q.passage for q in part} for part in flat]
    assert not passages[0] & passages[1]
    assert not passages[2] & (passages[0] | passages[1])


def test_pubmedqa_in_both_layouts(tmp_path):
    labels = ["yes", "no", "maybe"]
    rows = [
        {
            "question": f"q {i}",
            "context": f"one {i} two",
            "label": labels[i % 3],
        }
        for i in range(20)
    ]
    write_lines(tmp_path / "flat" / "pubmedqa" / "all.jsonl.gz", rows)
    published = {
        str(i): {
            "QUESTION": row["question"],
            "CONTEXTS": [f"one {i}", "two"],
            "final_decision": row["label"],
        }
        for i, row in enumerate(rows)
    }
    write(tmp_path / "published/pubmedqa/ori_pqal.json", published)
    data = passage_data.load("pubmedqa", tmp_path / "flat")
    assert data == passage_data.load("pubmedqa", tmp_path / "published")
    assert [len(part) for part in data] == [15, 1, 4]
    assert {q.answers[0] for part in data for q in part} == set(labels)


@pytest.mark.parametrize("name", passage_data.DATASETS)
def test_missing_files_are_named(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=f"--dataset {name}.*{name}"):
        passage_data.load(name, tmp_path)


def test_questions_without_an_answer_are_left_out(tmp_path):
    rows = [*FLAT[:-8], *({**row, "answer": " "} for row in FLAT[-8:])]
    write_lines(tmp_path / "xquad" / "all.jsonl.gz", rows)
    found = sum(passage_data.load("xquad", tmp_path), [])
    assert {q.question for q in found} == {f"q {i}?" for i in range(32)}


def test_real_xquad_and_pubmedqa(data_dir):
    for name, count in (("xquad", 1190), ("pubmedqa", 1000)):
        data = passage_data.load(name, data_dir)
        assert sum(map(len, data)) == count
        passages = [{q.passage for q in part} for part in data]
        assert not passages[2] & (passages[0] | passages[1])
