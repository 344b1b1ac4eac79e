"""The context in which layers keep no statistics."""

import threading

import pytest

from keras_seqmech.layers.decisions import tracking


def test_statistics_are_kept_outside_the_context_alone():
    assert tracking.is_active()
    with tracking.without_statistics():
        assert not tracking.is_active()
        with tracking.without_statistics():
            assert not tracking.is_active()
        assert not tracking.is_active()
    assert tracking.is_active()


def test_an_error_ends_the_context():
    with pytest.raises(RuntimeError), tracking.without_statistics():
        raise RuntimeError
    assert tracking.is_active()


def test_other_threads_keep_theirs():
    seen = []
    with tracking.without_statistics():
        thread = threading.Thread(
            target=lambda: seen.append(tracking.is_active())
        )
        thread.start()
        thread.join()
    assert seen == [True]
