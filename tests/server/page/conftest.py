"""The page in a browser, with a stand-in for the server behind it."""

import time
from types import SimpleNamespace

import pytest
from browser import browser_driver, opening  # noqa: F401
from page_server import serving


@pytest.fixture
def server(root):
    """The stand-in server; its own address for each test, so nothing is remembered."""
    with serving(root / "t2t_keras" / "server" / "page") as stand_in:
        yield stand_in


def until(condition, message="it did not come about"):
    """Waits until a condition holds, and returns what it found."""
    for _ in range(250):
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(message)


class Page:
    """The page as its reader sees it."""

    def __init__(self, driver, address):
        self.driver, self.address = driver, address

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def text(self, selector):
        return self.one(selector).get_attribute("textContent")

    def is_shown(self, selector):
        return self.one(selector).is_displayed()

    @property
    def translation(self):
        """What the pane shows as the translation of the text, line by line."""
        return [line.get_attribute("textContent") for line in self.all("#target > div:not(.stale)")]

    def word(self, text):
        """The first word of the translation with that text."""
        return next(word for word in self.all("#target .word") if word.text == text)

    def marked(self):
        """The words that are marked, of the text and of the translation."""
        of = SimpleNamespace(text="#mirror", translation="#target")
        return [
            [word.get_attribute("textContent") for word in self.all(f"{side} {kind}")]
            for side in (of.text, of.translation)
            for kind in (".pointed, " + side + " .aligned",)
        ]

    def type(self, text, *translation):
        """Types a text, and waits until its translation is there."""
        self.one("#source").send_keys(text)
        self.translated(*translation)

    def translated(self, *translation):
        until(lambda: self.translation == [*translation], f"{translation} did not come")

    def until_trouble(self, text):
        until(lambda: text in self.text("#trouble-text") and self.is_shown("#trouble"), text)

    def forgive_refusals(self):
        """Browsers log answers that are errors; this test wants them, and nothing else."""
        log = self.driver.get_log("browser")
        assert {entry["source"] for entry in log} <= {"network"}, log

    def reload(self):
        self.driver.get(self.address)
        until(lambda: self.one("#target-language").is_enabled())


@pytest.fixture
def open_page(driver, server):
    """open_page(width, scheme): the page; at the end, nothing went wrong that was not forgiven."""
    with opening(driver, server.address) as open_in_browser:

        def open_page(width=1000, scheme="light"):
            page = Page(open_in_browser(width, scheme), server.address)
            until(lambda: page.one("#target-language").is_enabled())
            return page

        yield open_page


@pytest.fixture
def page_of(driver):
    """page_of(address): the page that is open there."""
    return lambda address: Page(driver, address)


@pytest.fixture
def wait():
    """wait(condition): until it holds."""
    return until
