"""F1 by emission delay, on a few texts."""

import numpy as np
import pandas as pd
import pytest

from examples.receptive_field import delay_figure
from examples.receptive_field import stream_taggers as taggers
from examples.receptive_field import streams


def test_gains_at_equal_delay_are_never_extrapolated():
    names = ["model", "setting", "seeds", "f1", "delay", "delay_95"]
    runs = [
        ("lstm", 0, 0, 50, 0, 0),
        ("window+dense", 1, 0, 70, 1, 1),
        ("window+dense", 2, 0, 80, 2, 2),
        ("look_ahead", 0.1, 0, 78, 1.5, 2),
        ("look_ahead", 0.05, 0, 85, 1.75, 3),
        ("look_ahead", 0.02, 0, 90, 2.5, 3),
    ]
    rows = pd.DataFrame(runs, columns=names).assign(task="spaces")
    by_mean, by_percentile = zip(
        *(
            (x["window+dense"], x["window+dense at equal 95 %"])
            for x in delay_figure.gains(rows)
        )
    )
    assert by_mean == ("+3.00", "+7.50", "")
    assert by_percentile == ("-2.00", "", "")
    # Half way from the LSTM to the first of its settings.
    one = rows[rows["model"] == "look_ahead"].assign(model="one_look_ahead")
    one.loc[one["setting"] == 0.1, ["f1", "delay"]] = 90, 0.5
    (share,) = delay_figure.reached(pd.concat([rows, one]))
    assert (share["model"], share["wait"]) == ("one_look_ahead", "0.25")
    # Without an LSTM a line begins at its first setting; a seed may lack it.
    alone = rows[rows["model"] != "lstm"]
    early = alone.assign(delay=alone["delay"] - 1.4, model="look_ahead")
    other = early.assign(seeds=1, setting=0.1)
    runs = pd.concat([alone[:2], early[2:3], other[2:3]])
    assert [x["window+dense"] for x in delay_figure.gains(runs)] == [""]
    runs = pd.concat([alone[:3], other[2:3]])
    assert [x["window+dense"] for x in delay_figure.gains(runs)] == ["+3.00"]
    (axes,) = delay_figure.draw(rows).axes
    assert axes.get_ylabel() == "F1 (%)"


@pytest.mark.slow
@pytest.mark.parametrize("name", taggers.MODELS)
def test_models_see_what_their_setting_says(name):
    """A later character changes a tag only if it is waited for."""
    model = taggers.build(name, 2, 20, 3, units=4, max_size=4)
    ids = np.random.default_rng(0).integers(2, 20, (1, 12))

    def tags_of(ids):
        inputs = ids
        if name in taggers.INPUTS:
            given = np.full(1, 0.9, "float32")
            inputs = {"ids": ids, taggers.INPUTS[name]: given}
        return model(inputs)["tags"].numpy()

    tags = tags_of(ids)
    changed = ids.copy()
    changed[:, 6] = 1
    differs = np.any(tags_of(changed) != tags, axis=-1)[0]
    first = {"lstm": 6, "bilstm": 0}.get(name, 4)
    if name in taggers.ADAPTIVE:
        first = 3
    assert not differs[:first].any() and differs[6:].all()
    # Fields are held to their size in training.
    assert name in (*taggers.ADAPTIVE, "field") or differs[first]


def test_kinds_of_characters():
    source = 'for x in f(1):  # y\n    "s"'
    kinds = streams.kinds(source)
    found = {(source[a:b], kind) for a, b, kind in streams.runs(kinds)}
    assert {("for", "keyword"), ("f", "call"), ("1", "number")} <= found
    assert {("x", "name"), ("# y", "comment"), ('"s"', "string")} <= found


def test_words_are_scored_by_their_places():
    test = taggers.Arrays(np.array([[2, 3, 4, 0]]), np.array([[0, 2, 3, 0]]))
    texts = streams.Texts(("B", "I", "E", "S"), [], [], streams.words_of)
    assert taggers.f1(np.array([[0, 2, 3, 3]]), test, texts) == 100
    # Of three words found, one is right; there are two.
    assert taggers.f1(np.array([[3, 3, 3, 3]]), test, texts) == pytest.approx(
        40
    )
