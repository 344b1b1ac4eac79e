"""Pictures of decisions, read back from their HTML."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_seqmech
from keras_seqmech import analysis
from keras_seqmech.analysis.markup.characters import visible
from tests.analysis.markup.reading import numbers
from tests.analysis.markup.reading import read
from tests.analysis.markup.reading import tokens
from tests.analysis.markup.reading import tracks

WORDS = ["not", "a", "good", "film"]


def only_row(picture):
    ((row,),) = tracks(picture).values()
    return row


def spans(row):
    """For each step with a bar, the share of each token that it covers."""
    found, open_lanes = {}, {}
    for t, cell in enumerate(row.all("cell")):
        for piece in cell.all(tag="i"):
            lane = int(piece.styles["--lane"])
            names = piece.attributes["class"].split()
            if "start" in names:
                assert lane not in open_lanes
                open_lanes[lane] = t
                found[t] = {}
            found[open_lanes[lane]][t] = float(piece.styles["--share"])
            if "end" in names:
                del open_lanes[lane]
    assert not open_lanes
    return found


def test_bars_run_over_what_was_read():
    row = only_row(analysis.show(WORDS, sizes=[3, 1.5, 0, 1]))
    assert tokens(row) == WORDS
    assert numbers(row) == [3, 1.5, 0, 1]
    assert spans(row) == {
        0: {0: 1, 1: 1, 2: 1},
        1: {1: 1, 2: 0.5},
    }


def test_rounding_errors_have_no_bar():
    row = only_row(analysis.show("abcd", sizes=[2.000001, 1.999999, 1e-6, 0]))
    assert spans(row) == {0: {0: 1, 1: 1}, 1: {1: 1, 2: 1}}
    assert numbers(row) == [2, 2, 0, 0]
    assert spans(only_row(analysis.show("ab", sizes=[0, 0]))) == {}


def test_bars_end_with_the_sequence():
    row = only_row(analysis.show("ab", sizes=[30, 20]))
    assert spans(row) == {0: {0: 1, 1: 1}, 1: {1: 1}}
    assert {lane.styles["--lanes"] for lane in row.all("lanes")} == {"2"}


def test_bars_share_no_lane():
    sizes = np.random.default_rng(0).integers(0, 6, 40)
    found = spans(only_row(analysis.show("x" * 40, sizes=sizes)))
    for t, size in enumerate(sizes):
        ends = min(t + size, 40) if size > 1 else t
        assert sorted(found.get(t, {})) == [*range(t, ends)]


def test_bars_are_in_the_first_free_lane():
    row = only_row(analysis.show("abcdefgh", sizes=[1, 2, 1, 3, 3, 1, 2, 1]))
    starts = [i for i in row.all(tag="i") if "start" in i.attributes["class"]]
    assert [i.styles["--lane"] for i in starts] == ["0", "0", "1", "0"]


def test_labels_are_beside_what_was_read():
    """Also at the steps of a curve."""
    given = {"found": ["O", b"B-<x>", "", 3]}
    picture = analysis.show(WORDS, labels=given, sizes=[1, 2, 1, 1])
    labels, sizes = tracks(picture).values()
    seen = [label.text for label in labels[0].all("label")]
    assert seen == ["O", "B-<x>", "∅", "3"]
    assert tokens(labels[0]) == tokens(sizes[0]) == WORDS
    assert "\nfound: 4 different\n  not   O\n  a     B-<x>\n" in picture.text
    row = only_row(analysis.show([0.5, 1.5], labels="ab"))
    assert tokens(row) == ["step 0", "step 1"]
    assert [label.text for label in row.all("label")] == ["a", "b"]


def test_sizes_are_written_out():
    row = only_row(analysis.show("abc", sizes=[1234, 12.34, 2.0]))
    assert [n.text for n in row.all("number")] == ["1234", "12.3", "2"]


def test_gates_have_a_row_for_each_question():
    gates = {"good?": [1, 0, 1, 0], "<what>": [0.25, 0.0, 0.75, 0.5]}
    hard, soft = tracks(analysis.show(WORDS, gates=gates))["Gates"]
    for row, name in ((hard, "good?"), (soft, "<what>")):
        assert [part.text for part in row.all("name")] == [name]
        assert tokens(row) == WORDS
    marked = [token.tag for token in hard.all("token")]
    assert marked == ["mark", "span", "mark", "span"]
    assert not hard.all("number")
    assert hard.all("summary")[0].text == "2 of 4 open"
    assert [token.tag for token in soft.all("token")].count("mark") == 1
    assert numbers(soft) == [25, 0, 75, 50]
    heights = [float(i.styles["--height"]) for i in soft.all(tag="i")]
    assert heights == gates["<what>"]
    assert soft.all("summary")[0].text == "1 of 4 open, mean 37.5 %"


def test_attention_is_relative_to_the_largest():
    row = only_row(analysis.show(WORDS, attention=[0.1, 0.0, 0.4, 0.2]))
    heights = [float(i.styles["--height"]) for i in row.all(tag="i")]
    assert heights == [0.25, 0, 1, 0.5]
    assert numbers(row) == [10, 0, 40, 20]
    expected = "most, 40.0 %, on good; mean 17.5 %"
    assert row.all("summary")[0].text == expected
    assert numbers(only_row(analysis.show(WORDS, attention=[0.0] * 4))) == [
        *[0] * 4
    ]


def test_attention_to_all_alike_has_a_decimal_and_its_line():
    """Uniform attention is 1/T, at the dashed line of any attention."""
    scores = np.array([7, 9, 8, 8, 8, 8, 8, 8]) / 64
    for shown in (["a"] * 8, np.arange(8) / 2):
        picture = analysis.show(shown, attention=scores)
        assert "mean 12.5 %" in picture.text
        row = only_row(picture)
        columns = row.all("column")
        heights = [float(x.styles["--dashed"]) for x in columns]
        if row.all("dashed"):
            (path,) = row.all("dashed")
            depth = float(path.attributes["d"][len("M0 ") :].split("H")[0])
            heights.append(1 - depth / 100)
        assert heights == pytest.approx([8 / 9] * len(heights), abs=1e-3)
        assert heights
    row = only_row(analysis.show(["a"] * 16, attention=np.full(16, 1 / 16)))
    assert [n.text for n in row.all("number")] == ["6.2"] * 16


def test_what_was_left_out_is_struck_through():
    row = only_row(analysis.show(WORDS, kept=[True, False, True, False]))
    marked = [token.tag for token in row.all("token")]
    assert marked == ["mark", "s", "mark", "s"]
    assert row.all("summary")[0].text == "2 of 4 kept"


def test_probabilities_after_each_token():
    given = {"made": [0.5, 0.25, 0.6, 0.996]}
    row = only_row(analysis.show(WORDS, probabilities=given))
    assert numbers(row) == [50, 25, 60, 100]
    assert (
        row.all("summary")[0].text == "from 25.0 % to 99.6 %, 99.6 % at the end"
    )


@pytest.mark.parametrize(
    "shown, one",
    [
        ("研究", "character"),
        (["a", b"b"], "character"),
        (["a", "film"], "word"),
        ([7, 3], "number"),
        ([0.5, 3.0], "number"),
        ([None, "a"], "step"),
    ],
)
def test_words_follow_what_is_shown(shown, one):
    given = {"sizes": [1, 2], "kept": [0, 1], "probabilities": [0, 1]}
    picture = analysis.show(shown, **given)
    for text in (picture.text, picture.html):
        assert "token" not in re.sub("<[^>]*>|sq-tokens?", "", text.lower())
        assert f"{one.capitalize()}s read at each one" in text
        assert f"Probability after each {one}" in text


def test_columns_have_a_labeled_axis():
    given = dict(gates=[0.5, 1], attention=[0.5, 0.5], probabilities=[0.1, 0])
    picture = analysis.show("ab", sizes=[1, 2], kept=[1, 0], **given)
    labels = [axis.text for axis in read(picture.html).all("axis")]
    assert labels == ["Probability (%)", "Attention (%)", "Probability (%)"]


def path_points(row, name):
    """Steps and heights, from 0 to 1, of the paths of each panel."""
    found = []
    for path in row.all(name):
        pairs = re.findall(r"[ML](\S+) ([\d.]+)", path.attributes["d"])
        found.append({int(t): 1 - float(y) / 100 for t, y in pairs})
    return found


def test_many_numbers_are_a_curve():
    generator = np.random.default_rng(0)
    numbers = generator.normal(size=500)
    numbers[7] = np.nan
    kept = np.zeros(500)
    kept[[0, 7, 90, 499]] = 1
    likely = np.where(kept, 0.75, 0.25)
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    heights = (numbers - low) / (high - low)
    picture = analysis.show(numbers, kept={"hard": kept, "soft": likely})
    ((hard, soft),) = tracks(picture).values()
    for row in (hard, soft):
        assert not row.all(tag="s") and not row.all("token")
        curve, dots = path_points(row, "line")[0], path_points(row, "dots")[0]
        assert [*dots] == [0, 90, 499] and len(curve) == 499
        for t, height in (*curve.items(), *dots.items()):
            assert height == pytest.approx(heights[t], abs=1e-3)
    assert [axis.text for axis in hard.all("axis")] == ["Number"]
    labels = [axis.text for axis in soft.all("axis")]
    assert labels == ["Number", "Probability (%)"]
    assert path_points(soft, "line")[1] == pytest.approx(
        dict(enumerate(likely))
    )
    assert len(soft.all("dashed")) == 1
    assert "  kept at steps 0, 7, 90, 499\n" in picture.text
    assert max(map(len, picture.text.splitlines())) < 90


def test_integers_are_tokens_if_few_and_a_curve_if_many():
    few, many = range(100), range(101)
    assert tokens(only_row(analysis.show(few, sizes=few)))[:2] == ["0", "1"]
    row = only_row(analysis.show(many, sizes=many))
    assert path_points(row, "line")[1] == path_points(row, "line")[0]
    assert [*path_points(row, "dots")[0]] == [*range(2, 101)]
    assert analysis.show([2.5, 2.5], sizes=[1, 1]).text.split("\n")[-2:] == [
        "  Number           ▁▁  2.5 to 2.5",
        "  Steps read       ██  0 to 1",
    ]


def test_what_layers_return_is_shown():
    x = tf.random.stateless_normal((2, 5, 3), seed=[0, 1])
    field = keras_seqmech.ReceptiveFieldRNN(
        keras.layers.LSTMCell(4), max_size=3, seed=0, return_field=True
    )
    sizes = field(x)[1]["size"][1]
    picture = analysis.show(tf.constant(["a", "b", "c", "d", "e"]), sizes=sizes)
    row = only_row(picture)
    assert tokens(row) == list("abcde")
    np.testing.assert_allclose(numbers(row), sizes, atol=0.05 + 1e-3)


HOSTILE = "<script>alert(1)</script>\"' &amp; </style><!--"


def test_strings_are_never_markup():
    picture = analysis.show(
        [HOSTILE, "b"],
        labels=[HOSTILE, "b"],
        sizes=[2, 1],
        gates={HOSTILE: [1, 0], "soft": [0.5, 0.1]},
        attention=[0.75, 0.25],
        kept=[1, 0],
        probabilities={HOSTILE: [0.5, 0.5]},
        title=HOSTILE,
    )
    for markup in (picture.html, picture.document):
        root = read(markup)
        assert not root.all(tag="script")
        (title,) = root.all("title")
        assert title.text == HOSTILE
        names = [name.text for name in root.all("name")]
        assert names == [HOSTILE, "soft", HOSTILE]
        assert [token.text for token in root.all("token")] == [HOSTILE, "b"] * 7
    assert root.all(tag="title")[0].text == HOSTILE
    assert not re.search(
        r"https?:|//|@import|url\(|src=|href=|<link",
        analysis.show("ab", sizes=[1, 2], gates=[0.5, 1]).document,
    )


def test_a_saved_file_is_a_whole_document(tmp_path):
    picture = analysis.show("研究é", sizes=[1, 2, 1], title="词")
    path = picture.save(tmp_path / "new" / "decisions.html")
    text = path.read_bytes().decode("utf-8")
    assert text == picture.document
    assert text.startswith("<!doctype html>")
    root = read(text)
    head = root.all(tag="head")[0]
    assert head.inside[1].attributes == {"charset": "utf-8"}
    assert root.all(tag="title")[0].text == "词"
    assert [token.text for token in root.all("token")] == list("研究é")


def test_terminals_print_the_numbers():
    """A letter of Chinese takes two columns, a combining mark none."""
    picture = analysis.show(
        ["研究", "e\u0301"],
        sizes=[2, 1.5],
        gates={"good?": [1, 0.25]},
        attention=[0.1, 0.4],
        title="Two",
    )
    assert str(picture) == repr(picture) == picture.text
    assert picture.text.split("\n") == [
        "Two",
        "",
        "Words read at each one",
        "1.75 on average, 2 at most",
        "  研究     2  ██",
        "  e\u0301      1.5  ██",
        "",
        "Gates",
        "good?: 1 of 2 open, mean 62.5 %",
        f"  研究 100 %  {20 * '█'}",
        f"  e\u0301     25 %  {5 * '█'}",
        "",
        "Attention",
        "most, 40.0 %, on e\u0301; mean 25.0 %",
        f"  研究  10 %  {5 * '█'}",
        f"  e\u0301     40 %  {20 * '█'}",
    ]


def test_hard_decisions_are_words_in_text():
    text = analysis.show("ab", gates=[1, 0], kept=[0, 1]).text
    gates, kept = text.partition("Kept")[::2]
    assert f"  a  open  {20 * '█'}\n  b" in gates
    assert f"  a\n  b  kept  {20 * '█'}" in kept and "%" not in text


def test_notebooks_show_the_fragment():
    picture = analysis.show("ab", sizes=[1, 1])
    (root,) = read(picture._repr_html_()).inside
    assert root.attributes["aria-label"] == "Decisions"
    assert [part.tag for part in root.inside] == ["style", "div"]


@pytest.mark.parametrize(
    "token, seen",
    [
        (" new", " new"),
        ("e\u0301", "e\u0301"),
        ("\U0001f469\u200d\U0001f52c", "\U0001f469\u200d\U0001f52c"),
        ("  ", "␣␣"),
        ("", "∅"),
        ("a\nb\tc", "a↵b⇥c"),
        ("a\u2028b\u2029", "a↵b↵"),
        ("\x00\x7f\x85", "\ufffd" * 3),
        ("\ud800", "\ufffd"),
        (b"\xe4\xb8\xad\xff", "中\ufffd"),
        (7, "7"),
    ],
)
def test_every_token_is_seen(token, seen):
    assert visible(token) == seen
    picture = analysis.show([token], sizes=[1])
    (drawn,) = read(picture.html).all("token")
    assert drawn.text == seen
    picture.document.encode("utf-8")


@pytest.mark.parametrize(
    "given, match",
    [
        ({"tokens": [], "sizes": []}, "tokens.*at least one"),
        (
            {"tokens": np.array([["a", "b"]]), "sizes": [1]},
            r"tokens.*\(time,\).*shape \(1, 2\)",
        ),
        ({"tokens": "ab"}, "At least one argument of labels, sizes"),
        ({"tokens": "ab", "sizes": [1]}, r"sizes.*2 steps.*shape \(1,\)"),
        ({"tokens": "ab", "labels": ["x"]}, r"labels.*2 steps.*shape \(1,\)"),
        ({"tokens": "ab", "sizes": [1, -1]}, "sizes.*finite.*-1"),
        ({"tokens": "ab", "sizes": [1, np.inf]}, "sizes.*finite.*inf"),
        ({"tokens": "ab", "sizes": [1, np.nan]}, "sizes.*finite.*nan"),
        ({"tokens": "ab", "sizes": ["x", "y"]}, "sizes.*numbers.*Received"),
        ({"tokens": "ab", "gates": [0, 1.1]}, "gates.*from 0 to 1.*1.1"),
        ({"tokens": "ab", "gates": {}}, "gates.*at least one row"),
        ({"tokens": "ab", "gates": {"q": [1]}}, r"gates\['q'\].*2 steps"),
        ({"tokens": "ab", "kept": [[1, 0], [1, 0]]}, r"kept.*shape \(2, 2\)"),
    ],
)
def test_bad_input(given, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        analysis.show(**given)
