"""Characters and words of titles as ids, whatever the bytes are."""

import string

import pytest

from examples.titles import encoding

ID = {c: i for i, c in enumerate(encoding.CHARACTERS, start=2)}


def ids(encoder, text):
    found = encoding.encode(encoder, [text])[0].tolist()
    while found and found[-1] == 0:
        found.pop()
    return found


def test_all_characters_of_the_source_are_known():
    wanted = string.ascii_lowercase + string.digits + string.punctuation + " "
    assert sorted(encoding.CHARACTERS) == sorted(wanted)
    encoder = encoding.make_encoder(80)
    title = wanted.strip() + " a"
    assert ids(encoder, title) == [ID[c] for c in title]


@pytest.mark.parametrize(
    "title, read",
    [
        ("A New\tProof\n", "a new proof"),
        ("  Ｎｏ\u3000 ﬁeld  ", "no field"),
        ("Straße", "strasse"),
        ("x²", "x2"),
        ("Poincaré", "poincar?"),
        ("日本", "??"),
        ("", ""),
        (" \u2003 ", ""),
        (b"a\xff\xfeb", "a??b"),
        (b"\xc3", "?"),
        (b"a\x00b", "a?b"),
        ("y" * 10_000, "y" * 20),
    ],
)
def test_titles_are_brought_to_one_form(title, read):
    encoder = encoding.make_encoder(20)
    expected = [encoding.UNKNOWN if c == "?" else ID[c] for c in read]
    assert ids(encoder, title) == expected
    assert len(encoding.tokens("characters", title, 20)) == len(read)


def test_words_are_numbered_by_how_frequent_they_are():
    titles = ["The Graph: a graph", "the graph."]
    words = encoding.vocabulary(titles)
    assert words[:2] == ["graph", "the"] and set(words[2:]) == {"a", ":", "."}
    encoder = encoding.make_encoder(4, words)
    assert ids(encoder, "THE ｇｒａｐｈ of graph graph") == [3, 2, 1, 2]
    assert ids(encoder, b"\xff \xfe") == [1, 1]
    assert ids(encoder, "") == []
    assert encoding.tokens("words", "The graph, of a b", 4) == [
        *("the", "graph", ",", "of")
    ]
