"""The page: a tab a model, where the answer follows what one types."""

import logging
import re
from collections.abc import Mapping

import shiny
from htmltools import Tag
from htmltools import TagList
from shiny import ui
from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse

from examples.explorer import questions

STYLE = """
body { max-width: 44rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; }
.tab-content { padding-top: 1rem; }
textarea, input { unicode-bidi: plaintext; }
.facts { display: grid; grid-template-columns: max-content 1fr;
  gap: .2rem 1rem; margin: 1rem 0; }
.facts dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 30rem) {
  .facts { grid-template-columns: 1fr; }
  .facts dd { margin-bottom: .4rem; }
}
"""
# Bootstrap follows an attribute, not the reader's system.
COLORS = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => { document.documentElement.dataset.bsTheme =
  dark.matches ? "dark" : "light"; };
dark.addEventListener("change", follow);
follow();
"""
# A browser then refuses to ask other hosts for anything.
POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:"


def make_app(
    models: Mapping[str, questions.ServedModel], host: str
) -> shiny.App:
    """The page's application, served as `host`; models by their keys."""
    known = {key: questions.EXPLORABLES[key] for key in models}

    def connect(input, output, session):
        for key, model in models.items():
            _serve_panel(key, known[key], model)

    panels = [
        ui.nav_panel(explorable.name, _panel(key, explorable), value=key)
        for key, explorable in known.items()
    ]
    policy = {"http_equiv": "Content-Security-Policy", "content": POLICY}
    head = ui.head_content(
        ui.tags.meta(**policy),
        ui.tags.link(rel="icon", href="data:,"),
        ui.tags.style(STYLE),
        ui.tags.script(COLORS),
    )
    title = "What a model reads"
    page = ui.page_fluid(
        head,
        ui.busy_indicators.use(spinners=False, pulse=False),
        ui.h1(title),
        ui.navset_pill(*panels, id="model"),
        title=title,
        lang="en",
    )
    app = shiny.App(page, connect)
    # A site could have its own name lead to this machine.
    hosts = ["*"] if host == "0.0.0.0" else [host, "localhost", "127.0.0.1"]
    app.starlette_app.add_middleware(OwnOrigin)
    app.starlette_app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts)
    return app


@shiny.module.ui
def _panel(explorable: questions.Explorable) -> TagList:
    look = {"spellcheck": "false", "width": "100%"}
    given = explorable.label, explorable.example
    fields = [ui.input_text_area("text", *given, rows=2, **look)]
    label, question = explorable.asks_for, explorable.question
    if isinstance(question, tuple):
        last = len(question) - 1
        slider = ui.input_slider(
            *("question", label, 0, last, last // 2),
            post=f" {explorable.unit}",
            width="100%",
        )
        # It then has places of numbers, and shows the numbers.
        values = ",".join(map(str, question))
        slider.children[1].attrs["data-values"] = values
        fields.append(slider)
    elif label:
        fields.append(ui.input_text("question", label, question, **look))
    answer = ui.div(ui.output_ui("answer"), aria_live="polite")
    return TagList(ui.p(explorable.explains), *fields, answer)


@shiny.module.server
def _serve_panel(input, output, session, explorable, model):
    @shiny.render.ui
    def answer() -> Tag | TagList:
        text = input.text()
        question = input.question() if explorable.asks_for else ""
        if isinstance(explorable.question, tuple):
            question = explorable.question[question]
        try:
            return _shown(explorable.ask(model, text, question))
        except questions.Refused as refused:
            return _said(str(refused))
        except Exception:
            # Of a model that answers in another form than the page's.
            logging.getLogger(__name__).exception("%s", model.directory)
            return _said(
                f"The answer of the model in {model.directory} cannot be "
                "shown; the page's server says why. "
                f"`{explorable.command}` makes a model whose answer can."
            )


def _said(text: str) -> Tag:
    """A sentence whose parts between backticks are code."""
    parts = enumerate(re.split("`([^`]+)`", text))
    drawn = [ui.tags.code(part) if i % 2 else part for i, part in parts]
    return ui.div(*drawn, class_="alert alert-secondary", role="status")


def _shown(answer: questions.Answer) -> TagList:
    facts = {
        "Answer": ui.tags.bdi(answer.says),
        "Delay": answer.delay,
        "Time": f"{answer.milliseconds:.1f} ms",
    }
    listed = [
        part
        for name, value in facts.items()
        for part in (ui.tags.dt(name), ui.tags.dd(value))
    ]
    return TagList(
        ui.tags.dl(*listed, class_="facts"), ui.HTML(answer.picture.html)
    )


class OwnOrigin:
    """Refuses requests of other sites, which a browser names in `Origin`."""

    def __init__(self, app):
        self._app = app

    async def __call__(self, scope, receive, send):
        app = self._app
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            own = f"http://{headers.get('host')}"
            if any(origin != own for origin in headers.getlist("origin")):
                app = PlainTextResponse(
                    "This page answers its own requests alone.", status_code=403
                )
        await app(scope, receive, send)
