"""Figures: what is drawn, without warnings, on a machine with few fonts."""

import io
import sys

import numpy as np
import pytest

from keras_seqmech import analysis
from keras_seqmech.analysis import labels

pytest.importorskip("matplotlib")

CHINESE = list("在新的一年里，我们")


def rendered(figure):
    """Size in pixels of the drawn figure; warnings while drawing fail."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=50)
    assert file.getvalue().startswith(b"\x89PNG")
    return figure.canvas.get_width_height()


def tick_texts(figure):
    return [
        label.get_text()
        for axes in figure.axes[:-1]
        for label in axes.get_xticklabels()
    ]


def bars(figure):
    """`(step, reach)` of all bars of more than one token, by drawn line."""
    found = []
    for axes in figure.axes[:-1]:
        for line in axes.lines:
            x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
            if len(x) == 2 and x[0] < x[1] and y[0] == y[1]:
                found.append((float(x[0]), float(x[1])))
    return found


def test_bars_run_over_what_was_read():
    tokens = ["not", "a", "good", "film"]
    figure = analysis.plot_receptive_fields(tokens, [3, 1, 1.5, 1], 4)
    rendered(figure)
    assert tick_texts(figure) == tokens
    assert sorted(bars(figure)) == [(0, 2), (2, 2.5)]


def test_bars_do_not_cover_each_other():
    figure = analysis.plot_receptive_fields(list("abcdefgh"), [4] * 8, 4)
    rows = {}
    for line in figure.axes[0].lines:
        x, y = line.get_xdata(), line.get_ydata()
        if len(x) == 2 and x[0] < x[1]:
            rows.setdefault(y[0], []).append((x[0], x[1]))
    assert len(rows) == 4
    for row in rows.values():
        row.sort()
        for (_, end), (start, _) in zip(row, row[1:]):
            assert end < start


def test_long_texts_wrap_and_fields_go_on_in_the_next_line():
    tokens = [f"{i}" for i in range(70)]
    sizes = np.ones(70)
    sizes[31] = 4
    figure = analysis.plot_receptive_fields(tokens, sizes, 4)
    rendered(figure)
    assert tick_texts(figure) == tokens
    assert len(figure.axes) == 4
    assert sorted(bars(figure)) == [(31, 31.5), (31.5, 34)]


@pytest.mark.parametrize("tokens", [CHINESE, ["$x$", "_", "\t", "", "\\a{"]])
def test_any_token_can_be_drawn(tokens):
    sizes = np.ones(len(tokens))
    title = "".join(tokens)
    figure = analysis.plot_receptive_fields(tokens, sizes, 1, title)
    rendered(figure)
    assert len(tick_texts(figure)) == len(tokens)


def test_characters_without_a_font_show_their_code_points(monkeypatch):
    monkeypatch.setattr(labels, "FONTS", ("DejaVu Sans",))
    texts, family = labels.drawable(["中", "of", "新年", "\n"])
    assert texts == ["4E2D", "of", "65B0 5E74", "000A"]
    assert family == ["DejaVu Sans"]


def test_a_font_that_has_the_characters_is_taken(monkeypatch):
    fonts = [("Latin", set("abc")), ("None", set("x")), ("Han", set("中年"))]
    monkeypatch.setattr(labels, "_installed", lambda: iter(fonts))
    texts, family = labels.drawable(["a中", "年", "b"])
    assert texts == ["a中", "年", "b"]
    assert family == ["Latin", "Han"]


def test_steps_are_drawn_with_accuracy_below():
    histories = {
        "dropout 0": {
            "step": [0, 5, 10],
            "mean_size": [2.5, 3.0, 3.5],
            "accuracy": [0.5, 0.6, 0.7],
        },
        "dropout 0.5": {
            "step": [0, 5, 10],
            "mean_size": [2.5, 2.0, 1.5],
            "accuracy": [0.5, 0.7, 0.8],
        },
    }
    figure = analysis.plot_field_size_by_step(histories, 4, "MR")
    rendered(figure)
    upper, lower = figure.axes
    for axes, key in ((upper, "mean_size"), (lower, "accuracy")):
        drawn = {
            line.get_label(): list(line.get_ydata()) for line in axes.lines
        }
        assert drawn == {n: h[key] for n, h in histories.items()}
    assert [t.get_text() for t in upper.get_legend().get_texts()] == [
        *histories
    ]


def test_steps_without_accuracy_have_one_panel():
    history = {"step": [0, 1], "mean_size": [1, 2]}
    figure = analysis.plot_field_size_by_step({"only": history})
    rendered(figure)
    assert len(figure.axes) == 1


NAMES = ["_dropout", r"$\foo$", "字", "", "_"]


def test_any_condition_can_be_named():
    history = {"step": [0, 1], "mean_size": [1, 2]}
    figure = analysis.plot_field_size_by_step({n: history for n in NAMES})
    rendered(figure)
    shown = [
        text.get_text() for text in figure.axes[0].get_legend().get_texts()
    ]
    assert shown == labels.drawable(NAMES)[0]
    assert shown[:2] == NAMES[:2]


@pytest.mark.parametrize("counts", [(0, 0), (0, 9)])
def test_words_that_were_never_met(counts):
    sizes = {"a": (1.0, counts[0]), "b": (2.0, counts[1])}
    figure = analysis.plot_field_size_by_entropy(sizes, {"a": 0.1, "b": 0.2}, 0)
    rendered(figure)
    assert len(figure.axes[0].collections[0].get_offsets()) == 2
    assert not figure.axes[0].texts


def test_words_are_drawn_and_extremes_named():
    sizes = {"awful": (1.2, 40), "the": (2.9, 900), "there's": (3.6, 50)}
    sizes["alone"] = (2.0, 5)
    entropies = {"awful": 0.31, "the": 0.69, "there's": 0.66, "other": 0.1}
    figure = analysis.plot_field_size_by_entropy(sizes, entropies, title="MR")
    rendered(figure)
    (axes,) = figure.axes
    points = {tuple(p) for p in axes.collections[0].get_offsets().tolist()}
    assert points == {(0.31, 1.2), (0.69, 2.9), (0.66, 3.6)}
    names = {text.get_text() for text in axes.texts}
    assert names == {"awful", "the", "there's"}


def test_names_that_would_collide_are_left_out():
    sizes = {f"word{i}": (2 + i * 1e-5, 10) for i in range(50)}
    sizes["far"] = (4, 10)
    entropies = {word: 0.3 for word in sizes}
    figure = analysis.plot_field_size_by_entropy(sizes, entropies)
    names = [text.get_text() for text in figure.axes[0].texts]
    assert len(names) == 2 and "far" in names


HISTORY = {"step": [0], "mean_size": [1]}


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: analysis.plot_receptive_fields([], [], 2), "tokens"),
        (lambda: analysis.plot_receptive_fields("ab", [1], 2), "tokens"),
        (lambda: analysis.plot_receptive_fields("ab", [1, 3], 2), "sizes"),
        (
            lambda: analysis.plot_receptive_fields("a", [float("nan")], 2),
            "sizes",
        ),
        (lambda: analysis.plot_receptive_fields("a", [1], 0), "max_size"),
        (lambda: analysis.plot_field_size_by_step({}), "histories"),
        (
            lambda: analysis.plot_field_size_by_step({"a": {"step": [1]}}),
            "mean_size",
        ),
        (
            lambda: analysis.plot_field_size_by_step(
                {"a": {**HISTORY, "accuracy": []}}
            ),
            "length",
        ),
        (
            lambda: analysis.plot_field_size_by_entropy(
                {"a": (1, 1)}, {"b": 1}
            ),
            "field_sizes",
        ),
        (
            lambda: analysis.plot_field_size_by_entropy(
                {"a": (1, 1)}, {"a": 1}, -1
            ),
            "annotate",
        ),
        (
            lambda: analysis.plot_field_size_by_step({"a": HISTORY}, 0),
            "max_size",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=f"{message}.*Received"):
        call()


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"keras_seqmech\[plots\]"):
        analysis.plot_receptive_fields("a", [1], 1)
