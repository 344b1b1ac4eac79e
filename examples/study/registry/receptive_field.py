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
        "{table_2_pku: lstm} → {table_2_pku: lstm+rf}; in both directions: "
        "LSTM {table_2_pku_both: lstm} → {table_2_pku_both: lstm+rf}",
        PARTLY,
        "read forward, by more than in the paper, but nearly all of it is a "
        "fixed look-ahead, which these baselines lack; in both directions "
        "{table_2_pku_both: lstm+rf - lstm} in one run, and in a smaller study "
        "reading ahead gains nothing there (`delay_both`)",
        ("table_2_pku", "table_2_pku_both", "delay_both"),
    ),
    Claim(
        "C2",
        SOURCE,
        "RF improves text classification, and reading ahead (RF) is better "
        "than reading the present input alone (RF-)",
        "TREC: RNN 91.96, RF- 93.75, RF 93.76; LSTM 92.41, 93.75, 94.20; SST: "
        "40.49, 39.98, 40.63; 43.19, 43.47, 46.14",
        "TREC: RNN {table_1_trec: rnn}, {table_1_trec: rnn+rf-}, "
        "{table_1_trec: rnn+rf}; LSTM {table_1_trec: lstm}, "
        "{table_1_trec: lstm+rf-}, {table_1_trec: lstm+rf}; SST-5: "
        "{table_1_sst5: rnn}, {table_1_sst5: rnn+rf-}, "
        "{table_1_sst5: rnn+rf}; {table_1_sst5: lstm}, "
        "{table_1_sst5: lstm+rf-}, {table_1_sst5: lstm+rf}",
        PARTLY,
        "RF less the plain LSTM: TREC {table_1_trec: lstm+rf - lstm}, SST-5 "
        "{table_1_sst5: lstm+rf - lstm}, MR {table_1_mr: lstm+rf - lstm}, AG "
        "{table_1_ag: lstm+rf - lstm}; less the plain RNN: TREC {table_1_trec: "
        "rnn+rf - rnn}, SST-5 {table_1_sst5: rnn+rf - rnn}, MR {table_1_mr: "
        "rnn+rf - rnn}, AG {table_1_ag: rnn+rf - rnn}. RF less RF-: the LSTM "
        "is above on TREC and SST-5 ({table_1_trec: lstm+rf - lstm+rf-}, "
        "{table_1_sst5: lstm+rf - lstm+rf-}), the RNN below ({table_1_trec: "
        "rnn+rf - rnn+rf-}, {table_1_sst5: rnn+rf - rnn+rf-}), both are level "
        "on MR and AG. Trained fields read 1 token nearly everywhere, so this "
        "shows what training with several sizes is worth, not reading ahead",
        ("table_1_trec", "table_1_sst5", "table_1_mr", "table_1_ag"),
    ),
    Claim(
        "C3",
        SOURCE,
        "Sizes follow information: with dropout they shrink in training, and "
        "words that tell the label get small ones",
        "pictures",
        "mean size at the end, with dropout: AG "
        "{figures_2_3: ag | end_dropout}, MR {figures_2_3: mr | end_dropout}; "
        "without: {figures_2_3: ag | end_plain}, {figures_2_3: mr | "
        "end_plain}; rank correlation of label entropy and size: AG "
        "{figures_2_3: ag}, MR {figures_2_3: mr}, IMDb {figures_2_3: imdb}",
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
        "both means rise, but folds differ by more: RNN "
        "{table_1_mr: rnn+rf - rnn}, LSTM {table_1_mr: lstm+rf - lstm}; three "
        "folds of ten",
        ("table_1_mr",),
    ),
    Claim(
        "Table 1, TREC",
        SOURCE,
        "RF improves RNN and LSTM on TREC",
        "RNN 91.96 → 93.76, LSTM 92.41 → 94.20",
        "RNN {table_1_trec: rnn} → {table_1_trec: rnn+rf}, LSTM "
        "{table_1_trec: lstm} → {table_1_trec: lstm+rf}",
        PARTLY,
        "the LSTM in every seed, {table_1_trec: lstm+rf - lstm}; the RNN in "
        "two of three, {table_1_trec: rnn+rf - rnn}",
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
        "the RNN loses in every seed, {table_1_sst5: rnn+rf - rnn}; the LSTM "
        "is level, {table_1_sst5: lstm+rf - lstm}",
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
        "the RNN in every seed, {table_1_ag: rnn+rf - rnn}; the LSTM is level, "
        "{table_1_ag: lstm+rf - lstm}; a part of the training texts",
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
        "the RNN; the LSTM is level; 200 words a text, 64 units, six epochs",
        ("table_1_imdb",),
    ),
    Claim(
        "Table 1, RF-",
        SOURCE,
        "RF- improves RNN and LSTM on all data but the RNN on SST",
        "TREC: RNN 91.96 → 93.75, LSTM 92.41 → 93.75; SST: 40.49 → 39.98, "
        "43.19 → 43.47",
        "TREC: RNN {table_1_trec: rnn} → {table_1_trec: rnn+rf-}, LSTM "
        "{table_1_trec: lstm} → {table_1_trec: lstm+rf-}; SST-5: "
        "{table_1_sst5: rnn} → {table_1_sst5: rnn+rf-}, "
        "{table_1_sst5: lstm} → {table_1_sst5: lstm+rf-}",
        PARTLY,
        "the RNN in every seed on TREC, {table_1_trec: rnn+rf- - rnn}, MR, "
        "{table_1_mr: rnn+rf- - rnn}, and AG, {table_1_ag: rnn+rf- - rnn}, "
        "level on SST-5, {table_1_sst5: rnn+rf- - rnn}; the LSTM is level: "
        "TREC {table_1_trec: lstm+rf- - lstm}, MR {table_1_mr: lstm+rf- - "
        "lstm}, AG {table_1_ag: lstm+rf- - lstm}, SST-5 {table_1_sst5: "
        "lstm+rf- - lstm}; IMDb was not run",
        ("table_1_trec", "table_1_sst5", "table_1_mr", "table_1_ag"),
    ),
    Claim(
        "Table 1, RF(RL)",
        SOURCE,
        "RF trained by policy gradient, RF(RL), improves on the plain cells "
        "but for the RNN on SST and AG, and is mostly below RF",
        "TREC: RNN 92.19 (RF 93.76), LSTM 94.87 (94.20); SST: 39.00 (40.63), "
        "45.08 (46.14)",
        "TREC: RNN {table_1_trec: rnn+rf-rl} ({table_1_trec: rnn+rf}), LSTM "
        "{table_1_trec: lstm+rf-rl} ({table_1_trec: lstm+rf}); SST-5: "
        "{table_1_sst5: rnn+rf-rl} ({table_1_sst5: rnn+rf}), "
        "{table_1_sst5: lstm+rf-rl} ({table_1_sst5: lstm+rf})",
        PARTLY,
        "with exploration, less the plain cell: TREC RNN {table_1_trec: "
        "rnn+rf-rl - rnn}, LSTM {table_1_trec: lstm+rf-rl - lstm}; SST-5 RNN "
        "{table_1_sst5: rnn+rf-rl - rnn}, LSTM {table_1_sst5: lstm+rf-rl - "
        "lstm}; AG LSTM {table_1_ag: lstm+rf-rl - lstm} (one seed). Less RF: "
        "TREC RNN {table_1_trec: rnn+rf-rl - rnn+rf}, LSTM {table_1_trec: "
        "lstm+rf-rl - lstm+rf}; SST-5 RNN {table_1_sst5: rnn+rf-rl - rnn+rf}, "
        "LSTM {table_1_sst5: lstm+rf-rl - lstm+rf}. Without exploration, seed "
        "1, the LSTM has 91.0 on TREC, 1.0 above the plain one, and the RNN "
        "85.6, 1.6 below; MR and IMDb were not run",
        ("table_1_trec", "table_1_sst5", "table_1_ag"),
    ),
    Claim(
        "Table 2, PKU",
        SOURCE,
        "RF improves RNN and LSTM on PKU",
        "RNN 85.27 → 88.19, LSTM 91.94 → 92.21",
        "RNN {table_2_pku: rnn} → {table_2_pku: rnn+rf}, LSTM "
        "{table_2_pku: lstm} → {table_2_pku: lstm+rf}",
        YES,
        "read forward, against baselines that see nothing to the right; sizes "
        "hardly depend on the character",
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
        "read forward, RNN {table_2_msr: rnn+rf - rnn}, LSTM "
        "{table_2_msr: lstm+rf - lstm}; a tenth of the test text, trained on "
        "the rest of it; sizes hardly depend on the character",
        ("table_2_msr",),
    ),
    Claim(
        "Table 2, RF- and RF(RL)",
        SOURCE,
        "RF- and RF(RL) improve segmentation too, and RF- by less than RF",
        "MSR: RNN 87.24, RF- 87.89, RF(RL) 89.41, RF 91.33; LSTM 94.18, 94.28, "
        "94.58, 94.60",
        "MSR, 5 epochs, less the plain cell: RNN RF- "
        "{table_2_msr: rnn+rf- - rnn}, RF(RL) {table_2_msr: rnn+rf-rl - rnn}; "
        "LSTM {table_2_msr: lstm+rf- - lstm} and {table_2_msr: lstm+rf-rl - "
        "lstm}",
        PARTLY,
        "RF- is a little above the plain cells and far below RF; RF(RL) is "
        "below the plain cells; on MSR alone",
        ("table_2_msr",),
    ),
    Claim(
        "Figure 2",
        SOURCE,
        "With dropout the mean size falls on MR and IMDb, and first grows on "
        "AG; without dropout it grows to the maximum",
        "pictures",
        "with dropout, start → largest → end: AG {figures_2_3: ag | "
        "start_plain} → {figures_2_3: ag | largest_dropout} → "
        "{figures_2_3: ag | end_dropout}, MR {figures_2_3: mr | start_plain} → "
        "{figures_2_3: mr | largest_dropout} → {figures_2_3: mr | "
        "end_dropout}, IMDb {figures_2_3: imdb | start_plain} → "
        "{figures_2_3: imdb | largest_dropout} → {figures_2_3: imdb | "
        "end_dropout}; without, at the end: {figures_2_3: ag | end_plain}, "
        "{figures_2_3: mr | end_plain}, {figures_2_3: imdb | end_plain}",
        PARTLY,
        "with dropout it falls on MR, and grows first on AG, but on IMDb too; "
        "without dropout no size grows to the maximum of 4. On AG reading "
        "ahead had no cost, on MR and IMDb one from `ExploreThenCommit`, which "
        "brings all sizes to 1",
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
        "no trend on AG; on MR and IMDb, where reading ahead has a cost, "
        "nearly all sizes are 1, and those above 1 are rather at words that do "
        "tell the label",
        ("figures_2_3",),
    ),
)
