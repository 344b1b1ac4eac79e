"""The program on small data, and its SavedModel on titles of all kinds."""

import json
import subprocess
import sys

import numpy as np
import pytest

from examples.explorer.questions import EXPLORABLES
from examples.explorer.questions import judge
from examples.titles import classify
from tests.analysis.markup.reading import numbers
from tests.analysis.markup.reading import tokens
from tests.analysis.markup.reading import tracks
from tests.examples.titles import small_titles

pytestmark = pytest.mark.long

SMALL = ["--epochs", "12", "--units", "8", "--embedding-size", "8"]
SMALL += ["--batch-size", "8", "--learning-rate", "0.02"]
# Titles as bytes, in hex: nothing to read, nothing known, other scripts, far
# too long, no UTF-8.
ODD = [
    b"",
    b" \t\r\n",
    "\u3000".encode(),
    "\u2603\u2603 \U0001f600".encode(),
    "Слабые взаимодействия".encode(),
    "量子力学の基礎".encode(),
    "مقدمة في الجبر".encode(),
    b"graphs " * 1429,
    b"x" * 10_000,
    b"\xff\xfe\x00graphs",
    b"\xed\xa0\x80\xc3(",
    b"\x00",
]
SERVE = """
import json, sys
import tensorflow as tf
import tensorflow_text
served = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
assert "keras_seqmech" not in sys.modules
odd = [bytes.fromhex(x) for x in json.loads(sys.argv[2])]
together = served(title=tf.constant(odd))
alone = [served(title=tf.constant([x])) for x in odd]
empty = served(title=tf.constant([], tf.string))
print(json.dumps({
    "together": {k: v.numpy().tolist() for k, v in together.items()},
    "alone": [float(x["probability"][0]) for x in alone],
    "empty": {k: v.shape.as_list() for k, v in empty.items()},
}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_titles.write(tmp_path_factory.mktemp("data"))


def check_odd(path):
    """Answers of a SavedModel to `ODD` in a fresh process."""
    odd = json.dumps([title.hex() for title in ODD])
    process = subprocess.run(
        [sys.executable, "-P", "-c", SERVE, str(path), odd],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(process.stdout)
    probabilities = np.array(found["together"]["probability"])
    logits = np.array(found["together"]["logit"])
    assert probabilities.shape == logits.shape == (len(ODD),)
    np.testing.assert_allclose(
        probabilities, 1 / (1 + np.exp(-logits)), atol=1e-6
    )
    # Nothing to read, however it is written; and one title or many.
    np.testing.assert_allclose(probabilities[:3], probabilities[0], atol=1e-6)
    np.testing.assert_allclose(found["alone"], probabilities, atol=1e-6)
    assert found["empty"] == {"probability": [0], "logit": [0]}


@pytest.mark.slow
def test_words_are_told_apart_by_their_order(folder, tmp_path, capsys):
    output, exported = tmp_path / "out", tmp_path / "exported" / "titles"
    known = "on the entropy of random graphs"
    found = classify.main(
        [
            *("--data-dir", str(folder), "--output", str(output), *SMALL),
            *("--export-dir", str(exported), "--title", known),
            *("--title", "", "--title", "x" * 10_000),
        ]
    )
    assert (output / "scores.md").read_text() == found
    table = [line.split("|") for line in found.splitlines()[2:6]]
    assert [row[1].strip() for row in table] == [
        *("recurrent", "length", "logistic regression", "random forest")
    ]
    assert float(table[0][2]) == 100
    lines = found.split(f"{known!r}: ")[1].splitlines()
    assert [line.split()[2] for line in lines[2:8]] == known.split()
    assert float(lines[7].split()[0]) < 0.5
    probability = lines[0].removeprefix("machine-made with probability ")
    assert lines[7].split()[0] == probability
    names = {path.name for path in output.glob("*.png")}
    assert names == {
        "roc.png",
        *("title_1.png", "title_1_units.png"),
        *("title_3.png", "title_3_units.png"),
    }
    assert f"Exported to {exported / '1'}" in capsys.readouterr().out
    check_odd(exported / "1")
    shown = judge(EXPLORABLES["titles"].served_from(exported), known).picture
    ((row,),) = tracks(shown).values()
    assert tokens(row) == known.split()
    after = [100 * float(line.split()[0]) for line in lines[2:8]]
    np.testing.assert_allclose(numbers(row), after, atol=0.6)
