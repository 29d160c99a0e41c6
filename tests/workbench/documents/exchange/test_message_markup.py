"""Tags of messages are markup where they match, else words."""

import pytest

from t2t_keras.workbench.documents import read_document, translate_document


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("<b>Both</b> match<br>here", "html"),
        ("<p>One<p>Two", "html"),
        ("long<wbr>name<hr>and <br> more", "html"),
        ("<ul><li>One<li>Two</ul>", "html"),
        ("It failed.<p>Try again.", "html"),
        ("<dt>Name<dd>What it is", "html"),
        ("<b>R&amp;D</b> now", "html"),
        ("An <img src='%s'></img> and an <icon/>", "html"),
        ("An <img/> without attributes", "html"),
        ("Run the <script> before the build", "text"),
        ("Use <style> for the output", "text"),
        ("The <title> of a page, <script/> too", "text"),
        ("Copy <b>all</b> from <source> to <file>", "text"),
        ("Now you can use a tag <p> here", "text"),
        ("Use <script/> here", "text"),
        ("the end</b>", "text"),
        ("By <a@b.org> <1>", "text"),
        ("<a href='b>c", "text"),
    ],
)
def test_a_message_is_html_where_its_tags_match(written, translator, capitals_of, message, kind):
    document = read_document(written("a.po", f'msgid "{message}"\nmsgstr ""\n'), "en", "de")
    translate_document(document, translator)
    [unit] = document.units
    assert (unit.format, unit.keeps_lines) == (kind, True)
    assert translator.calls[0][1] == kind
    assert unit.target == capitals_of(message)
