"""Chiefs and workers: who is missing, addresses that are none."""

import socket

import pytest

pytest.importorskip("keras_tuner")
pytest.importorskip("tensorboard")

from keras_seqmech import tuning  # noqa: E402
from tests.tuning.searches import Counted  # noqa: E402
from tests.tuning.searches import search  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(currentThread|getName):DeprecationWarning"
)


@pytest.fixture
def address(monkeypatch):
    """The environment of a worker whose chief is not there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "worker0")
    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
    monkeypatch.setenv("KERASTUNER_ORACLE_PORT", str(port))
    return port


def test_a_chief_that_is_missing(address, tmp_path):
    assert tuning.is_worker() and not tuning.is_chief()
    message = f"No chief.*127.0.0.1:{address}.*after 0.2 seconds. Start it"
    with pytest.raises(TimeoutError, match=message):
        search(Counted(), tmp_path, chief_timeout=0.2)
    assert not list(tmp_path.iterdir())


def test_something_else_that_listens_is_no_chief(address):
    with socket.create_server(("127.0.0.1", address)):
        with pytest.raises(TimeoutError, match="No chief"):
            tuning.wait_for_chief(timeout=0.5)


def test_a_port_that_is_taken(address, monkeypatch, tmp_path):
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "chief")
    assert tuning.is_chief() and not tuning.is_worker()
    tuning.check_port()
    with socket.create_server(("127.0.0.1", address), reuse_port=True):
        message = f"KERASTUNER_ORACLE_PORT={address}: the port is taken"
        with pytest.raises(OSError, match=message):
            search(Counted(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_half_an_address_does_not_search_alone(address, monkeypatch):
    monkeypatch.delenv("KERASTUNER_ORACLE_IP")
    with pytest.raises(ValueError, match="KERASTUNER_ORACLE_IP=None"):
        tuning.is_worker()


@pytest.mark.parametrize(
    "name, value", [("PORT", "http"), ("PORT", "0"), ("PORT", ""), ("IP", "")]
)
def test_addresses_that_are_none(address, monkeypatch, name, value):
    monkeypatch.setenv(f"KERASTUNER_ORACLE_{name}", value)
    with pytest.raises(ValueError, match=f"KERASTUNER_ORACLE_{name}"):
        tuning.wait_for_chief(timeout=0.1)
