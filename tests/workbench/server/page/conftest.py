"""The page in a browser, with a stand-in for the server behind it."""

import time

import pytest
from browser import Tab, chromium, opening  # noqa: F401
from page_server import serving


@pytest.fixture
def server():
    """The stand-in server; its own address for each test, so nothing is remembered."""
    with serving() as stand_in:
        yield stand_in


def until(condition, message="it did not come about"):
    """Waits until a condition holds, and returns what it found."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if actual := condition():
            return actual
        time.sleep(0.02)
    raise AssertionError(message)


class Page(Tab):
    """The page as its reader sees it."""

    @property
    def translation(self):
        """What the pane shows as the translation of the text, line by line."""
        return self.texts("#target > div:not(.stale)")

    def word(self, text):
        """The first word of the translation with that text."""
        return next(word for word in self.all("#target .word") if word.inner_text() == text)

    def marked(self):
        """The words that are marked, of the text and of the translation."""
        return [self.texts(f"{side} .pointed, {side} .aligned") for side in ("#mirror", "#target")]

    def write(self, text):
        """Writes at the caret of the text, all at once."""
        self.one("#source").focus()
        self.tab.keyboard.insert_text(text)

    def type(self, text, *translation):
        """Writes a text, and waits until its translation is there."""
        self.write(text)
        self.translated(*translation)

    def translated(self, *translation):
        until(lambda: self.translation == [*translation], f"{translation} did not come")

    def until_trouble(self, text):
        until(lambda: text in self.text("#trouble-text") and self.is_shown("[role=alert]"), text)

    def posted(self):
        """The paths of the requests that were posted from now on, as a list that grows."""
        paths = []
        self.on("request", lambda request: request.method == "POST" and paths.append(request.url))
        return paths

    def forgive_refusals(self):
        """Browsers log answers that are errors; this test wants them, and nothing else."""
        assert all(message.startswith("Failed to load resource") for message in self.messages)
        self.messages.clear()

    def until_ready(self):
        until(lambda: self.one("#target-language").is_enabled())

    def reload(self):
        self.tab.reload()
        self.until_ready()


@pytest.fixture
def open_page(browser, server):
    """open_page(...), as of `opening`; nothing went wrong at the end that was not forgiven."""
    with opening(browser, server.address, Page) as open_in_browser:

        def open_page(*arguments, **options):
            page = open_in_browser(*arguments, **options)
            page.until_ready()
            return page

        yield open_page


@pytest.fixture
def open_real(browser):
    """open_real(address): a context with open_page, as `browser.opening`."""
    return lambda address: opening(browser, address, Page)


@pytest.fixture
def wait():
    """wait(condition): until it holds."""
    return until
