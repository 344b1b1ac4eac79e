"""Scores of answers: exact match, F1, BLEU-1, ROUGE-L, all in percent."""

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np
from nltk.translate import bleu_score
from rouge_score import rouge_scorer
from sklearn import metrics

from examples.focused.passage_words import split_words


def normalize(text: str) -> str:
    """A text as SQuAD compares it.

    Lower case, without punctuation, articles and superfluous spaces.

    >>> normalize("The  U.S., a country")
    'us country'
    """
    text = text.lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1 if it is one of the answers, else 0; normalized."""
    return float(normalize(prediction) in map(normalize, answers))


def f1(prediction: str, answers: Sequence[str]) -> float:
    """Best harmonic mean of precision and recall of words; normalized.

    >>> f1("the red house", ["a house", "boat"])
    0.6666666666666666
    """
    return max(_f1(normalize(prediction), normalize(a)) for a in answers)


def _f1(prediction, answer):
    predicted, expected = prediction.split(), answer.split()
    if not predicted or not expected:
        return float(predicted == expected)
    common = sum((Counter(predicted) & Counter(expected)).values())
    return 2 * common / (len(predicted) + len(expected))


def score_texts(
    predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Scores of written answers; with several references the best counts.

    Returns:
        Dict of `"exact_match"` and `"f1"` as SQuAD defines them; `"bleu1"`,
        NLTK's corpus BLEU of single words with its brevity penalty; and
        `"rouge_l"`, the mean F-measure of rouge-score, without stemming.
    """
    pairs = list(zip(predictions, references, strict=True))
    rouge = rouge_scorer.RougeScorer(["rougeL"])
    scores = {
        "exact_match": np.mean([exact_match(*pair) for pair in pairs]),
        "f1": np.mean([f1(*pair) for pair in pairs]),
        "bleu1": bleu_score.corpus_bleu(
            [[split_words(a) for a in answers] for _, answers in pairs],
            [split_words(prediction) for prediction, _ in pairs],
            weights=(1.0,),
        ),
        "rouge_l": np.mean(
            [
                rouge.score_multi(answers, prediction)["rougeL"].fmeasure
                for prediction, answers in pairs
            ]
        ),
    }
    return {name: round(100 * float(x), 2) for name, x in scores.items()}


def score_labels(
    predictions: Sequence[int], labels: Sequence[int], count: int
) -> dict[str, float]:
    """Scores of chosen classes: accuracy, and the mean F1 of all classes.

    Classes that were never chosen count in it, too.
    """
    f1_of_all = metrics.f1_score(
        labels,
        predictions,
        labels=list(range(count)),
        average="macro",
        zero_division=0,
    )
    accuracy = metrics.accuracy_score(labels, predictions)
    scores = {"accuracy": accuracy, "macro_f1": f1_of_all}
    return {name: round(100 * float(x), 2) for name, x in scores.items()}
