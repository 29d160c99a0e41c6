"""The page can be read: on a phone, in light and dark, in German, its marks where the words are."""

import re

import pytest
from accessibility import accessibility_faults
from contrast import contrast, text_contrasts

LONG = "Donaudampfschifffahrt" * 4
TEXT = f"{LONG} red book reads the house", f"{LONG} rote Buch liest Haus das"


@pytest.fixture
def full_page(open_page, wait):
    """full_page(width, scheme): the page with all its parts shown."""

    def full_page(width=1000, scheme="light"):
        page = open_page(width, scheme)
        page.type(*TEXT)
        page.one("#glossary summary").click()
        page.one("#terms input").fill("only-one-side-" * 4)
        page.run("""
            const data = new DataTransfer();
            data.items.add(new File(["red"], "a_long_name_without_any_space_in_it_at_all.po"));
            data.items.add(new File(["red"], "wrong.exe"));
            document.dispatchEvent(new DragEvent("drop", { dataTransfer: data }));
            for (const id of ["trouble", "key-form"])
                document.getElementById(id).hidden = false;
            document.getElementById("trouble-text").textContent = "The server cannot be reached.";
            """)
        wait(lambda: page.all("#files a") and page.all("#files .bad"))
        return page

    return full_page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(full_page, scheme, wait):
    """WCAG AA: 4.5 to 1 for text, 3 to 1 for what shows the focus and the borders of inputs."""
    page = full_page(scheme=scheme)
    page.word("liest").click()
    wait(lambda: page.all("#menu [role=menuitem]"))
    actual = text_contrasts(page, "main *, #menu, #menu *, #drop *")
    assert len(actual) > 40
    for text, ratio in actual:
        assert ratio >= 4.5, text
    css = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"

    def color(selector, name):
        rgb = page.run(css, selector, name)
        return [int(part) for part in rgb.removeprefix("rgb(").removesuffix(")").split(",")]

    for edge in (color(".pointed", "outlineColor"), color("#choose", "borderTopColor")):
        for behind in (color(".card", "backgroundColor"), color("body", "backgroundColor")):
            assert contrast(edge, behind) >= 3
    assert (sum(color("body", "backgroundColor")) < 384) == (scheme == "dark")


@pytest.mark.parametrize(("width", "scheme"), [(1000, "dark"), (360, "light")])
def test_axe_finds_no_fault(full_page, server, width, scheme, wait):
    page = full_page(width, scheme)
    assert accessibility_faults(page) == []
    with server.held("/page/alternatives"):
        page.word("liest").click()
        assert accessibility_faults(page) == [], "while alternatives are awaited"
    wait(lambda: page.all("#menu [role=menuitem]"))
    assert accessibility_faults(page) == [], "with the menu"


@pytest.mark.parametrize("widths", [(320, 360), (700, 1400)])
def test_nothing_is_scrolled_sideways(full_page, widths):
    page = full_page(widths[0])
    for width in widths:
        page.tab.set_viewport_size({"width": width, "height": 900})
        assert page.run("return document.documentElement.scrollWidth") <= width
        outside = page.run("""
            return [...document.querySelectorAll("body *")].filter((node) => {
                const { left, right } = node.getBoundingClientRect();
                return node.checkVisibility() && (left < 0 || right > innerWidth);
            }).map((node) => node.id || node.outerHTML);""")
        assert outside == []


def test_all_parts_have_a_role_and_a_name(open_page):
    page = open_page()
    names = {
        "button": "Swap the languages|Dark theme|Clear|Copy|Choose files|Import TSV|Export TSV",
        "checkbox": "Shade words by confidence",
        "columnheader": "Term|Translation|Note|Remove",
        "combobox": "Translate from|Translate into",
        "heading": "Translate|Glossary|Files",
        "menu": "Alternatives",
        "region": "Text|Translation|Files",
        "textbox": "Text to translate",
        "toolbar": "Words of the translation: Enter shows alternatives",
    }
    for role, several in names.items():
        for name in several.split("|"):
            actual = page.tab.get_by_role(role, name=name, exact=True, include_hidden=True)
            assert actual.count() == 1, name
    actual = page.run("return [document.title, document.documentElement.lang]")
    assert actual == ["Translate", "en"]


def test_panes_stand_beside_each_other_or_on_a_phone_below(open_page):
    places = """return ["source", "target"].map((id) => {
        const { left, top } = document.getElementById(id).getBoundingClientRect();
        return [left, top]; });"""
    (left, top), (other_left, other_top) = open_page(1000).run(places)
    assert (top, left < other_left) == (other_top, True)
    (left, top), (other_left, other_top) = open_page(360).run(places)
    assert (left, top < other_top) == (other_left, True)


@pytest.mark.parametrize("width", [360, 1000])
def test_the_mirror_breaks_lines_as_the_text_does(open_page, width):
    """A text area grows by rows: it needs as many as the mirror, which gives its height, has."""
    page = open_page(width)
    texts = ["a " * 200, "Wort" * 90, "  indented\n\n\nx " + "1/2 " * 90, "word  " * 70 + "\n"]
    for text in texts:
        needed, height = page.run(
            """
            const text = document.getElementById("source");
            text.value = arguments[0];
            text.dispatchEvent(new Event("input"));
            const mirror = document.getElementById("mirror");
            mirror.style.alignSelf = "start";
            const { offsetHeight } = mirror;
            text.style.height = "1px";
            const needed = text.scrollHeight;
            text.style.height = mirror.style.alignSelf = "";
            return [needed, offsetHeight];""",
            text,
        )
        assert height == pytest.approx(needed, abs=1)


def test_the_theme_is_the_systems_until_the_other_is_chosen(open_page):
    page = open_page(scheme="dark")
    page_color = "return getComputedStyle(document.body).backgroundColor"
    button = page.one("#theme")
    dark = page.run(page_color)
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    light = page.run(page_color)
    assert (light != dark, button.get_attribute("aria-pressed")) == (True, "false")
    page.reload()
    assert page.run(page_color) == light, "it is remembered"
    page.one("#theme").click()
    page.tab.emulate_media(color_scheme="light")
    assert page.run(page_color) == light, "the system's again"


def test_a_german_browser_gets_a_german_page(open_page, server, wait):
    page = open_page(locale="de-CH")
    actual = page.run("return [document.documentElement.lang, document.title]")
    assert actual == ["de", "Übersetzen"]
    assert page.texts("#source-language option") == ["Englisch", "Deutsch", "Sprache erkennen"]
    page.type("the house", "Haus das")
    page.word("Haus").hover(force=True)
    assert page.text("#about") == "„Haus“: zu 95 % sicher, aus „house“"
    assert page.text("#count") == "9 / 2.000 Zeichen"
    page.word("Haus").click()
    wait(lambda: page.all("#menu [role=menuitem]"))
    assert page.text("#menu [role=presentation]") == "Statt „Haus“"
    page.press("Escape")
    server.refusals["/page/translate"] = (429, {}, {"Retry-After": "60"})
    page.write(" red")
    page.until_trouble("Zu viele Anfragen. Bitte 60 Sekunden warten.")
    page.forgive_refusals()


def test_another_browser_gets_an_english_page(open_page):
    page = open_page(locale="fr-FR")
    assert page.run("return document.documentElement.lang") == "en"
    assert page.text("h1") == "Translate"


def test_all_texts_of_the_page_are_translated(open_page):
    english, german = (open_page(locale=locale) for locale in ("en-US", "de-CH"))
    shown = """return [...document.querySelectorAll("*")].flatMap((node) => [
        ...["aria-label", "title", "placeholder"].map((name) => node.getAttribute(name) ?? ""),
        node.closest("style, script, noscript, select") || node.children.length
            ? "" : node.textContent]);"""
    both = list(zip(*(page.run(shown) for page in (english, german)), strict=True))
    same = {one for one, other in both if one == other and re.search(r"\w", one)}
    assert same == {"Text"}
    assert sum(one != other for one, other in both) > 30
