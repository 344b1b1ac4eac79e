"""Pictures of gates: where they are open, and what is read there.

    python -m examples.focused.figures --picking-model MODEL.keras \
        --pixel-model MODEL.keras

Figures 3 and 4 of "Focused Hierarchical RNNs for Conditional Sequence
Processing", into `--output-dir`: of a model that `picking.py` saved, openness
(G) and focus (F), the mean weight of the attention to the state made there, by
position for some asked positions k (`positions.png`); of one of
`pixel_questions.py`, the pixels at which gates are open, over digits each asked
for itself and then for the next one (`pixels.png`).
"""

from pathlib import Path

import keras
import numpy as np
from matplotlib.figure import Figure

from examples.common import arguments
from examples.common.networks import network_of
from examples.focused import models
from examples.tasks import picking
from examples.tasks import pixel_question

BATCH_SIZE = 100
POSITIONS, SEQUENCES = 4, 200
# Black is drawn as this grey, on which red stands out as it does on white.
DARKEST = 0.35
OPEN = np.array([0.86, 0.1, 0.1])
PER_ROW = 5


def position_curves(model: keras.Model) -> dict[str, dict[int, np.ndarray]]:
    """Openness and focus by position, for some k that are asked."""
    known = network_of(model).get_layer("question").input_dim - 1
    parts = np.linspace(0, known, 2 * POSITIONS + 1)[1::2]
    asked = sorted({max(1, round(x)) for x in parts})
    examples, _ = picking.examples(SEQUENCES * len(asked), known)
    examples["k"] = np.repeat(np.array(asked, "int32"), SEQUENCES)
    found = predict(model, examples)
    focus = weight_by_origin(found["focus"], found["gates"])
    return {
        name: {k: values[examples["k"] == k].mean(axis=0) for k in asked}
        for name, values in (("gates", found["gates"]), ("focus", focus))
    }


def weight_by_origin(weights: np.ndarray, gates: np.ndarray) -> np.ndarray:
    """Weights of states, moved to the step that made each: the last open one.

    >>> gates = np.array([[0, 1, 0, 1.0]])
    >>> weight_by_origin(np.array([[0.1, 0.2, 0.3, 0.4]]), gates).tolist()
    [[0.0, 0.5, 0.0, 0.4]]
    """
    rows, steps = np.indices(gates.shape)
    origin = np.maximum.accumulate(np.where(gates > 0.5, steps, -1), axis=1)
    made = origin >= 0
    moved = np.zeros_like(weights)
    np.add.at(moved, (rows[made], origin[made]), weights[made])
    # Weights may add up to a little more than 1.
    return moved.clip(max=1.0)


def pixel_gates(
    model: keras.Model, images: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Images, gates and captions: each digit, asked for and not asked for."""
    classes = np.arange(pixel_question.CLASSES)
    shown = images[[np.flatnonzero(labels == digit)[0] for digit in classes]]
    shown = np.concatenate([shown, shown])
    asked = np.concatenate([classes, np.roll(classes, -1)]).astype("int32")
    pixels = shown.reshape(len(shown), -1, 1).astype("float32")
    found = predict(model, {"pixels": pixels, "digit": asked})
    answers = np.where(found["logits"].argmax(axis=-1), "yes", "no")
    captions = [f"{digit}? {word}" for digit, word in zip(asked, answers)]
    return shown, found["gates"], captions


def predict(model: keras.Model, asked: dict) -> dict[str, np.ndarray]:
    """Logits, gates and focus of a model with gates."""
    probed = models.probe(model, focus=True)
    return probed.predict(asked, batch_size=BATCH_SIZE, verbose=0)


def main(argv: list[str] | None = None) -> dict:
    """Draws the figures; returns what they show, by the file's stem."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    add("--output-dir", type=Path, default=Path("runs/focused_figures"))
    add("--picking-model", type=Path, help="a saved .keras")
    add("--pixel-model", type=Path, help="a saved .keras")
    args = parser.parse_args(argv)
    args.output_dir.mkdir(parents=True, exist_ok=True)
    shown = {}
    if args.picking_model:
        model = keras.models.load_model(args.picking_model)
        shown["positions"] = position_curves(model)
        figure = plot_positions(shown["positions"])
        figure.savefig(args.output_dir / "positions.png", dpi=150)
    if args.pixel_model:
        model = keras.models.load_model(args.pixel_model)
        _, test = pixel_question.load_digits()
        images, shown["pixels"], captions = pixel_gates(model, *test)
        figure = plot_pixels(images, shown["pixels"], captions)
        figure.savefig(args.output_dir / "pixels.png", dpi=150)
    print(f"{args.output_dir}: {', '.join(sorted(shown))}", flush=True)
    return shown


def plot_positions(shown: dict[str, dict[int, np.ndarray]]) -> Figure:
    """Shares by position, two panels for each k, which is a red line."""
    count = 2 * len(shown["gates"])
    figure = Figure(figsize=(7.4, 0.8 + 1.2 * count), layout="constrained")
    panels = figure.subplots(count, sharex=True)
    pairs = [
        (k, letter, shown[name][k])
        for k in shown["gates"]
        for letter, name in (("G", "gates"), ("F", "focus"))
    ]
    for axes, (k, letter, curve) in zip(panels, pairs, strict=True):
        places = np.arange(1, len(curve) + 1)
        axes.fill_between(places, curve, step="mid", alpha=0.8)
        axes.axvline(k, color="red", linewidth=1.2)
        axes.set_title(f"{letter}, P = {k}", loc="right", fontsize="small")
        axes.set(xlim=(0.5, len(curve) + 0.5), ylim=(0, 1))
    panels[-1].set_xlabel("position")
    figure.supylabel("share")
    figure.suptitle("openness (G) and focus (F) by position asked (P)")
    return figure


def plot_pixels(
    images: np.ndarray, gates: np.ndarray, captions: list[str]
) -> Figure:
    """Images in greys, with the pixels red at which the gate is open."""
    rows = -(-len(images) // PER_ROW)
    figure = Figure(figsize=(1.5 * PER_ROW, 1.7 * rows), layout="constrained")
    panels = figure.subplots(rows, PER_ROW, squeeze=False).ravel()
    for axes in panels:
        axes.set_axis_off()
    for axes, image, gate, caption in zip(panels, images, gates, captions):
        grey = DARKEST + (1 - DARKEST) * image[..., None]
        share = gate.reshape(image.shape)[..., None]
        axes.imshow((1 - share) * grey + share * OPEN, interpolation="nearest")
        axes.set_title(caption, fontsize="small")
    return figure


if __name__ == "__main__":
    main()
