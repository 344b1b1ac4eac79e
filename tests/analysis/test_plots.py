"""Figures: what is drawn, without warnings, on a machine with few fonts."""

import io
import sys

import numpy as np
import pytest

from keras_seqmech.analysis import plots
from keras_seqmech.analysis.plots import fonts

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


@pytest.mark.parametrize("tokens", [CHINESE, ["$x$", "_", "\t", "", "\\a{"]])
def test_any_token_can_be_drawn(tokens):
    sizes = np.ones(len(tokens))
    title = "".join(tokens)
    figure = plots.plot_receptive_fields(tokens, sizes, 1, title)
    rendered(figure)
    assert len(tick_texts(figure)) == len(tokens)


@pytest.fixture
def only_latin(monkeypatch):
    """A machine on which matplotlib has its own font alone."""
    held = set(map(chr, range(0x20, 0x250))) | set("↵␣□")
    found = [("DejaVu Sans", frozenset(held))]
    monkeypatch.setattr(fonts, "installed", lambda: iter(found))
    fonts.warn_of_boxes.cache_clear()
    yield
    fonts.warn_of_boxes.cache_clear()


def test_characters_without_a_font_are_boxes_and_said_once(only_latin):
    with pytest.warns(UserWarning, match="(?s)as boxes.*fonts-noto-cjk") as all:
        texts, style = plots.drawable(["中", "of", "新x年", "\n"])
        plots.drawable(["年"])
    assert len(all) == 1
    assert texts == ["□", "of", "□x□", "↵"]
    assert style == {"fontfamily": ["DejaVu Sans"], "parse_math": False}


def test_a_font_that_has_the_characters_is_taken(monkeypatch):
    found = [("Latin", set("abc")), ("None", set("x")), ("Han", set("中年"))]
    monkeypatch.setattr(fonts, "installed", lambda: iter(found))
    texts, style = plots.drawable(["a中", "年", "b"])
    assert texts == ["a中", "年", "b"]
    assert style["fontfamily"] == ["Latin", "Han"]


def test_fonts_installed_later_are_found(monkeypatch):
    from matplotlib import font_manager

    def path_of(name):
        return font_manager.findfont(name, fallback_to_default=False)

    class Manager:
        ttflist = []

        def addfont(self, path):
            if path == "picture.ttf":
                raise NotImplementedError("no scalable font")
            name = {v: k for k, v in paths.items()}[path]
            self.ttflist.append(font_manager.FontEntry(fname=path, name=name))

    names = ["DejaVu Sans", "DejaVu Serif"]
    paths = {name: path_of(name) for name in names}
    manager = Manager()
    manager.addfont(paths["DejaVu Sans"])
    monkeypatch.setattr(font_manager, "fontManager", manager)
    monkeypatch.setattr(
        font_manager,
        "findSystemFonts",
        lambda: ["picture.ttf", *paths.values()],
    )
    found = list(fonts.installed())
    # matplotlib's own fonts but its first are for mathematics.
    own = [] if "matplotlib" in paths["DejaVu Serif"] else ["DejaVu Serif"]
    assert [family for family, _ in found] == ["DejaVu Sans", *own]
    assert set("aä↵␣□") <= found[0][1]
    assert len(manager.ttflist) == 2


def test_no_font_of_last_resort_is_taken():
    names = [family for family, _ in fonts.installed()]
    assert names[0] == "DejaVu Sans"
    assert not [n for n in names if "Resort" in n or n.startswith("cm")]


NAMES = ["_dropout", r"$\foo$", "字", "", "_"]
HISTORY = {"step": [0, 5, 10], "vanishing_ratio": [1e-5, 0.0, np.inf]}


def drawn(axes):
    """`(x, y)` of all lines."""
    return [
        (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines
    ]


def legend_texts(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.mark.parametrize("key", ["mean_size", "other"])
def test_history_with_any_names(key):
    history = {"step": [0, 1], key: [1.5, 0]}
    figure = plots.plot_history({name: history for name in NAMES}, key)
    rendered(figure)
    (axes,) = figure.axes
    assert drawn(axes) == [([0, 1], [1.5, 0])] * 5
    assert axes.get_ylabel() == key.replace("_", " ")
    assert legend_texts(axes) == plots.drawable(NAMES)[0]
    assert legend_texts(axes)[:2] == NAMES[:2]


def test_history_with_accuracies_below():
    histories = {
        "bilstm": {**HISTORY, "accuracy": [0.5, 0.7, 0.9]},
        "maxatt": {
            **HISTORY,
            "accuracy_step": [5, 10],
            "accuracy": [0.8, 0.9],
            "val_accuracy": [0.7, 0.8],
        },
        "other": HISTORY,
    }
    figure = plots.plot_history(histories, "vanishing_ratio", True, "1K")
    rendered(figure)
    upper, lower = figure.axes
    assert upper.get_yscale() == "log"
    for _, ratios in drawn(upper):
        np.testing.assert_array_equal(ratios, [1e-5, np.nan, np.nan])
    assert drawn(lower) == [
        ([0, 5, 10], [0.5, 0.7, 0.9]),
        ([5, 10], [0.8, 0.9]),
        ([5, 10], [0.7, 0.8]),
    ]
    styles = [line.get_linestyle() for line in lower.lines]
    assert styles == ["-", "-", "--"]
    colors = [line.get_color() for line in lower.lines]
    assert colors[0] != colors[1] == colors[2]
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


@pytest.mark.parametrize("profile", [[0.0, 0.0], [0.0, 1.0]])
def test_gradients_that_are_zero_leave_gaps(profile):
    figure = plots.plot_gradient_profiles({"a": np.array(profile)})
    rendered(figure)
    ((_, y),) = drawn(figure.axes[0])
    np.testing.assert_array_equal(np.isnan(y), [p == 0 for p in profile])


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
        ("history", [{"a": {"step": [1]}}, "mean_size"], "'mean_size'"),
        ("history", [{"a": {"mean_size": [1]}}, "mean_size"], "'step'"),
        (
            "history",
            [{"a": {**HISTORY, "val_accuracy": [1]}}, "vanishing_ratio"],
            "'val_accuracy' and 'step'",
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
