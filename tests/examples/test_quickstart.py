"""The demo, on a few sentences."""

import re

import pytest

from examples import quickstart
from examples.explorer.questions import EXPLORABLES
from examples.explorer.questions import segment
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
    for name in ("LSTM, sees 1 ahead", "LookAhead, LSTM"):
        row = rf"\n *{name} +\d+\.\d+ +\d+\.\d\d +\d+\n"
        assert re.search(row, output)
    page = (tmp_path / "decisions.html").read_text("utf-8")
    assert tokens(read(page)) == list(sentence)
    assert (tmp_path / "segmenter" / "1" / "saved_model.pb").is_file()
    served = re.search(r"It says: (.*)\n", output).group(1)
    assert served.replace(" ", "") == sentence
    (title,) = read(page).all("title")
    assert title.text == f"Words found: {served.replace(' ', ' · ')}"
    exported = EXPLORABLES["segmenter"].served_from(tmp_path / "segmenter")
    assert segment(exported, sentence).says == served.replace(" ", " · ")


def test_quickstart_refuses_an_empty_sentence(capsys):
    with pytest.raises(SystemExit):
        quickstart.main(["--sentence", " "])
    assert "--sentence needs a text" in capsys.readouterr().err
