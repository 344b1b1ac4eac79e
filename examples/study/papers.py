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
    run = ("imdb", labels["setting"], size, labels["model"])
    return {
        "test_accuracy": thesis.pooling_accuracy(*run),
        "vanishing_ratio": thesis.vanishing_ratio(*run),
    }


def table_2_1(labels: Labels) -> Labels:
    setting = labels.get("setting", "mid")
    run = ("imdb", setting, thesis.LEARNABILITY_SIZE, labels["model"])
    return {"test_accuracy": thesis.learnability_accuracy(*run)}


def table_1_9(labels: Labels) -> Labels:
    if labels["inputs"] != "contextual":
        return {}
    run = ("imdb", thesis.FEW_LABELS_PER_CLASS, labels["model"])
    return {"test_accuracy": thesis.few_labels_accuracy(*run)}


def picking(labels: Labels, length: int) -> Labels:
    module = import_module("examples.focused.picking")
    tested = int(labels["test_length"])
    longer = length == module.PAPER_LENGTH
    is_other = labels["estimator"] == "straight_through"
    if is_other or not (longer or tested == length):
        return {}
    table = module.PAPER_LONGER if longer else module.PAPER
    number = module.of_slides(table, labels["model"]).get(tested, "")
    return {"accuracy": str(number)}


def pixels(labels: Labels) -> Labels:
    module = import_module("examples.focused.pixel_questions")
    return {"accuracy": f"{module.PAPER_MNIST[labels['model']]}"}


def above_98(labels: Labels) -> Labels:
    return {"accuracy": "> 98"}
