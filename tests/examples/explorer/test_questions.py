"""What the page asks of models whose answers are known."""

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


def test_segmenter(models):
    answer = questions.segment(models["segmenter"], " 研究生 ", 5)
    assert answer.says == "研究 · 生"
    # Two of three read one character ahead, the last past the end.
    delay = "0.33 characters on average, 1 at most (weight 0.024)"
    assert answer.delay == delay
    assert answer.milliseconds > 0
    row = only_track(answer)
    assert tokens(row) == list("研究生")
    assert numbers(row) == [2, 1, 2]
    hasty = questions.segment(models["segmenter"], "研究生", 0)
    assert hasty.says == "研 · 究 · 生"
    assert hasty.delay == "0.00 characters on average, 0 at most (weight 0.15)"


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
    answer = questions.segment(models["segmenter"], "研\ud800", 5)
    assert answer.says == "研?"


def test_models_that_cannot_be_asked_are_refused(models, tmp_path):
    (tmp_path / "damaged" / "1").mkdir(parents=True)
    explorable = EXPLORABLES["segmenter"]
    for folder, message in (
        (
            tmp_path / "missing",
            "no model.* `make demo` trains and exports one.",
        ),
        (tmp_path, "no model"),
        (tmp_path / "damaged", "cannot be loaded"),
        (models["titles"].directory, r"\['probability', 'title'\].*make demo"),
    ):
        with pytest.raises(Refused, match=message):
            explorable.ask(explorable.served_from(folder), "研究", 5)


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
    if name == "segmenter":
        from examples import quickstart

        folder = quickstart.parse([]).output_dir / "segmenter"
    else:
        folder = explorable.command.partition("--export-dir ")[2]
    assert str(folder) == str(explorable.directory)
