"""The passage question example, on small made-up data sets."""

import json

import keras
import numpy as np
import pytest

from examples.focused import answer_scores
from examples.focused import passage_data
from examples.focused import passage_models
from examples.focused import passage_questions
from examples.focused import passage_words
from tests.examples.files import read
from tests.examples.files import write_lines

pytestmark = pytest.mark.long

SMALL = "--units 8 --epochs 2 --seeds 1 --batch-size 64".split()
FILLERS = "one of them saw the other near a house".split()


def names(random, count):
    """Words that are nowhere else."""
    letters = random.integers(0, 26, (count, 7))
    return ["".join(chr(97 + i) for i in row) for row in letters]


def row(random):
    """One of two names, whichever was called, is the answer."""
    before, after = random.integers(1, 4, 2)
    name, other = names(random, 2)
    words = [
        *random.choice(FILLERS, before),
        *("called", name),
        *random.choice(FILLERS, after),
    ]
    words.insert(random.choice([0, len(words)]), other)
    return {
        "question": "Who is called?",
        "context": " ".join(words),
        "answer": name,
    }


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few words, short texts, small vectors."""
    monkeypatch.setattr(passage_questions, "VOCABULARY", 30)
    monkeypatch.setattr(passage_questions, "LENGTHS", (6, 12, 4))
    monkeypatch.setattr(passage_questions, "EMBEDDING_SIZE", 6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Questions with answers to write, and with labels."""
    root = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(4)
    rows = [row(random) for _ in range(60)]
    paragraphs = [
        {
            "context": r["context"],
            "qas": [
                {"question": r["question"], "answers": [{"text": r["answer"]}]}
            ],
        }
        for r in rows
    ]
    content = {"data": [{"paragraphs": paragraphs}]}
    (root / "xquad").mkdir()
    (root / "xquad/xquad.en.json").write_text(json.dumps(content))
    content = {
        str(i): {
            "QUESTION": r["question"],
            "CONTEXTS": r["context"].split(maxsplit=1),
            "final_decision": passage_data.LABELS[i % 3],
        }
        for i, r in enumerate(rows)
    }
    (root / "pubmedqa").mkdir()
    (root / "pubmedqa/ori_pqal.json").write_text(json.dumps(content))
    return root


def arguments(folder, output, dataset, *more):
    return [
        *("--dataset", dataset, "--data-dir", str(folder)),
        *("--output", str(output), *SMALL, *more),
    ]


@pytest.fixture
def eagerly(monkeypatch):
    """For a few small steps, which take less time than tracing."""
    eager = property(lambda model: True, lambda model, value: None)
    monkeypatch.setattr(keras.Model, "run_eagerly", eager)


@pytest.mark.usefixtures("eagerly")
def test_written_answers_and_again(folder, tmp_path, capsys, monkeypatch):
    write, opened, seen = (
        passage_models.write_answers,
        passage_models.openness,
        {},
    )

    def write_and_keep(*args):
        seen["answers"] = write(*args)
        return seen["answers"]

    def open_and_keep(*args):
        seen["openness"] = opened(*args)
        return seen["openness"]

    monkeypatch.setattr(passage_models, "write_answers", write_and_keep)
    monkeypatch.setattr(passage_models, "openness", open_and_keep)
    output = tmp_path / "results" / "runs.csv"
    command = arguments(folder, output, "xquad", "--models", "fhe")
    table = passage_questions.main(command)
    rows = read(output)
    assert [r["model"] for r in rows] == ["fhe"]
    test = passage_data.load("xquad", folder).test
    expected = answer_scores.score_texts(
        seen["answers"], [question.answers for question in test]
    )
    for score in ("exact_match", "f1", "bleu1", "rouge_l"):
        assert float(rows[0][score]) == expected[score]
    assert not {"accuracy", "macro_f1"} & rows[0].keys()
    assert float(rows[0]["openness"]) == round(seen["openness"], 4)
    assert rows[0]["epochs"] == "2"
    printed = capsys.readouterr().out
    assert table in printed
    assert f"| xquad | fhe | {float(rows[0]['exact_match']):.4g} |" in table
    # What is done is not repeated.
    assert passage_questions.main(command) == table
    assert read(output) == rows
    assert "{" not in capsys.readouterr().out


def make_network(name, folder):
    args = passage_questions.parse(arguments(folder, "unused.csv", "xquad"))
    data = passage_data.load("xquad", folder)
    task = passage_questions.prepare(data, args)
    matrix = np.random.default_rng(0).normal(
        size=(len(task.words.words), passage_questions.EMBEDDING_SIZE)
    )
    network = passage_models.build_writer(
        name, matrix, task.words, task.extra_words, args
    )
    return network, task


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    "name", ["lstm2", "fhe", *passage_models.ABLATIONS[1:]]
)
def test_written_words_are_the_most_probable_of_the_model(name, folder):
    network, task = make_network(name, folder)
    for variable in network.model.trainable_variables:
        variable.assign(2 * keras.random.normal(variable.shape))
    if name in passage_models.GATED:
        bias = network.model.network.get_layer("reader").gate.output_bias
        # For what was drawn.
        bias.assign(keras.ops.full_like(bias, 15))
        share = passage_models.openness(network, task.test, 5)
        assert 0.2 < share < 0.8
    words = task.words
    answers = passage_models.write_answers(network, task.test, words, 5)
    for i, answer in enumerate(answers):
        extras = task.test.extras[i]
        written = answer.split()
        previous = [passage_words.START, *words.read(written)][:4]
        inputs = {k: v[i : i + 1] for k, v in task.test.inputs.items()}
        inputs["previous"] = np.array([previous])
        p = network.model.predict_on_batch(inputs)[0]
        p[:, : passage_words.END] = 0
        chosen = words.written(written, extras)
        chosen += [passage_words.END] * (len(chosen) < 4)
        np.testing.assert_array_equal(p.argmax(-1), chosen)
    assert len(set(answers)) > 1


@pytest.mark.slow
def test_a_gate_without_the_product(folder):
    """z is [h, q]: the weights of the product stay zero, others learn."""
    network, task = make_network("fhe_no_product", folder)
    gate = network.model.network.get_layer("reader").gate
    before = gate.kernel.numpy()
    network.model.fit(
        task.train.inputs,
        task.train.targets,
        sample_weight=task.train.weights,
        batch_size=22,
        verbose=0,
    )
    after = gate.kernel.numpy()
    assert len(after) == 3 * 8
    assert not before[:8].any() and not after[:8].any()
    assert (after[8:] != before[8:]).all(axis=1).any()
    plain, _ = make_network("fhe", folder)
    gate = plain.model.network.get_layer("reader").gate
    assert gate.kernel.numpy()[:8].all()


def test_fixed_gates(folder, monkeypatch):
    every = 4
    monkeypatch.setattr(passage_models, "EVERY", every)
    network, task = make_network("fhe_fixed_gates", folder)
    asked = {k: v for k, v in task.test.inputs.items() if k != "previous"}
    real = asked["passage"] != passage_words.PADDING
    assert not real.all()
    gates = network.gates.predict_on_batch(
        {key: asked[key] for key in ("question", "passage")}
    )
    wanted = real & (np.arange(real.shape[1]) % every == every - 1)
    np.testing.assert_array_equal(gates, wanted)
    states, mask, copies, *_ = network.reader.predict_on_batch(asked)
    chosen = slice(every - 1, None, every)
    np.testing.assert_array_equal(mask, real[:, chosen])
    np.testing.assert_array_equal(copies, asked["copies"][:, chosen])
    # The upper LSTM reads the lower one's states there, and no others.
    model = network.model
    embedded = model.get_layer("embedding")(asked["passage"])
    lower = model.get_layer("lower")(embedded, mask=real)
    upper, *_ = model.get_layer("upper")(lower[:, chosen], mask=mask)
    np.testing.assert_allclose(states[mask], upper.numpy()[mask], atol=1e-6)


@pytest.mark.slow
def test_it_learns_to_copy_names_it_never_saw(tmp_path, monkeypatch):
    random = np.random.default_rng(7)
    rows = [row(random) for _ in range(352)]
    write_lines(tmp_path / "xquad" / "all.jsonl.gz", rows)
    # The words that passages share; names are beyond the vocabulary.
    monkeypatch.setattr(passage_questions, "VOCABULARY", 14)
    monkeypatch.setattr(passage_models, "DROPOUT", 0)
    monkeypatch.setattr(passage_models, "LEARNING_RATE", 0.03)
    more = "--models lstm1 --epochs 8 --units 16 --batch-size 16".split()
    output = tmp_path / "runs.csv"
    passage_questions.main(arguments(tmp_path, output, "xquad", *more))
    (result,) = read(output)
    assert float(result["exact_match"]) > 90
