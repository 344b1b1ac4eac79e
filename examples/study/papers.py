"""The documents' numbers beside those of studies, by column."""

from collections.abc import Mapping
from importlib import import_module

from examples.pooling import thesis

Labels = Mapping[str, str]


def table_1(labels: Labels, dataset: str) -> Labels:
    module = import_module("examples.receptive_field.classify_text")
    column = list(module.datasets.CLASSES).index(dataset)
    return {"test_accuracy": f"{module.PAPER[labels['model']][column]:.2f}"}


def table_2(labels: Labels) -> Labels:
    module = import_module("examples.receptive_field.segment_words")
    columns = [f"{corpus}_f1" for corpus in module.CORPORA]
    return dict(zip(columns, module.PAPER[labels["model"]]))


def table_1_3(labels: Labels, size: int) -> Labels:
    setting, model = labels["setting"], labels["model"]
    numbers = thesis.POOLING[setting][model].split()
    found = {"test_accuracy": numbers[thesis.POOLING_SIZES.index(size)]}
    ratios = thesis.RATIOS[model]
    if setting == "standard" and size in ratios:
        found["vanishing_ratio"] = f"{ratios[size]:g}"
    return {name: text.replace("±", " ± ") for name, text in found.items()}


def table_2_1(labels: Labels) -> Labels:
    numbers = thesis.LEARNABILITY[labels.get("setting", "mid")]
    return {"test_accuracy": f"{numbers[labels['model']]:.1f}"}


def table_1_9(labels: Labels) -> Labels:
    is_known = labels["inputs"] == "contextual"
    found = thesis.FEW_LABELS.get(labels["model"]) if is_known else None
    return {"test_accuracy": found} if found else {}


def picking(labels: Labels, length: int) -> Labels:
    module = import_module("examples.focused.picking")
    tested = int(labels["test_length"])
    is_longer = length == module.PAPER_LENGTH
    is_other = labels["estimator"] == "straight_through"
    if is_other or not (is_longer or tested == length):
        return {}
    table = module.PAPER_LONGER if is_longer else module.PAPER
    # How the LSTMs of the slides read the question is unknown.
    numbers = table[labels["model"].removesuffix("_last")]
    return {"accuracy": str(numbers.get(tested, ""))}


def pixels(labels: Labels) -> Labels:
    module = import_module("examples.focused.pixel_questions")
    return {"accuracy": f"{module.PAPER_MNIST[labels['model']]}"}


def above_98(labels: Labels) -> Labels:
    return {"accuracy": "> 98"}
