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
        f"--sentences 30 --epochs 1 --units 4 --batch-size 8 "
        f"--output-dir {tmp_path} --sentence {sentence}".split()
    )
    output = capfd.readouterr().out
    assert re.search(r"\n *LSTM +\d+\.\d+ +\d+\.\d +0 +0\.00\n", output)
    for name in ("reads 2", "reads 1 to 4"):
        row = rf"\n *{name} +\d+\.\d+ +\d+\.\d +[0-3]\.\d\d +(\d\.\d\d|-)\n"
        assert re.search(row, output)
    page = (tmp_path / "decisions.html").read_text("utf-8")
    assert tokens(read(page)) == list(sentence)
    assert (tmp_path / "segmenter" / "1" / "saved_model.pb").is_file()
    served = re.search(r"It says: (.*)\n", output).group(1)
    assert served.replace(" ", "") == sentence
    exported = EXPLORABLES["segmenter"].served_from(tmp_path / "segmenter")
    assert segment(exported, sentence).says == served.replace(" ", " · ")


def test_quickstart_refuses_an_empty_sentence(capsys):
    with pytest.raises(SystemExit):
        quickstart.main(["--sentence", " "])
    assert "--sentence needs a text" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, sentences, epochs",
    [
        ([], 10000, 4),
        (["--full"], None, 10),
        (["--full", "--epochs", "4"], None, 4),
        (["--sentences", "50", "--full"], 50, 10),
    ],
)
def test_full_leaves_what_is_given(options, sentences, epochs):
    arguments = quickstart.parse(options)
    assert (arguments.sentences, arguments.epochs) == (sentences, epochs)
