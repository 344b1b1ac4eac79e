"""What the page asks of models whose answers are known."""

import re
import socket

import pytest

from examples.explorer import questions
from examples.explorer import serve
from examples.explorer.questions import EXPLORABLES
from examples.explorer.questions import Refused
from tests.analysis.markup.reading import numbers
from tests.analysis.markup.reading import tokens
from tests.analysis.markup.reading import tracks
from tests.examples.explorer.small_models import save_all


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folders = save_all(tmp_path_factory.mktemp("exports"))
    return {
        name: EXPLORABLES[name].served_from(folder)
        for name, folder in folders.items()
    }


def only_track(answer):
    ((row,),) = tracks(answer.picture).values()
    return row


def test_sounds(models):
    answer = questions.spell(models["sounds"], " Ab  it's ", 0.05)
    assert answer.says == "A B · I T ' S"
    # Of "ab " and "it's " two read a letter ahead, the last past its end.
    assert answer.delay == "0.38 letters on average, 1 at most"
    assert answer.milliseconds > 0
    labels, sizes = (row for (row,) in tracks(answer.picture).values())
    assert tokens(labels) == tokens(sizes) == list("ab␣it's␣")
    assert numbers(sizes) == [2, 1, 2, 2, 1, 2, 1, 2]
    hasty = questions.spell(models["sounds"], "ab", 0.15)
    assert hasty.says == "A B"
    assert hasty.delay == "0.00 letters on average, 0 at most"


def test_picking(models):
    answer = questions.pick(models["picking"], "3 1 4", "1, 3 1")
    assert answer.says == "k = 1: 3; k = 3: 4"
    found = tracks(answer.picture)
    for row, name, k in zip(found["Gates"], ("k = 1", "k = 3"), (1, 3)):
        assert row.all("name")[0].text == name
        passed = [part.tag == "mark" for part in row.all("token")]
        assert passed == [step == k - 1 for step in range(3)]
    assert numbers(found["Attention"][1]) == [0, 0, 50]


def test_titles(models):
    answer = questions.judge(models["titles"], "A new  词")
    assert answer.says == "machine-made with probability 8.0 %"
    row = only_track(answer)
    assert tokens(row) == ["A", "new", "词"]
    assert numbers(row) == [1, 5, 8]


@pytest.mark.parametrize(
    "name, text, asked, match",
    [
        ("titles", "", "", "Type something"),
        ("sounds", "na<ve", 0.1, "letters a to z only, not “<”"),
        ("titles", "x" * 301, "", "301 characters; please use at most 300"),
        ("picking", "12<", "1", "digits only; “<” is not a digit"),
        ("picking", "12٣", "1", "digits only"),
        ("picking", "123", "4", "from 1 to 3.*“4” is not"),
        ("picking", "123", "0", "from 1 to 3"),
        ("picking", "123", "1.5", "“1.5” is not"),
        ("picking", "123", "", "whole numbers from 1 to 3"),
        ("picking", "12345678", "1 2 3 4 5 6 7", "at most 6"),
        ("picking", "1" * 13, "1", "does not take this.*smaller k"),
    ],
)
def test_refusals_are_sentences(models, name, text, asked, match):
    with pytest.raises(Refused, match=match) as refused:
        EXPLORABLES[name].ask(models[name], text, asked)
    assert str(refused.value).endswith(".")


def test_text_that_is_no_utf8(models):
    answer = questions.judge(models["titles"], "研\ud800")
    assert tokens(only_track(answer)) == ["研?"]


def test_models_that_cannot_be_asked_are_refused(models, tmp_path):
    (tmp_path / "damaged" / "1").mkdir(parents=True)
    explorable = EXPLORABLES["sounds"]
    damaged = tmp_path / "damaged.keras"
    damaged.write_bytes(b"none")
    for place, message in (
        (
            tmp_path / "missing",
            "no model.* `python -m saved_models.make_sounds` trains and",
        ),
        (tmp_path / "missing.keras", "no model"),
        (tmp_path, "no model"),
        (tmp_path / "damaged", "cannot be loaded"),
        (damaged, "cannot be loaded"),
        (
            models["titles"].directory,
            r"\['probability', 'title'\].*make_sounds",
        ),
    ):
        with pytest.raises(Refused, match=message):
            explorable.ask(explorable.served_from(place), "ab", 0.1)


def test_the_page_is_local_and_a_port_that_is_taken_is_said():
    assert serve.parse([]).host == "127.0.0.1"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(SystemExit, match=f"--port {port} cannot be used"):
            serve.main(["--port", port, "--no-browser"])


@pytest.mark.parametrize("name", EXPLORABLES)
def test_commands_write_where_the_page_looks(name):
    explorable = EXPLORABLES[name]
    assert getattr(serve.parse([]), name) == explorable.directory
    if name == "sounds":
        assert explorable.directory.is_file()
    else:
        folder = explorable.command.partition("--export-dir ")[2]
        assert folder == str(explorable.directory)


def test_the_shipped_model_says_what_its_page_says():
    """What `README.md` beside it lists."""
    explorable = EXPLORABLES["sounds"]
    model = explorable.served_from(explorable.directory)
    page = explorable.directory.with_name("README.md").read_text("utf8")
    found = re.findall(r"\| ([a-z]+) \| ([\d.]+) \| ([A-Z ]+) \|", page)
    assert len(found) > 4
    for word, weight, said in found:
        assert explorable.ask(model, word, float(weight)).says == said
