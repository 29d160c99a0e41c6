import re

import numpy as np
import pytest
from accessibility import accessibility_faults
from browser import opening
from contrast import text_contrasts

from t2t_keras.decoding.translation import Hypothesis
from t2t_keras.lab.drawing import DARK_COLORS, LIGHT_COLORS
from t2t_keras.lab.insights import SentenceInsights, attention_page, head_dashes


def lines(page):
    """{head: {(query, key): thickness}} of the lines that are drawn."""
    drawn = page.run("""
        return [...document.querySelectorAll("#lines g")].map((group) => [
            Number(group.dataset.head),
            [...group.children].map((line) => [
                line.dataset.ends, Number(line.getAttribute("stroke-width"))]),
        ]);""")
    return {
        head: {tuple(map(int, ends.split())): thickness for ends, thickness in group}
        for head, group in drawn
    }


def expected_lines(weights, heads=range(8), query=None, key=None):
    """The same of weights [heads, queries, keys]: 5 pixels thick is 1."""
    return {
        head: {
            ends: pytest.approx(5 * weight, abs=0.006)
            for ends, weight in np.ndenumerate(weights[head])
            if weight >= 0.02 and query in (None, ends[0]) and key in (None, ends[1])
        }
        for head in heads
    }


def word(page, side, number):
    actual = page.one(f"#{side} li:nth-child({number + 1}) .piece")
    page.run("arguments[0].scrollIntoView({ block: 'center' })", actual)
    return actual


@pytest.fixture
def weights(sentences):
    return sentences[0].attention


def test_it_opens_with_the_last_layer_and_all_can_be_chosen(open_page, weights):
    page = open_page()
    assert page.one("#translation").inner_text() == "zwei spielende hunde"
    rows = page.all("#hypotheses li")
    assert [row.inner_text().split("\n")[0] for row in rows] == [
        f"\N{MINUS SIGN}{score}" for score in ("0.500", "0.750", "1.250")
    ]
    assert [row.get_attribute("class") for row in rows] == ["best", "", ""]
    assert [part.inner_text() for part in page.all("#hypotheses u")] == ["\u2003\u2003", "katzen"]
    assert page.is_shown("#differs")
    classes = [element.get_attribute("class") for element in page.all("#reads li")]
    assert classes == ["", "", "joined", "", "special"]
    assert lines(page) == expected_lines(weights.cross[2])

    def labels():
        meaning = page.text("#meaning").partition(" ")[0]
        return [*(page.text(f"#{side}-label") for side in ("reads", "read")), meaning]

    assert labels() == ["Word predicted", "Word of the source", "Encoder-decoder"]
    page.one("#kinds label:nth-child(1)").click()
    assert labels() == ["Word of the source", "Word it reads", "Encoder"]
    assert lines(page) == expected_lines(weights.encoder[2])
    page.one("#layers label:nth-child(1)").click()
    assert lines(page) == expected_lines(weights.encoder[0])
    page.one("#kinds label:nth-child(2)").click()
    assert labels() == ["Word predicted", "Word read before", "Decoder"]
    assert lines(page) == expected_lines(weights.decoder[0]), "the layer stays"
    page.one("h1").click()
    for key, layer in zip(["Left", *["Right"] * 3, "Left"], [0, 1, 2, 2, 1], strict=True):
        page.press(f"Arrow{key}")
        assert lines(page) == expected_lines(weights.decoder[layer]), "arrows work anywhere"
    page.run("DATA.sentences[0].hypotheses[0].parts = [['', false]]; drawSentence()")
    assert page.text("#translation") == "(nothing)"


def test_one_sentence_alone_is_not_chosen(browser, sentences, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(attention_page(sentences[:1]), "utf-8")
    with opening(browser, path.as_uri()) as open_page:
        assert not open_page().is_shown(".chooser")


def test_heads_are_switched(open_page, weights):
    page = open_page()
    buttons = page.all("#heads button")
    assert [button.inner_text() for button in buttons] == [*"01234567"]
    buttons[1].click()
    pressed = [button.get_attribute("aria-pressed") for button in buttons]
    assert pressed == ["true", "false", *["true"] * 6]
    assert lines(page) == expected_lines(weights.cross[2], [0, *range(2, 8)])
    buttons[1].click(modifiers=["Shift"])
    assert list(lines(page)) == [1]
    buttons[3].dblclick()
    assert list(lines(page)) == [3]
    page.one("#no-heads").click()
    assert lines(page) == {}
    assert page.text("#report") == "No head is switched on."
    page.one("#all-heads").click()
    assert list(lines(page)) == [*range(8)]


def test_a_word_shows_its_own_lines_while_it_is_pointed_at_or_chosen(open_page, weights):
    page = open_page()
    places = """return [...document.querySelectorAll("li, #report, .piece")].map(
        (each) => each.getBoundingClientRect().toJSON());"""
    spielen, two = word(page, "reads", 1), word(page, "read", 0)
    before = page.run(places)
    spielen.hover(force=True)
    assert lines(page) == expected_lines(weights.cross[2], query=1)
    for heads, note in ([*range(8)], " (mean of the heads shown)"), ([1], ""):
        page.run("switchHeads(state.heads.map((_, head) => arguments[0].includes(head)))", heads)
        numbers = [element.inner_text() for element in page.all("#read .number")]
        means = weights.cross[2, heads, 1].mean(axis=0)
        assert [float(number or 0) for number in numbers] == pytest.approx(means, abs=0.0051)
        stripes = page.run("return document.querySelector('#read .piece').style.backgroundImage")
        strengths = list(map(float, re.findall(r"--strongest\) \* ([\d.]+)", stripes)))
        assert strengths == pytest.approx(weights.cross[2, heads, 1, 0], abs=0.0006)
        strongest = np.argsort(-means)[:5]
        read = [(("two dogs play ing . </s>").split()[key], means[key]) for key in strongest]
        read = ", ".join(f"{text} {mean:.2f}" for text, mean in read if mean >= 0.005)
        assert page.text("#report") == f"spielen, when predicted, reads {read}{note}"
    page.one("#all-heads").dispatch_event("click")
    assert page.run(places) == before, "nothing moves"
    two.hover(force=True)
    assert lines(page) == expected_lines(weights.cross[2], key=0)
    spielen.click()
    page.one("#heads button").click()
    assert lines(page) == expected_lines(weights.cross[2], range(1, 8), query=1), "a click keeps it"
    assert page.text("[aria-selected=true] .piece") == "spielen"
    spielen.click()
    page.one("h1").hover(force=True)
    assert lines(page) == expected_lines(weights.cross[2], range(1, 8)), "a second click lets go"


def test_everything_is_reached_by_the_keyboard(open_page, weights):
    page = open_page()
    reached = []
    for _ in range(16):
        page.press("Tab")
        reached.append(page.focused_name)
    controls = ["Sentence", "Next sentence", "Cross", "2", *(f"Head {head}" for head in range(8))]
    assert reached == [*controls, "All", "None", "zwei", "two"], "each column is one stop"
    for key, reads in (
        ("ArrowLeft", "zwei"),
        ("ArrowDown", "spielen"),
        ("ArrowRight", "dogs"),
        ("End", "</s>"),
        ("Home", "two"),
        ("ArrowUp", "two"),
        ("End", "</s>"),
        ("ArrowDown", "</s>"),
    ):
        page.press(key)
        assert page.focused_name == reads
    assert lines(page) == expected_lines(weights.cross[2], key=5)
    page.press("Escape")
    assert lines(page) == expected_lines(weights.cross[2])


def test_hostile_text_is_text(open_page, sentences):
    page = open_page()
    # Whatever was shown of one sentence is not of the next.
    moves = ("#next", False), ("#previous", True), ("#next", False)
    for button, is_first in moves:
        page.one(button).click()
        assert page.one("#next").is_enabled() == page.one("#previous").is_disabled() == is_first
        assert page.one("#sentence").input_value() == str(1 - is_first)
    assert not page.is_shown("#differs")
    assert [option.text_content()[:3] for option in page.all("#sentence option")] == ["1. ", "2. "]
    # The browser writes each white space of a title as one space.
    title = page.tab.title().split()
    assert title == ["Attention:", *sentences[1].source.split()]
    for shown in ("#source", "#translation"):
        assert page.one(shown).text_content() == sentences[1].source
    assert page.all("main b, main img") == []
    assert page.one("#hypotheses .sentence").get_attribute("dir") == "auto"
    labels = page.all("#read .piece")
    words = [*sentences[1].source.split(" "), "</s>"]
    assert [label.text_content() for label in labels] == words
    assert lines(page) == expected_lines(sentences[1].attention.cross[2])


def test_on_a_phone(open_page, weights):
    """Nothing is scrolled sideways, a tap chooses a word and the next lets go."""
    page = open_page(width=320)
    assert page.run("return document.documentElement.scrollWidth") <= 320
    for key in (1, None):
        word(page, "read", 1).tap()
        assert lines(page) == expected_lines(weights.cross[2], key=key)


@pytest.mark.parametrize(("width", "scheme"), [(1000, "dark"), (360, "light")])
def test_axe_finds_no_fault(open_page, width, scheme):
    page = open_page(width, scheme)
    assert accessibility_faults(page) == []
    page.one("#reads li").focus()
    assert accessibility_faults(page) == [], "with the weights of a word"


def test_lines_lead_from_word_to_word(open_page):
    """Each head's lines end at its own height: 22 pixels for eight, around a word's middle."""
    page = open_page()
    for width in (600, 300):
        ends = page.run(f"""
            document.querySelector("main").style.width = "{width}px";
            return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {{
                const box = (each) => each.getBoundingClientRect();
                done([...document.querySelectorAll("#lines path")].map((line) => {{
                    const [query, key] = line.dataset.ends.split(" ");
                    const [left, right] = [["reads", query], ["read", key]].map(([side, place]) =>
                        document.getElementById(side).children[place]);
                    const [start, end] = [0, line.getTotalLength()].map((length) =>
                        line.getPointAtLength(length).matrixTransform(line.getScreenCTM()));
                    const middle = ({{ top, bottom }}) => (top + bottom) / 2;
                    return [
                        start.x - box(left.querySelector(".piece")).right,
                        box(right.querySelector(".piece")).left - end.x,
                        start.y - middle(box(left)),
                        end.y - middle(box(right)),
                        Number(line.parentNode.dataset.head),
                    ];
                }}));
            }})))""")
        assert len(ends) > 80
        for *gaps, left, right, head in ends:
            assert gaps == pytest.approx([2, 2], abs=1.5)
            assert (left, right) == pytest.approx([22 / 7 * (head - 3.5)] * 2, abs=0.2)
    # Of two heads, at most 5 pixels apart.
    one, other = page.run("""
        switchHeads(state.heads.map((_, head) => head < 2));
        return [...document.querySelectorAll("#lines g")].map((group) => Object.fromEntries(
            [...group.children].map((line) => [line.dataset.ends, line.getPointAtLength(0).y])));
    """)
    apart = [other[ends] - one[ends] for ends in one.keys() & other.keys()]
    assert apart == pytest.approx([5] * len(apart), abs=0.2)
    assert apart


def test_colors_come_again_with_other_dashes(attention, browser, tmp_path):
    """As in figures; one layer is the last one, too."""
    sentence = SentenceInsights("x", (Hypothesis("x", -1.0),), attention(layers=1, heads=34))
    path = tmp_path / "page.html"
    path.write_text(attention_page([sentence]), "utf-8")
    with opening(browser, path.as_uri()) as open_page:
        page = open_page()
        assert list(lines(page)) == [*range(34)]
        strokes = page.run(r"""
            return [...document.querySelectorAll("#heads line")].map((line) => {
                const { stroke, strokeDasharray } = getComputedStyle(line);
                return [stroke, strokeDasharray.match(/[\d.]+/g) ?? []];
            });""")
    for head, (color, dashes) in enumerate(strokes):
        assert color == strokes[head % len(LIGHT_COLORS)][0]
        assert tuple(map(float, dashes)) == head_dashes(head)


@pytest.mark.parametrize(("scheme", "colors"), [("light", LIGHT_COLORS), ("dark", DARK_COLORS)])
def test_each_head_has_its_color_and_text_can_be_read(open_page, scheme, colors):
    """WCAG AA: 4.5 to 1, where each head's colour is as strong behind a word as it can be."""
    page = open_page(scheme=scheme)
    strokes = page.run(
        "return [...document.querySelectorAll('#lines g path:first-child')]"
        ".map((line) => getComputedStyle(line).stroke)"
    )
    assert strokes == [f"rgb({', '.join(map(str, bytes.fromhex(c[1:])))})" for c in colors]
    page.run("weight = () => 1; document.querySelector('#reads li').focus()")
    actual = text_contrasts(page)
    assert len(actual) > 80
    for shown, contrast in actual:
        assert contrast >= 4.5, shown
