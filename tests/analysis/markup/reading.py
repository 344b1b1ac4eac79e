"""Reads a picture back as a browser would: elements, classes, text."""

from dataclasses import dataclass
from dataclasses import field
from html.parser import HTMLParser

VOID = ("meta",)


@dataclass
class Element:
    """An element with what is inside; text is an element without a tag."""

    tag: str
    attributes: dict = field(default_factory=dict)
    inside: list = field(default_factory=list)
    own_text: str = ""

    @property
    def text(self):
        return self.own_text + "".join(part.text for part in self.inside)

    @property
    def styles(self):
        """Of the `style` attribute, by name."""
        parts = self.attributes.get("style", "").split(";")
        return dict(part.split(":") for part in parts if part)

    def all(self, name=None, tag=None):
        """Elements inside, in order, of a class or a tag."""
        found = []
        for part in self.inside:
            classes = part.attributes.get("class", "").split()
            if part.tag and (name is None or f"sq-{name}" in classes):
                if tag is None or part.tag == tag:
                    found.append(part)
            found += part.all(name, tag)
        return found


class Reader(HTMLParser):
    """Fails where an element is not closed by its own end."""

    def __init__(self):
        super().__init__()
        self.open = [Element("")]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs))
        self.open[-1].inside.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag

    def handle_data(self, data):
        self.open[-1].inside.append(Element("", own_text=data))


def read(markup):
    """The elements of a piece of HTML."""
    reader = Reader()
    reader.feed(markup)
    reader.close()
    (root,) = reader.open
    return root


def tracks(picture):
    """By heading, the rows of a picture."""
    return {
        track.attributes["aria-label"]: track.all("row")
        for track in read(picture.html).all("track")
    }


def tokens(row):
    return [token.text for token in row.all("token")]


def numbers(row):
    return [float(number.text) for number in row.all("number")]
