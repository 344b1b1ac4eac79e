"""Adaptive receptive fields: tables 1 and 2, figures 2 and 3."""

from collections.abc import Mapping
from collections.abc import Sequence
from importlib import import_module

from examples.receptive_field import kinds
from examples.study import programs
from examples.study.studies import NO
from examples.study.studies import NOT_RUN
from examples.study.studies import PARTLY
from examples.study.studies import YES
from examples.study.studies import Case
from examples.study.studies import Claim
from examples.study.studies import Measure
from examples.study.studies import Study
from examples.study.studies import grid

SOURCE = "receptive_field"
AGAINST = {
    name: kinds.split(name)[0] for name in kinds.MODELS if kinds.split(name)[1]
}
FIELDS = (
    Measure("information", "I(size; token), nats"),
    Measure("certain", "certain sizes"),
)
PKU = {"pku_f1": "pku_test F1", "people_daily_f1": "last tenth F1"}
MSR = {"msr_f1": "last tenth F1"}


def _classification(
    dataset: str,
    data: str,
    options: str = "",
    seeds: Sequence[int] = (1, 2, 3),
    program: programs.Program = programs.CLASSIFY_TEXT,
    cut: str = "",
) -> Study:
    """Table 1 of one data set; `cut` makes runs shorter than the paper's."""

    def paper(labels: Mapping[str, str]) -> Mapping[str, str]:
        module = import_module("examples.receptive_field.classify_text")
        column = list(module.datasets.CLASSES).index(dataset)
        number = module.PAPER[labels["model"]][column]
        return {"test_accuracy": f"{number:.2f}"}

    own = f"--dataset {dataset} {options}".strip()
    return Study(
        f"table_1_{dataset}",
        SOURCE,
        f"table 1, {dataset.upper()}",
        grid(model=("--models", kinds.MODELS)),
        (
            Measure("test_accuracy", "test accuracy %"),
            Measure("mean_field_size", "mean size"),
            *FIELDS,
        ),
        seeds,
        program,
        f"{own} --explore --gated memory {cut}".strip(),
        data=f"{data}, glove",
        against=AGAINST,
        paper=paper,
    )


def _segmentation(
    name: str, shows: str, options: str, tests: Mapping[str, str]
) -> Study:
    """A column of table 2; `tests` are titles by column of their F1."""

    def paper(labels: Mapping[str, str]) -> Mapping[str, str]:
        module = import_module("examples.receptive_field.segment_words")
        numbers = module.PAPER[labels["model"]]
        columns = [f"{corpus}_f1" for corpus in module.CORPORA]
        return {x: y for x, y in zip(columns, numbers) if x in tests}

    return Study(
        name,
        SOURCE,
        shows,
        grid(model=("--models", kinds.MODELS)),
        (
            *(Measure(column, title) for column, title in tests.items()),
            Measure("mean_size", "mean size"),
            *FIELDS,
        ),
        (0, 1, 2),
        programs.SEGMENT_WORDS,
        f"{options} --batch-size 128 --explore --gated output",
        data="cws",
        against=AGAINST,
        paper=paper,
    )


STUDIES = (
    _classification(
        "mr", "mr", seeds=range(10), program=programs.CLASSIFY_FOLDS
    ),
    _classification("trec", "trec"),
    _classification("sst5", "sst5"),
    _classification("ag", "ag"),
    _classification(
        "imdb",
        "imdb",
        "--length 200",
        seeds=(1,),
        cut="--epochs 6 --batch-size 128 --units 64",
    ),
    _segmentation(
        "table_2_pku", "table 2, PKU, read forward", "--epochs 5", PKU
    ),
    _segmentation(
        "table_2_pku_both",
        "table 2, PKU, read both ways",
        "--epochs 5 --bidirectional",
        PKU,
    ),
    _segmentation(
        "table_2_msr",
        "table 2, MSR, a tenth of its test text, read forward",
        "--corpus msr --epochs 15",
        MSR,
    ),
    _segmentation(
        "table_2_msr_both",
        "table 2, MSR, a tenth of its test text, read both ways",
        "--corpus msr --epochs 15 --bidirectional",
        MSR,
    ),
    Study(
        "figures_2_3",
        SOURCE,
        "field size by training step and by word (figures 2 and 3)",
        [
            Case({"dataset": "mr"}, "--datasets mr"),
            Case({"dataset": "ag"}, "--datasets ag"),
            Case(
                {"dataset": "imdb"},
                "--datasets imdb --length 200 --epochs 4",
                (1,),
            ),
        ],
        (
            Measure("correlation_end", "rank correlation, entropy and size"),
            Measure("correlation_start", "before training"),
            Measure("size_lowest", "size, lowest quarter of entropy"),
            Measure("size_highest", "highest quarter"),
            Measure("words", "words", ".0f"),
            Measure("start_plain", "mean size at the start"),
            Measure("largest_plain", "no dropout: largest"),
            Measure("end_plain", "no dropout: end"),
            Measure("largest_dropout", "dropout: largest"),
            Measure("end_dropout", "dropout: end"),
            Measure("accuracy_plain", "no dropout: accuracy", ".3f"),
            Measure("accuracy_dropout", "dropout: accuracy", ".3f"),
        ),
        (1, 2, 3),
        programs.FIELD_FIGURES,
        "--explore --gated memory",
        data="mr, ag, imdb, glove",
    ),
    Study(
        "sweep_sizes",
        SOURCE,
        "a sweep, by largest size",
        [Case({"largest_size": str(size)}, "") for size in range(1, 9)],
        (
            Measure("validation_f1", "validation F1"),
            Measure("pku_f1", "pku_test F1"),
            Measure("mean_size", "mean size"),
            Measure("trials", "trials", ".0f"),
        ),
        command="python -m examples.receptive_field.tune segmentation",
    ),
    Study(
        "sweep_temperatures",
        SOURCE,
        "a sweep, by temperature",
        [
            Case({"temperature": temperature}, "")
            for temperature in ("0.1", "0.2", "0.4", "0.8", "1.6")
        ],
        (
            Measure("validation_f1", "validation F1"),
            Measure("pku_f1", "pku_test F1"),
            Measure("trials", "trials", ".0f"),
        ),
        command="python -m examples.receptive_field.tune segmentation",
    ),
    Study(
        "demo",
        SOURCE,
        "the demo",
        [
            Case({"model": name}, "")
            for name in ("LSTM", "reads 2", "reads 1 to 4")
        ],
        (
            Measure("f1", "word F1, last tenth"),
            Measure("train_ms", "ms a training step", ".1f"),
            Measure("look_ahead", "mean look-ahead"),
            Measure("information", "I(size; character), nats"),
        ),
        command="make demo",
    ),
)

CLAIMS = (
    Claim(
        "C1",
        SOURCE,
        "Receptive fields (RF) improve word segmentation",
        "F1 on PKU: RNN 85.27 → 88.19, LSTM 91.94 → 92.21",
        "read forward: RNN {table_2_pku: rnn} → {table_2_pku: rnn+rf}, LSTM "
        "{table_2_pku: lstm} → {table_2_pku: lstm+rf}; both ways: LSTM "
        "{table_2_pku_both: lstm} → {table_2_pku_both: lstm+rf}",
        YES,
        "with both cells; our forward baselines see nothing to the right, so "
        "that gain does not compare with the paper's; read both ways it is of "
        "the paper's size, in one run",
        ("table_2_pku", "table_2_pku_both"),
    ),
    Claim(
        "C2",
        SOURCE,
        "RF improves text classification, and reading ahead (RF) is better "
        "than reading the present input alone (RF-)",
        "MR: RNN 75.14, RF- 76.09, RF 78.36; LSTM 79.21, 80.44, 80.87; TREC: "
        "RNN 91.96, 93.75, 93.76; LSTM 92.41, 93.75, 94.20",
        "MR: RNN {table_1_mr: rnn}, RF- {table_1_mr: rnn+rf-}, RF "
        "{table_1_mr: rnn+rf}; LSTM {table_1_mr: lstm}, "
        "{table_1_mr: lstm+rf-}, {table_1_mr: lstm+rf}; TREC: RNN "
        "{table_1_trec: rnn}, {table_1_trec: rnn+rf-}, {table_1_trec: rnn+rf}; "
        "LSTM {table_1_trec: lstm}, {table_1_trec: lstm+rf-}, "
        "{table_1_trec: lstm+rf}",
        PARTLY,
        "both cells gain on TREC, and on MR by less than runs differ; what "
        "gains is the gate: where reading has a price, all sizes are 1",
        ("table_1_mr", "table_1_trec"),
    ),
    Claim(
        "C3",
        SOURCE,
        "Sizes follow information: with dropout they shrink in training, and "
        "words that tell the label get small ones",
        "pictures",
        "with dropout to {figures_2_3: mr | end_dropout} (MR) and "
        "{figures_2_3: ag | end_dropout} (AG) at the end; rank correlation of "
        "label entropy and size {figures_2_3: mr}, {figures_2_3: ag} and "
        "{figures_2_3: imdb} (IMDb)",
        PARTLY,
        "sizes shrink in training with dropout, but without it as well; words "
        "that tell the label do not get smaller ones",
        ("figures_2_3",),
    ),
    Claim(
        "Figure 1",
        SOURCE,
        "Architecture of the model",
        "",
        "",
        NOT_RUN,
        "a drawing; there is nothing to run",
    ),
    Claim(
        "Table 1, MR",
        SOURCE,
        "RF improves RNN and LSTM on MR",
        "RNN 75.14 → 78.36, LSTM 79.21 → 80.87",
        "RNN {table_1_mr: rnn} → {table_1_mr: rnn+rf}, LSTM "
        "{table_1_mr: lstm} → {table_1_mr: lstm+rf}",
        PARTLY,
        "both means rise, by less than runs differ; three folds of ten",
        ("table_1_mr",),
    ),
    Claim(
        "Table 1, TREC",
        SOURCE,
        "RF improves RNN and LSTM on TREC",
        "RNN 91.96 → 93.76, LSTM 92.41 → 94.20",
        "RNN {table_1_trec: rnn} → {table_1_trec: rnn+rf}, LSTM "
        "{table_1_trec: lstm} → {table_1_trec: lstm+rf}",
        YES,
        "with gated memory and exploration, the LSTM in three of three seeds, "
        "the RNN in two of three; all sizes are 1, so it is the gate on the "
        "present input that gains",
        ("table_1_trec",),
    ),
    Claim(
        "Table 1, SST",
        SOURCE,
        "RF improves RNN and LSTM on SST-5",
        "RNN 40.49 → 40.63, LSTM 43.19 → 46.14",
        "RNN {table_1_sst5: rnn} → {table_1_sst5: rnn+rf}, LSTM "
        "{table_1_sst5: lstm} → {table_1_sst5: lstm+rf}",
        NO,
        "the LSTM is level, in two of three seeds above, and the RNN loses in "
        "all three",
        ("table_1_sst5",),
    ),
    Claim(
        "Table 1, AG",
        SOURCE,
        "RF improves RNN and LSTM on AG",
        "RNN 89.81 → 90.50, LSTM 92.73 → 93.21",
        "RNN {table_1_ag: rnn} → {table_1_ag: rnn+rf}, LSTM "
        "{table_1_ag: lstm} → {table_1_ag: lstm+rf}",
        PARTLY,
        "the RNN in every seed; the LSTM is level; a part of the training "
        "texts",
        ("table_1_ag",),
    ),
    Claim(
        "Table 1, IMDB",
        SOURCE,
        "RF improves RNN and LSTM on IMDB",
        "RNN 77.04 → 78.92, LSTM 82.17 → 83.47",
        "RNN {table_1_imdb: rnn} → {table_1_imdb: rnn+rf}, LSTM "
        "{table_1_imdb: lstm} → {table_1_imdb: lstm+rf}",
        PARTLY,
        "the RNN, not the LSTM, which is level; six epochs, 64 units; one seed",
        ("table_1_imdb",),
    ),
    Claim(
        "Table 1, RL",
        SOURCE,
        "RF trained by policy gradient, RF(RL), is about as good as RF",
        "MR: RNN 80.68, LSTM 80.21; TREC: 92.19, 94.87",
        "TREC: RNN {table_1_trec: rnn+rf-rl} (RF {table_1_trec: rnn+rf}), LSTM "
        "{table_1_trec: lstm+rf-rl} ({table_1_trec: lstm+rf})",
        PARTLY,
        "on TREC with the schedule of exploration below the plain cells too, "
        "in every seed; without it, seed 1 alone, the LSTM is level with RF "
        "(91.0), the RNN is not (85.6); on SST-5 level with the plain RNN or "
        "a point above ({table_1_sst5: rnn+rf-rl}, three seeds), and with two "
        "seeds a point above the plain LSTM ({table_1_sst5: lstm+rf-rl})",
        ("table_1_trec", "table_1_sst5"),
    ),
    Claim(
        "Table 2, PKU",
        SOURCE,
        "RF improves RNN and LSTM on PKU",
        "RNN 85.27 → 88.19, LSTM 91.94 → 92.21",
        "RNN {table_2_pku: rnn} → {table_2_pku: rnn+rf}, LSTM "
        "{table_2_pku: lstm} → {table_2_pku: lstm+rf}",
        YES,
        "in every seed, read forward; sizes hardly depend on the character",
        ("table_2_pku", "table_2_pku_both"),
    ),
    Claim(
        "Table 2, MSR",
        SOURCE,
        "RF improves RNN and LSTM on MSR",
        "RNN 87.24 → 91.33, LSTM 94.18 → 94.60",
        "RNN {table_2_msr: rnn} → {table_2_msr: rnn+rf}, LSTM "
        "{table_2_msr: lstm} → {table_2_msr: lstm+rf}",
        YES,
        "by more than the paper's in every seed, read forward; on a tenth of "
        "the test text, trained on the rest of it; sizes hardly depend on the "
        "character",
        ("table_2_msr", "table_2_msr_both"),
    ),
    Claim(
        "Figure 2",
        SOURCE,
        "With dropout the mean field first grows, then falls; without, it "
        "grows to the maximum",
        "shown for AG",
        "with dropout AG to {figures_2_3: ag | largest_dropout}, then "
        "{figures_2_3: ag | end_dropout}, MR to "
        "{figures_2_3: mr | largest_dropout}, then "
        "{figures_2_3: mr | end_dropout}; without, "
        "{figures_2_3: ag | end_plain} and {figures_2_3: mr | end_plain} at "
        "the end",
        PARTLY,
        "with dropout and without a price (AG); without dropout it falls "
        "too, and where reading has a price it falls in both",
        ("figures_2_3",),
    ),
    Claim(
        "Figure 3",
        SOURCE,
        "Words that tell the label get small fields",
        "a trend",
        "rank correlation of label entropy and field size {figures_2_3: mr} "
        "(MR), {figures_2_3: ag} (AG), {figures_2_3: imdb} (IMDb)",
        NO,
        "there is no trend; where reading has a price, nearly all sizes are 1, "
        "and those above it are rather at words that do tell the label",
        ("figures_2_3",),
    ),
)
