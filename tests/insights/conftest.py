"""Sentences with made-up attention, pages of them, and a browser to open the pages in."""

import json
import os
import shutil

import numpy as np
import pytest

from t2t_keras.decoding.translation import AttentionWeights, Hypothesis
from t2t_keras.insights.page import SentenceInsights, attention_page

SOURCE = ("▁two", "▁dogs", "▁play", "ing", "▁.", "</s>")
TARGET = ("▁zwei", "▁spielen", "de", "▁hunde", "</s>")
# What could end the script element, or be read as HTML, or turn the line around.
HOSTILE = (
    '</script><b>"Q"</b> & &amp; <!-- \\u003c $x_1$ \u2028 \' שלום 😀 <img src=x onerror=alert(1)>'
)


@pytest.fixture(scope="session")
def attention():
    """attention(source, target, layers, heads): weights as a softmax gives them."""

    def attention(source=SOURCE, target=TARGET, layers=3, heads=8):
        random = np.random.default_rng(len(source))

        def weights(queries, keys, legal=True):
            logits = 2.5 * random.normal(size=(layers, heads, len(queries), len(keys)))
            odds = np.where(legal, np.exp(logits), 0.0)
            return (odds / odds.sum(axis=-1, keepdims=True)).astype(np.float32)

        return AttentionWeights(
            tuple(source),
            tuple(target),
            encoder=weights(source, source),
            decoder=weights(target, target, np.tri(len(target), dtype=bool)),
            cross=weights(target, source),
        )

    return attention


@pytest.fixture(scope="session")
def sentences(attention):
    """Two sentences; the second is hostile."""
    words = tuple(f"▁{word}" for word in HOSTILE.split(" "))
    found = {"zwei spielende hunde": -0.5, "zwei hunde": -0.75, "zwei spielende katzen": -1.25}
    hypotheses = tuple(Hypothesis(*each) for each in found.items())
    hostile = attention((*words, "</s>"), (*words, "</s>"))
    return [
        SentenceInsights("two dogs playing .", hypotheses, attention()),
        SentenceInsights(HOSTILE, (Hypothesis(HOSTILE, -2.0),), hostile),
    ]


@pytest.fixture(scope="session")
def linear():
    """linear(colors): linear RGB of sRGB colours, 0 .. 255, after WCAG 2.1."""

    def linear(colors):
        coded = colors / 255
        return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)

    return linear


@pytest.fixture(scope="session")
def driver():
    """A browser without a window; it writes down what it asks the network for."""
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


@pytest.fixture
def open_page(driver, sentences, tmp_path):
    """open_page(width, scheme): the browser with the page; at the end, nothing went wrong."""
    path = tmp_path / "page.html"
    path.write_text(attention_page(sentences), "utf-8")

    def open_page(width=1000, scheme="light"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(path.as_uri())
        return driver

    for kind in ("performance", "browser"):
        driver.get_log(kind)
    yield open_page
    assert driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    requests = [each for each in events if each["method"] == "Network.requestWillBeSent"]
    urls = {each["params"]["request"]["url"] for each in requests}
    assert urls - {"data:,"} == {path.as_uri()}
