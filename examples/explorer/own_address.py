"""Answers what is asked of a page under its own address, and nothing else."""

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send
from starlette.websockets import WebSocketClose


class OwnAddress:
    """Refuses requests that pages of other sites make.

    A browser says in `Origin` which page asks. Where a site has its own name
    lead to this machine, the name is in `Host`.
    """

    def __init__(self, app: ASGIApp, host: str):
        self._app = app
        self._host = host.lower()

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if scope["type"] == "lifespan" or self._is_own(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose()(scope, receive, send)
        else:
            address, port = scope["server"]
            refusal = PlainTextResponse(
                "This page answers its own requests, under its own address, "
                f"http://{address}:{port}.",
                status_code=403,
            )
            await refusal(scope, receive, send)

    def _is_own(self, scope: Scope) -> bool:
        address, port = scope["server"]
        names = {self._host, address, "localhost"}
        own = {f"{name}:{port}" for name in names}
        if port == 80:  # Browsers leave it out.
            own |= names
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        return (
            len(hosts) == 1
            and hosts[0].lower() in own
            and all(origin == f"http://{hosts[0]}" for origin in origins)
        )
