"""The tolerance holds for every order of a sum, and for nothing much worse."""

import numpy as np
import pytest

from tests.tolerances import assert_close
from tests.tolerances import tolerance

DTYPES = ("float16", "bfloat16", "float32", "float64")


def sums(dtype, terms):
    """Sums of the same numbers in two orders."""
    numbers = np.random.default_rng(0).uniform(size=(200, terms))
    numbers = numbers.astype(np.dtype(dtype))
    forward = np.zeros(200, np.dtype(dtype))
    backward = forward.copy()
    for i in range(terms):
        forward = forward + numbers[:, i]
        backward = backward + numbers[:, -1 - i]
    return forward, backward


@pytest.mark.parametrize("terms", [2, 30, 300])
@pytest.mark.parametrize("dtype", DTYPES)
def test_order_of_a_sum_is_within_it(dtype, terms):
    forward, backward = sums(dtype, terms)
    assert (forward != backward).any() or terms == 2
    assert_close(forward, backward, terms)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_narrower_dtype_is_not_within_it(dtype):
    narrow = {"float64": "float32", "float32": "float16"}[dtype]
    exact, _ = sums(dtype, 300)
    rounded, _ = sums(narrow, 300)
    with pytest.raises(AssertionError):
        assert_close(rounded, exact, 300, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_error_of_a_few_tolerances_is_not_within_it(dtype):
    exact = np.ones(3, np.dtype(dtype))
    for operations in (1, 300):
        wrong = exact.astype("float64") * (1 + 3 * tolerance(dtype, operations))
        with pytest.raises(AssertionError):
            assert_close(wrong, exact, operations, dtype=dtype)


def test_structures_integers_and_nan():
    found = {"a": [np.float32(1), np.array([1, 2])]}
    assert_close(found, {"a": [np.float32(1 + 1e-7), np.array([1, 2])]})
    for wrong in (
        {"a": [np.float32(1.1), np.array([1, 2])]},
        {"a": [np.float32(1), np.array([1, 3])]},
        {"a": [np.float32(np.nan), np.array([1, 2])]},
    ):
        with pytest.raises(AssertionError):
            assert_close(found, wrong)
    with pytest.raises(ValueError):
        assert_close(found, {"a": [np.float32(1)]})
