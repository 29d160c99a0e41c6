"""Word documents, written and read by python-docx."""

import io
import re
import zipfile

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn
from refusals import refused

from t2t_keras.workbench.documents import read_document, translate_document

RUNS = {qn("w:r"), qn("w:t")}


@pytest.fixture
def content():
    document = docx.Document()
    document.add_heading("The title", 0)
    paragraph = document.add_paragraph("Some text with ")
    paragraph.add_run("bold").bold = True
    paragraph.add_run(" and ")
    run = paragraph.add_run("italic")
    run.italic = True
    run.add_break()
    run.add_text("next")
    paragraph.add_run(" end.\tTabbed")
    field = document.add_paragraph("Page ")
    for kind in ("begin", "separate", "end"):
        if kind == "end":
            field.add_run("99 pages")
        field.add_run()._r.append(parse_xml(f'<w:fldChar {nsdecls("w")} w:fldCharType="{kind}"/>'))
    link = '<w:hyperlink {} w:anchor="a"><w:r><w:t>a link</w:t></w:r></w:hyperlink>'
    document.add_paragraph("See ")._p.append(parse_xml(link.format(nsdecls("w"))))
    document.add_paragraph("12 %")
    table = document.add_table(1, 2)
    table.cell(0, 0).text = "Cell & <b>"
    document.sections[0].header.paragraphs[0].text = "Header"
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def test_paragraphs_tables_and_headers_are_translated(translated, content):
    actual = docx.Document(io.BytesIO(translated("a.docx", content)))
    assert [paragraph.text for paragraph in actual.paragraphs] == [
        "THE TITLE",
        "SOME TEXT WITH BOLD AND ITALIC\nNEXT END.\tTABBED",
        "PAGE 99 pages",
        "SEE A LINK",
        "12 %",
    ]
    runs = [(run.text, bool(run.bold), bool(run.italic)) for run in actual.paragraphs[1].runs]
    assert [run for run in runs if any(run[1:])] == [
        ("BOLD", True, False),
        ("ITALIC", False, True),
        ("\n", False, True),
        ("NEXT", False, True),
    ]
    assert actual.paragraphs[3].hyperlinks[0].text == "A LINK"
    assert actual.tables[0].cell(0, 0).text == "CELL & <b>"
    assert actual.sections[0].header.paragraphs[0].text == "HEADER"
    assert translated.report.left_out == {"fields, as page numbers": 1}


def test_other_parts_stay_byte_for_byte(translated, content):
    old, new = (
        zipfile.ZipFile(io.BytesIO(archive)) for archive in (content, translated("a.docx", content))
    )
    assert old.namelist() == new.namelist()
    changed = [name for name in old.namelist() if old.read(name) != new.read(name)]
    assert changed == ["word/document.xml", "word/header1.xml"]


def test_codes_may_change_places_but_not_go(written, content):
    document = read_document(written("a.docx", content))
    unit = document.units[1]
    assert unit.source.startswith(
        'Some text with <g i="0">bold</g> and <g i="1">italic</g><x i="2"'
    )
    unit.set('<g i="1">K</g><x i="2"/><g i="0">F</g> &amp;<x i="4"/> <g i="3">n</g>')
    paragraph = docx.Document(io.BytesIO(document.content())).paragraphs[1]
    assert paragraph.text == "K\nF &\t n"
    assert [run.text for run in paragraph.runs if run.bold] == ["F"]
    for wrong, code in (
        ("K", "inline_codes_differ"),
        ("\x0c", "malformed_xml"),
        ('<g i="1">', "malformed_xml"),
        ('<g i="1">K</g>' * 2, "inline_codes_differ"),
    ):
        unit.set(wrong)
        with refused(code):
            document.content()


def runs(*texts):
    """Returns runs: of a text, of {begin}, {separate} or {end} of a field, or of {its code}."""
    inside = []
    for text in texts:
        sign = text.strip("{}")
        if sign == text:
            inside.append(f"<w:t>{text}</w:t>")
        elif sign in ("begin", "separate", "end"):
            inside.append(f'<w:fldChar w:fldCharType="{sign}"/>')
        else:
            inside.append(f"<w:instrText>{sign}</w:instrText>")
    return "".join(f"<w:r>{run}</w:r>" for run in inside)


@pytest.fixture
def around(written, translator):
    """around(inside): a paragraph's XML before and behind its translation, and what is left out."""

    def around(inside):
        document = docx.Document()
        document.add_paragraph()._p.extend(parse_xml(f"<w:p {nsdecls('w')}>{inside}</w:p>"))
        content = io.BytesIO()
        document.save(content)
        document = read_document(written("a.docx", content.getvalue()), "en", "de")
        report = translate_document(document, translator)
        document.content()  # It may be asked for twice.
        contents = content.getvalue(), document.content()
        actual = [docx.Document(io.BytesIO(archive)) for archive in contents]
        return [reread.paragraphs[0]._p for reread in actual], sum(report.left_out.values())

    return around


LINK = ("{begin}", "{ HYPER}", '{LINK "http://a.b"}', "{separate}", "a link", "{end}")
PAGE = ("{begin}", "{PAGE}", "{separate}", "page 7", "{end}")
ALTERNATIVES = (
    '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
    "<mc:Choice>{}</mc:Choice></mc:AlternateContent>"
)
RUBY = f"<w:rubyPr/><w:rt>{runs('note')}</w:rt><w:rubyBase>{runs('base')}</w:rubyBase>"
RUBY = f"<w:ruby>{RUBY}</w:ruby>"
CONTROL = "<w:sdt><w:sdtPr><w:alias w:val='a'/></w:sdtPr>{}</w:sdt>"


@pytest.mark.parametrize(
    ("inside", "text", "left_out"),
    [
        (runs("See ", *LINK, " now"), "SEE A LINK NOW", 0),
        (runs(*LINK), "A LINK", 0),
        (runs("{begin}", "{HYPERLINK}", "{separate}", "12", "{end}", " now"), "12 NOW", 0),
        (runs("See ", *PAGE, " now"), "SEE page 7 NOW", 1),
        (runs("See ", *LINK[:-1], *PAGE, "{end}"), "SEE A LINKpage 7", 1),
        (runs("See ", *LINK[:-1], *LINK, "{end}"), "SEE A LINKa link", 1),
        (runs("See ", *LINK[:-1]), "SEE a link", 1),
        (runs("See ") + f"<w:hyperlink>{runs('it ', *PAGE)}</w:hyperlink>", "SEE IT page 7", 1),
        (f'<w:fldSimple w:instr=" hyperlink x">{runs("it")}</w:fldSimple>', "IT", 0),
        (f'{runs("on ")}<w:fldSimple w:instr="PAGE">{runs("it")}</w:fldSimple>', "ON it", 1),
        (
            runs("Dear ")
            + CONTROL.format(f"<w:sdtContent>{runs('Sir', *LINK)}</w:sdtContent>")
            + runs(", hello"),
            "DEAR SIRA LINK, HELLO",
            0,
        ),
        (runs("An ") + CONTROL.format("") + runs(" end"), "AN  END", 0),
        *(
            (runs("An ") + f"<{name}>{runs('old ', *LINK)}</{name}>", "AN OLD A LINK", 0)
            for name in (
                "w:moveTo",
                "w:customXml",
                "w:dir",
                "w:bdo",
                "w:ins",
                "w:smartTag",
                "w:new",
            )
        ),
        (f"<w:customXml><w:customXmlPr/><w:ins>{runs('in')}</w:ins></w:customXml>", "IN", 0),
        (f"<w:new>{runs('a ')}<w:other>{runs('b')}</w:other></w:new>", "A B", 0),
        *(
            (runs("An ") + f"<{name}>{runs('old')}</{name}>" + runs(" end"), "AN old END", 0)
            for name in ("w:del", "w:moveFrom")
        ),
        (runs("An ") + ALTERNATIVES.format(runs("old")), "AN old", 1),
        (f"<w:r><w:t>An</w:t>{ALTERNATIVES.format(runs('old'))}</w:r>", "ANold", 1),
        (f"<w:r>{ALTERNATIVES.format(runs('old'))}</w:r>" + runs(" end"), "old END", 1),
        (
            f"{runs('An ')}<w:r>{ALTERNATIVES.format('<w:p>' + runs('box') + '</w:p>')}</w:r>",
            "AN BOX",
            0,
        ),
        (f"{ALTERNATIVES.format(runs('1'))}{runs('An end')}", "1AN END", 0),
        (runs("An ") + f"<w:r><w:rPr><w:b/></w:rPr>{RUBY}</w:r>", "AN NOTEBASE", 0),
        (f"<w:r>{RUBY}<w:t> of</w:t><w:tab/>{RUBY}</w:r>", "NOTEBASE OFNOTEBASE", 0),
    ],
)
def test_links_and_content_controls_are_around_text_and_other_fields_stay(
    around, inside, text, left_out
):
    (old, new), count = around(inside)
    texts = ["".join(element.text for element in side.iter(qn("w:t"))) for side in (old, new)]
    assert (texts[1], count) == (text, left_out)
    assert texts[1].lower() == texts[0].lower()
    tags = [
        [
            (element.tag, dict(element.attrib), element.getparent().tag)
            for element in side.iter()
            if element.tag not in RUNS
        ]
        for side in (old, new)
    ]
    assert tags[0] == tags[1]


def test_signs_within_words_stay_in_place(around):
    word = "<w:t>a non</w:t><w:noBreakHyphen/><w:t>stop pro</w:t><w:softHyphen/><w:t>cess</w:t>"
    (_, new), _ = around(f"<w:r>{word}<w:tab/><w:t>end</w:t></w:r>")
    parts = [part.text or part.tag for part in new.iter() if part.tag not in {qn("w:r"), qn("w:p")}]
    signs = [qn("w:noBreakHyphen"), qn("w:softHyphen"), qn("w:tab")]
    assert parts == ["A NON", signs[0], "STOP PRO", signs[1], "CESS", signs[2], "END"]


def test_a_character_that_looks_like_such_a_sign_stays_one(around):
    (_, new), _ = around(runs("a non\u2011stop"))
    text = new[0].find(qn("w:t"))
    assert text.text == "A NON\u2011STOP"
    assert text.get("{http://www.w3.org/XML/1998/namespace}space") == "preserve"


def test_ruby_is_a_text_of_its_own(written):
    document = read_document(written("a.docx", word(runs("The ") + f"<w:r>{RUBY}</w:r>")))
    assert [unit.source for unit in document.units] == ['The <g i="0">base</g>', "note"]


def word(inside, **files):
    """Returns the file of a document with a paragraph, and other files."""
    document = docx.Document()
    document.add_paragraph()._p.extend(parse_xml(f"<w:p {nsdecls('w')}>{inside}</w:p>"))
    content = io.BytesIO()
    document.save(content)
    with zipfile.ZipFile(content, "a") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


DRAWING = '<w:drawing><a:t xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">{}</a:t></w:drawing>'


@pytest.mark.parametrize(
    ("inside", "files", "reason", "count"),
    [
        (
            "",
            {"word/charts/chart1.xml": "<c:v>Öl</c:v><c:v>12</c:v><a:t>A</a:t>"},
            "texts of charts",
            2,
        ),
        ("", {"word/diagrams/data2.xml": "<a:t>Ж</a:t>"}, "texts of charts", 1),
        ("", {"word/glossary/document.xml": "<w:t>a</w:t>"}, "texts of building blocks", 1),
        ("", {"word/embeddings/a.xlsx": "x", "word/afchunk.mht": "x"}, "embedded files", 2),
        (f"<w:r>{DRAWING.format('a')}{DRAWING.format(1)}</w:r>", {}, "texts of drawings", 1),
    ],
)
def test_texts_left_out_are_counted(translated, inside, files, reason, count):
    content = word(runs("Text") + inside, **files)
    translated("a.docx", content)
    assert translated.report.left_out == {reason: count}


def parts(**parts):
    """Returns the file of a document of parts, each of a name and with the XML of a paragraph."""
    names = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, inside in parts.items():
            archive.writestr(name, f'<w:x xmlns:w="{names}"><w:p>{inside}</w:p></w:x>')
    return content.getvalue()


def test_all_parts_with_text_are_read(written):
    names = ["document", "header2", "footer1", "footnotes", "endnotes", "comments"]
    content = parts(**{f"word/{name}.xml": runs(name) for name in [*names, "settings"]})
    assert [unit.source for unit in read_document(written("a.docx", content)).units] == names


def test_another_root_is_refused(written):
    content = parts(**{"word/document.xml": ""}).replace(b"main", b"niam")
    with refused("not_a_word_document"):
        read_document(written("a.docx", content))


def styled(style, text):
    return f"<w:r><w:rPr>{style}</w:rPr><w:t>{text}</w:t></w:r>"


@pytest.mark.parametrize(
    ("inside", "source"),
    [
        (styled("<w:lang w:val='de'/>", "a") + styled("<w:noProof/>", "b") + runs("c"), "abc"),
        (
            runs("a") + "<w:proofErr w:type='x'/><w:r><w:lastRenderedPageBreak/><w:t>b</w:t></w:r>",
            "ab",
        ),
        (
            runs("20 m") + styled("<w:vertAlign w:val='superscript'/>", "2") + runs(" wide"),
            '20 m<sup i="0">2</sup> wide',
        ),
        (
            runs("H") + styled("<w:vertAlign w:val='subscript'/>", "2") + runs("O here"),
            'H<sup i="0">2</sup>O here',
        ),
        (
            runs("20 m") + styled("<w:vertAlign w:val='baseline'/>", "2") + runs(" wide"),
            '20 m<g i="0">2</g> wide',
        ),
        (runs("a") + styled("<w:b/>", "long"), '<g i="0">a</g>long'),
        ("<w:bookmarkStart/>" + runs("a") + "<w:bookmarkEnd/>" + runs("b"), 'a<x i="0"/>b'),
        (
            "<w:r><w:t>a</w:t><w:tab/><w:br/><w:cr/><w:ptab/><w:t>b</w:t></w:r>",
            "a{}b".format("".join(f'<x i="{number}" ctype="lb"/>' for number in range(4))),
        ),
        ("<w:r><w:t>a</w:t><w:sym/></w:r>" + runs("b"), 'a<x i="0"/>b'),
        (runs("12 ", "%"), None),
        (runs("a") + "<w:r><w:t/></w:r><!-- a -->" + runs("b"), "ab"),
        (
            "<w:r><w:t>a</w:t><w:noBreakHyphen/><w:t>b</w:t><w:softHyphen/><w:t>c</w:t></w:r>",
            "a\u2011b\u00adc",
        ),
        (f"<w:customXml><w:customXmlPr/>{runs('in')}</w:customXml>", '<g i="0">in</g>'),
    ],
)
def test_runs_are_codes_where_their_formats_are_seen(written, inside, source):
    document = read_document(written("a.docx", parts(**{"word/document.xml": inside})))
    assert [unit.source for unit in document.units] == ([source] if source else [])


@pytest.mark.parametrize(("size", "is_read"), [(9_999, True), (10_000, True), (10_001, False)])
def test_namespaces_of_at_most_10_000_bytes(written, size, is_read):
    used = len('"http://schemas.openxmlformats.org/wordprocessingml/2006/main""" ') - 1
    inside = runs("a").replace("<w:r>", f'<w:r xmlns:a="{"a" * (size - used)}">')
    path = written("a.docx", parts(**{"word/document.xml": inside}))
    if is_read:
        assert read_document(path).units
    else:
        with refused("file_too_large", "10,000"):
            read_document(path)


def test_resetting_a_text_restores_the_file(written):
    two = parts(**{"word/document.xml": runs("One") + "</w:p><w:p>" + runs("Two")})
    document = read_document(written("a.docx", two))
    for texts in (("Eins", "Two"), ("One", "Zwei")):
        for unit, text in zip(document.units, texts, strict=True):
            unit.set(text)
        new = zipfile.ZipFile(io.BytesIO(document.content())).read("word/document.xml").decode()
        assert re.findall("<w:t[^>]*>(.*?)<", new) == list(texts)


def test_files_are_packed_as_before(written, content):
    document = read_document(written("a.docx", content))
    document.units[0].set("Neu")
    old, new = (zipfile.ZipFile(io.BytesIO(archive)) for archive in (content, document.content()))
    for before, after in zip(old.infolist(), new.infolist(), strict=True):
        assert (before.compress_type, before.date_time) == (after.compress_type, after.date_time)


def test_the_stricter_standard_is_read_and_written(translated):
    names = b"http://schemas.openxmlformats.org/", b"http://purl.oclc.org/ooxml/"
    names = [name + b"wordprocessingml/main" for name in names]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        body = f"<w:body><w:p>{runs('Text')}</w:p></w:body>".encode()
        archive.writestr(
            "word/document.xml", b'<w:document xmlns:w="%b">%b</w:document>' % (names[1], body)
        )
    actual = zipfile.ZipFile(io.BytesIO(translated("a.docx", content.getvalue())))
    document = actual.read("word/document.xml")
    assert document.startswith(b"<?xml version='1.0' encoding='UTF-8' standalone='yes'?>")
    assert b'xmlns:w="%b"' % names[1] in document
    assert b">TEXT<" in document


def test_a_text_that_stays_the_same_is_not_written_anew(written):
    path = written("a.docx", word(runs("An ") + f"<w:ins>{runs('old')}</w:ins><w:proofErr/>"))
    document = read_document(path)
    [unit] = document.units
    source = unit.source
    unit.set(source)
    assert document.content() == path.read_bytes()
    unit.set(source.replace("An", "Ein"))
    assert document.content() != path.read_bytes()
    unit.set(source)
    [paragraph] = docx.Document(io.BytesIO(document.content())).paragraphs
    assert "".join(part.text for part in paragraph._p.iter(qn("w:t"))) == "An old"


def test_links_in_each_other_without_end_are_no_trouble(around):
    (_, new), count = around(runs("See ", *LINK[:-1] * 2_000, *["{end}"] * 2_000))
    assert count == 1
    assert new[0].find(qn("w:t")).text == "SEE "


def test_a_text_box_stays_whatever_is_translated(written):
    document = docx.Document()
    document.add_paragraph("Other")
    box = "<w:txbxContent><w:p><w:r><w:t>Box</w:t></w:r></w:p></w:txbxContent>"
    run = f"<w:r {nsdecls('w')}><w:rPr><w:b/></w:rPr><w:t>Text</w:t><w:pict>{box}</w:pict></w:r>"
    document.add_paragraph()._p.append(parse_xml(run))
    content = io.BytesIO()
    document.save(content)
    document = read_document(written("a.docx", content.getvalue()))
    for number, (source, remaining) in enumerate(
        {"Other": {"Text", "Box"}, "Box": {"Text"}, "Text": set()}.items()
    ):
        [unit] = [unit for unit in document.units if unit.source == source]
        unit.set(source.replace(source[:3], f"N{number}"))
        for _ in range(2):
            body = docx.Document(io.BytesIO(document.content())).element.body
            texts = {element.text for element in body.iter(qn("w:t"))}
            assert remaining <= texts
            assert len(texts) == 3
            assert len(body.xpath(".//w:b")) == 1 + (number == 2)
