"""The context in which layers keep no statistics."""

import threading

import pytest

from keras_seqmech.core.decisions import statistics


def test_statistics_are_kept_outside_the_context_alone():
    assert statistics.is_active()
    with statistics.without_statistics():
        assert not statistics.is_active()
        with statistics.without_statistics():
            assert not statistics.is_active()
        assert not statistics.is_active()
    assert statistics.is_active()


def test_an_error_ends_the_context():
    with pytest.raises(RuntimeError), statistics.without_statistics():
        raise RuntimeError
    assert statistics.is_active()


def test_other_threads_keep_theirs():
    seen = []
    with statistics.without_statistics():
        thread = threading.Thread(
            target=lambda: seen.append(statistics.is_active())
        )
        thread.start()
        thread.join()
    assert seen == [True]
