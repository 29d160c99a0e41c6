import numpy as np
import pytest
from contrast import text_contrasts

from t2t_keras.insights.views import ON_DARK, ON_LIGHT

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
from selenium.webdriver.common.actions.action_builder import ActionBuilder  # noqa: E402
from selenium.webdriver.common.actions.pointer_input import PointerInput  # noqa: E402

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


def expected_lines(weights, heads=range(8), query=None, key=None):
    """The same of weights [heads, queries, keys]: 5 pixels thick is 1."""
    return {
        head: {
            ends: pytest.approx(5 * weight, abs=0.006)
            for ends, weight in np.ndenumerate(weights[head])
            if weight >= 0.02 and query in (None, ends[0]) and key in (None, ends[1])
        }
        for head in heads
    }


def find(driver, selector):
    return driver.find_element("css selector", selector)


def word(driver, side, number):
    found = find(driver, f"#{side} li:nth-child({number + 1}) .piece")
    driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", found)
    return found


@pytest.fixture
def weights(sentences):
    return sentences[0].attention


def test_it_opens_with_the_last_layer_and_all_can_be_chosen(open_page, weights):
    driver = open_page()
    assert find(driver, "#translation").text == "zwei spielende hunde"
    rows = driver.find_elements("css selector", "#hypotheses li")
    assert [row.text.split("\n")[0] for row in rows] == [
        f"\N{MINUS SIGN}{score}" for score in ("0.500", "0.750", "1.250")
    ]
    assert lines(driver) == expected_lines(weights.cross[2])
    find(driver, "#kinds label:nth-child(1)").click()
    assert lines(driver) == expected_lines(weights.encoder[2])
    find(driver, "#layers label:nth-child(1)").click()
    assert lines(driver) == expected_lines(weights.encoder[0])
    find(driver, "#kinds label:nth-child(2)").click()
    assert lines(driver) == expected_lines(weights.decoder[0]), "the layer stays"
    find(driver, "h1").click()
    ActionChains(driver).send_keys(Keys.ARROW_RIGHT).perform()
    assert lines(driver) == expected_lines(weights.decoder[1]), "arrows work anywhere"


def test_heads_are_switched(open_page, weights):
    driver = open_page()
    buttons = driver.find_elements("css selector", "#heads button")
    buttons[1].click()
    pressed = [button.get_attribute("aria-pressed") for button in buttons]
    assert pressed == ["true", "false", *["true"] * 6]
    assert lines(driver) == expected_lines(weights.cross[2], [0, *range(2, 8)])
    ActionChains(driver).key_down(Keys.SHIFT).click(buttons[1]).key_up(Keys.SHIFT).perform()
    assert list(lines(driver)) == [1]
    ActionChains(driver).double_click(buttons[3]).perform()
    assert list(lines(driver)) == [3]
    find(driver, "#no-heads").click()
    assert lines(driver) == {}
    find(driver, "#all-heads").click()
    assert list(lines(driver)) == [*range(8)]


def test_a_word_shows_its_own_lines_while_it_is_pointed_at_or_chosen(open_page, weights):
    driver = open_page()
    places = """return [...document.querySelectorAll("li, #report, .piece")].map(
        (each) => each.getBoundingClientRect().toJSON());"""
    spielen, two = word(driver, "reads", 1), word(driver, "read", 0)
    before = driver.execute_script(places)
    ActionChains(driver).move_to_element(spielen).perform()
    assert lines(driver) == expected_lines(weights.cross[2], query=1)
    numbers = [each.text for each in driver.find_elements("css selector", "#read .number")]
    means = weights.cross[2, :, 1].mean(axis=0)
    assert [float(number or 0) for number in numbers] == pytest.approx(means, abs=0.0051)
    assert driver.execute_script(places) == before, "nothing moves"
    ActionChains(driver).move_to_element(two).perform()
    assert lines(driver) == expected_lines(weights.cross[2], key=0)
    spielen.click()
    find(driver, "#heads button").click()
    assert lines(driver) == expected_lines(weights.cross[2], range(1, 8), query=1), (
        "a click keeps it"
    )
    assert find(driver, "[aria-selected=true]").get_attribute("aria-label") == "spielen"
    spielen.click()
    ActionChains(driver).move_to_element(find(driver, "h1")).perform()
    assert lines(driver) == expected_lines(weights.cross[2], range(1, 8)), "a second click lets go"


def test_everything_is_reached_by_the_keyboard(open_page, weights):
    driver = open_page()
    reached = []
    for _ in range(16):
        ActionChains(driver).send_keys(Keys.TAB).perform()
        reached.append(driver.switch_to.active_element.accessible_name)
    controls = ["Sentence", "Next sentence", "Cross", "2", *(f"Head {head}" for head in range(8))]
    assert reached == [*controls, "All", "None", "zwei", "two"], "each column is one stop"
    for key, reads in (
        (Keys.ARROW_LEFT, "zwei"),
        (Keys.ARROW_DOWN, "spielen"),
        (Keys.ARROW_RIGHT, "dogs"),
        (Keys.END, "</s>"),
    ):
        ActionChains(driver).send_keys(key).perform()
        assert driver.switch_to.active_element.accessible_name == reads
    assert lines(driver) == expected_lines(weights.cross[2], key=5)
    ActionChains(driver).send_keys(Keys.ESCAPE).perform()
    assert lines(driver) == expected_lines(weights.cross[2])


def test_hostile_text_is_text(open_page, sentences):
    driver = open_page()
    find(driver, "#next").click()
    for shown in ("#source", "#translation"):
        assert find(driver, shown).get_attribute("textContent") == sentences[1].source
    assert driver.find_elements("css selector", "main b, main img") == []
    labels = driver.find_elements("css selector", "#read .piece")
    words = [*sentences[1].source.split(" "), "</s>"]
    assert [label.get_attribute("textContent") for label in labels] == words
    assert lines(driver) == expected_lines(sentences[1].attention.cross[2])


def test_on_a_phone(open_page, weights):
    """Nothing is scrolled sideways, a tap chooses a word and the next lets go."""
    driver = open_page(width=320)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= 320
    for key in (1, None):
        tap = ActionBuilder(driver, mouse=PointerInput("touch", "finger"))
        tap.pointer_action.move_to(word(driver, "read", 1)).pointer_down().pointer_up()
        tap.perform()
        assert lines(driver) == expected_lines(weights.cross[2], key=key)


def test_lines_follow_the_words(open_page):
    driver = open_page()
    for width in (600, 300):
        ends = driver.execute_async_script(f"""
            document.querySelector("main").style.width = "{width}px";
            const done = arguments[0];
            requestAnimationFrame(() => requestAnimationFrame(() => {{
                const box = (each) => each.getBoundingClientRect();
                const line = document.querySelector("#lines path");
                const [query, key] = line.dataset.ends.split(" ");
                const [left, right] = [["reads", query], ["read", key]].map(([side, place]) =>
                    box(document.getElementById(side).children[place].querySelector(".piece")));
                done([box(line).left - left.right, right.left - box(line).right]);
            }}))""")
        assert ends == pytest.approx([2, 2], abs=1.5)


@pytest.mark.parametrize(("scheme", "colors"), [("light", ON_LIGHT), ("dark", ON_DARK)])
def test_each_head_has_its_color_and_text_can_be_read(open_page, scheme, colors):
    """WCAG AA: 4.5 to 1, where each head's colour is as strong behind a word as it can be."""
    driver = open_page(scheme=scheme)
    strokes = driver.execute_script(
        "return [...document.querySelectorAll('#lines g path:first-child')]"
        ".map((line) => getComputedStyle(line).stroke)"
    )
    assert strokes == [f"rgb({', '.join(map(str, bytes.fromhex(c[1:])))})" for c in colors]
    driver.execute_script("weight = () => 1; document.querySelector('#reads li').focus()")
    found = text_contrasts(driver)
    assert len(found) > 80
    for shown, contrast in found:
        assert contrast >= 4.5, shown
