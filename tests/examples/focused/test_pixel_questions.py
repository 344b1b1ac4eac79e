"""The study of pixel-by-pixel questions, of tiny models."""

import numpy as np
import pytest

from examples.focused import pixel_questions

pytestmark = [
    pytest.mark.long,
    # A few steps decide nothing.
    pytest.mark.filterwarnings("ignore:The decisions of layer 'encoder'"),
]


def test_small_images_come_first():
    """Small and whole batches have the same questions, in the same order."""
    images = np.random.default_rng(0).random((20, 4, 4)).astype("float32")

    def read_batches(step, count, *options):
        args = pixel_questions.PROGRAM.parse(["--batch-size", "8", *options])
        data = pixel_questions.batches(
            images, np.arange(20) % 10, args, seed=3, step=step
        )
        return [
            (asked["pixels"].numpy(), asked["digit"].numpy().tolist())
            for asked, _ in data.take(count)
        ]

    plain = read_batches(0, 8)
    options = ["--steps", "10", "--evaluate-every", "5"]
    grown = read_batches(0, 8, "--start-size", "2", *options)
    assert [digits for _, digits in grown] == [digits for _, digits in plain]
    for step, ((small, _), (pixels, _)) in enumerate(zip(grown, plain)):
        if step < 5:
            parts = pixels.reshape(-1, 2, 2, 2, 2)
            pixels = parts.mean(axis=(2, 4)).reshape(-1, 4, 1)
        np.testing.assert_allclose(small, pixels, rtol=1e-6)
    for step in (2, 5, 6):
        again = read_batches(step, 2, "--start-size", "2", *options)
        for found, wanted in zip(again, grown[step:]):
            np.testing.assert_array_equal(found[0], wanted[0])
            assert found[1] == wanted[1]
