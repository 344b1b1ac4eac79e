"""Answers what a page asks of its own address, not what other sites ask."""

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send


class OwnOrigin:
    """Refuses requests of other sites, which a browser names in `Origin`."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        app = self._app
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            own = f"http://{headers.get('host')}"
            if any(origin != own for origin in headers.getlist("origin")):
                app = PlainTextResponse(
                    "This page answers its own requests alone.", status_code=403
                )
        await app(scope, receive, send)
