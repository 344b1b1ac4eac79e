"""What programs draw, on a machine with few fonts."""

import numpy as np

from examples.common import plots


def test_history_in_panels():
    history = {"step": [0, 5, 10], "vanishing_ratio": [1e-5, 0.0, 1e-3]}
    histories = {
        "bilstm": {**history, "accuracy": [0.5, 0.7, 0.9]},
        "maxatt": {**history, "accuracy": [np.nan, 0.8, 0.9]},
    }
    figure = plots.plot_history(histories, "vanishing_ratio", "accuracy")
    upper, lower = figure.axes
    drawn = [
        [(list(x.get_xdata()), list(x.get_ydata())) for x in axes.lines]
        for axes in (upper, lower)
    ]
    assert drawn[0] == [tuple(history.values())] * 2
    assert drawn[1] == [([0, 5, 10], [0.5, 0.7, 0.9]), ([5, 10], [0.8, 0.9])]
    names = [text.get_text() for text in upper.get_legend().get_texts()]
    assert names == list(histories)
