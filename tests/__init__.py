"""Tests, in the folders of what they test."""

import pathlib

ROOT = pathlib.Path(__file__).parent.parent
