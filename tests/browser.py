"""Chromium without a window, where it is installed."""

import contextlib
import importlib.util
import json
import shutil
import time

import pytest

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

_PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
_DRIVER = shutil.which("chromedriver")

needs_browser = pytest.mark.skipif(
    not (_PROGRAM and _DRIVER and importlib.util.find_spec("selenium")),
    reason="needs selenium, and chromium and chromedriver on the PATH",
)


@contextlib.contextmanager
def browser(directory):
    """A driver of a new Chromium, whose profile is in a folder."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = _PROGRAM
    for option in (*OPTIONS, f"--user-data-dir={directory}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    service = webdriver.ChromeService(_DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield driver
    finally:
        driver.quit()


def resize(driver, width, height=900):
    """Also below the smallest width of a window."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {
            "width": width,
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": False,
        },
    )


def requested(driver):
    """Addresses of all that pages have asked for since the last call.

    Without those of the browser's own pages.
    """
    found = set()
    for entry in driver.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        params = event["params"]
        if event["method"] == "Network.requestWillBeSent":
            found.add(params["request"]["url"])
        elif event["method"] == "Network.webSocketCreated":
            found.add(params["url"])
    return {url for url in found if not url.startswith("chrome")}


def wait_for(condition, seconds=30):
    """What a condition returns once it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise TimeoutError(f"not true within {seconds} s: {condition}")


def boxes(driver, selector):
    """Text, left, top, right and bottom of elements on the page."""
    return driver.execute_script(
        """return [...document.querySelectorAll(arguments[0])].map(e => {
        const box = e.getBoundingClientRect();
        return [e.textContent, box.left, box.top, box.right, box.bottom];
        });""",
        selector,
    )


def overflows(driver):
    """Whether the page is wider than the window."""
    return driver.execute_script(
        "return document.documentElement.scrollWidth > innerWidth;"
    )


def overlapping(placed):
    """Pairs of boxes that cover each other by more than a pixel."""
    return [
        (a, b)
        for i, a in enumerate(placed)
        for b in placed[:i]
        if min(a[3], b[3]) - max(a[1], b[1]) > 1
        and min(a[4], b[4]) - max(a[2], b[2]) > 1
    ]
