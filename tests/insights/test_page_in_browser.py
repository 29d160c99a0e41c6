"""The page in a real browser: what is drawn, switched, hovered, and reached by the keyboard."""

import dataclasses

import numpy as np
import pytest

from t2t_keras.insights.page import attention_page
from t2t_keras.insights.views import ON_DARK, ON_LIGHT

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
Keys, ActionChains = webdriver.Keys, webdriver.ActionChains


def lines(driver):
    """{head: {(query, key): thickness}} of the lines that are drawn."""
    drawn = driver.execute_script("""
        return [...document.querySelectorAll("#lines g")].map((group) => [
            Number(group.dataset.head),
            [...group.children].map((line) => [
                line.dataset.ends, Number(line.getAttribute("stroke-width"))]),
        ]);""")
    return {
        head: {tuple(map(int, ends.split())): thickness for ends, thickness in group}
        for head, group in drawn
    }


def expected_lines(weights, heads=range(4), query=None, key=None):
    """The same of weights [heads, queries, keys]: 5 pixels thick is 1."""
    return {
        head: {
            ends: pytest.approx(5 * weight, abs=0.006)
            for ends, weight in np.ndenumerate(weights[head])
            if weight >= 0.02 and query in (None, ends[0]) and key in (None, ends[1])
        }
        for head in heads
    }


def press(driver, *keys):
    ActionChains(driver).send_keys(*keys).perform()


def focused(driver):
    return driver.execute_script(
        "const at = document.activeElement; return at.getAttribute('aria-label') ?? "
        "(at.value || at.textContent)"
    )


def find(driver, selector):
    return driver.find_element("css selector", selector)


def word(driver, side, number):
    found = find(driver, f"#{side} li:nth-child({number + 1}) .piece")
    driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", found)
    return found


def text(driver, selector):
    return driver.execute_script(f"return document.querySelector('{selector}').textContent")


@pytest.fixture
def weights(sentences):
    return sentences[0].attention


def test_it_opens_with_the_translation_and_the_last_layer(open_page, weights):
    driver = open_page()
    assert text(driver, "#translation") == "zwei spielende hunde"
    rows = driver.find_elements("css selector", "#hypotheses li")
    assert [row.text.split("\n")[0] for row in rows] == [
        f"\N{MINUS SIGN}{score}" for score in ("0.500", "0.750", "1.250")
    ]
    assert lines(driver) == expected_lines(weights.cross[2])


def test_heads_are_switched(open_page, weights):
    driver = open_page()
    buttons = driver.find_elements("css selector", "#heads button")
    buttons[1].click()
    pressed = [button.get_attribute("aria-pressed") for button in buttons]
    assert pressed == ["true", "false", "true", "true"]
    assert lines(driver) == expected_lines(weights.cross[2], [0, 2, 3])
    ActionChains(driver).key_down(Keys.SHIFT).click(buttons[1]).key_up(Keys.SHIFT).perform()
    assert list(lines(driver)) == [1]
    ActionChains(driver).double_click(buttons[3]).perform()
    assert list(lines(driver)) == [3]
    find(driver, "#no-heads").click()
    assert lines(driver) == {}
    find(driver, "#all-heads").click()
    assert list(lines(driver)) == [0, 1, 2, 3]


def test_kinds_and_layers_are_chosen(open_page, weights):
    driver = open_page()
    find(driver, "#kinds label:nth-child(1)").click()
    assert lines(driver) == expected_lines(weights.encoder[2])
    find(driver, "#layers label:nth-child(1)").click()
    assert lines(driver) == expected_lines(weights.encoder[0])
    find(driver, "#kinds label:nth-child(2)").click()
    assert lines(driver) == expected_lines(weights.decoder[0]), "the layer stays"
    labels = driver.find_elements("css selector", "#read .piece")
    assert [label.text for label in labels] == ["start", "zwei", "spielen", "de", "hunde"]
    find(driver, "h1").click()
    press(driver, Keys.ARROW_RIGHT)
    assert lines(driver) == expected_lines(weights.decoder[1]), "arrows work anywhere"


def test_a_word_that_is_hovered_shows_its_own_lines_and_nothing_moves(open_page, weights):
    driver = open_page()
    places = """return [...document.querySelectorAll("li, #told, .piece")].map(
        (each) => each.getBoundingClientRect().toJSON());"""
    spielen = word(driver, "reads", 1)
    before = driver.execute_script(places)
    ActionChains(driver).move_to_element(spielen).perform()
    assert lines(driver) == expected_lines(weights.cross[2], query=1)
    numbers = [each.text for each in driver.find_elements("css selector", "#read .number")]
    means = weights.cross[2, :, 1].mean(axis=0)
    assert [float(number or 0) for number in numbers] == pytest.approx(means, abs=0.0051)
    assert driver.execute_script(places) == before
    ActionChains(driver).move_to_element(word(driver, "read", 0)).perform()
    assert lines(driver) == expected_lines(weights.cross[2], key=0)
    ActionChains(driver).move_to_element(find(driver, "h1")).perform()
    assert lines(driver) == expected_lines(weights.cross[2])


def test_a_click_keeps_a_word_while_heads_are_switched(open_page, weights):
    driver = open_page()
    word(driver, "reads", 2).click()
    find(driver, "#heads button").click()
    assert lines(driver) == expected_lines(weights.cross[2], [1, 2, 3], query=2)
    chosen = find(driver, "[aria-selected=true]")
    assert chosen.get_attribute("aria-label") == "de"
    word(driver, "reads", 2).click()
    ActionChains(driver).move_to_element(find(driver, "h1")).perform()
    assert lines(driver) == expected_lines(weights.cross[2], [1, 2, 3]), "a second click lets go"


def test_a_tap_chooses_a_word_and_the_next_lets_go(open_page, weights):
    from selenium.webdriver.common.actions.action_builder import ActionBuilder
    from selenium.webdriver.common.actions.pointer_input import PointerInput

    driver = open_page(width=360)
    for key in (1, None):
        tap = ActionBuilder(driver, mouse=PointerInput("touch", "finger"))
        tap.pointer_action.move_to(word(driver, "read", 1)).pointer_down().pointer_up()
        tap.perform()
        assert lines(driver) == expected_lines(weights.cross[2], key=key)


def test_everything_is_reached_by_the_keyboard(open_page, weights):
    driver = open_page()
    reached = []
    for _ in range(12):
        press(driver, Keys.TAB)
        reached.append(focused(driver))
    controls = ["Sentence", "Next sentence", "cross", "2", *(f"Head {head}" for head in range(4))]
    assert reached == [*controls, "All", "None", "zwei", "two"], "each column is one stop"
    driver.execute_script("document.querySelector('#reads li').focus()")
    press(driver, Keys.ARROW_DOWN)
    assert focused(driver) == "spielen"
    assert lines(driver) == expected_lines(weights.cross[2], query=1)
    press(driver, Keys.ARROW_RIGHT)
    assert focused(driver) == "dogs"
    press(driver, Keys.END)
    assert focused(driver) == "</s>"
    press(driver, Keys.ESCAPE)
    assert lines(driver) == expected_lines(weights.cross[2])


def test_hostile_text_is_text(open_page, sentences):
    driver = open_page()
    find(driver, "#next").click()
    assert text(driver, "#source") == text(driver, "#translation") == sentences[1].source
    assert driver.find_elements("css selector", "main b, main img") == []
    labels = driver.find_elements("css selector", "#read .piece")
    words = [*sentences[1].source.split(" "), "</s>"]
    assert [label.get_attribute("textContent") for label in labels] == words
    assert lines(driver) == expected_lines(sentences[1].attention.cross[2])


def test_lines_follow_the_words_when_the_window_changes(open_page):
    driver = open_page()
    for width in (1000, 480):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        ends = driver.execute_async_script("""const done = arguments[0];
            requestAnimationFrame(() => requestAnimationFrame(() => {
                const box = (each) => each.getBoundingClientRect();
                const line = document.querySelector("#lines path");
                const [query, key] = line.dataset.ends.split(" ");
                const [left, right] = [["reads", query], ["read", key]].map(([side, place]) =>
                    box(document.getElementById(side).children[place].querySelector(".piece")));
                done([box(line).left - left.right, right.left - box(line).right]);
            }))""")
        assert ends == pytest.approx([2, 2], abs=1.5)


@pytest.mark.parametrize(("scheme", "colors"), [("light", ON_LIGHT), ("dark", ON_DARK)])
def test_each_head_s_lines_have_its_color(open_page, scheme, colors):
    strokes = open_page(scheme=scheme).execute_script(
        "return [...document.querySelectorAll('#lines g path:first-child')]"
        ".map((line) => getComputedStyle(line).stroke)"
    )
    assert strokes == [f"rgb({', '.join(map(str, bytes.fromhex(c[1:])))})" for c in colors[:4]]


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (1000, "dark")])
def test_text_can_be_read(open_page, sentences, attention, linear, tmp_path, width, scheme):
    """WCAG AA: 4.5 to 1; and nothing has to be scrolled sideways, even 320 pixels wide."""
    weights = attention(heads=8)
    # Each head is certain, so that its colour is as strong behind a word as it can be.
    cross = np.zeros_like(weights.cross)
    for head in range(8):
        cross[:, head, :, head % 6] = 1.0
    certain = dataclasses.replace(sentences[0], attention=dataclasses.replace(weights, cross=cross))
    (tmp_path / "page.html").write_text(attention_page([certain, sentences[1]]), "utf-8")
    driver = open_page(width, scheme, tmp_path / "page.html")
    driver.execute_script("document.querySelector('#reads li').focus()")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    colors = driver.execute_script("""
        const canvas = document.createElement("canvas");
        const painter = canvas.getContext("2d", { willReadFrequently: true });
        const paint = (colors) => {
            colors.forEach((color) => { painter.fillStyle = color; painter.fillRect(0, 0, 1, 1); });
            return [...painter.getImageData(0, 0, 1, 1).data].slice(0, 3);
        };
        const found = [];
        document.querySelectorAll("main *").forEach((each) => {
            const isText = (node) => node.nodeType === 3 && node.data.trim();
            if (![...each.childNodes].some(isText)) return;
            if (!each.checkVisibility() || each.disabled) return;
            const behind = [], stripes = [];
            for (let at = each; at; at = at.parentElement) {
                behind.unshift(getComputedStyle(at).backgroundColor);
            }
            const image = getComputedStyle(each).backgroundImage;
            for (const [color] of image.matchAll(/(?:rgba?|color)\\([^)]*\\)/g)) {
                stripes.push(color);
            }
            [[], ...stripes.map((stripe) => [stripe])].forEach((over) => {
                const ground = paint([...behind, ...over]);
                found.push([each.textContent, paint([getComputedStyle(each).color]), ground]);
            });
        });
        return found;""")
    assert len(colors) > 40
    for shown, *pair in colors:
        low, high = sorted(linear(np.array(pair)) @ [0.2126, 0.7152, 0.0722] + 0.05)
        assert high / low >= 4.5, (shown, pair)
    background = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(247, 246, 242)", "dark": "rgb(17, 19, 23)"}[scheme]
