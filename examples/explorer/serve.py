"""A page on this machine: type, and see what a model reads.

    python -m examples.explorer.serve

Three models are asked as one types: one of the sounds of a word, the focused
encoder, a classifier of titles. The first is a file in `saved_models`, the
others are SavedModels, loaded without the code that built them; the page names
the command that makes one that is missing. The page is served to this machine
alone, refuses what other sites ask of it, and sends nothing anywhere.
"""

import argparse
import contextlib
import socket
import threading
import webbrowser
from pathlib import Path

from examples.common import arguments
from examples.explorer.questions import EXPLORABLES


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    help = "folder of exported versions, or a .keras file"
    for name, explorable in EXPLORABLES.items():
        add(f"--{name}", type=Path, default=explorable.directory, help=help)
    add("--host", default="127.0.0.1", help="who may see the page")
    add("--port", type=int, default=8765)
    add("--no-browser", action="store_true", help="open no browser")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Serves the page until it is interrupted."""
    args = parse(argv)
    try:
        import uvicorn

        from examples.explorer import page
    except ImportError as error:
        raise ImportError(
            "The page needs Shiny; install it with `pip install '.[explorer]'`."
        ) from error
    models = {
        name: explorable.served_from(getattr(args, name))
        for name, explorable in EXPLORABLES.items()
    }
    server = uvicorn.Server(
        uvicorn.Config(page.make_app(models, args.host), log_level="warning")
    )
    try:
        listener = socket.create_server((args.host, args.port))
    except OSError as error:
        raise SystemExit(
            f"--host {args.host} --port {args.port} cannot be used: {error}"
        ) from None
    with listener:
        address = f"http://{args.host}:{listener.getsockname()[1]}"
        print(f"The page is at {address}; Ctrl+C ends it.", flush=True)
        if not args.no_browser:
            threading.Timer(1, webbrowser.open, [address]).start()
        with contextlib.suppress(KeyboardInterrupt):
            server.run([listener])


if __name__ == "__main__":
    main()
