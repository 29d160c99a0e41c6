"""A browser to open pages in, which writes down what it asks the network for."""

import contextlib
import os
import shutil

import pytest

NEEDED = "They need a browser: Chromium or Chrome"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="module", name="browser")
def chromium():
    """This machine's own browser, without a window.

    For one module: Playwright's event loop, while it runs, keeps others from having one.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if not path:
        pytest.skip(NEEDED)
    as_root = ["--no-sandbox"] * (os.geteuid() == 0)
    with playwright.sync_playwright() as running:
        arguments = ["--disable-gpu", "--disable-dev-shm-usage", *as_root]
        browser = running.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


class Tab:
    """A page in the browser.

    Attributes:
      tab: Playwright's page.
      messages: what the browser has logged.
    """

    def __init__(self, tab):
        self.tab, self.messages = tab, []
        tab.on("console", lambda message: self.messages.append(message.text))
        tab.on("pageerror", lambda error: self.messages.append(str(error)))

    def all(self, selector):
        return self.tab.query_selector_all(selector)

    def one(self, selector):
        return self.tab.wait_for_selector(selector, state="attached", timeout=5_000)

    def text(self, selector):
        return self.one(selector).text_content()

    def is_shown(self, selector):
        return self.one(selector).is_visible()

    def run(self, script, *arguments):
        """Returns what a function of this body returns for the arguments."""
        return self.tab.evaluate(f"(given) => (function() {{{script}}})(...given)", list(arguments))

    def press(self, *keys):
        for key in keys:
            self.tab.keyboard.press(key)

    @property
    def focused(self):
        """The text of what has the focus."""
        return self.run("return document.activeElement.innerText")

    @property
    def focused_name(self):
        """What a screen reader calls what has the focus."""
        session = self.tab.context.new_cdp_session(self.tab)
        found = session.send("Runtime.evaluate", {"expression": "document.activeElement"})
        element = {"objectId": found["result"]["objectId"], "fetchRelatives": False}
        [node] = session.send("Accessibility.getPartialAXTree", element)["nodes"]
        session.detach()
        return node["name"]["value"]


@contextlib.contextmanager
def opening(browser, address, kind=Tab):
    """Gives open_page(width, scheme): the page at an address; at the end, nothing went wrong.

    The page has asked for nothing but what is at its address, which may be a server's.
    """
    urls, opened = set(), []
    with contextlib.ExitStack() as contexts:

        def open_page(width=1000, scheme="light", locale="en-US"):
            context = browser.new_context(
                viewport={"width": width, "height": 900},
                color_scheme=scheme,
                locale=locale,
                is_mobile=width < 600,
                has_touch=width < 600,
            )
            contexts.callback(context.close)
            context.on("request", lambda request: urls.add(request.url))
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            opened.append(kind(context.new_page()))
            opened[-1].tab.goto(address)
            return opened[-1]

        yield open_page
        assert [message for page in opened for message in page.messages] == []
        assert {url for url in urls if not url.startswith((address, "data:", "blob:"))} == set()
