"""Pictures of decisions, read back from their HTML."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_seqmech
from keras_seqmech import analysis
from tests.analysis.markup.reading import numbers
from tests.analysis.markup.reading import read
from tests.analysis.markup.reading import tokens
from tests.analysis.markup.reading import tracks

WORDS = ["not", "a", "good", "film"]


def only_row(picture):
    ((row,),) = tracks(picture).values()
    return row


def spans(row):
    """From the bars' pieces, the share of tokens that each step read.

    A list for each step, by token; lanes are followed from a start to its end.
    """
    cells = row.all("cell")
    found = {}
    open_lanes = {}
    for t, cell in enumerate(cells):
        for piece in cell.all(tag="i"):
            lane = int(piece.styles["--lane"])
            names = piece.attributes["class"].split()
            if "start" in names:
                assert lane not in open_lanes
                open_lanes[lane] = t
                found[t] = {}
            found[open_lanes[lane]][t] = float(piece.styles.get("--share", 1))
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
        3: {3: 1},
    }


def test_rounding_errors_have_no_bar():
    row = only_row(analysis.show("abcd", sizes=[2.000001, 1.999999, 1e-6, 0]))
    assert spans(row) == {0: {0: 1, 1: 1}, 1: {1: 1, 2: 1}}
    assert numbers(row) == [2, 2, 0, 0]


def test_bars_share_no_lane_and_need_no_more_than_overlap():
    sizes = np.random.default_rng(0).integers(0, 6, 40)
    row = only_row(analysis.show("x" * 40, sizes=sizes))
    read_by = spans(row)
    for t, size in enumerate(sizes):
        reached = range(t, min(t + size, 40))
        assert sorted(read_by.get(t, {})) == list(reached)
    most = max(sum(t in over for over in read_by.values()) for t in range(40))
    lanes = {lane.styles["--lanes"] for lane in row.all("lanes")}
    assert lanes == {str(most)}


def test_words_of_a_field_are_told_apart():
    row = only_row(analysis.show(["I", "a", "word"], sizes=[2, 1, 1]))
    assert row.all("cell")[0].attributes["title"] == "at I: 2 read: I a"


def test_long_fields_become_columns():
    """Bars would need a piece for each pair of steps."""
    sizes = np.arange(4000, 0, -1)
    picture = analysis.show("x" * 4000, sizes=sizes)
    assert len(picture.html) < 4000 * 500
    row = only_row(picture)
    assert not row.all("lanes")
    heights = [float(i.styles["--height"]) for i in row.all(tag="i")]
    np.testing.assert_allclose(heights, sizes / 4000, atol=1e-4)
    assert numbers(row) == sizes.tolist()
    assert "columns for bars" in row.all("summary")[0].text
    says = row.all("cell")[-13].attributes["title"]
    assert says == "at x: 13 read: " + "x" * 12 + "…"
    says = row.all("cell")[-12].attributes["title"]
    assert says == "at x: 12 read: " + "x" * 12


@pytest.mark.parametrize(
    "given",
    [
        np.array([["a", "词"]]),
        tf.constant("a词"),
        tf.constant([["a", "词"]]),
        tf.ragged.constant([["a", "词"]]),
        tf.ragged.constant([["a", "词"]])[0],
        np.array("a词"),
    ],
    ids=["row", "string", "tensor row", "ragged", "of ragged", "numpy string"],
)
def test_tokens_may_be_one_row_or_one_string(given):
    sizes = tf.ragged.constant([[2, 1]])
    row = only_row(analysis.show(given, sizes=sizes))
    assert tokens(row) == ["a", "词"]
    assert numbers(row) == [2, 1]


def test_sizes_are_written_out():
    row = only_row(analysis.show("abc", sizes=[1234, 12.34, 2.0]))
    assert [n.text for n in row.all("number")] == ["1234", "12.3", "2"]
    assert "1234 at most" in row.all("summary")[0].text


def test_gates_have_a_row_for_each_question():
    gates = {"good?": [1, 0, 1, 0], "<what>": [0.25, 0.0, 0.75, 0.5]}
    hard, soft = tracks(analysis.show(WORDS, gates=gates))["Gates"]
    for row, name in ((hard, "good?"), (soft, "<what>")):
        assert [part.text for part in row.all("name")] == [name]
        assert tokens(row) == WORDS
    marked = [token.tag for token in hard.all("token")]
    assert marked == ["mark", "span", "mark", "span"]
    assert not hard.all("number")
    assert [token.tag for token in soft.all("token")].count("mark") == 1
    assert numbers(soft) == [25, 0, 75, 50]
    heights = [float(i.styles["--height"]) for i in soft.all(tag="i")]
    assert heights == gates["<what>"]
    says = [cell.attributes["title"] for cell in soft.all("cell")]
    assert says[2] == "good: open, 75.0 %"
    assert says[3] == "film: closed, 50.0 %"


def test_attention_is_relative_to_the_largest():
    row = only_row(analysis.show(WORDS, attention=[0.1, 0.0, 0.4, 0.2]))
    heights = [float(i.styles["--height"]) for i in row.all(tag="i")]
    assert heights == [0.25, 0, 1, 0.5]
    assert numbers(row) == [10, 0, 40, 20]
    assert "40.0 %, on good" in row.all("summary")[0].text


def test_attention_to_nothing():
    row = only_row(analysis.show(WORDS, attention=[0.0] * 4))
    assert numbers(row) == [0] * 4


def test_what_was_left_out_is_struck_through():
    row = only_row(analysis.show(WORDS, kept=[True, False, True, False]))
    marked = [token.tag for token in row.all("token")]
    assert marked == ["mark", "s", "mark", "s"]
    assert row.all("summary")[0].text == "2 of 4 kept"


def test_probabilities_after_each_token():
    row = only_row(
        analysis.show(WORDS, probabilities={"made": [0.5, 0.25, 0.6, 0.996]})
    )
    assert numbers(row) == [50, 25, 60, 100]
    assert row.all("summary")[0].text == "99.6 % at the end"
    assert row.all("cell")[1].attributes["title"] == "after a: 25.0 %"


def test_rows_without_names_are_counted():
    picture = analysis.show(WORDS, attention=np.full((2, 4), 0.25))
    names = [row.all("name")[0].text for row in tracks(picture)["Attention"]]
    assert names == ["1", "2"]


def test_masked_steps_are_left_out():
    mask = np.array([True, False, True, True, False])
    arrays = {
        "sizes": [2, np.nan, 2, 1, 7],
        "gates": [1, 9, 0, 1, -1],
        "probabilities": [[0.1, np.inf, 0.2, 0.3, 2]],
    }
    padded = analysis.show(["a", "", "b", "c", ""], mask=mask, **arrays)
    short = analysis.show("abc", mask=mask[None].astype(int), **arrays)
    assert padded == short
    rows = tracks(padded)
    assert all(tokens(row) == list("abc") for (row,) in rows.values())
    sizes, _, probabilities = (row for (row,) in rows.values())
    assert spans(sizes) == {0: {0: 1, 1: 1}, 1: {1: 1, 2: 1}, 2: {2: 1}}
    assert numbers(probabilities) == [10, 20, 30]


def test_what_layers_return_is_shown():
    x = tf.random.stateless_normal((2, 5, 3), seed=[0, 1])
    mask = tf.constant([[True] * 5, [True, True, False, True, False]])
    field = keras_seqmech.ReceptiveFieldRNN(
        keras.layers.LSTMCell(4), max_size=3, seed=0, return_field=True
    )
    _, fields = field(x, mask=mask)
    gate = keras_seqmech.BoundaryGate(4, seed=0, return_gates=True)
    _, gates = gate(x, tf.ones((2, 2)), sequence_mask=mask)
    pooling = keras_seqmech.AttentionPooling(return_attention_scores=True)
    _, attention = pooling(x, mask=mask)
    emission = tf.constant([[0.5, 1, 0.25, 0, 1]] * 2) * tf.cast(
        mask, "float32"
    )
    subsample = keras_seqmech.ExpectedSubsample(return_emission=True)
    _, kept = subsample(x, emission, sequence_mask=mask)
    picture = analysis.show(
        tf.constant(["a", "b", "c", "d", "e"]),
        sizes=fields["size"][1],
        gates=gates["probabilities"][1],
        attention=attention["attention_scores"][1],
        kept=kept["emission"][1],
        mask=mask[1],
    )
    sizes, gates_row, scores, kept_row = (
        row for (row,) in tracks(picture).values()
    )
    assert tokens(sizes) == ["a", "b", "d"]
    real = np.asarray(mask[1])
    for row, values in (
        (gates_row, gates["probabilities"][1]),
        (scores, attention["attention_scores"][1]),
        (kept_row, emission[1]),
    ):
        wanted = 100 * np.asarray(values)[real]
        np.testing.assert_allclose(numbers(row), wanted, atol=0.5 + 1e-3)
    wanted = np.asarray(fields["size"][1])[real]
    np.testing.assert_allclose(numbers(sizes), wanted, rtol=0.05)


HOSTILE = "<script>alert(1)</script>\"' &amp; </style><!--"


def test_strings_are_never_markup():
    picture = analysis.show(
        [HOSTILE, "b"],
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
        assert [token.text for token in root.all("token")] == [HOSTILE, "b"] * 6
        assert HOSTILE in root.all("cell")[0].attributes["title"]
    assert root.all(tag="title")[0].text == HOSTILE


def test_nothing_comes_from_elsewhere():
    picture = analysis.show(WORDS, sizes=[1] * 4, gates=[0.5] * 4)
    assert not re.search(
        r"https?:|//|@import|url\(|src=|href=|<link|<script", picture.document
    )


def test_a_saved_file_is_a_whole_document(tmp_path):
    picture = analysis.show("研究é", sizes=[1, 2, 1], title="词")
    path = picture.save(tmp_path / "new" / "decisions.html")
    assert [file.name for file in path.parent.iterdir()] == ["decisions.html"]
    text = path.read_bytes().decode("utf-8")
    assert text == picture.document
    assert text.startswith("<!doctype html>")
    root = read(text)
    head = root.all(tag="head")[0]
    assert head.inside[1].attributes == {"charset": "utf-8"}
    assert root.all(tag="title")[0].text == "词"
    assert [token.text for token in root.all("token")] == list("研究é")


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    tmp_path, monkeypatch
):
    path = tmp_path / "decisions.html"
    analysis.show("a", sizes=[1]).save(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        analysis.show("b", sizes=[1]).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_notebooks_show_the_fragment():
    picture = analysis.show("ab", sizes=[1, 1])
    (root,) = read(picture._repr_html_()).inside
    assert root.attributes["aria-label"] == "Decisions"
    assert [part.tag for part in root.inside] == ["style", "div"]
    assert repr(picture) == "HtmlPicture(title='Decisions')"


@pytest.mark.parametrize(
    "given, match",
    [
        ({"tokens": [], "sizes": []}, "tokens.*at least one token"),
        ({"tokens": 3, "sizes": [1]}, "tokens.*Received: tokens=3"),
        (
            {"tokens": np.array([["a"], ["b"]]), "sizes": [1]},
            r"tokens.*\(time,\).*shape \(2, 1\)",
        ),
        (
            {"tokens": "ab", "gates": tf.ragged.constant([[1, 1], [1]])},
            "gates.*numbers",
        ),
        ({"tokens": "ab"}, "At least one argument of sizes, gates"),
        ({"tokens": "ab", "sizes": [1]}, r"sizes.*2 steps.*shape \(1,\)"),
        ({"tokens": "ab", "sizes": [1, -1]}, "sizes.*finite.*-1"),
        ({"tokens": "ab", "sizes": [1, np.inf]}, "sizes.*finite.*inf"),
        ({"tokens": "ab", "sizes": [1, np.nan]}, "sizes.*finite.*nan"),
        ({"tokens": "ab", "sizes": ["x", "y"]}, "sizes.*numbers.*Received"),
        ({"tokens": "ab", "sizes": [[[1, 2]]]}, r"sizes.*shape \(1, 1, 2\)"),
        ({"tokens": "ab", "gates": [0, 1.1]}, "gates.*from 0 to 1.*1.1"),
        ({"tokens": "ab", "gates": {}}, "gates.*at least one row"),
        ({"tokens": "ab", "gates": {"q": [1]}}, r"gates\['q'\].*2 steps"),
        (
            {"tokens": "ab", "gates": {"q": [[0, 1], [1, 0]]}},
            r"gates\['q'\].*\(time,\).*2 rows",
        ),
        ({"tokens": "ab", "attention": [0.5, np.nan]}, "attention.*nan"),
        ({"tokens": "ab", "kept": [[1, 0], [1, 0]]}, "kept.*from 0 to 1.*2.0"),
        ({"tokens": "ab", "probabilities": [-0.1, 1]}, "probabilities.*-0.1"),
        ({"tokens": "ab", "sizes": [1, 1], "mask": [1.0, 0]}, "mask.*bool"),
        (
            {"tokens": "abc", "sizes": [1, 1], "mask": [True, False]},
            "tokens.*one token for each step of `mask`, 2.*3 tokens",
        ),
        (
            {"tokens": "ab", "sizes": [1, 1], "mask": [False, False]},
            "tokens.*at least one token",
        ),
    ],
)
def test_bad_input(given, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        analysis.show(**given)
