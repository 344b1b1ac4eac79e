import ctypes
import gc
import os
import pathlib

# Before TensorFlow is imported. Two workers share the machine's cores, and
# these tests are small: threads cost more than they give.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import keras  # noqa: E402
import pytest  # noqa: E402


def pytest_configure(config):
    if keras.__version__.startswith("3.10."):
        # A loaded functional model of one input expects a list of it.
        config.addinivalue_line(
            "filterwarnings", "ignore:(?s).*The structure of `inputs`"
        )
    if keras.__version__.startswith("3.16."):
        # Where nothing reads the mask that these layers no longer pass on.
        layers = "RNN|SimpleRNN|LSTM|GRU|Bidirectional|TimeDistributed"
        config.addinivalue_line(
            "filterwarnings",
            f"ignore:Layer .* \\(of type ({layers})\\) was passed:UserWarning",
        )


def pytest_addoption(parser):
    parser.addoption(
        "--data-dir",
        type=pathlib.Path,
        help="directory of real data sets; tests that need one skip without",
    )


@pytest.fixture(scope="session")
def data_dir(request) -> pathlib.Path:
    """The directory given by `--data-dir`."""
    directory = request.config.getoption("--data-dir")
    if directory is None:
        pytest.skip("needs real data: pytest --data-dir=DIRECTORY")
    if not directory.is_dir():
        pytest.fail(f"--data-dir is no directory: {directory}")
    return directory


@pytest.fixture(autouse=True)
def fresh_state():
    """Fixed seeds, float32 and fresh automatic names for every test."""
    keras.utils.clear_session(free_memory=False)
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def all_in():
    """A function that sets the dtype of all that Keras makes in the test."""

    def set_dtype(dtype):
        keras.config.set_floatx(dtype)
        keras.config.set_dtype_policy(dtype)

    yield set_dtype
    set_dtype("float32")


@pytest.fixture(autouse=True, scope="module")
def free_memory():
    """Frees the graphs of a module, and what XLA compiled of them."""
    yield
    keras.utils.clear_session(free_memory=False)
    gc.collect()
    if hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
