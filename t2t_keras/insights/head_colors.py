"""One colour for each attention head, for readers of all kinds of colour vision.

The eight colours were searched for the largest distance between any two (in OKLab) as normal,
protanopic, deuteranopic and tritanopic eyes see them, each with a contrast of 3 to 1 or more to its
background, as WCAG 2.1 asks of lines. No sixteen colours keep such a distance: from the ninth head
on the same colours return in other dashes.
"""

ON_LIGHT = (
    "#4784fa",
    "#be3008",
    "#107c69",
    "#c656b1",
    "#9b9624",
    "#34027c",
    "#174e66",
    "#6d2214",
)
ON_DARK = (
    "#8da4f1",
    "#f0b980",
    "#129715",
    "#c73793",
    "#eef23e",
    "#8c58e1",
    "#a3e7ec",
    "#da8092",
)
# Lengths of lines and gaps; each is used for as many heads as there are colours.
DASHES = ((), (6, 3), (1.5, 2.5), (8, 2.5, 1.5, 2.5))


def head_color(head: int, dark: bool = False) -> str:
    """Returns the colour of a head, "#rrggbb"."""
    colors = ON_DARK if dark else ON_LIGHT
    return colors[head % len(colors)]


def head_dashes(head: int) -> tuple[float, ...]:
    """Returns the lengths of the dashes and gaps of a head's lines; none for a whole line."""
    return DASHES[head // len(ON_LIGHT) % len(DASHES)]
