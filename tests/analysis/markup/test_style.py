"""Contrast of the style's colors, by the formula of WCAG 2."""

import re

import pytest

from keras_seqmech.analysis.markup.style import STYLE


def colors():
    """Of the light and of the dark scheme, by name: red, green, blue."""
    light, dark = STYLE.split("prefers-color-scheme: dark")
    return [
        {
            name: [int(value[i : i + 2], 16) / 255 for i in (0, 2, 4)]
            for name, value in re.findall(r"--(\w+): #(\w{6});", part)
        }
        for part in (light, dark)
    ]


def luminance(color):
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in color
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted([luminance(a), luminance(b)])
    return (high + 0.05) / (low + 0.05)


def tinted(scheme, share):
    """The page under so much of the tint."""
    (most,) = re.findall(r"var\(--tint, 0\) \* (\d+)%", STYLE)
    weight = share * int(most) / 100
    return [
        weight * a + (1 - weight) * p
        for a, p in zip(scheme["accent"], scheme["page"])
    ]


def test_contrast_of_black_and_white():
    assert contrast([0, 0, 0], [1, 1, 1]) == pytest.approx(21)


@pytest.mark.parametrize("scheme", colors(), ids=["light", "dark"])
def test_text_can_be_read(scheme):
    assert set(scheme) == {"page", "ink", "quiet", "line", "accent"}
    assert contrast(scheme["ink"], tinted(scheme, 1)) >= 4.5
    assert contrast(scheme["quiet"], scheme["page"]) >= 4.5
    # Struck through: at most as likely as not.
    assert contrast(scheme["quiet"], tinted(scheme, 0.5)) >= 4.5
    # Frames, bars and columns.
    assert contrast(scheme["accent"], scheme["page"]) >= 3
