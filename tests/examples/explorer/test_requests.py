"""Requests to the page that its own fields would not send."""

import contextlib
import http.client
import socket
import urllib.parse

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from examples.explorer.questions import EXPLORABLES
from tests.examples.explorer.page_server import served
from tests.examples.explorer.small_models import save_all


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    folders = save_all(tmp_path_factory.mktemp("exports"))
    models = {
        name: EXPLORABLES[name].served_from(folder)
        for name, folder in folders.items()
    }
    with served(models) as address:
        yield urllib.parse.urlsplit(address).port


def ask(port, headers):
    """Status and text of the page, asked for with these headers alone."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.putrequest("GET", "/", skip_host=True)
        for name, value in headers:
            connection.putheader(name, value.replace("PORT", str(port)))
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def session(port, host="127.0.0.1:PORT", origin="http://127.0.0.1:PORT"):
    """A WebSocket of the page, opened under a host by the page of an origin."""
    host, origin = (
        value and value.replace("PORT", str(port)) for value in (host, origin)
    )
    return connect(
        f"ws://{host}/websocket/",
        origin=origin,
        sock=socket.create_connection(("127.0.0.1", port), timeout=30),
        proxy=None,
    )


@pytest.mark.parametrize(
    "status, headers",
    [
        (200, [("Host", "127.0.0.1:PORT")]),
        (
            200,
            [("Host", "localhost:PORT"), ("Origin", "http://localhost:PORT")],
        ),
        (400, [("Host", "evil.example:PORT")]),
        (400, [("Host", "127.0.0.1.evil.example:PORT")]),
        (403, [("Host", "127.0.0.1:PORT"), ("Origin", "http://127.0.0.1:1")]),
        (403, [("Host", "127.0.0.1:PORT"), ("Origin", "http://evil.example")]),
        (403, [("Host", "127.0.0.1:PORT"), ("Origin", "null")]),
    ],
)
def test_own_requests_alone_are_answered(port, status, headers):
    found, text = ask(port, headers)
    assert found == status
    assert ("What a model reads" in text) == (status == 200)


@pytest.mark.parametrize(
    "status, host, origin",
    [
        (400, "evil.example:PORT", "http://evil.example:PORT"),
        (400, "evil.example:PORT", None),
        (403, "127.0.0.1:PORT", "https://127.0.0.1:PORT"),
        (403, "127.0.0.1:PORT", "http://evil.example:PORT"),
    ],
)
def test_foreign_web_sockets_are_refused(port, status, host, origin):
    with pytest.raises(InvalidStatus) as refused:
        session(port, host, origin)
    assert refused.value.response.status_code == status
