"""Text is translated while it is typed."""

from page_server import TABLE


def select(page, name, value):
    page.one(f"#{name}").select_option(value)


def paste(page, text):
    page.run(
        """
        const text = document.getElementById("source");
        text.value = arguments[0];
        text.dispatchEvent(new Event("input"));""",
        text,
    )


def test_text_is_translated_while_it_is_typed(open_page, server):
    page = open_page(has_clock=True)
    page.stop_clock()
    page.one("#source").type("the house\n\nthe red book")
    page.clock.run_for(250)
    page.translated("Haus das", "", "das Buch rote")
    (first,) = server.asked("/page/translate")
    assert first == {
        "q": "the house\nthe red book",
        "source": "en",
        "target": "de",
        "glossary": [],
    }
    languages = [page.one(selector).get_attribute("lang") for selector in ("#source", "#target")]
    assert languages == ["en", "de"]
    assert server.asked("/detect") == []
    announced = page.one("#announcement")
    assert announced.text_content() == "Haus das\n\ndas Buch rote"
    assert announced.get_attribute("aria-live") == "polite"


def test_only_new_lines_are_asked_for(open_page, server):
    page = open_page()
    page.type("the house\nred\nred", "Haus das", "rote", "rote")
    page.type(" book", "Haus das", "rote", "Buch rote")
    assert [body["q"] for body in server.asked("/page/translate")] == ["the house\nred", "red book"]


def test_long_texts_come_part_by_part(open_page, server):
    server.settings["charLimit"] = 0  # None.
    page = open_page()
    lines = [*map(str, range(800))]
    paste(page, "\n".join(lines))
    page.translated(*lines)
    asked = [body["q"].count("\n") + 1 for body in server.asked("/page/translate")]
    assert asked == [16, 32, 64, 128, 256, 256, 48]
    assert page.text("#count") == "3,089 characters"


def test_an_answer_to_an_earlier_text_is_dropped(open_page, server, wait):
    page = open_page()
    ended = []
    page.on("requestfailed", ended.append)
    page.on("requestfinished", ended.append)
    with server.held("/page/translate"):
        page.write("the house")
        wait(lambda: server.asked("/page/translate"))
        page.write(" red")
        wait(lambda: len(server.asked("/page/translate")) == 2)
    page.translated("das rote Haus")
    wait(lambda: len(ended) == 2)
    assert page.translation == ["das rote Haus"]


def test_what_is_awaited_is_muted_and_cannot_be_chosen(open_page, server, wait):
    page = open_page()
    page.type("the house", "Haus das")
    with server.held("/page/translate"):
        page.write(" red")
        wait(lambda: page.all(".waiting > #target[aria-busy=true]"))
        assert page.text("#target .stale") == "Haus das"
        page.run("document.querySelector('#target .word').click()")
        assert page.run("return document.querySelector('#target .stale').inert")
        assert not page.is_shown("#menu")
    page.translated("das rote Haus")
    assert page.all(".waiting, .stale, [aria-busy=true]") == []


def test_ends_of_lines_that_only_python_knows_are_spaces(open_page, server):
    page = open_page()
    paste(page, "the\u2028house\u0085red\u000bbook")
    page.translated("das Haus Buch rote")
    assert server.asked("/page/translate")[0]["q"] == "the house red book"


def test_languages_are_chosen_and_remembered(open_page, server):
    page = open_page()
    offered = page.texts("#source-language option")
    assert offered == ["English", "German", "Detect language"], "from French there is nothing"
    assert page.texts("#target-language option") == ["German", "French"]
    select(page, "target-language", "fr")
    assert not page.one("#swap").is_enabled(), "from French there is nothing"
    for source in ("en", "auto"):
        select(page, "source-language", source)
        page.reload()
        chosen = [page.one(f"#{side}-language").input_value() for side in ("source", "target")]
        assert chosen == [source, "fr"]


def test_languages_are_swapped_with_the_text(open_page, server, wait):
    page = open_page()
    page.type("the house", "Haus das")
    page.one("#swap").click()
    assert page.one("#source").input_value() == "Haus das"
    wait(lambda: len(server.asked("/page/translate")) == 2)
    body = server.asked("/page/translate")[1]
    assert (body["source"], body["target"], body["q"]) == ("de", "en", "Haus das")
    page.translated("das Haus")
    with server.held("/page/translate"):
        paste(page, "Haus das\nhalf")
        page.one("#swap").click()
    assert page.one("#source").input_value() == "Haus das\nhalf", "no half of a translation"


def test_the_language_is_detected(open_page, server, wait):
    page = open_page()
    select(page, "source-language", "auto")
    assert page.text("#glossary-note").startswith("Once the language of the text is known")
    assert (page.one("#import").is_enabled(), page.text("#glossary-count")) == (False, "")
    page.type("the house", "Haus das")
    assert page.text("#glossary-count") == "0 terms"
    assert page.text("#source-language option:checked") == "English (detected)"
    file = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"the house"}
    page.one("#file").set_input_files([file])
    wait(lambda: server.asked("/translate_file"))
    assert server.asked("/translate_file")[0]["source"] == "en"
    page.one("#clear").click()
    wait(lambda: page.text("#source-language option:checked") == "Detect language")
    page.write("das Haus")
    page.until_trouble("seems to be German, which this server does not translate into German")
    select(page, "target-language", "en")
    page.translated("Haus das")
    assert server.asked("/page/translate")[-1]["source"] == "de"
    paste(page, "das " * 260)
    page.translated(" ".join(["das"] * 260))
    assert [len(body["q"]) for body in server.asked("/detect")][-1] == 1_000
    server.refusals["/detect"] = (200, [], {})
    paste(page, "?")
    page.until_trouble("The language of the text was not recognised. Choose it.")


def test_too_long_a_text_is_not_sent(open_page, server, wait):
    server.settings["charLimit"] = 1_012
    page = open_page(has_clock=True)
    page.stop_clock()
    paste(page, "a" * 1_000 + " the house 😀")
    page.clock.run_for(250)
    page.translated("a" * 1_000 + " das 😀 Haus")
    assert (page.text("#count"), page.all(".over")) == ("1,012 / 1,012 characters", [])
    posted = page.posted()
    page.press("b")
    assert page.text("#count.over") == "1 character over the limit of 1,012"
    page.clock.run_for(1_000)
    assert posted == []


def test_the_translation_is_copied(open_page, server, wait):
    page = open_page(has_clock=True)
    for word in ("red", "small"):
        paste(page, f"the house\n{word}")
        page.one("#copy").click()  # What is awaited is copied too.
        wait(lambda: page.text("#copy") == "Copied")
        page.one("#clear").click()
        page.press("Control+v")
        assert page.one("#source").input_value() == f"Haus das\n{TABLE[word][0]}"
        page.clock.fast_forward(1_500)
        assert (page.text("#copy"), len(page.all("textarea"))) == ("Copy", 1)
        page.run("navigator.clipboard.writeText = () => Promise.reject()")  # As without TLS.
    server.refusals["/page/translate"] = (400, {"error": "No"}, {})
    paste(page, "the book")
    page.one("#copy").click()
    wait(lambda: page.text("#copy") == "Not copied")
    page.forgive_refusals()


def test_a_text_that_was_cleared_can_be_had_again(open_page):
    page = open_page()
    page.type("the house\nred", "Haus das", "rote")
    page.one("#clear").click()
    page.translated("")
    assert not page.one("#clear").is_enabled()
    assert not page.one("#copy").is_enabled()
    page.press("Control+z")
    page.translated("Haus das", "rote")


def test_refusals_are_told_in_plain_words(open_page, server):
    page = open_page(has_clock=True)
    page.stop_clock()
    for status, answer, shown in (
        (400, {"error": "Term 1: the target is blank"}, "Term 1: the target is blank."),
        (429, {"error": "x"}, "Too many requests. Wait 1 second."),
        (500, None, "The server failed (500)."),
        (503, {"error": "Shutting down"}, "The server failed (503): Shutting down."),
    ):
        server.refusals["/page/translate"] = (status, answer, {"Retry-After": "1"})
        posted = page.posted()
        paste(page, f"the house {status}")
        page.clock.run_for(250)
        page.until_trouble(shown)
        assert page.text("#trouble-text") == shown
        page.clock.run_for(999)
        assert len(posted) == 1
        server.refusals.clear()
        if status == 429:
            page.clock.run_for(1)  # It asks again by itself.
        else:
            page.one("#again").click()
        page.translated(f"das {status} Haus")
        assert not page.is_shown("#trouble")
    page.forgive_refusals()


def test_answers_that_are_none_are_told(open_page):
    page, answer = open_page(), {}
    page.tab.route("**/page/translate", lambda route: route.fulfill(**answer))
    for status, content, shown in (
        (200, '{"lines": []}', "The server answered 0 of 1 lines."),
        (200, '{"lines": [{}, {}]}', "The server answered 2 of 1 lines."),
        (200, "<html>", "The server's answer is not a translation (not JSON)."),
        (404, "<html>", "The server refused the request (404)."),
        (429, "<html>", "Too many requests. Wait a moment."),
        (401, "<html>", "The server requires an API key. Enter the key above."),
        (200, "{}", "This page failed: "),
    ):
        answer.update(status=status, body=content)
        page.write("a")
        page.until_trouble(shown)
    assert page.is_shown("#key")
    assert "TypeError" in page.messages.pop(), "for whoever mends it"
    page.forgive_refusals()


def test_a_server_that_is_away_is_told_and_asked_again(open_page, server, wait):
    page = open_page(has_clock=True)
    tries = []
    page.tab.route("**/page/translate", lambda route: tries.append(route.abort()))
    page.write("the house")
    page.until_trouble("The server cannot be reached. Your text stays here.")
    page.one("#again").click()
    wait(lambda: page.is_shown("#trouble") and len(tries) > 1)
    page.tab.unroute("**/page/translate")
    page.run("const ask = fetch; tries = 0; fetch = (...given) => ++tries && ask(...given)")
    page.clock.fast_forward(5_000)
    page.translated("Haus das")  # By itself.
    assert page.run("return tries") == 1
    for status in (502, 503, 504):
        server.refusals["/page/translate"] = (status, {"error": "Proxy"}, {})
        paste(page, f"the house {status}")
        page.until_trouble(f"The server failed ({status}): Proxy.")
        server.refusals.clear()
        page.clock.fast_forward(5_000)
        page.translated(f"das {status} Haus")
    page.run("AbortSignal.timeout = () => AbortSignal.abort(new DOMException('', 'TimeoutError'))")
    paste(page, "late")
    page.until_trouble("The server did not answer within 60 seconds.")
    page.forgive_refusals()


def test_text_is_sent_so_long_after_the_last_key(open_page, server, wait):
    page = open_page(has_clock=True)
    page.stop_clock()
    posted = page.posted()
    for text in ("the", "the house"):
        paste(page, text)
        page.clock.run_for(249)
    assert posted == []
    page.clock.run_for(1)
    page.translated("Haus das")
    page.run("""
        const term = document.querySelector("#terms input");
        term.value = "house";
        term.closest("tr").querySelectorAll("input")[1].value = "Bau";
        term.dispatchEvent(new Event("input", { bubbles: true }));""")
    page.clock.run_for(599)
    assert len(posted) == 1
    page.clock.run_for(1)
    page.translated("Bau das")


def test_text_can_be_typed_before_the_server_answers(open_page, server, wait):
    page = open_page(has_clock=True)
    server.refusals["/languages"] = (503, {"error": "Loading"}, {})
    page.tab.reload()
    page.until_trouble("The server failed (503): Loading.")
    page.stop_clock()
    page.write("the house")
    page.clock.run_for(500)
    page.until_trouble("The server failed (503): Loading.")
    page.clock.resume()
    file = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"the house"}
    page.one("#file").set_input_files([file])
    wait(lambda: page.all("#files .bad"))
    assert page.text("#files .bad") == "The server offers no languages yet."
    server.refusals["/languages"] = (403, {"error": "No key"}, {})
    page.one("#again").click()
    page.until_trouble("No key. Enter the key above.")
    server.refusals.clear()
    page.one("#key").type("secret\n")
    page.translated("Haus das")
    page.forgive_refusals()


def test_an_api_key_is_asked_for(open_page, server):
    page = open_page()
    assert not page.is_shown("#key")
    server.settings["keyRequired"] = True
    page.reload()
    assert page.is_shown("#key")
    server.settings["keyRequired"] = False
    page.reload()
    server.refusals["/page/translate"] = (403, {"error": "Invalid API key"}, {})
    page.write("the house")
    page.until_trouble("Invalid API key. Enter the key above.")
    server.refusals.clear()
    page.one("#key").type("secret\n")
    page.translated("Haus das")
    assert server.asked("/page/translate")[-1]["api_key"] == "secret"
    page.forgive_refusals()
