"""The page, typed into in a browser."""

import pytest
from selenium.webdriver import ActionChains

from examples.explorer.questions import EXPLORABLES
from tests import browser
from tests.examples.explorer.page_server import served
from tests.examples.explorer.small_models import save_all

pytestmark = [pytest.mark.long, browser.needs_browser]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A browser at a page without a model of titles."""
    folders = save_all(tmp_path_factory.mktemp("exports"))
    folders["titles"] = folders["titles"] / "missing"
    models = {
        name: EXPLORABLES[name].served_from(folder)
        for name, folder in folders.items()
    }
    profile = tmp_path_factory.mktemp("profile")
    with served(models) as address, browser.browser(profile) as driver:
        driver.get(address)
        yield driver


def write(driver, identifier, text):
    """Replaces the text of a field, as typing it or pasting it does."""
    driver.execute_script(
        """const [field, text] = arguments;
        field.value = text;
        field.dispatchEvent(new Event("input", {bubbles: true}));""",
        driver.find_element("id", identifier),
        text,
    )


def seen(driver, model, selector):
    """Waits for texts of elements of a model's answer."""
    places = f"#{model}-answer {selector}"
    return browser.wait_for(
        lambda: [box[0] for box in browser.boxes(driver, places)]
    )


def answers(driver, model, wanted, selector=".facts bdi"):
    """Waits until a model's answer has that text."""
    return browser.wait_for(
        lambda: wanted in " ".join(seen(driver, model, selector))
    )


def test_the_answer_follows_what_is_typed(driver):
    answers(driver, "sounds", "D E C I")
    field = driver.find_element("id", "sounds-text")
    field.clear()
    field.send_keys("ab")
    answers(driver, "sounds", "A B")
    assert seen(driver, "sounds", ".sq-token") == list("ab␣ab␣")
    assert seen(driver, "sounds", ".sq-number") == ["2", "1", "2"]
    names = seen(driver, "sounds", "dt")
    facts = dict(zip(names, seen(driver, "sounds", "dd")))
    assert facts["Delay"].startswith("0.33 letters on average")
    assert float(facts["Time"].removesuffix(" ms")) > 0
    field.send_keys("c d")
    answers(driver, "sounds", "A B C · D")


def test_the_slider_says_what_waiting_must_save(driver):
    slider = driver.find_element("class name", "irs-line")
    left_end = 2 - slider.size["width"] // 2
    write(driver, "sounds-text", "abcd")
    for offset, read in ((-left_end, "11111"), (left_end, "21212")):
        actions = ActionChains(driver)
        actions.move_to_element_with_offset(slider, offset, 0)
        actions.click().perform()
        browser.wait_for(
            lambda: "".join(seen(driver, "sounds", ".sq-number")) == read  # noqa: B023
        )
    (shown,) = browser.boxes(driver, ".irs-single")
    assert shown[0] == "0.002 nats"


def test_questions_have_rows(driver):
    driver.find_element("css selector", "[data-value=picking]").click()
    write(driver, "picking-text", "314")
    write(driver, "picking-question", "1 3")
    answers(driver, "picking", "k = 1: 3; k = 3: 4")
    passed = seen(driver, "picking", "mark")
    assert passed == ["3", "4"]
    write(driver, "picking-question", "<i>")
    answers(driver, "picking", "from 1 to 3, the number of digits", ".alert")


def test_a_missing_model_names_its_command(driver):
    driver.find_element("css selector", "[data-value=titles]").click()
    answers(driver, "titles", EXPLORABLES["titles"].command, ".alert code")


def test_markup_is_text(driver, tmp_path):
    model = EXPLORABLES["titles"].served_from(save_all(tmp_path)["titles"])
    hostile = "<script>document.title='ran'</script><img/src=x/onerror=alert()>"
    with served({"titles": model}) as address:
        driver.get(address)
        answers(driver, "titles", "machine-made with probability")
        write(driver, "titles-text", hostile)
        browser.wait_for(
            lambda: seen(driver, "titles", ".sq-token") == [hostile]
        )
        assert not browser.boxes(driver, "#titles-answer :is(script, img)")
        assert driver.title == "What a model reads"


def test_an_answer_that_cannot_be_shown_is_said(driver, tmp_path):
    """Probabilities above 1, of the 300 characters that the page takes."""
    folder = save_all(tmp_path)["titles"]
    model = EXPLORABLES["titles"].served_from(folder)
    with served({"titles": model}) as address:
        driver.get(address)
        answers(driver, "titles", "machine-made with probability")
        write(driver, "titles-text", "x" * 300)
        answers(driver, "titles", f"in {folder} cannot be shown", ".alert")
        write(driver, "titles-text", "x" * 20)
        answers(driver, "titles", "20.0 %")
