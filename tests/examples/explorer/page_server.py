"""The page, served by a thread."""

import contextlib
import socket
import threading

import uvicorn

from examples.explorer import page


@contextlib.contextmanager
def served(models):
    """The address of a page of some models."""
    app = page.make_app(models, "127.0.0.1")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = server.force_exit = True
            thread.join(30)
