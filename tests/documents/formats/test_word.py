"""Word documents, written and read by python-docx."""

import io
import zipfile

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn

from t2t_keras.documents import read_document, translate_document
from t2t_keras.errors import UserError

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
    found = docx.Document(io.BytesIO(translated("a.docx", content)))
    assert [each.text for each in found.paragraphs] == [
        "THE TITLE",
        "SOME TEXT WITH BOLD AND ITALIC\nNEXT END.\tTABBED",
        "PAGE 99 pages",
        "SEE A LINK",
        "12 %",
    ]
    runs = [(each.text, bool(each.bold), bool(each.italic)) for each in found.paragraphs[1].runs]
    assert [run for run in runs if any(run[1:])] == [
        ("BOLD", True, False),
        ("ITALIC", False, True),
        ("\n", False, True),
        ("NEXT", False, True),
    ]
    assert found.paragraphs[3].hyperlinks[0].text == "A LINK"
    assert found.tables[0].cell(0, 0).text == "CELL & <b>"
    assert found.sections[0].header.paragraphs[0].text == "HEADER"
    assert translated.report.left_out == {"fields, as page numbers": 1}


def test_other_parts_stay_byte_for_byte(translated, content):
    old, new = (
        zipfile.ZipFile(io.BytesIO(each)) for each in (content, translated("a.docx", content))
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
    found = docx.Document(io.BytesIO(document.content())).paragraphs[1]
    assert found.text == "K\nF &\t n"
    assert [run.text for run in found.runs if run.bold] == ["F"]
    for wrong in ("K", '<g i="1">', '<g i="1">K</g>' * 2):
        unit.set(wrong)
        with pytest.raises(UserError, match=r"not well-formed|inline codes once each"):
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
    return "".join(f"<w:r>{each}</w:r>" for each in inside)


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
        found = [docx.Document(io.BytesIO(each)) for each in contents]
        return [each.paragraphs[0]._p for each in found], sum(report.left_out.values())

    return around


LINK = ("{begin}", "{ HYPER}", '{LINK "http://a.b"}', "{separate}", "a link", "{end}")
PAGE = ("{begin}", "{PAGE}", "{separate}", "page 7", "{end}")
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
    ],
)
def test_links_and_content_controls_are_around_text_and_other_fields_stay(
    around, inside, text, left_out
):
    (old, new), count = around(inside)
    texts = ["".join(each.text for each in side.iter(qn("w:t"))) for side in (old, new)]
    assert (texts[1], count) == (text, left_out)
    assert texts[1].lower() == texts[0].lower()
    tags = [
        [(each.tag, dict(each.attrib)) for each in side.iter() if each.tag not in RUNS]
        for side in (old, new)
    ]
    assert tags[0] == tags[1]


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
    for number, (source, others) in enumerate(
        {"Other": {"Text", "Box"}, "Box": {"Text"}, "Text": set()}.items()
    ):
        [unit] = [unit for unit in document.units if unit.source == source]
        unit.set(source.replace(source[:3], f"N{number}"))
        for _ in range(2):
            found = docx.Document(io.BytesIO(document.content())).element.body
            texts = {each.text for each in found.iter(qn("w:t"))}
            assert others <= texts
            assert len(texts) == 3
            assert len(found.xpath(".//w:b")) == 1 + (number == 2)
