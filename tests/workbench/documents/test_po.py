"""PO files, checked by gettext's own msgfmt and read by polib, and their plural forms."""

import gettext
import re
import shutil
import subprocess

import polib
import pytest
from refusals import refused

from t2t_keras.workbench.documents import TranslationMemory, read_document, translate_document
from t2t_keras.workbench.documents.document import Suggestion
from t2t_keras.workbench.documents.po import default_rule, plural_forms

HEADER = """msgid ""
msgstr ""
"Project-Id-Version: x\\n"
"Language: de\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

"""
BODY = """# of a translator
#. extracted
#: a.c:1
#, c-format
msgctxt "menu"
msgid "Open %s"
msgstr ""

#, fuzzy, c-format
#| msgid "%d dog"
msgid "%d cat\\n"
msgid_plural "%d cats\\n"
msgstr[0] "%d Hund\\n"
msgstr[1] ""

msgid   "kept as\\tit is"
msgstr "behalten"

msgctxt "NAME OF TRANSLATORS"
msgid "Your names"
msgstr ""

#~ msgid "old"
#~ msgstr "alt"
"""


@pytest.fixture
def msgfmt(tmp_path):
    """msgfmt(content, *flags): what `msgfmt -c` says of a PO file, "" = it is right."""
    if not shutil.which("msgfmt"):
        pytest.skip("needs msgfmt of gettext")

    def msgfmt(content, *flags):
        (tmp_path / "check.po").write_bytes(content)
        command = ["msgfmt", "-c", *flags, "-o", "/dev/null", tmp_path / "check.po"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stderr or "failed" if done.returncode else ""

    return msgfmt


@pytest.fixture
def msgcat():
    """msgcat(content): a PO file as gettext writes it."""
    if not shutil.which("msgcat"):
        pytest.skip("needs msgcat of gettext")
    return lambda content: subprocess.run(
        ["msgcat", "-"], input=content, capture_output=True, check=True
    ).stdout.decode()


def test_only_what_is_not_translated_changes(translated, msgfmt):
    output = translated("a.po", HEADER + BODY)
    expected = (HEADER + BODY).replace(
        '#, c-format\nmsgctxt "menu"\nmsgid "Open %s"\nmsgstr ""',
        '#, fuzzy, c-format\nmsgctxt "menu"\nmsgid "Open %s"\nmsgstr "OPEN %s"',
    )
    expected = expected.replace('#| msgid "%d dog"\n', "")
    expected = expected.replace('"%d Hund\\n"', '"%d CAT\\n"')
    assert output == expected.replace('msgstr[1] ""', 'msgstr[1] "%d CATS\\n"')
    assert translated.report.left_out == {"names of translators": 1}
    assert (translated.report.translated, translated.report.existing) == (3, 1)
    assert msgfmt(output.encode(), "-f") == ""


def test_final_translations_are_not_fuzzy(translated):
    parsed = polib.pofile(translated("a.po", HEADER + BODY, final=True))
    assert [entry.msgid for entry in parsed.fuzzy_entries()] == []
    assert parsed[1].msgstr_plural == {0: "%d CAT\n", 1: "%d CATS\n"}


def test_everything_is_translated_anew_if_asked(translated):
    actual = polib.pofile(translated("a.po", HEADER + BODY, everything=True))
    assert actual.find("kept as\tit is").msgstr == "KEPT AS\tIT IS"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("%s of %d\\n", "%d of %s\\n"),
        ("100% correct %s", "%s 100% more"),
        ("%(name)s is", "is"),
        ("line\\n", "line"),
        ("\\nline", "line"),
    ],
)
def test_what_msgfmt_refuses_stays_fuzzy(written, msgfmt, source, target):
    flag = "python" if "(" in source else "c"
    entry = f'#, {flag}-format\nmsgid "{source}"\nmsgstr "'
    bad = polib.unescape(target)
    assert msgfmt(f'{HEADER}{entry}{target}"\n'.encode())
    document = read_document(written("a.po", f'{HEADER}{entry}"\n'), "en", "de")
    document.units[0].set(bad, final=True)
    assert document.units[0].is_unsafe
    assert polib.pofile(document.content().decode())[0].fuzzy
    assert msgfmt(document.content()) == ""


@pytest.mark.parametrize(
    ("flags", "source", "target", "is_unsafe"),
    [
        ("qt-format", "%1 of %L2, %n is 5 % more", "%n: %L2 von %1, 5% mehr", False),
        ("kde-format", "%1 of %2 is 5 % more", "%2 von %1, 5% mehr", False),
        ("qt-format", "%1 of %2", "%1", True),
        ("qt-format", "%n of it", "davon", True),
        ("kde-format, c-format", "%1 is 5 % more", "%1 ist mehr", True),
        ("python-brace-format", "{a} of {b}", "{b} von {a}", False),
        ("python-brace-format", "{a} of {b}", "{b} von {c}", True),
        ("python-brace-format", "{a} of {b}", "{a} von b", True),
        ("python-brace-format", "{a:>5} of", "von {a:>5} hier", False),
        ("java-format", "{0} of {1,number}", "{1,number} von {0}", False),
        ("csharp-format", "{0} of {1}", "von {0}", True),
        ("no-c-format", "%s", "x", True),
        ("range: 0..5", "%s", "x", False),
        ("c-format", "<b>%s</b> <i>a</i>", "<i>a</i> <b>%s</b>", False),
        ("c-format", "<b>%s</b>", "%s", True),
        ("c-format", "%1$s of %2$d", "%2$d von %1$s", False),
        ("python-format", "%(a)s or %(b)d", "%(b)d oder %(a)s", False),
    ],
)
def test_flags_tell_what_msgfmt_compares(written, msgfmt, flags, source, target, is_unsafe):
    content = f'#, {flags}\nmsgid "{source}"\nmsgstr ""\n'
    document = read_document(written("a.po", HEADER + content), "en", "de")
    document.units[0].set(target, final=True)
    assert document.units[0].is_unsafe == is_unsafe
    assert msgfmt(document.content()) == ""


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('msgctxt "NAME OF TRANSLATORS"\nmsgid "a"\n', "names of translators"),
        ('msgctxt "EMAIL OF TRANSLATORS"\nmsgid "a"\n', "names of translators"),
        ('msgid "translator-credits"\n', "names of translators"),
        ('msgid "translator_credits"\n', "names of translators"),
        ('msgid "a"\nmsgid_plural "as"\n', "plurals without a Plural-Forms header"),
    ],
)
def test_what_is_left_out_is_counted(translated, entry, reason):
    content = entry + ('msgstr[0] ""\n' if "plural" in entry else 'msgstr ""\n')
    assert translated("a.po", content, languages=("en", "xx")) == content
    assert translated.report.left_out == {reason: 1}


def test_a_template_becomes_a_catalogue_of_its_language(translated, msgfmt):
    header = HEADER.replace("Language: de", "Language: ").replace("UTF-8", "CHARSET")
    header = re.sub("nplurals=2.*;", "nplurals=INTEGER; plural=EXPRESSION;", header)
    entry = '#, c-format\nmsgid "One thing"\nmsgid_plural "%d things"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    output = translated("a.pot", f"#, fuzzy\n{header}{entry}", languages=("en", "ru"), final=True)
    parsed = polib.pofile(output)
    assert parsed.metadata["Language"] == "ru"
    assert parsed.metadata["Content-Type"] == "text/plain; charset=UTF-8"
    assert not parsed.metadata_is_fuzzy
    # The first form is for 21 as well, so it needs the number.
    assert parsed[0].msgstr_plural == dict.fromkeys(range(3), "%d THINGS")
    assert msgfmt(output.encode()) == ""


def test_a_file_without_a_header_gets_one(translated, msgfmt):
    entry = 'msgid "%d thing"\nmsgid_plural "%d things"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    output = translated("a.po", 'msgid "a" msgstr ""')
    assert output.endswith('"\n\n#, fuzzy\nmsgid "a" msgstr "A"')
    assert "\r" not in output
    other = 'msgctxt "no header"\nmsgid ""\nmsgstr "x"\n\n'
    actual = translated("a.po", other + entry, languages=("en", "ja"))
    assert other in actual
    assert polib.pofile(actual)[1].msgstr_plural == {0: "%d THINGS"}
    assert msgfmt(actual.encode(), "-f") == ""


def test_a_memory_is_taken_or_suggested(translated):
    memory = TranslationMemory([("Open %s", "%s öffnen"), ("%d cattle", "%d Rinder")])
    output = translated("a.po", HEADER + BODY, memory=memory)
    assert 'msgid "Open %s"\nmsgstr "%s öffnen"' in output
    assert '# 75% like “%d cattle”: “%d Rinder”\n#, fuzzy, c-format\nmsgid "%d cat\\n"' in output
    parsed = polib.pofile(output)
    assert not parsed.find("Open %s").fuzzy


def test_each_suggestion_for_an_entry_is_a_comment(written):
    document = read_document(written("a.po", HEADER + BODY), "en", "de")
    for unit, texts in zip(document.units[1:3], (["a"], ["a", "b"]), strict=True):
        unit.suggestions = [Suggestion(text, "x", 0.8) for text in texts]
        unit.set("%d\n")
    actual = document.content().decode()
    assert "\n\n# 80% like “a”: “x”\n# 80% like “b”: “x”\n#, fuzzy, c-format\n" in actual


def test_a_charset_without_the_characters_becomes_utf_8(written):
    header = "# Not charset=UCS\n" + HEADER.replace("UTF-8", "ISO-8859-1")
    content = (header + 'msgid "é"\nmsgstr ""\n').encode("latin-1")
    document = read_document(written("a.po", content), "en", "de")
    document.units[0].set("ä")
    assert document.content().decode("latin-1").endswith('msgstr "ä"\n')
    document.units[0].set("č")
    assert "; charset=UTF-8" in document.content().decode()
    assert polib.pofile(document.content().decode())[0].msgstr == "č"


def test_long_and_several_lines_are_written_as_gettext_does(written):
    document = read_document(written("a.po", HEADER + 'msgid "x"\nmsgstr ""\n'), "en", "de")
    text = 'A "quoted" line\nand ' + "word " * 30 + "\\ end\n"
    document.units[0].set(text)
    content = document.content().decode()
    assert max(map(len, content.splitlines())) <= 79
    assert polib.pofile(content)[0].msgstr == text


def test_lines_are_as_long_as_gettexts(written, msgcat):
    texts = [
        f"word {'a' * (length - 5)}{end}"
        for length in (*range(66, 73), *range(75, 80))
        for end in ("", " end", "\n", "\nend")
    ]
    entries = (f'msgid "{number}"\nmsgstr ""\n' for number in range(len(texts)))
    document = read_document(written("a.po", HEADER + "\n".join(entries)), "en", "de")
    for unit, text in zip(document.units, texts, strict=True):
        unit.set(text, final=True)
    assert document.content().decode() == msgcat(document.content())


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            '#comment\n#,fuzzy,c-format\n#:a.c:1\nmsgid "a"\nmsgstr ""\n',
            '#comment\n#,fuzzy,c-format\n#:a.c:1\nmsgid "a"\nmsgstr "A"\n',
        ),
        ('msgid "a"\nmsgstr\n""\n', '#, fuzzy\nmsgid "a"\nmsgstr "A"\n'),
        ('msgid\n"a"\nmsgstr ""\n', '#, fuzzy\nmsgid\n"a"\nmsgstr "A"\n'),
        ('msgid "" "a"\nmsgstr ""', '#, fuzzy\nmsgid "" "a"\nmsgstr "A"'),
        ('msgid"a" msgstr""\n', '#, fuzzy\nmsgid"a" msgstr "A"\n'),
        ('  msgid "a"\n\tmsgstr ""\n', '#, fuzzy\n  msgid "a"\n\tmsgstr "A"\n'),
        (
            '# one\n#| msgid "z"\nmsgid "a"\nmsgstr ""\n',
            '# one\n#, fuzzy\nmsgid "a"\nmsgstr "A"\n',
        ),
        (
            '#, c-format\n#, range: 1..2\nmsgid "a"\nmsgstr ""\n',
            '#, fuzzy, c-format, range: 1..2\nmsgid "a"\nmsgstr "A"\n',
        ),
        (
            'msgid "a"\n# inside\nmsgstr ""\n# too\n""\n# behind\n',
            '#, fuzzy\nmsgid "a"\n# inside\n# too\nmsgstr "A"\n# behind\n',
        ),
        (
            'msgid "b"\nmsgstr "B" msgid "a" msgstr ""\n',
            'msgid "b"\nmsgstr "B" \n#, fuzzy\nmsgid "a" msgstr "A"\n',
        ),
        (
            '# z\n#~ msgid "z"\nmsgid "a"\nmsgstr ""\n#~ msgid "y"\n',
            '# z\n#~ msgid "z"\n#, fuzzy\nmsgid "a"\nmsgstr "A"\n#~ msgid "y"\n',
        ),
        # Flags of an obsolete entry are not of the next one.
        (
            '#, c-format\n#~ msgid "z"\n#~ msgstr ""\n\nmsgid "a"\nmsgstr ""\n',
            '#, c-format\n#~ msgid "z"\n#~ msgstr ""\n\n#, fuzzy\nmsgid "a"\nmsgstr "A"\n',
        ),
        (
            'msgid "a"\nmsgid_plural "as"\nmsgstr[0]\n""\nmsgstr [ 1 ] ""\n',
            '#, fuzzy\nmsgid "a"\nmsgid_plural "as"\nmsgstr[0] "A"\nmsgstr[1] "AS"\n',
        ),
        ('msgid "\\x6a\\142"\nmsgstr ""\n', '#, fuzzy\nmsgid "\\x6a\\142"\nmsgstr "JB"\n'),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_entries_are_read_as_msgfmt_reads_them(translated, msgfmt, content, expected, newline):
    old, new = ((HEADER + text).replace("\n", newline) for text in (content, expected))
    assert translated("a.po", old) == new
    # To msgfmt \r alone ends no line, an obsolete entry needs a msgstr, and msgstr no comments.
    if newline == "\n" and "#~" not in content and "inside" not in content:
        assert msgfmt(old.encode()) == msgfmt(new.encode(), "-f") == ""


def test_a_form_without_a_plural_is_a_translation(translated):
    content = HEADER + 'msgid "a"\nmsgstr[0] "b"\n'
    assert translated("a.po", content) == content


def test_a_domain_belongs_to_no_entry(translated):
    output = translated("a.po", HEADER + '# one\ndomain "x"\n# two\nmsgid "a"\nmsgstr ""\n')
    assert output.endswith('# one\ndomain "x"\n# two\n#, fuzzy\nmsgid "a"\nmsgstr "A"\n')
    first = 'msgid ""\nmsgstr "x: y\\n"\n\ndomain "x"\n'
    actual = translated("a.po", first + HEADER + 'msgid "a"\nmsgstr ""\n')
    assert actual.startswith('msgid ""\nmsgstr ""\n"x: y\\n"\n"Language: de\\n"\n')


def test_strings_have_all_of_gettexts_escapes(written):
    content = 'msgid "\\q\\303\\274\\xC3\\xbc"\nmsgstr ""\n'
    assert read_document(written("a.po", content), "en", "de").units[0].source == "\\qüü"
    text = '\a\b\f\n\r\t\v"\\ x'
    content = 'msgid "\\a\\b\\f\\n\\r\\t\\v\\"\\\\ x"\nmsgstr ""\n'
    document = read_document(written("a.po", content), "en", "de")
    assert document.units[0].source == text
    document.units[0].set(text, final=True)
    written_as = '"\\a\\b\\f\\n"\n"\\r\\t\\v\\"\\\\ x"'
    expected = content.replace('msgstr ""', f'msgstr ""\n{written_as}')
    assert document.content().decode().endswith(expected)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8"])
def test_a_byte_order_mark_tells_the_encoding(translated, encoding):
    content = "\ufeff" + HEADER.replace("UTF-8", encoding.upper()) + 'msgid "é"\nmsgstr ""\n'
    output = translated("a.po", content.encode(encoding), final=True).decode(encoding)
    assert output == content.replace('é"\nmsgstr ""', 'é"\nmsgstr "É"')


def test_comments_of_the_memory_stand_before_the_last_block(translated):
    content = '# of the file\n\n# of the entry\nmsgid "Open a file"\nmsgstr ""\n'
    memory = TranslationMemory([("Open a\nfile", "Datei\n öffnen")])
    output = translated("a.po", content, memory=memory)
    assert output.endswith(
        "# of the file\n\n# 91% like “Open a file”: “Datei öffnen”\n# of the entry\n#, fuzzy\n"
        'msgid "Open a file"\nmsgstr "OPEN A FILE"\n'
    )


@pytest.mark.parametrize(
    ("content", "code", "named"),
    [
        ('msgid "a', "malformed_po", ":1 "),
        ('msgid "a"\nmsgstr "b"\nfoo\n', "malformed_po", ":3 "),
        ('msgstr "b"\n', "malformed_po", ":1 "),
        ('msgid "a"\n\nmsgid "b"\nmsgstr "c"\n', "malformed_po", ":3 "),
        ('msgid "a"\nmsgstr\n', "malformed_po", ":3 "),
        ('msgid "a"\nmsgctxt "b"\nmsgstr "c"\n', "malformed_po", ":2 "),
        ('msgid[0] "a"\nmsgstr "c"\n', "malformed_po", ":1 "),
        ('"a"\n', "malformed_po", ":1 "),
        ('msgid\nmsgstr "c"\n', "malformed_po", ":2 "),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr[0][1] "c"\n', "malformed_po", ":3 "),
        ("\xff".encode("latin-1"), "not_utf8", "a.po:1 "),
        (HEADER, "other_language", "target language, got de"),
    ],
)
def test_what_is_no_po_file_is_refused(written, content, code, named):
    with refused(code, named):
        read_document(written("a.po", content), "en", "fr")


@pytest.mark.parametrize(
    ("named", "expected", "is_same"),
    [
        ("sr@latin", "sr", True),
        ("pt_BR", "pt-PT", True),
        ("de_AT.UTF-8", "DE", True),
        ("", "de", True),
        ("de", "", True),
        ("den", "de", False),
        ("de", "den", False),
    ],
)
def test_regions_and_scripts_are_of_one_language(written, named, expected, is_same):
    languages = f'Language: {named}\\n"\n"Language: fr'  # The first one counts.
    path = written("a.po", HEADER.replace("Language: de", languages))
    if is_same:
        assert read_document(path, "en", expected).languages == ("en", named or expected)
    else:
        with refused("other_language", expected):
            read_document(path, "en", expected)


def test_real_catalogues_come_back_and_pass_msgfmt(root, written, translator, msgfmt):
    paths = sorted((root.parent / "shared/data/localisation/po").glob("*.po"))
    if not paths:
        pytest.skip("needs ../shared/data/localisation")
    for path in paths:
        document = read_document(path, "en", "de")
        assert document.content() == path.read_bytes()
        translate_document(document, translator, everything=True, final=True)
        assert msgfmt(document.content()) == "", path
        assert polib.pofile(document.content().decode()).percent_translated() > 90


def test_an_old_catalogue_gives_each_form_and_context_its_own(written, translated):
    entries = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "{0}"\nmsgstr[1] "{1}"\n'
    entries += '\nmsgctxt "a"\nmsgid "Open"\nmsgstr "{2}"\n\nmsgctxt "b"\nmsgid "Open"\n'
    header = HEADER.replace("de", "fr").replace("n !=", "n >")
    full = header + (entries + 'msgstr "{3}"\n').format(
        "%d fichier", "%d fichiers", "Ouvrir", "Ouvert"
    )
    memory = TranslationMemory.read(written("old.po", full), "en", "fr")
    new = header + (entries + 'msgstr "{3}"\n').format(*[""] * 4)
    assert translated("a.po", new, languages=("en", "fr"), memory=memory) == full


@pytest.mark.parametrize(
    ("language", "count", "only_one"),
    [
        ("de", 2, {0}),
        ("fr", 2, set()),
        ("pt", 2, {0}),
        ("pt_BR", 2, set()),
        ("pt-BR", 2, set()),
        ("ja", 1, set()),
        ("zh-Hans", 1, set()),
        ("ru", 3, set()),
        ("pl", 3, {0}),
        ("cs_CZ", 3, {0}),
        ("sl", 4, set()),
        ("ar", 6, {1}),
        ("xx", 0, None),
    ],
)
def test_languages(language, count, only_one):
    forms = plural_forms(default_rule(language))
    assert forms == (None if not count else (count, only_one))


@pytest.mark.parametrize(
    ("language", "forms"),
    [
        ("DE", [1, 0, 1, 1, 1]),
        ("fr", [0, 0, 1, 1, 1]),
        ("ko", [0, 0, 0, 0, 0]),
        ("hr", [2, 0, 1, 2, 0]),
        ("pl", [2, 0, 1, 2, 2]),
        ("sk", [2, 0, 1, 2, 2]),
        ("sl", [3, 0, 1, 3, 3]),
        ("ar", [0, 1, 2, 3, 4]),
        ("lt", [2, 0, 1, 1, 0]),
        ("lv", [2, 0, 1, 1, 0]),
        ("ro", [1, 0, 1, 1, 2]),
        ("uk", [2, 0, 1, 2, 0]),
    ],
)
def test_rules_for_0_1_2_5_and_21(language, forms):
    rule = default_rule(language).partition("plural=")[2].partition("plural=")
    rule = (rule[2] or rule[0]).rstrip(";")
    assert list(map(gettext.c2py(rule), (0, 1, 2, 5, 21))) == forms


def test_a_header_may_lack_its_last_sign_and_have_spaces():
    assert plural_forms(" nplurals = 2 ; plural = n != 1 ") == (2, {0})


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nplurals=INTEGER; plural=EXPRESSION;",
        "nplurals=2; plural=n/0;",
        "nplurals=2; plural=n;",
        "nplurals=1; plural=(n != 1);",
        "nplurals=0; plural=0;",
        "nplurals=2; plural=__import__('os');",
        "nplurals=2; plural=" + "(" * 900 + "n" + ")" * 90 + ";",
    ],
)
def test_headers_that_say_nothing_are_not_used(header):
    assert plural_forms(header) is None
