"""The page speaks German to a browser that prefers it."""

import re


def test_a_german_browser_gets_a_german_page(open_page, server, wait):
    page = open_page(locale="de-CH")
    assert page.run("return [document.documentElement.lang, document.title]") == [
        "de",
        "Übersetzen",
    ]
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
    english, german = (open_page(locale=locale) for locale in ("en-GB", "de-DE"))
    shown = """return [...document.querySelectorAll("*")].flatMap((node) => [
        ...["aria-label", "title", "placeholder"].map((name) => node.getAttribute(name) ?? ""),
        node.closest("style, script, noscript, select") || node.children.length
            ? "" : node.textContent]);"""
    both = list(zip(*(page.run(shown) for page in (english, german)), strict=True))
    same = {one for one, other in both if one == other and re.search(r"\w", one)}
    assert same == {"Text"}
    assert sum(one != other for one, other in both) > 30
