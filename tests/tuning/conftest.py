"""Searches of tests are quick."""

import gc

import pytest


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """KerasTuner collects garbage before each trial, which takes a second."""
    monkeypatch.setattr(gc, "collect", lambda: 0)
