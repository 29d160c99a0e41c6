"""Words of the translation: where they are from, how sure they are, what else could be there."""

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
Keys, ActionChains = webdriver.Keys, webdriver.ActionChains


def press(page, *keys):
    ActionChains(page.driver).send_keys(*keys).perform()


def focused(page):
    return page.driver.switch_to.active_element.text


def choices(page):
    return [item.text for item in page.all("#menu [role=menuitem]")]


@pytest.fixture
def page(open_page):
    page = open_page()
    page.type("the small house\nthe red book", "das Haus kleine", "das Buch rote")
    return page


@pytest.fixture
def open_menu(page, wait):
    """open_menu(word): clicks it, and waits until the menu is filled."""

    def open_menu(text):
        page.word(text).click()
        wait(lambda: choices(page))

    return open_menu


def test_a_word_that_is_pointed_at_shows_where_it_comes_from(page):
    ActionChains(page.driver).move_to_element(page.word("kleine")).perform()
    assert page.marked() == [["small"], ["kleine"]]
    assert page.text("#about") == "“kleine”: 82 % sure, from “small”"
    ActionChains(page.driver).move_to_element(page.one("h1")).perform()
    assert page.marked() == [[], []]
    assert page.text("#about") == ""


def test_a_word_of_the_text_that_is_pointed_at_shows_what_it_becomes(page):
    book = page.all("#mirror > div:nth-child(2) .word")[2]
    ActionChains(page.driver).move_to_element(book).perform()
    assert page.marked() == [["book"], ["Buch"]]
    assert page.text("#about") == "“book” → “Buch”"


def test_the_caret_shows_what_its_word_becomes(page):
    assert page.marked() == [[], []], "not while one types"
    press(page, Keys.ARROW_LEFT)
    assert page.marked() == [["book"], ["Buch"]]
    press(page, Keys.HOME, Keys.ARROW_UP, Keys.ARROW_RIGHT)
    assert page.marked() == [["the"], ["das"]]
    assert page.all("#mirror > div:nth-child(1) .pointed") != []


def test_unsure_words_are_shaded_unless_switched_off(page):
    page.type(" reads", "das Haus kleine", "das rote liest Buch")
    doubts = {word.text: word.get_attribute("data-doubt") for word in page.all("#target .word")}
    expected = {"das": None, "Haus": None, "kleine": "1", "Buch": "1", "rote": "2", "liest": "3"}
    assert doubts == expected

    def shades():
        words = [page.word(text) for text in expected]
        return [word.value_of_css_property("background-color") for word in words]

    clear, _, one, other, two, three = shades()
    swatches = [each.value_of_css_property("background-color") for each in page.all(".swatch")]
    assert [one, two, three] == swatches
    assert (one, len({clear, *swatches})) == (other, 4)
    page.one("#shading").click()
    assert set(shades()) == {clear}
    assert not page.is_shown("#scale")
    page.reload()
    assert not page.one("#shading").is_selected()


def test_a_click_on_a_word_shows_alternatives_and_one_replaces_the_rest(page, server, open_menu):
    open_menu("Haus")
    (asked,) = server.asked("/page/alternatives")
    assert asked == {
        "q": "the small house",
        "source": "en",
        "target": "de",
        "prefix": "das",
        "glossary": [],
    }
    assert choices(page) == ["Gebäude kleine", "Heim kleine", "das Haus kleine !"]
    assert page.one("#menu").get_attribute("lang") == "de"
    page.all("#menu [role=menuitem]")[1].click()
    assert page.translation == ["das Heim kleine", "das Buch rote"]
    assert not page.is_shown("#menu")
    ActionChains(page.driver).move_to_element(page.word("das")).perform()
    assert page.text("#about") == "“das”: 97 % sure, from “the”", "the beginning is the same"
    ActionChains(page.driver).move_to_element(page.word("Heim")).perform()
    assert page.text("#about") == "“Heim”", "nothing is known of a new word"
    assert page.text("#announcement") == "das Heim kleine"


def test_a_choice_lasts_and_can_be_taken_back(page, server, open_menu):
    open_menu("Haus")
    page.all("#menu [role=menuitem]")[0].click()
    page.one("#source").click()
    page.type(" the", "das Gebäude kleine", "das rote das Buch")
    open_menu("kleine")
    assert "das Haus kleine" in choices(page)
    page.all("#menu [role=menuitem]")[choices(page).index("das Haus kleine")].click()
    assert page.translation[0] == "das Haus kleine"


def test_the_server_may_say_more_of_an_alternative(page, server, open_menu):
    words = [{"text": word, "confidence": 0.5} for word in ("ein", "Haus")]
    found = {"word": "ein", "text": "ein Haus", "words": words, "alignment": [[2, 1]]}
    server.refusals["/page/alternatives"] = (200, {"alternatives": [found]}, {})
    open_menu("das")
    assert page.text("#menu small") == "50 %"
    page.all("#menu [role=menuitem]")[0].click()
    ActionChains(page.driver).move_to_element(page.word("Haus")).perform()
    assert page.text("#about") == "“Haus”: 50 % sure, from “house”"


def test_a_menu_that_fails_says_so_and_still_offers_whole_lines(page, server, open_menu):
    server.refusals["/page/alternatives"] = (500, {"error": "No memory"}, {})
    open_menu("Haus")
    assert page.text("#menu .bad") == "The server failed (500): No memory."
    assert choices(page) == ["das Haus kleine !"]
    page.forgive_refusals()


def test_everything_is_done_by_keyboard(page, wait):
    reached = []
    for _ in range(3):
        press(page, Keys.TAB)
        reached.append(page.driver.switch_to.active_element.accessible_name)
    assert reached == ["Clear", "das", "Copy"], "the translation is one stop"
    ActionChains(page.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
    for key, word, source in (
        (Keys.ARROW_RIGHT, "Haus", "house"),
        (Keys.ARROW_DOWN, "Buch", "book"),
        (Keys.END, "rote", "red"),
        (Keys.ARROW_UP, "kleine", "small"),
        (Keys.ARROW_LEFT, "Haus", "house"),
    ):
        press(page, key)
        assert focused(page) == word
        assert page.marked() == [[source], [word]]
    press(page, Keys.ENTER)
    wait(lambda: choices(page))
    assert focused(page) == "Gebäude kleine"
    press(page, Keys.ARROW_UP)
    assert focused(page) == "das Haus kleine !", "they go round"
    press(page, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert focused(page) == "Heim kleine"
    press(page, Keys.ESCAPE)
    assert focused(page) == "Haus"
    assert not page.is_shown("#menu")
    press(page, Keys.SPACE)
    wait(lambda: choices(page))
    press(page, Keys.ARROW_DOWN, Keys.ENTER)
    assert page.translation[0] == "das Heim kleine"
    assert focused(page) == "Heim"


def test_the_menu_stays_in_the_window(page, open_menu):
    for width, height in ((360, 700), (360, 420), (1000, 900)):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for word in ("kleine", "rote"):
            page.driver.execute_script("arguments[0].scrollIntoView(false)", page.word(word))
            open_menu(word)
            box = page.driver.execute_script(
                "return document.getElementById('menu').getBoundingClientRect().toJSON()"
            )
            assert box["left"] >= 0 <= box["top"]
            assert box["right"] <= width
            assert box["bottom"] <= height
            press(page, Keys.ESCAPE)


def test_hostile_text_is_text(open_page):
    page = open_page()
    hostile = "</textarea><img/src=x onerror=alert(1)> &amp; <b>bold</b>"
    page.type(hostile, "</textarea><img/src=x onerror=alert(1)> <b>bold</b> &amp;")
    assert page.all("#target img, #target b, #mirror img") == []
