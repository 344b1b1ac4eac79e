"""Sizes at keys and elsewhere, of a small tagger."""

import keras
import numpy as np
import pytest

from examples.receptive_field import look_ahead
from examples.tasks import look_ahead as task
from keras_seqmech import analysis
from tests.examples.files import read


@pytest.mark.slow
def test_sizes_are_those_at_keys_and_elsewhere(tmp_path, monkeypatch, capsys):
    """Of a model that reads what it must, and errs at every fourth key."""
    test = task.examples(1000, told=True, longest_gap=3, seed=1)
    sizes = np.where(test.keys, test.gaps + 2.0, 1.0)
    wrong = np.cumsum(test.keys.ravel()).reshape(test.keys.shape) % 4 == 0
    values = np.eye(4)[(test.targets + wrong) % 4]

    decide = analysis.decisions

    def predict(model, tokens, **options):
        np.testing.assert_array_equal(tokens, test.tokens)
        assert model(tokens[:2]).shape == (2, tokens.shape[1], 4)
        return values

    def decisions(model, tokens, batch_size):
        np.testing.assert_array_equal(tokens, test.tokens)
        with monkeypatch.context() as patch:
            patch.setattr(keras.Model, "predict", own_predict)
            found = decide(model, tokens[:2])["field"]
        assert found["size"].shape == (2, tokens.shape[1])
        return {"field": {"size": sizes}}

    own_predict = keras.Model.predict
    monkeypatch.setattr(keras.Model, "predict", predict)
    monkeypatch.setattr(analysis, "decisions", decisions)
    options = "--units 4 --epochs 1 --train-size 20 --batch-size 10 --cells gru"
    options += f" --keys told --size-from field --output {tmp_path}/runs.csv"
    look_ahead.main(options.split())
    row, other = read(tmp_path / "runs.csv")
    assert (row["into"], other["into"]) == ("input", "memory")
    right = 100 * (~wrong[test.keys]).mean()
    assert row["accuracy"] == f"{right:.1f}"
    found = [row[name] for name in (*look_ahead.GAPS, "size_elsewhere")]
    assert found == ["2.00", "3.00", "4.00", "5.00", "1.00"]
    assert 0 <= float(row["certain"]) <= 1
    key, _ = look_ahead.keys(look_ahead.parse(options.split()))
    assert key == tuple(row[name] for name in look_ahead.KEY)
    line = f"| input | gru | field | told | {float(row['accuracy']):.4g} |"
    assert line in capsys.readouterr().out
