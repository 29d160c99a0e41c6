"""A browser to open pages in, which writes down what it asks the network for."""

import contextlib
import json
import os
import shutil

import pytest


@pytest.fixture(scope="session", name="driver")
def browser_driver():
    """A browser without a window."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    chromedriver = shutil.which("chromedriver")
    if not browser or not chromedriver:
        pytest.skip("needs a browser: Chromium or Chrome, and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    as_root = ["--no-sandbox"] * (os.geteuid() == 0)
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", *as_root):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(chromedriver)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@contextlib.contextmanager
def opening(driver, address):
    """Gives open_page(width, scheme): the browser with a page; at the end, nothing went wrong.

    The page has asked for nothing but what is at its address, which may be a server's.
    """

    def open_page(width=1000, scheme="light"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(address)
        return driver

    for kind in ("performance", "browser"):
        driver.get_log(kind)
    yield open_page
    assert driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    requests = [each for each in events if each["method"] == "Network.requestWillBeSent"]
    urls = {each["params"]["request"]["url"] for each in requests}
    assert {url for url in urls if not url.startswith((address, "data:", "blob:"))} == set()
