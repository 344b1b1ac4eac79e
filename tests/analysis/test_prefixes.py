"""Beginnings of sequences."""

import keras
import numpy as np
import pytest

from keras_seqmech import analysis
from tests import tolerances


def test_a_row_is_a_beginning():
    sequence = np.array([[3, 1], [4, 1], [5, 9]])
    found = analysis.prefixes(sequence, padding=-1)
    for t in range(3):
        expected = sequence.copy()
        expected[t + 1 :] = -1
        np.testing.assert_array_equal(found[t], expected)
    assert found.dtype == sequence.dtype
    assert analysis.prefixes([0, 0], steps=0).shape == (0, 2)


def test_a_masked_model_answers_beginnings_as_it_answers_steps():
    """A recurrent layer's last state of a beginning is that of its step."""
    ids = np.array([3, 1, 2, 2, 0, 0])
    inputs = keras.Input((6,), dtype="int32")
    x = keras.layers.Embedding(4, 3)(inputs)
    gru = keras.layers.GRU(5, return_sequences=True, return_state=True)
    states, last = gru(x, mask=keras.ops.not_equal(inputs, 0))
    model = keras.Model(inputs, [states, last])
    states, _ = model.predict(ids[None], verbose=0)
    _, last = model.predict(analysis.prefixes(ids, steps=4), verbose=0)
    close = tolerances.within("float32", operations=200)
    np.testing.assert_allclose(last, states[0, :4], **close)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"`sequence` .* Received: sequence="):
        analysis.prefixes(3)
    for steps in (4, -1, 1.5):
        with pytest.raises(ValueError, match=r"0 to 3. Received: steps="):
            analysis.prefixes([1, 2, 3], steps=steps)
