"""Figures: what is drawn, without warnings, on a machine with few fonts."""

import io
import math
import sys

import numpy as np
import pytest

from keras_seqmech import analysis
from keras_seqmech.analysis import plots
from keras_seqmech.analysis.plots import fonts as figure_fonts
from keras_seqmech.analysis.plots import text as figure_text

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


@pytest.fixture
def only_latin(monkeypatch):
    """A machine on which matplotlib has its own font alone."""
    held = set(map(chr, range(0x20, 0x250))) | set("↵␣□")
    fonts = [("DejaVu Sans", frozenset(held))]
    monkeypatch.setattr(figure_fonts, "installed", lambda: iter(fonts))
    figure_fonts.warn_of_boxes.cache_clear()
    yield
    figure_fonts.warn_of_boxes.cache_clear()


def test_characters_without_a_font_are_boxes_and_said_once(only_latin):
    with pytest.warns(UserWarning, match="(?s)as boxes.*fonts-noto-cjk") as all:
        texts, family = figure_text.drawable(["中", "of", "新x年", "\n"])
        figure_text.drawable(["年"])
    assert len(all) == 1
    assert texts == ["□", "of", "□x□", "↵"]
    assert family == ["DejaVu Sans"]


def test_signs_need_no_warning(only_latin):
    assert figure_text.drawable(["a", " "])[0] == ["a", "␣"]


def test_a_font_that_has_the_characters_is_taken(monkeypatch):
    fonts = [("Latin", set("abc")), ("None", set("x")), ("Han", set("中年"))]
    monkeypatch.setattr(figure_fonts, "installed", lambda: iter(fonts))
    texts, family = figure_text.drawable(["a中", "年", "b"])
    assert texts == ["a中", "年", "b"]
    assert family == ["Latin", "Han"]


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
    found = list(figure_fonts.installed())
    # matplotlib's own fonts but its first are for mathematics.
    own = [] if "matplotlib" in paths["DejaVu Serif"] else ["DejaVu Serif"]
    assert [family for family, _ in found] == ["DejaVu Sans", *own]
    assert set("aä↵␣□") <= found[0][1]
    assert len(manager.ttflist) == 2


def test_no_font_of_last_resort_is_taken():
    names = [family for family, _ in figure_fonts.installed()]
    assert names[0] == "DejaVu Sans"
    assert not [n for n in names if "Resort" in n or n.startswith("cm")]


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
    assert shown == figure_text.drawable(NAMES)[0]
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


def test_scores_are_drawn_over_the_look_ahead():
    figure = analysis.plot_score_by_look_ahead(
        [(2, 86.6), (0, 76.3), (1, 84.5)],
        {"S = 4": [(1.7, 86.6), (0.9, 84.0)], "S = 2": [(0.5, 80.0)]},
        "F1",
        "Words",
    )
    (axes,) = figure.axes
    fixed, four, two = axes.lines
    np.testing.assert_array_equal(
        fixed.get_xydata(), [[0, 76.3], [1, 84.5], [2, 86.6]]
    )
    np.testing.assert_array_equal(four.get_xydata(), [[1.7, 86.6], [0.9, 84.0]])
    np.testing.assert_array_equal(two.get_xydata(), [[0.5, 80.0]])
    assert four.get_linestyle() == "None"
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["one size for all", "S = 4", "S = 2"]
    assert axes.get_ylabel() == "F1"


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
        (lambda: analysis.plot_score_by_look_ahead([], {}, "F1"), "fixed"),
        (
            lambda: analysis.plot_score_by_look_ahead([(0, 1, 2)], {}, "F1"),
            "fixed",
        ),
        (
            lambda: analysis.plot_score_by_look_ahead(
                [(0, 1)], {"a": [(1, float("nan"))]}, "F1"
            ),
            "adaptive",
        ),
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


def drawn(axes):
    """`(x, y)` of all lines."""
    return [
        (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines
    ]


def legend_texts(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_gradient_profiles_are_on_a_log_scale():
    profiles = {"bilstm": [1e-1, 1e-15, 1e-1], "maxpool": [0.2, 0.1]}
    figure = analysis.plot_gradient_profiles(profiles, "IMDB")
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
    figure = analysis.plot_gradient_profiles({"a": np.array(profile)})
    rendered(figure)
    ((_, y),) = drawn(figure.axes[0])
    np.testing.assert_array_equal(np.isnan(y), [p == 0 for p in profile])


def test_word_importance_with_separators():
    importances = {n: [0.1, 0.7, 0.1] for n in "abcdefg"}
    figure = analysis.plot_word_importance(importances, (0.25, 0.75))
    rendered(figure)
    (axes,) = figure.axes
    *curves, first, second = axes.lines
    assert len(curves) == 7
    styles = {(line.get_color(), line.get_linestyle()) for line in curves}
    assert len(styles) == 7
    assert [line.get_color() for line in (first, second)] == ["red"] * 2
    assert [line.get_xdata()[0] for line in (first, second)] == [25, 75]
    assert legend_texts(axes) == list("abcdefg")
    assert axes.get_ylim()[0] == 0


RATIOS = {"step": [0, 5, 10], "vanishing_ratio": [1e-5, 0.0, np.inf]}


def test_vanishing_ratios_with_accuracies_below():
    histories = {
        "bilstm": {**RATIOS, "accuracy": [0.5, 0.7, 0.9]},
        "maxatt": {
            **RATIOS,
            "accuracy_step": [5, 10],
            "accuracy": [0.8, 0.9],
            "val_accuracy": [0.7, 0.8],
        },
        "other": RATIOS,
    }
    figure = analysis.plot_vanishing_ratio(histories, "1K")
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


def test_vanishing_ratios_alone_have_one_panel():
    figure = analysis.plot_vanishing_ratio({"_a": RATIOS})
    rendered(figure)
    assert len(figure.axes) == 1
    assert legend_texts(figure.axes[0]) == ["_a"]


def test_accuracy_by_noise_has_a_panel_for_each_place():
    shares = [0, 0.33, 0.66]
    accuracies = {
        "right": {"maxatt": [0.8, 0.8, 0.7]},
        "left": {"bilstm": [0.9, 0.8, 0.7], "maxatt": [0.8, np.nan, 0.7]},
    }
    figure = analysis.plot_accuracy_by_noise(shares, accuracies, "IMDB")
    rendered(figure)
    left, right = figure.axes
    assert [axes.get_title() for axes in (left, right)] == [
        "text kept left",
        "text kept right",
    ]
    assert drawn(right) == [([0, 33, 66], [0.8, 0.8, 0.7])]
    assert drawn(left)[0] == ([0, 33, 66], [0.9, 0.8, 0.7])
    assert right.lines[0].get_color() == left.lines[1].get_color()
    assert legend_texts(right) == ["bilstm", "maxatt"]


@pytest.mark.parametrize(
    "name, given, message",
    [
        ("gradient_profiles", [{}], "profiles"),
        ("gradient_profiles", [[1.0]], "profiles"),
        ("gradient_profiles", [{"a": []}], "profiles"),
        ("gradient_profiles", [{"a": [[1.0]]}], "profiles"),
        ("gradient_profiles", [{"a": [1.0, -1.0]}], r"profiles\['a'\]"),
        ("gradient_profiles", [{"a": [np.nan]}], r"profiles\['a'\]"),
        ("word_importance", [{}], "importances"),
        ("word_importance", [{"a": [np.inf]}], "importances"),
        ("word_importance", [{"a": [0.5]}, [1.5]], "separators"),
        ("vanishing_ratio", [{}], "histories"),
        ("vanishing_ratio", [{"a": {"step": [1]}}], "vanishing_ratio"),
        ("vanishing_ratio", [{"a": {**RATIOS, "step": [1]}}], "length"),
        ("vanishing_ratio", [{"a": {**RATIOS, "accuracy": [1]}}], "length"),
        (
            "vanishing_ratio",
            [{"a": {**RATIOS, "accuracy_step": [], "val_accuracy": [1]}}],
            "length",
        ),
        ("accuracy_by_noise", [[], {"mid": {"a": []}}], "shares"),
        ("accuracy_by_noise", [[1.0], {"mid": {"a": [1]}}], "shares"),
        ("accuracy_by_noise", [[0.5], {}], "accuracies"),
        ("accuracy_by_noise", [[0.5], {"top": {"a": [1]}}], "accuracies"),
        ("accuracy_by_noise", [[0.5], {"mid": {}}], "accuracies"),
        ("accuracy_by_noise", [[0.5], {"mid": {"a": [1, 2]}}], "accuracies"),
    ],
)
def test_bad_input_by_position(name, given, message):
    with pytest.raises(ValueError, match=f"{message}.*Received|Rec.*{message}"):
        getattr(plots, f"plot_{name}")(*given)


def test_roc_curves_and_reliability_show_what_is_given():
    curves = {"GRU": ([0, 0.25, 1], [0, 0.75, 1]), "": ([0, 1], [0, 1])}
    for draw in (analysis.plot_roc_curves, analysis.plot_reliability):
        figure = draw(curves, title="新的")
        rendered(figure)
        (axes,) = figure.axes
        drawn = [np.stack(line.get_data()) for line in axes.lines[1:]]
        for line, curve in zip(drawn, curves.values(), strict=True):
            np.testing.assert_array_equal(line, curve)


def test_confusion_counts_by_row():
    figure = analysis.plot_confusion([[90, 10], [1, 3]], ["real", "$x$"])
    rendered(figure)
    (axes,) = figure.axes
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["90\n90.0 %", "10\n10.0 %", "1\n25.0 %", "3\n75.0 %"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["real", "$x$"]
    rendered(analysis.plot_confusion([[0, 0], [0, 0]], ["a", "b"]))


def test_learning_curves_count_epochs_from_one():
    figure = analysis.plot_learning_curves({"a": [0.5, 0.75], "b": [0.5]})
    rendered(figure)
    line, point = figure.axes[0].lines
    assert list(line.get_xdata()) == [1, 2]
    assert list(point.get_ydata()) == [0.5]


@pytest.mark.parametrize(
    "tokens", [["new", "$x$", "中"], list("a b"), ["x" * 5000, "", "a"]]
)
def test_probability_and_logit_by_token(tokens):
    logits = [-1000.0, 0.0, np.log(3)]
    figure = analysis.plot_probability_by_token(
        tokens, logits, ("real", "made")
    )
    rendered(figure)
    above, below = figure.axes
    probabilities = above.lines[1].get_ydata()
    np.testing.assert_allclose(probabilities, [0, 0.5, 0.75], atol=1e-12)
    np.testing.assert_array_equal(below.lines[1].get_ydata(), logits)
    assert above.get_ylabel() == "P(made)"
    assert len(below.get_xticks()) == 3


def test_units_are_rows_around_zero():
    values = [[0.5, -2.0], [0.0, 1.0], [0.0, 0.0]]
    figure = analysis.plot_units_by_token(values, ["a", "new", "proof"])
    rendered(figure)
    (image,) = figure.axes[0].images
    np.testing.assert_array_equal(image.get_array(), np.transpose(values))
    assert image.get_clim() == (-2, 2)
    rendered(analysis.plot_units_by_token([[0.0]], ["a"]))


@pytest.mark.parametrize(
    "draw, arguments, match",
    [
        ("plot_roc_curves", ({},), r"`curves` .* Received: curves=\{\}"),
        ("plot_roc_curves", ({"a": ([0], [0, 1])},), "equally long"),
        ("plot_roc_curves", ({"a": ([0.0], [1.5])},), "shares from 0 to 1"),
        ("plot_reliability", ({"a": 3},), r"`bins` .* Received: bins\['a'\]=3"),
        ("plot_confusion", ([[1]], ["a", "b"]), "each pair of 2 classes"),
        ("plot_confusion", ([[1, -1], [0, 0]], ["a", "b"]), "a count"),
        ("plot_learning_curves", ({"a": []},), "lists of finite numbers"),
        ("plot_probability_by_token", (["a"], [1, 2]), "one number for each"),
        ("plot_probability_by_token", (["a"], [np.nan]), "must be finite"),
        ("plot_probability_by_token", ([], []), "0 tokens"),
        ("plot_units_by_token", ([[1.0]], ["a", "b"]), "2 tokens"),
        ("plot_units_by_token", ([[np.inf]], ["a"]), "finite numbers"),
    ],
)
def test_figures_of_classifiers_refuse(draw, arguments, match):
    with pytest.raises(ValueError, match=match):
        getattr(analysis, draw)(*arguments)


def test_sweep_plot_marks_the_best_trial():
    sizes, heats = [1, 1, 2, 4, 4], [0.5, 0.5, 1.0, 0.5, 2.0]
    scores = [0.2, 0.4, 0.5, 0.9, 0.1]
    kinds = ["fixed", "fixed", "fixed", "linear", "linear"]
    figure = plots.plot_sweep(sizes, heats, scores, kinds, "F1", title="词")
    figure.savefig(io.BytesIO(), format="png", dpi=40)
    left, right, bar = figure.axes
    fixed, linear, ring = left.collections
    assert fixed.get_offsets().tolist() == [[1, 0.5], [2, 1]]
    # Two trials at one place are shown with their mean.
    assert fixed.get_array().tolist() == pytest.approx([0.3, 0.5])
    assert linear.get_array().tolist() == pytest.approx([0.9, 0.1])
    assert ring.get_offsets().tolist() == [[4, 0.5]]
    assert right.lines[0].get_ydata().tolist() == [0.4, 0.5, 0.9]
    assert bar.get_ylabel() == "F1"
    figure = plots.plot_sweep(sizes, heats, scores, maximize=False)
    assert figure.axes[0].collections[-1].get_offsets().tolist() == [[4, 2]]
    assert figure.axes[1].lines[0].get_ydata().tolist() == [0.2, 0.5, 0.1]


@pytest.mark.parametrize(
    "arguments",
    [
        ([], [], []),
        ([1, 2], [1.0], [0.5, 0.6]),
        ([1, 2], [1.0, 0.0], [0.5, 0.6]),
        ([1, 2], [1.0, 1.0], [0.5, math.nan]),
        ([1, 2], [1.0, 1.0], [0.5, 0.6], ["fixed"]),
    ],
)
def test_sweeps_that_cannot_be_drawn(arguments):
    with pytest.raises(ValueError, match="Received: "):
        plots.plot_sweep(*arguments)
