"""What is translated, what is taken from a memory, and what the report says of it."""

import dataclasses
import re
import unicodedata

import pytest
from refusals import refused

from t2t_keras.decoding.confidence import Confidence
from t2t_keras.decoding.translation import Translation
from t2t_keras.workbench.documents import TranslationMemory, read_document, translate_document
from t2t_keras.workbench.documents.document import Suggestion, Unit

TEXT = "One dog.\n\nTwo cats. One dog.\n\n12 %\n"


def test_the_same_sentence_is_translated_once_and_numbers_never(translated, translator):
    text = f"{TEXT}\n{{name}}: %s\n"
    assert translated("a.txt", text) == text.replace("One dog", "ONE DOG").replace(
        "Two cats", "TWO CATS"
    )
    assert translator.calls == [(["One dog.", "Two cats."], "text")]


def test_sentences_end_as_in_the_language_of_the_document(written, translator):
    document = read_document(written("a.txt", "Am 3. Mai bellt er. Ja."), "de", "en")
    translate_document(document, translator)
    assert translator.calls[0][0] == ["Am 3. Mai bellt er.", "Ja."]


class Same:
    """Writes what it reads, and keeps it in `lines`."""

    def translate(self, lines, format="text"):  # noqa: A002
        self.lines = lines
        return [Translation(line, 0.0) for line in lines]


@pytest.mark.parametrize("line", ["The naive cafe\u0301.", "A\u00a0dog, 5\u2009km."])
def test_the_model_reads_nfc_and_unchanged_text_keeps_its_spelling(written, line):
    document = read_document(written("a.txt", line))
    translator = Same()
    translate_document(document, translator)
    assert translator.lines == [unicodedata.normalize("NFC", line)]
    assert document.content().decode() == line


def test_a_memory_gives_whole_texts_and_sentences(translated, translator):
    memory = TranslationMemory([("One dog.", "Ein Hund."), ("Two dogs.", "Zwei Hunde.")])
    output = translated("a.txt", TEXT, memory=memory)
    assert output == "Ein Hund.\n\nTWO CATS. Ein Hund.\n\n12 %\n"
    report = translated.report
    assert (report.translated, report.from_memory, report.fuzzy) == (2, 1, 0)
    assert translator.calls[0][0] == ["Two cats."]


@pytest.mark.parametrize(("options", "count"), [({}, 1), ({"least": 0.8}, 1), ({"least": 0.81}, 0)])
def test_similar_texts_of_the_memory_are_suggested(written, translator, options, count):
    document = read_document(written("a.txt", "One dog.\n\nOne cow.\n"), "en", "de")
    memory = TranslationMemory([("One dot", "Ein Punkt"), ("One cow.", "Eine Kuh.")])
    assert translate_document(document, translator, memory=memory, **options).fuzzy == count
    suggestions = [Suggestion("One dot", "Ein Punkt", 0.8)] * count
    assert [unit.suggestions for unit in document.units] == [suggestions, []]
    document = read_document(written("b.txt", "One dog. And two."))
    memory = TranslationMemory([("One dog, and two.", "Eins"), ("One dog", "Ein Hund")])
    translate_document(document, translator, memory=memory)
    assert document.units[0].suggestions[0].source == "One dog, and two."


def test_lines_of_messages_with_tags_stay(translated, translator):
    message = 'msgid "<b>One</b>\\n<i>two</i>"\nmsgstr ""\n'
    assert '"<b>ONE</b>\\n"\n"<i>TWO</i>"' in translated("a.po", message)
    line = '<pre class="t2t-lines" xml:space="preserve"><b>One</b>\n<i>two</i></pre>'
    assert translator.calls == [([line], "html")]


def test_codes_of_another_text_are_not_those_of_the_memory(translated):
    memory = TranslationMemory([('A <g i="0">dog</g>', 'Ein <g i="0">Hund</g>')])
    assert translated("a.md", "A *dog*", memory=memory) == "A *DOG*"
    assert (translated.report.from_memory, translated.report.fuzzy) == (0, 1)


def test_broken_placeholders_are_counted_by_unit(written, translator):
    translator.broken = ["One dog."]
    document = read_document(written("a.txt", TEXT))
    assert translate_document(document, translator).broken == 2


def test_a_text_is_as_sure_as_its_worst_sentence(written, translator, monkeypatch):
    def confidences(translator, lines, translations):
        return [Confidence(whole=0.9 if line == "One dog." else 0.4) for line in lines]

    monkeypatch.setattr("t2t_keras.workbench.documents.translating.confidences", confidences)
    document = read_document(written("a.txt", TEXT + "\nThree. One dog."))
    memory = TranslationMemory([("Three.", "Drei.")])
    translate_document(document, translator, memory=memory, confidence=True)
    assert [unit.quality for unit in document.units] == [0.9, 0.4, None, 0.9]
    page = read_document(written("a.html", "<p>One <b>dog</b>.</p>"))
    translate_document(page, translator, confidence=True)
    assert page.units[0].quality is None


def test_progress_counts_all_texts_of_all_kinds(written, translator):
    lines = "".join(f"<p>Line {number}" for number in range(1025))
    document = read_document(written("a.html", f"{lines}<p>One <b>dog</b>.<p>Line 1"))
    shown = []
    translate_document(document, translator, progress=lambda *counts: shown.append(counts))
    assert shown == [(1024, 1026), (1025, 1026), (1026, 1026)]
    assert [len(lines) for lines, *_ in translator.calls] == [1024, 1, 1]


@pytest.mark.parametrize("final", [False, True])
def test_text_of_the_memory_has_full_quality_and_its_white_space(written, translator, final):
    messages = "".join(f'msgid "{text}"\nmsgstr ""\n\n' for text in (" Open\\n", "Open\\nShut"))
    document = read_document(written("a.po", messages), "en", "de")
    memory = TranslationMemory([("Open", "Öffnen"), ("Shut", "Zu")])
    report = translate_document(document, translator, memory=memory, final=final)
    assert [(unit.target, unit.quality, unit.is_final) for unit in document.units] == [
        (" Öffnen\n", 1.0, final),
        ("Öffnen\nZu", 1.0, final),
    ]
    assert not any(unit.needs_review for unit in document.units)
    assert (report.translated, report.from_memory) == (0, 2)


def test_a_line_of_the_memory_comes_before_its_sentences(translated):
    pairs = ("One. Two.", "Eins, zwei."), ("One.", "Eins.")
    output = translated("a.txt", "- One. Two.\nOne. Two.\nOne.", memory=TranslationMemory(pairs))
    assert output == "- ONE. TWO.\nEins, zwei.\nEins."


def test_a_report_shows_the_counts_that_are_not_zero(written, translator):
    report = translate_document(read_document(written("a.txt", TEXT)), translator)
    assert re.findall(r"\d[\d,]*", str(report)) == ["3"]
    counts = {"from_memory": 5000, "fuzzy": 6, "existing": 2, "broken": 1, "unsafe": 7}
    report = str(dataclasses.replace(report, **counts, left_out={"fields": 4}))
    assert re.findall(r"\d[,\d]*", report) == ["3", "5,000", "6", "2", "1", "7", "4"]
    assert report.endswith("fields")


def test_an_unknown_match_is_refused():
    with refused("bad_value", "machine, exact", "'fuzzy'"):
        Unit("a").set("b", "fuzzy")


def test_a_document_is_not_written_over_what_it_was_read_from(written):
    document = read_document(written("a.txt", TEXT))
    with refused("output_is_input", document.path):
        document.save(document.path)
