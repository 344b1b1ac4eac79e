"""Requests to the page that its own fields would not send."""

import contextlib
import http.client
import json
import socket
import urllib.parse

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from examples.explorer.questions import EXPLORABLES
from tests.examples.explorer.page_server import served
from tests.examples.explorer.small_models import save_all

OTHER_VALUES = (["研究"], {"text": "研究"}, 5, 0.5, None, True, [], {})


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


def send(page, method, **values):
    """Gives fields values; returns what the answers then are, as HTML."""
    page.send(json.dumps({"method": method, "data": values}))
    while True:
        message = json.loads(page.recv(timeout=60))
        if message.get("values"):
            return {
                name: answer["html"]
                for name, answer in message["values"].items()
            }
        assert not message.get("errors"), message


@pytest.mark.parametrize(
    "status, headers",
    [
        (200, [("Host", "127.0.0.1:PORT")]),
        (200, [("Host", "LOCALHOST:PORT")]),
        (
            200,
            [("Host", "localhost:PORT"), ("Origin", "http://localhost:PORT")],
        ),
        (403, [("Host", "evil.example:PORT")]),
        (403, [("Host", "127.0.0.1.evil.example:PORT")]),
        (403, [("Host", "127.0.0.1:1")]),
        (403, [("Host", "127.0.0.1:PORT"), ("Origin", "http://evil.example")]),
        (403, [("Host", "127.0.0.1:PORT"), ("Origin", "null")]),
    ],
)
def test_own_requests_alone_are_answered(port, status, headers):
    found, text = ask(port, headers)
    assert found == status
    shown = "What a model reads"
    assert (shown if status == 200 else f"http://127.0.0.1:{port}.") in text


@pytest.mark.parametrize(
    "host, origin",
    [
        ("evil.example:PORT", "http://evil.example:PORT"),
        ("evil.example:PORT", None),
        ("127.0.0.1:PORT", "https://127.0.0.1:PORT"),
    ],
)
def test_foreign_web_sockets_are_refused(port, host, origin):
    with pytest.raises(InvalidStatus) as refused:
        session(port, host, origin)
    assert refused.value.response.status_code == 403


def test_values_of_other_types_get_a_sentence(port, caplog, capfd):
    shown = {
        f".clientdata_output_{name}-answer_hidden": False
        for name in EXPLORABLES
    }
    with session(port) as page:
        fields = {"picking-questions": "1"} | {
            f"{name}-text": "12" for name in EXPLORABLES
        }
        found = send(page, "init", **shown, **fields)
        while len(found) < len(EXPLORABLES):
            found |= send(page, "update", **fields)
        assert all("<dl" in html for html in found.values())
        for field, usual in fields.items():
            answer = field.partition("-")[0] + "-answer"
            for value in OTHER_VALUES:
                html = send(page, "update", **{field: value})[answer]
                assert "something else than text." in html
            html = send(page, "update", **{field: "1" * 301})[answer]
            assert "301 characters; please use at most 300." in html
            assert "<dl" in send(page, "update", **{field: usual})[answer]
    assert not caplog.records
    assert "Traceback" not in capfd.readouterr().err
