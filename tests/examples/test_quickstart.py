"""The demo, on a few sentences."""

import math
import re

import pytest

from examples import quickstart
from examples.explorer.questions import EXPLORABLES
from examples.explorer.questions import MOST_PATIENCE
from examples.explorer.questions import segment
from examples.receptive_field.stream_taggers import LEAST
from examples.receptive_field.stream_taggers import MOST
from tests.analysis.markup.reading import read
from tests.analysis.markup.reading import tokens


@pytest.mark.slow
def test_quickstart(tmp_path, capfd):
    sentence = "我们喜欢１９９８年。"
    quickstart.main(
        f"--sentences 70 --test-sentences 20 --epochs 1 --units 4 "
        f"--output-dir {tmp_path} --sentence {sentence}".split()
    )
    output = capfd.readouterr().out
    assert re.search(r"\n *LSTM +\d+\.\d+ +0\.00 +0\n", output)
    weighted = [f"LookAhead, LSTM +{x}" for x in quickstart.WEIGHTS]
    for name in ("LSTM, sees 1 ahead", *weighted):
        row = rf"\n *{name} +\d+\.\d+ +\d+\.\d\d +\d+(?=\n)"
        assert re.search(row, output)
    page = (tmp_path / "decisions.html").read_text("utf-8")
    assert tokens(read(page)) == list(sentence)
    assert (tmp_path / "segmenter" / "1" / "saved_model.pb").is_file()
    first, *_, served = re.findall(r"It says: (.*)\n", output)
    assert first.replace(" ", "") == served.replace(" ", "") == sentence
    (title,) = read(page).all("title")
    assert title.text == f"Words found: {served.replace(' ', ' · ')}"
    exported = EXPLORABLES["segmenter"].served_from(tmp_path / "segmenter")
    patience = (
        MOST_PATIENCE
        * math.log(MOST / quickstart.WEIGHTS[-1])
        / math.log(MOST / LEAST)
    )
    answer = segment(exported, sentence, patience)
    assert answer.says == served.replace(" ", " · ")


def test_quickstart_refuses_an_empty_sentence(capsys):
    with pytest.raises(SystemExit):
        quickstart.main(["--sentence", " "])
    assert "--sentence needs a text" in capsys.readouterr().err
