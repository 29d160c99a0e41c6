"""A browser to open pages in, which writes down what it asks the network for."""

import collections
import contextlib
import os
import shutil

import pytest

NEEDED = "They need a browser: Chromium or Chrome"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# The pauses before a page asks its server are ten times as short: only tests that set the clock
# are about them.
_SHORT_PAUSES = """
    const wait = window.setTimeout;
    window.setTimeout = (call, time) => wait(call, time < 1000 ? time / 10 : time);
"""


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
    # Chromium would run two pages more for the address bar that no window here shows.
    no_bar = "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup"
    with playwright.sync_playwright() as running:
        arguments = ["--disable-gpu", "--disable-dev-shm-usage", no_bar, *as_root]
        browser = running.chromium.launch(executable_path=path, args=arguments)
        yield Browser(browser)
        browser.close()


class Browser:
    """A browser that uses its tabs again: to start one takes longer than most tests."""

    def __init__(self, browser):
        self._browser, self._free = browser, collections.defaultdict(list)

    def take(self, width, scheme, locale, has_clock):
        """Returns a tab, of a phone if it is narrow; its clock can be moved if it has one."""
        kind = is_phone, *_ = width < 600, locale, has_clock
        if self._free[kind]:
            tab = self._free[kind].pop()
        else:
            context = self._browser.new_context(
                is_mobile=is_phone, has_touch=is_phone, locale=locale
            )
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            tab = context.new_page()
            if has_clock:
                tab.clock.install()
            else:
                context.add_init_script(_SHORT_PAUSES)
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(color_scheme=scheme)
        return tab

    def give_back(self, tab, width, locale, has_clock):
        """Takes a tab for later tests, which find nothing of this one in it."""
        tab.unroute_all()
        if has_clock:
            tab.clock.resume()
        tab.evaluate("localStorage.clear()")
        tab.goto("about:blank")
        tab.mouse.move(0, 0)
        self._free[width < 600, locale, has_clock].append(tab)


class Tab:
    """A page in the browser.

    Attributes:
      tab: Playwright's page.
      clock: to be moved, if the page was opened with one.
      messages: what the browser has logged.
    """

    def __init__(self, tab):
        self.tab, self.clock, self.messages = tab, tab.clock, []
        self._listeners = []
        self.on("console", lambda message: self.messages.append(message.text))
        self.on("pageerror", lambda error: self.messages.append(str(error)))

    def on(self, event, listener):
        """Calls a listener with an event, as long as this page is open."""

        def call(what):  # Playwright marks what it calls: that must be a function.
            listener(what)

        self.tab.on(event, call)
        self._listeners.append((event, call))

    def close(self):
        """Calls no listener any more."""
        for event, call in self._listeners:
            self.tab.remove_listener(event, call)

    def stop_clock(self):
        """Lets no time pass but what the test makes pass."""
        self.clock.pause_at(self.run("return Date.now()") / 1000 + 60)

    def all(self, selector):
        return self.tab.query_selector_all(selector)

    def one(self, selector):
        return self.tab.wait_for_selector(selector, state="attached", timeout=5_000)

    def text(self, selector):
        return self.one(selector).text_content()

    def texts(self, selector):
        """The texts of all that match, at one moment."""
        script = "(nodes) => nodes.map((node) => node.textContent)"
        return self.tab.eval_on_selector_all(selector, script)

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
        actual = session.send("Runtime.evaluate", {"expression": "document.activeElement"})
        element = {"objectId": actual["result"]["objectId"], "fetchRelatives": False}
        [node] = session.send("Accessibility.getPartialAXTree", element)["nodes"]
        session.detach()
        return node["name"]["value"]


@contextlib.contextmanager
def opening(browser, address, kind=Tab):
    """Gives open_page(width, scheme, locale, has_clock): the page at an address.

    At the end, nothing went wrong. The page has asked for nothing but what is at its address, which
    may be a server's.
    """
    urls, opened = set(), []
    with contextlib.ExitStack() as tabs:

        def open_page(width=1000, scheme="light", locale="en-US", has_clock=False):
            page = kind(browser.take(width, scheme, locale, has_clock))
            tabs.callback(browser.give_back, page.tab, width, locale, has_clock)
            tabs.callback(page.close)
            page.on("request", lambda request: urls.add(request.url))
            opened.append(page)
            page.tab.goto(address)
            return page

        yield open_page
        assert [message for page in opened for message in page.messages] == []
        assert {url for url in urls if not url.startswith((address, "data:", "blob:"))} == set()
