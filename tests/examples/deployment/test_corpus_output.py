"""Files of scores, each whole or not there."""

import json

import pytest

pytest.importorskip("pyarrow", reason="needs keras_seqmech[scaling]")

from pyarrow import parquet  # noqa: E402

from examples.deployment import corpus_output  # noqa: E402
from examples.deployment.corpus_files import BadRow  # noqa: E402
from examples.deployment.corpus_files import CorpusFile  # noqa: E402
from examples.deployment.corpus_files import Row  # noqa: E402
from examples.deployment.corpus_files import Shard  # noqa: E402
from examples.deployment.text_model import Output  # noqa: E402

OUTPUTS = {"score": Output("float32", 0), "tags": Output("string", 1)}
SHARD = Shard(3, CorpusFile("/texts/a.jsonl", 9, 9), 20, 2, 0)
ROWS = [Row(20, "ab", "k"), Row(21, "", "l")]
ANSWERS = {"score": [0.5, 0.25], "tags": [["字", "b"], []]}
EXPECTED = [
    {
        "file": "/texts/a.jsonl",
        "row": 20,
        "key": "k",
        "score": 0.5,
        "tags": ["字", "b"],
    },
    {
        "file": "/texts/a.jsonl",
        "row": 21,
        "key": "l",
        "score": 0.25,
        "tags": [],
    },
]


def read_lines(path):
    return [json.loads(line) for line in path.read_text("utf8").splitlines()]


def test_lines_of_scores(tmp_path):
    folder = corpus_output.ScoreFolder(tmp_path, "jsonl", "key", OUTPUTS)
    folder.write(SHARD, ROWS, ANSWERS, [])
    assert [path.name for path in tmp_path.iterdir()] == ["shard-000003.jsonl"]
    assert read_lines(folder.scores(3)) == EXPECTED


def test_parquet_of_scores_has_one_schema(tmp_path):
    folder = corpus_output.ScoreFolder(tmp_path, "parquet", "key", OUTPUTS)
    folder.write(SHARD, ROWS, ANSWERS, [])
    nothing = {name: [] for name in ANSWERS}
    folder.write(SHARD._replace(number=4), [], nothing, [])
    table, empty = (parquet.read_table(folder.scores(i)) for i in (3, 4))
    assert table.to_pylist() == EXPECTED
    assert empty.num_rows == 0
    assert empty.schema == table.schema
    assert str(table.schema.field("score").type) == "float"


def test_rejects_are_kept_apart(tmp_path):
    folder = corpus_output.ScoreFolder(tmp_path, "jsonl", None, OUTPUTS)
    first = {name: column[:1] for name, column in ANSWERS.items()}
    folder.write(SHARD, ROWS[:1], first, [BadRow(21, "why")])
    assert read_lines(folder.rejects(3)) == [
        {"file": "/texts/a.jsonl", "row": 21, "reason": "why"}
    ]
    assert "key" not in read_lines(folder.scores(3))[0]
    assert folder.count_rejects() == 1


@pytest.mark.parametrize("id_field", ["score", "row"])
def test_columns_of_one_name(tmp_path, id_field):
    with pytest.raises(ValueError, match=rf"must differ.*\['{id_field}'\]"):
        corpus_output.ScoreFolder(tmp_path, "jsonl", id_field, OUTPUTS)


def test_a_file_that_fails_is_not_there(tmp_path):
    def fail(file):
        file.write(b"half")
        raise KeyError

    path = tmp_path / "shard.jsonl"
    with pytest.raises(KeyError):
        corpus_output.write_whole(path, fail)
    assert not path.exists()
    corpus_output.write_whole(path, lambda file: file.write(b"whole"))
    with pytest.raises(KeyError):
        corpus_output.write_whole(path, fail)
    assert path.read_bytes() == b"whole"
    corpus_output.ScoreFolder(tmp_path, "jsonl", None, OUTPUTS).clean()
    assert list(tmp_path.iterdir()) == [path]


def test_a_shard_that_kills_its_workers(tmp_path):
    folder = corpus_output.ScoreFolder(tmp_path, "jsonl", None, OUTPUTS)
    for _ in range(corpus_output.ATTEMPTS + 1):
        with folder.attempt(3):  # Ends, so none of them counts.
            pass
    died = [folder.attempt(3) for _ in range(corpus_output.ATTEMPTS)]
    for attempt in died:
        attempt.__enter__()
    with pytest.raises(ValueError, match="3 workers died over this shard"):
        folder.attempt(3).__enter__()
    with folder.attempt(4):
        pass
    folder.clean()
    with folder.attempt(3):
        pass
