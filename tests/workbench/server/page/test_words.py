"""Words of the translation: where they are from, how sure they are, what else could be there."""

import pytest


def choices(page):
    return page.texts("#menu [role=menuitem]:not([aria-disabled])")


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
    page.word("kleine").hover(force=True)
    assert page.marked() == [["small"], ["kleine"]]
    assert page.text("#about") == "“kleine”: 82 % sure, from “small”"
    described = {"role": "button", "haspopup": "menu", "description": "82 % sure, from “small”"}
    for name, value in described.items():
        name = name if name == "role" else f"aria-{name}"
        assert page.word("kleine").get_attribute(name) == value
    page.one("h1").hover(force=True)
    assert page.marked() == [[], []]
    assert page.text("#about") == ""


def test_a_word_of_the_text_that_is_pointed_at_shows_what_it_becomes(page):
    book = page.all("#mirror > div:nth-child(2) .word")[2]
    book.hover(force=True)
    assert page.marked() == [["book"], ["Buch"]]
    assert page.text("#about") == "“book” → “Buch”"
    page.one("h1").hover(force=True)
    assert page.marked() == [[], []]


def test_the_caret_shows_what_its_word_becomes(page):
    assert page.marked() == [[], []], "not while one types"
    page.press("ArrowLeft")
    assert page.marked() == [["book"], ["Buch"]]
    page.press("End")
    assert page.marked() == [["book"], ["Buch"]], "nor does it end before its last letter"
    page.press("Home", "ArrowUp", "ArrowRight")
    assert page.marked() == [["the"], ["das"]]
    assert page.all("#mirror > div:nth-child(1) .pointed") != []
    page.one("#theme").focus()
    assert page.marked() == [[], []]
    page.one("#source").click()
    assert page.marked() != [[], []]
    page.press("x")
    assert page.marked() == [[], []]


def test_unsure_words_are_shaded_unless_switched_off(page):
    page.type(" reads", "das Haus kleine", "das rote liest Buch")
    doubts = {
        word.inner_text(): word.get_attribute("data-doubt") for word in page.all("#target .word")
    }
    expected = {"das": None, "Haus": None, "kleine": "1", "Buch": "1", "rote": "2", "liest": "3"}
    assert doubts == expected

    def color_of(element):
        return page.run("return getComputedStyle(arguments[0]).backgroundColor", element)

    def shades():
        return [color_of(page.word(text)) for text in expected]

    clear, _, one, other, two, three = shades()
    swatches = list(map(color_of, page.all(".swatch")))
    assert [one, two, three] == swatches
    assert (one, len({clear, *swatches})) == (other, 4)
    page.one("#shading").click()
    assert set(shades()) == {clear}
    assert not page.is_shown("#scale")
    page.reload()
    assert not page.one("#shading").is_checked()


def test_the_limits_of_doubt_and_what_is_written_from_right_to_left(open_page, server, wait):
    confidences = dict(zip("אבגדהוז", (0.9, 0.89, 0.7, 0.69, 0.4, 0.39, None), strict=True))
    words = [{"text": text, "confidence": sure} for text, sure in confidences.items()]
    line = {"text": " ".join(confidences), "source_words": ["x"], "words": words, "alignment": []}
    server.refusals["/page/translate"] = (200, {"lines": [line | {"alternatives": []}]}, {})
    page = open_page()
    page.type("x", line["text"])
    actual = [word.get_attribute("data-doubt") for word in page.all("#target .word")]
    assert actual == [None, "1", "1", "2", "2", "3", None]
    page.press("Tab", "Tab", "ArrowLeft", "ArrowLeft")
    assert page.focused == "ג"
    page.press("ArrowRight")
    assert page.focused == "ב"
    page.word("ז").hover(force=True)
    assert page.text("#about") == "“ז”"
    server.refusals["/page/alternatives"] = (200, {"alternatives": []}, {})
    page.press("Enter")
    wait(lambda: page.text("#menu") == "No alternatives.")
    page.run("document.querySelector('#target .word').click()")  # As a screen reader does.
    assert len(page.all("[aria-expanded]")) == 1
    page.one("h1").click()
    assert not page.is_shown("#menu")


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
    assert page.texts("#menu [role=presentation]") == ["Instead of “Haus”", "The whole line"]
    assert page.one("#menu").get_attribute("lang") == "de"
    assert page.word("Haus").get_attribute("aria-expanded") == "true"
    other = page.all("#menu [role=menuitem]")[1]
    other.hover()
    assert page.focused == "Heim kleine"
    other.click()
    assert page.translation == ["das Heim kleine", "das Buch rote"]
    assert not page.is_shown("#menu")
    page.word("das").hover(force=True)
    assert page.text("#about") == "“das”: 99 % sure, from “the”", "the beginning is the same"
    page.word("Heim").hover(force=True)
    assert page.text("#about") == "“Heim”", "nothing is known of a new word"
    assert page.text("#announcement") == "das Heim kleine"
    page.run("getSelection().selectAllChildren(document.getElementById('target'))")
    page.run("document.querySelector('#target .word').click()")
    assert not page.is_shown("#menu"), "who selects text wants none"
    assert page.all("[aria-expanded]") == []


def test_a_choice_lasts_and_can_be_taken_back(page, server, open_menu):
    open_menu("Haus")
    page.all("#menu [role=menuitem]")[0].click()
    page.one("#source").click()
    page.type(" the", "das Gebäude kleine", "das rote das Buch")
    open_menu("kleine")
    assert "das Haus kleine" in choices(page)
    page.all("#menu [role=menuitem]")[choices(page).index("das Haus kleine")].click()
    assert page.translation[0] == "das Haus kleine"
    open_menu("Buch")
    page.run("""
        const text = document.getElementById("source");
        text.value = "the small house";
        text.dispatchEvent(new Event("input"));""")
    assert not page.is_shown("#menu"), "its line is gone"


def test_the_server_may_say_more_of_an_alternative(page, server, open_menu):
    actual = [
        {
            "word": "ein",
            "text": f"ein Haus{'!' * number}",
            "words": [{"text": word, "confidence": sure} for word in ("ein", "Haus")],
            "alignment": [[2, 1]],
        }
        for number, sure in enumerate((0.5, 0.019, 0.0099, None))
    ]
    server.refusals["/page/alternatives"] = (200, {"alternatives": actual}, {})
    open_menu("das")
    assert page.texts("#menu small") == ["50 %", "1 %", "< 1 %"]
    page.all("#menu [role=menuitem]")[0].click()
    page.word("Haus").hover(force=True)
    assert page.text("#about") == "“Haus”: 50 % sure, from “house”"


def test_a_menu_that_fails_says_so_and_still_offers_whole_lines(page, server, open_menu):
    server.refusals["/page/alternatives"] = (500, {"error": "No memory"}, {})
    open_menu("Haus")
    assert page.text("#menu .bad") == "The server failed (500): No memory."
    assert choices(page) == ["das Haus kleine !"]
    page.one("#menu [role=menuitem]").click()
    page.word("das").hover(force=True)
    assert page.text("#about") == "“das”", "of another whole line nothing is known"
    open_menu("!")
    page.one("#menu [role=menuitem]").click()
    assert (page.translation[0], page.focused) == ("das Haus kleine", "kleine")
    page.forgive_refusals()


def test_everything_is_done_by_keyboard(page, server, wait):
    reached = []
    for _ in range(3):
        page.press("Tab")
        reached.append(page.focused_name)
    assert reached == ["Clear", "das", "Copy"], "the translation is one stop"
    page.press("Shift+Tab")
    for key, word, source in (
        ("ArrowRight", "Haus", "house"),
        ("ArrowDown", "Buch", "book"),
        ("End", "rote", "red"),
        ("ArrowUp", "kleine", "small"),
        ("ArrowLeft", "Haus", "house"),
    ):
        page.press(key)
        assert page.focused == word
        assert page.marked() == [[source], [word]]
    page.press("Control+ArrowLeft", "Alt+Enter")
    assert (page.focused, page.is_shown("#menu")) == ("Haus", False)
    ended = []
    page.on("requestfailed", ended.append)
    with server.held("/page/alternatives"):
        page.press("Enter")
        assert page.text("#menu") == "Looking for alternatives …"
        page.press("Escape")
        wait(lambda: not page.is_shown("#menu") and ended)
        assert page.focused == "Haus", "no answer is awaited"
    page.press("Enter")
    wait(lambda: choices(page))
    assert page.focused == "Gebäude kleine"
    page.press("ArrowUp")
    assert page.focused == "das Haus kleine !", "they go round"
    page.press("ArrowDown", "ArrowDown")
    assert page.focused == "Heim kleine"
    page.press("End")
    assert page.focused == "das Haus kleine !"
    page.press("Home")
    assert page.focused == "Gebäude kleine"
    page.press("Escape")
    assert page.focused == "Haus"
    assert not page.is_shown("#menu")
    page.press("Space")
    wait(lambda: choices(page))
    page.press("ArrowDown", "Enter")
    assert page.translation[0] == "das Heim kleine"
    assert page.focused == "Heim"
    page.press("Enter")
    wait(lambda: choices(page))
    page.press("Tab")
    assert (page.focused_name, page.is_shown("#menu")) == ("Copy", False)
    assert page.marked() == [[], []]


def test_the_menu_stays_in_the_window(page, open_menu, wait):
    def box():
        return page.run("return document.getElementById('menu').getBoundingClientRect().toJSON()")

    for width, height in ((360, 700), (360, 420), (1000, 900)):
        page.tab.set_viewport_size({"width": width, "height": height})
        for word in ("kleine", "rote"):
            page.run("arguments[0].scrollIntoView(false)", page.word(word))
            open_menu(word)
            assert box()["left"] >= 0 <= box()["top"]
            assert box()["right"] <= width
            assert box()["bottom"] <= height
            page.press("Escape")
    open_menu("rote")
    assert box()["right"] > 360
    page.tab.set_viewport_size({"width": 360, "height": 900})
    wait(lambda: box()["right"] <= 360)


def test_hostile_text_is_text(open_page):
    page = open_page()
    hostile = "</textarea><img/src=x onerror=alert(1)> &amp; <b>bold</b>"
    page.type(hostile, "</textarea><img/src=x onerror=alert(1)> <b>bold</b> &amp;")
    assert page.all("#target img, #target b, #mirror img") == []
