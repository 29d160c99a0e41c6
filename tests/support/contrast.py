"""The colours of text in a page, and how well they can be told apart, after WCAG 2.1."""

import numpy as np

_TEXT_AND_COLORS = """
    const [selector] = arguments;
    const canvas = document.createElement("canvas");
    const painter = canvas.getContext("2d", { willReadFrequently: true });
    const paint = (colors) => {
        colors.forEach((color) => { painter.fillStyle = color; painter.fillRect(0, 0, 1, 1); });
        return [...painter.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const isText = (node) => node.nodeType === 3 && node.data.trim();
    const behind = (each) => {
        const found = [];
        for (let at = each; at; at = at.parentElement) {
            found.unshift(getComputedStyle(at).backgroundColor);
        }
        return found;
    };
    const ofText = [...document.querySelectorAll(selector)].filter((each) =>
        [...each.childNodes].some(isText) && each.checkVisibility() && !each.disabled
        && !each.closest("[aria-hidden=true]")
    ).flatMap((each) => {
        const { backgroundImage, color } = getComputedStyle(each);
        const stripes = backgroundImage.match(/(?:rgba?|color)\\([^)]*\\)/g) ?? [];
        return [[], ...stripes].map((over) =>
            [each.textContent, paint([color]), paint(behind(each).concat(over))]);
    });
    const colors = (each) => [null, "::placeholder"].map((of) => getComputedStyle(each, of).color);
    const ofInputs = [...document.querySelectorAll(selector)].filter((each) =>
        each.matches("input, textarea") && each.checkVisibility()
    ).flatMap((each) => colors(each).filter((color) => color !== "rgba(0, 0, 0, 0)")
        .map((color) => [each.placeholder, paint([color]), paint(behind(each))]));
    return ofText.concat(ofInputs);"""


def linear(colors):
    """Returns linear RGB of sRGB colours, 0 .. 255."""
    coded = colors / 255
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


def text_contrasts(page, selector="main *"):
    """Returns (text, contrast) of all text that is shown, and that could be in inputs."""
    done = page.run(_TEXT_AND_COLORS, selector)
    return [(text, contrast(*colors)) for text, *colors in done]


def contrast(one, other):
    """Returns the contrast of two sRGB colours: 1 .. 21."""
    low, high = sorted(linear(np.array([one, other])) @ [0.2126, 0.7152, 0.0722] + 0.05)
    return high / low
