"""Figures: what is drawn, without warnings, on a machine with few fonts."""

import io
import sys

import numpy as np
import pytest

from keras_seqmech.analysis import plots

pytest.importorskip("matplotlib")


def rendered(figure):
    """Size in pixels of the drawn figure; warnings while drawing fail."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=50)
    assert file.getvalue().startswith(b"\x89PNG")
    return figure.canvas.get_width_height()


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
    assert len({line.get_color() for line in curves}) == 7
    assert [line.get_color() for line in (first, second)] == ["red"] * 2
    assert [line.get_xdata()[0] for line in (first, second)] == [25, 75]
    assert legend_texts(axes) == list("abcdefg")
    assert axes.get_ylim()[0] == 0


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"'.\[plots\]'"):
        plots.plot_gradient_profiles({"a": [1.0]})
