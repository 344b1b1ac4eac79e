"""Sounds of words: targets and answers of each model."""

import gzip
import json

import numpy as np
import pytest

from examples.subsampling import pronounce

WORDS = {
    "laughing": "L AE F IH NG",
    "banana's": "B AH N AE N AH Z",
    "bookkeep": "B UH K K IY P",
    "tooshort": "",
    "xxxxxxx": "K S K S K S K S",
}


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "cmudict"
    folder.mkdir()
    with gzip.open(folder / "all.jsonl.gz", "wt", encoding="utf8") as file:
        for word, sounds in WORDS.items():
            row = {"word": word, "sounds": sounds.split()}
            file.write(json.dumps(row) + "\n")
    options = ["--data-dir", str(tmp_path), "--texts", "9", "--test-texts", "1"]
    return pronounce.load(pronounce.PROGRAM.parse(options))


def test_words_that_ctc_can_say_are_read(data):
    assert data.train.letters.shape == (2, pronounce.LONGEST)
    assert data.test.lengths.tolist() == [8]
    said = {
        " ".join(data.names[x] for x in row if x)
        for words in (data.train, data.test)
        for row in words.sounds.tolist()
    }
    assert said == set([*WORDS.values()][:3])


@pytest.mark.parametrize("model", pronounce.MODELS)
def test_answers_to_the_targets_are_the_sounds(data, model):
    targets, _ = pronounce.targets(model, data.test)
    if model == "ctc":
        # Each sound lasts for two steps, with silence between them.
        steps = np.zeros((1, 3 * pronounce.LONGEST), "int32")
        steps[:, ::3] = steps[:, 1::3] = targets
        targets = steps
    classes = max(len(data.meaning), len(data.names))
    logits = np.eye(classes, dtype="float32")[targets]
    right = [data.names[x] for x in data.test.sounds[0] if x]
    assert pronounce.answers(model, logits, data) == [right]
