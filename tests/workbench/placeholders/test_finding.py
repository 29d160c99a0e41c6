"""Placeholders are found by hand-made lists, and compared as a translator would."""

import pytest
from counted_work import work_of

from t2t_keras.workbench.placeholders import find, is_reordered, missing
from t2t_keras.workbench.placeholders.finding import InWordPiece, piece_at


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%s %d %1$s %(name)s %5.2f %%", "%s|%d|%1$s|%(name)s|%5.2f|%%"),
        ("%-10s|%*d %.2f%s %lu %zd", "%-10s|%*d|%.2f|%s|%lu|%zd"),
        ("%1 %n %L1 of %2.", "%1|%n|%L1|%2"),
        ("{0} {name} {} {0:d} {a.b!r} %{count}", "{0}|{name}|{}|{0:d}|{a.b!r}|%{count}"),
        ("${x} $x $(x) {{ x }} costs $5", "${x}|$x|$(x)|{{ x }}"),
        ("a&nbsp;b &#160; &#xA0; &#X41; AT&T a & b", "&nbsp;|&#160;|&#xA0;|&#X41;"),
        (r"a\nb\t \\n", r"\n|\t|\\"),
        ("see https://a.b/c_(d), or (www.x.org/a).", "https://a.b/c_(d)|www.x.org/a"),
        ("mail foo.bar@x.org.", "foo.bar@x.org"),
        ("50% of 5 MB, 100 %ige, 3.5 GHz, 5.2.1, in 10 minutes", "50%|5 MB|100 %|3.5 GHz"),
        ("2 kWh, 20 mAh, 3 MW and 4 Wh", "2 kWh|20 mAh|3 MW|4 Wh"),
        ("1 000 km, 1\u202f000,5 km, 1'000 km", "1 000 km|1\u202f000,5 km|1'000 km"),
        ("1 000 000 000 000 000 km and 1,000,000 km", "1 000 000 000 000 000 km|1,000,000 km"),
        ("{a{b{c{d{e}}}}} and {a{b{c{d{e{f}}}}}}", "{a{b{c{d{e}}}}}|{b{c{d{e{f}}}}}"),
        ("in 2000 km, 2019 300 km, 10:30 100 km, 5 100 people", "2000 km|300 km|100 km"),
        ("costs $5, 5 €, €5 or 5 $", ""),
        ("Open <file>, </b> <a href='%s'>", "</b>|<a href='%s'>"),
        ("a < b > c, <b and c>, <3 and <a@b.org>", "a@b.org"),
        ("%d%%, 100%% and 50%d", "%d|%%|%%|%d"),
        ("%Y-%m-%d %H:%M", "%Y|%m|%d|%H|%M"),
        ("nothing here, or 12 there", ""),
        ("\U0010ff03 is of the private range", "\U0010ff03"),
    ],
)
def test_kinds(text, expected):
    places = find(text)
    assert "|".join(place.text for place in places) == expected
    assert all(text[place.start : place.end] == place.text for place in places)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Go, Ruby, Windows, Apple.
        ("%v %+v %[1]d %<total>.2f", ["%v", "%+v", "%[1]d", "%<total>.2f"]),
        ("%1!s! %#@files@ %@ %1$@", ["%1!s!", "%#@files@", "%@", "%1$@"]),
        # i18next, Angular, Fluent, Java, .NET, Python, Ruby, templates.
        ("{{count, number}} { $var }", ["{{count, number}}", "{ $var }"]),
        ("{0,number,#.##} {0,10:N2}", ["{0,number,#.##}", "{0,10:N2}"]),
        ("{x!r:>{w}} #{n} {{{raw}}}", ["{x!r:>{w}}", "#{n}", "{{{raw}}}"]),
        ("{% if x %} <%= x %>", ["{% if x %}", "<%= x %>"]),
        ("{0, plural, one {# boat} other {b}}!", ["{0, plural, one {# boat} other {b}}"]),
        # PHP, shells, Chrome, Swift.
        ("$user->name $t(a.b) $NAME$", ["$user->name", "$t(a.b)", "$NAME$"]),
        ("${a.b[0]} $env:X \\(name)", ["${a.b[0]}", "$env:X", "\\(name)"]),
        # React, wikis, Maketext, Lisp.
        ("<0>t</0> <1/> <link>x</link> <file>", ["<0>", "</0>", "<1/>", "<link>", "</link>"]),
        ("~a ~5d [[a b]] [_1] [quant,_1,x]", ["~a", "~5d", "[[a b]]", "[_1]", "[quant,_1,x]"]),
        ("[*,_1] [#,_2] [x,y]", ["[*,_1]", "[#,_2]"]),
        ("%dth %dst %dp %dM", ["%d"] * 4),
        ("a" * 64 + "@b.org", ["a" * 64 + "@b.org"]),
        ("__name__ a_b [see]", ["__name__"]),
        ("This works for %hours% hours.", ["%hours%"]),
        ("%count% of %name%, %id%", ["%count%", "%name%", "%id%"]),
        ("%APPDATA%\\x and %ProgramFiles(x86)%", ["%APPDATA%\\x", "%ProgramFiles(x86)%"]),
        ("%HOMEDRIVE%%HOMEPATH%", ["%HOMEDRIVE%%HOMEPATH%"]),
        (":attribute must be set, :smile: and a:b, 12:30", [":attribute", ":smile:"]),
        ("%title, %user.name. 100%", ["%title", "%user.name", "100%"]),
        ("@count, !name, #ff00 and C# a@b", ["@count", "!name", "#ff00"]),
        ("\\alpha, C:\\new\\tools and \\d+", ["\\alpha", "C:\\new\\tools", "\\d"]),
        ("one\\ntwo\\nThree", ["\\n", "\\n"]),
        ("my%20file", ["%20"]),
        # A conversion ends in front of a unit, and of a word that begins behind it.
        ("%ds %dMB %dx%d %sWarning %s_%s", ["%d", "%d", "%d", "%d", "%s", "%s", "%s"]),
        ("5 %(n)s, 5 %{a} 5 %<b>s 5 %.2f", ["%(n)s", "%{a}", "%<b>s", "%.2f"]),
        ("5 % of 5%, 5 %-ige 5%.", ["5 %", "5%", "5 %", "5%"]),
        ("%1$sfoo %.2fx", ["%1$s", "%.2f"]),
        ("%snotify %lu% %d%%", ["%snotify", "%lu", "%d", "%%"]),
    ],
)
def test_unknown_syntaxes_are_whole_placeholders(text, expected):
    assert [place.text for place in find(text)] == expected
    # Also without another that a search could notice.
    assert all(
        [place.text for place in find(placeholder)] == [placeholder]
        for placeholder in expected
        if placeholder[1:4] != "lin"
    )


def test_names_of_html_elements_are_no_words():
    names = (
        "a b big body br code div em font h1 h6 head hr html i iframe img input li nobr ol p pre "
    )
    names += (
        "qt s script small span strong style sub sup svg table tbody td textarea th thead tr tt "
    )
    for name in (names + "u ul").split():
        assert [place.text for place in find(f"Put <{name}> and <{name.upper()}")] == [f"<{name}>"]


@pytest.mark.parametrize(
    "address", ["https://a.b/c", "www.a.b", "ftp://a.b/c_(d)", "http://a.b/[x]"]
)
@pytest.mark.parametrize("end", [*".,;:!?'*_)]}»”", ").", "!!", "...", ""])
def test_punctuation_after_an_address_is_not_part_of_it(address, end):
    assert [place.text for place in find(f"See {address}{end} now")] == [address]


def test_numbers_have_units():
    units = (
        "% ‰ ° °C °F B kB KB MB GB TB PB KiB MiB GiB TiB MB/s GiB/s kbit/s Mbit Mbps px pt em dpi "
    )
    units += (
        "ppi fps Hz kHz MHz GHz THz s ms µs ns min h m km cm mm µm nm m² m³ km² g kg mg µg V kV mV "
    )
    units += "A mA W kW MW mW Wh kWh MWh Ah mAh dB"
    for unit in units.split():
        for text in (f"5 {unit}", f"5{unit}", f"1,000.5\u00a0{unit}"):
            assert [place.text for place in find(f"At {text}, so")] == [text]
    for unit in ("Bs", "pixels", "x", "men", "MBs"):
        assert not find(f"At 5 {unit}, so")


def test_pieces_that_are_given_are_found_before_others():
    places = find("Run ls -l %s, not ls.", ["ls", "ls -l %s"])
    assert [place.text for place in places] == ["ls -l %s", "ls"]
    assert [place.text for place in find("%s-x %dx", ["", "%s-x", InWordPiece("dx")])] == [
        "%s-x",
        "%d",
    ]


def test_pieces_are_no_parts_of_other_words():
    places = find("The e-in-e in eine, née, E_in, inは in은 在in", ["in", "e"])
    assert [place.text for place in places] == ["e", "in", "e", "in", "in", "in", "in"]
    assert [place.text for place in find("了解了", ["了"])] == ["了", "了"]
    parts = [piece_at("ints, int", 0, 3), piece_at("文件", 0, 1)]
    assert len(find("eints", parts)) == len(find("eints", [*parts, "int"])) == 1


@pytest.mark.parametrize(
    ("source", "target", "lost", "added"),
    [
        ("%s and %s", "%s", ["%s"], []),
        ("%s", "%d", ["%s"], ["%d"]),
        ("1.5 GB in 1,000 km", "1,5 GB auf 1000 km", [], []),
        ("1 000 km in 2 kWh", "1000 km mit 2 kWh", [], []),
        ("1,000.5 km", "1\u202f000,5 km", [], []),
        ("1\u2019000 km", "1000 km", [], []),
        ("{} of %s", "{} von %2$s", [], []),
        ("5 MB", "6 MB", ["5 MB"], ["6 MB"]),
        ("50%", "50 %", [], []),
        ("%d files in %s", "in %2$s sind %1$d Dateien", [], []),
        ("%d files in %s", "in %1$s sind %2$d Dateien", ["%d", "%s"], ["%1$s", "%2$d"]),
    ],
)
def test_what_is_lost_and_added(source, target, lost, added):
    assert missing(source, target) == (lost, added)


def test_conversions_without_numbers_keep_their_order():
    assert is_reordered("%d files in %s", "in %s sind %d Dateien")
    assert not is_reordered("{a} in {b}", "{b} in {a}")
    assert is_reordered("{} of %d", "%d von {}")
    assert not is_reordered("%s of %s", "%s von %s")
    assert not is_reordered("%d of %s", "%d")


@pytest.mark.parametrize(
    "text",
    [
        "http://" + ")." * 50_000,
        "%" * 10**5,
        "a@" * 10**5,
        "{" * 10**5,
        "%" + "0" * 10**5 + "!",
        "%(a)" + "0" * 10**5 + "!",
        "1 000 " + "000 " * 50_000,
        "<a b=' " * 20_000,
        "<a" + " b='c'" * 20_000,
    ],
)
def test_long_lines_take_time_in_proportion(text):
    assert sum(len(place.text) for place in find(text)) <= len(text)


def test_many_verbatim_pieces_take_linear_work():
    # One expression of all pieces would be compiled for each text, and tried at each place.
    def work(count):
        pieces = [f"f{number}" for number in range(count)]
        text = " ".join(pieces)
        assert [place.text for place in find(text, pieces)] == pieces
        return work_of(lambda: find(text, pieces))

    assert work(400) < 2.3 * work(200)


def test_the_longest_verbatim_piece_is_found_where_several_begin():
    places = find("get() get %d gets b", ["get", "get()", "b", "b c"])
    assert [place.text for place in places] == ["get()", "get", "%d", "b"]
    assert [place.text for place in find("gets %d", [InWordPiece("get")])] == ["get", "%d"]
