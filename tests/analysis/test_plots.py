"""Figures: what is drawn, without warnings, on a machine with few fonts."""

import io
import sys

import numpy as np
import pytest

from keras_seqmech.analysis import plots

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
    figure = plots.plot_receptive_fields(tokens, [3, 1, 1.5, 1], 4)
    rendered(figure)
    assert tick_texts(figure) == tokens
    assert sorted(bars(figure)) == [(0, 2), (2, 2.5)]


def test_bars_do_not_cover_each_other():
    figure = plots.plot_receptive_fields(list("abcdefgh"), [4] * 8, 4)
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
    figure = plots.plot_receptive_fields(tokens, sizes, 4)
    rendered(figure)
    assert tick_texts(figure) == tokens
    assert len(figure.axes) == 4
    assert sorted(bars(figure)) == [(31, 31.5), (31.5, 34)]


@pytest.mark.filterwarnings("ignore:Glyph .* missing from")
@pytest.mark.parametrize("tokens", [CHINESE, ["$x$", "_", "\t", "", "\\a{"]])
def test_any_token_can_be_drawn(tokens):
    figure = plots.plot_receptive_fields(
        tokens, np.ones(len(tokens)), 1, "".join(tokens)
    )
    rendered(figure)
    assert len(tick_texts(figure)) == len(tokens)


def test_installed_fonts_are_named(monkeypatch):
    from matplotlib import font_manager

    class Manager:
        def get_font_names(self):
            return ["PingFang SC", "Other", "DejaVu Sans"]

    monkeypatch.setattr(font_manager, "fontManager", Manager())
    texts, style = plots.drawable(["of", "\n", "新"])
    assert texts == ["of", "↵", "新"]
    families = ["DejaVu Sans", "PingFang SC"]
    assert style == {"fontfamily": families, "parse_math": False}


NAMES = ["_dropout", r"$\foo$", "字", "", "_"]
HISTORY = {"step": [0, 5, 10], "vanishing_ratio": [1e-5, 0.0, 1e-3]}


def drawn(axes):
    """`(x, y)` of all lines."""
    return [
        (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines
    ]


def legend_texts(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.mark.filterwarnings("ignore:Glyph .* missing from")
def test_history_with_any_names():
    history = {"step": [0, 1], "mean_size": [1.5, 0]}
    figure = plots.plot_history({name: history for name in NAMES}, "mean_size")
    rendered(figure)
    (axes,) = figure.axes
    assert drawn(axes) == [([0, 1], [1.5, 0])] * 5
    assert axes.get_ylabel() == "mean size"
    assert legend_texts(axes) == plots.drawable(NAMES)[0]
    assert legend_texts(axes)[:2] == NAMES[:2]


def test_history_in_panels():
    histories = {
        "bilstm": {**HISTORY, "accuracy": [0.5, 0.7, 0.9]},
        "maxatt": {**HISTORY, "accuracy": [np.nan, 0.8, 0.9]},
    }
    figure = plots.plot_history(
        histories, "vanishing_ratio", "accuracy", log_scale=True, title="1K"
    )
    rendered(figure)
    upper, lower = figure.axes
    assert upper.get_yscale() == "log" and lower.get_yscale() == "linear"
    assert drawn(upper)[0] == tuple(HISTORY.values())
    assert drawn(lower) == [
        ([0, 5, 10], [0.5, 0.7, 0.9]),
        ([5, 10], [0.8, 0.9]),
    ]
    colors = [line.get_color() for line in (*upper.lines, *lower.lines)]
    assert colors[:2] == colors[2:] and colors[0] != colors[1]
    assert legend_texts(upper) == list(histories)


def test_gradient_profiles_are_on_a_log_scale():
    profiles = {"bilstm": [1e-1, 1e-15, 1e-1], "maxpool": [0.2, 0.1]}
    figure = plots.plot_gradient_profiles(profiles, "IMDB")
    rendered(figure)
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    assert drawn(axes) == [
        ([0, 50, 100], [1e-1, 1e-15, 1e-1]),
        ([0, 100], [0.2, 0.1]),
    ]
    assert legend_texts(axes) == list(profiles)


@pytest.mark.parametrize(
    "profile, scale", [([0.0, 0.0], "linear"), ([0.0, 1.0], "log")]
)
def test_gradients_that_are_zero_leave_gaps(profile, scale):
    figure = plots.plot_gradient_profiles({"a": np.array(profile)})
    rendered(figure)
    (axes,) = figure.axes
    assert axes.get_yscale() == scale
    if scale == "log":
        transformed = axes.yaxis.get_transform().transform(np.array(profile))
        assert not np.isfinite(transformed[0]) and transformed[1] == 0


def test_word_importance_with_separators():
    importances = {n: [0.1, 0.7, 0.1] for n in "abcdefg"}
    figure = plots.plot_word_importance(importances, (0.25, 0.75))
    rendered(figure)
    (axes,) = figure.axes
    *curves, first, second = axes.lines
    styles = {(line.get_color(), line.get_linestyle()) for line in curves}
    assert len(styles) == 7
    assert [line.get_color() for line in (first, second)] == ["red"] * 2
    assert [line.get_xdata()[0] for line in (first, second)] == [25, 75]
    assert legend_texts(axes) == list("abcdefg")
    assert axes.get_ylim()[0] == 0


@pytest.mark.parametrize(
    "name, given, message",
    [
        ("receptive_fields", [[], [], 2], "tokens"),
        ("receptive_fields", ["ab", [1], 2], "tokens"),
        ("receptive_fields", ["ab", [1, 3], 2], "sizes"),
        ("receptive_fields", ["a", [np.nan], 2], "sizes"),
        ("receptive_fields", ["a", [1], 0], "max_size"),
        ("gradient_profiles", [{}], "profiles"),
        ("gradient_profiles", [[1.0]], "profiles"),
        ("gradient_profiles", [{"a": []}], "profiles"),
        ("gradient_profiles", [{"a": [[1.0]]}], "profiles"),
        ("gradient_profiles", [{"a": [1.0, -1.0]}], "profiles.*at least 0"),
        ("word_importance", [{"a": [np.inf]}], "importances"),
        ("history", [{}, "mean_size"], "histories"),
        ("history", [{"a": HISTORY}], "quantities"),
        ("history", [{"a": {"step": [1]}}, "mean_size"], "'mean_size'"),
        ("history", [{"a": {"mean_size": [1]}}, "mean_size"], "'step'"),
        (
            "history",
            [{"a": {**HISTORY, "accuracy": [1]}}, "accuracy"],
            r"\['step', 'accuracy'\], equally long",
        ),
    ],
)
def test_bad_input(name, given, message):
    with pytest.raises(ValueError, match=f"{message}.*Received"):
        getattr(plots, f"plot_{name}")(*given)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"keras_seqmech\[plots\]"):
        plots.plot_gradient_profiles({"a": [1.0]})
