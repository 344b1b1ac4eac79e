"""How open gates are: numbers by hand, and what the figures show."""

import numpy as np
import pytest

from keras_seqmech import analysis

GATES = np.array([[1, 0, 1], [1, 1, 0], [0, 0.5, 0]])
MASK = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]], bool)


def test_by_position():
    found = analysis.openness_by_position(GATES)
    np.testing.assert_allclose(found, [2 / 3, 1.5 / 3, 1 / 3])
    found = analysis.openness_by_position(GATES, MASK)
    np.testing.assert_allclose(found, [2 / 3, 1 / 2, 1])
    found = analysis.openness_by_position(GATES[1:], MASK[1:])
    np.testing.assert_allclose(found, [1 / 2, 1, np.nan])


def test_what_is_masked_does_not_count():
    spoiled = np.where(MASK, GATES, np.nan)
    np.testing.assert_array_equal(
        analysis.openness_by_position(spoiled, MASK),
        analysis.openness_by_position(GATES, MASK),
    )


def test_a_mask_of_ints_is_one_of_booleans():
    np.testing.assert_array_equal(
        analysis.openness_by_position(GATES, MASK.astype("int32")),
        analysis.openness_by_position(GATES, MASK),
    )
    found = analysis.openness_by_context(GATES, [7, 3, 7], MASK.tolist())
    ints = analysis.openness_by_context(GATES, [7, 3, 7], MASK.astype(int))
    np.testing.assert_equal(ints, found)


def test_by_context():
    found = analysis.openness_by_context(GATES, [7, 3, 7], MASK)
    assert list(found) == [3, 7]
    np.testing.assert_allclose(found[3], [1, 1, np.nan])
    np.testing.assert_allclose(found[7], [1 / 2, 0, 1])
    names = analysis.openness_by_context(GATES, ["b", "a", "b"])
    assert list(names) == ["a", "b"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(gates=[1, 0]), "`gates`.*\\(batch, time\\).*\\(2,\\)"),
        (dict(gates=[[1.5]]), "`gates`.*0 to 1.*1.5"),
        (dict(gates=[[np.nan]]), "`gates`.*nan"),
        (dict(gates=[[1, 0]], mask=[[True]]), "`mask`.*\\(1, 1\\)"),
        (dict(gates=[[1, 0]], mask=[[0.5, 1]]), "`mask`.*0.5"),
        (dict(gates=[[1, 0]], mask=[[True], [True, False]]), "`mask`.*True"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        analysis.openness_by_position(**arguments)
    with pytest.raises(ValueError, match=message):
        analysis.openness_by_context(contexts=[1], **arguments)


def test_contexts_must_fit():
    with pytest.raises(ValueError, match="`contexts`.*3.*\\(2,\\)"):
        analysis.openness_by_context(GATES, [1, 2])


class TestFigures:
    @pytest.fixture(autouse=True)
    def needs_matplotlib(self):
        pytest.importorskip("matplotlib", reason="needs keras_seqmech[plots]")

    def test_accuracy_by_openness(self, tmp_path):
        points = {"a$b": [(0.5, 0.9), (0.1, 0.99)], "none": []}
        figure = analysis.plot_accuracy_by_openness(points, "title")
        (axes,) = figure.axes
        lines = [line.get_xydata() for line in axes.lines]
        np.testing.assert_allclose(lines[0], [[10, 99], [50, 90]])
        assert lines[1].size == 0
        names = [text.get_text() for text in axes.get_legend().get_texts()]
        assert names == ["a$b", "none"]
        figure.savefig(tmp_path / "figure.png")

    def test_openness_by_position(self, tmp_path):
        curves = {3: [0.1, 0.9, np.nan], 1: [1.0, 0.0, 0.5, 0.2]}
        figure = analysis.plot_openness_by_position(curves, {1: 1})
        first, second = figure.axes
        assert [axes.get_title("right") for axes in figure.axes] == ["3", "1"]
        assert not first.lines
        assert second.lines[0].get_xdata() == [1, 1]
        assert second.get_ylim() == (0, 1) and second.get_xlim() == (0.5, 4.5)
        heights = second.collections[0].get_paths()[0].vertices[:, 1]
        assert {0.0, 0.2, 0.5, 1.0} == set(heights)
        figure.savefig(tmp_path / "figure.png")

    def test_gates_over_image(self, tmp_path):
        images = np.zeros((6, 2, 3))
        images[0, 0, 1] = 1
        gates = np.zeros((6, 6))
        gates[0, 5] = 1
        captions = [f"{i}?" for i in range(6)]
        figure = analysis.plot_gates_over_image(images, gates, captions)
        shown = [axes for axes in figure.axes if axes.images]
        assert [axes.get_title() for axes in shown] == captions
        colors = np.asarray(shown[0].images[0].get_array())
        assert colors.shape == (2, 3, 3)
        np.testing.assert_allclose(colors[0, 1], 1)
        red, green, blue = colors[1, 2]
        assert red > 0.8 and green == blue < 0.2
        # What is neither is grey, all the same.
        greys = np.delete(colors.reshape(6, 3), [1, 5], axis=0)
        assert len(np.unique(greys)) == 1 and 0 < greys[0, 0] < 1
        figure.savefig(tmp_path / "figure.png")

    @pytest.mark.parametrize(
        "call, message",
        [
            (
                lambda: analysis.plot_accuracy_by_openness({}),
                "`points` must hold at least",
            ),
            (
                lambda: analysis.plot_accuracy_by_openness({"a": [(10, 99)]}),
                "`points`.*shares.*99",
            ),
            (
                lambda: analysis.plot_accuracy_by_openness({"a": [0.1, 0.2]}),
                "`points`.*pairs",
            ),
            (
                lambda: analysis.plot_openness_by_position({}),
                "`curves` must hold at least",
            ),
            (
                lambda: analysis.plot_openness_by_position({1: [0.1]}, {2: 1}),
                "each of `marks`",
            ),
            (
                lambda: analysis.plot_openness_by_position({1: [2.0]}),
                "`curves`.*shares",
            ),
            (
                lambda: analysis.plot_gates_over_image(
                    np.zeros((1, 2, 2)), np.zeros((1, 3))
                ),
                "`images` and `gates`.*\\(1, 3\\)",
            ),
            (
                lambda: analysis.plot_gates_over_image(
                    np.full((1, 2, 2), 255), np.zeros((1, 4))
                ),
                "`images`.*255",
            ),
            (
                lambda: analysis.plot_gates_over_image(
                    np.zeros((1, 2, 2)), np.zeros((1, 4)), ["a", "b"]
                ),
                "`captions` must hold 1",
            ),
        ],
    )
    def test_bad_input(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()
