"""Against WCAG 2.1's contrast, and the colour vision of Machado, Oliveira and Fernandes (2009)."""

import re

import numpy as np
import pytest
from contrast import linear

from t2t_keras.lab.drawing import DARK_COLORS, LIGHT_COLORS
from t2t_keras.lab.insights import head_color, head_dashes

# Their matrices for linear RGB at severity 1.0.
VISION = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def rgb(colors):
    return np.array([list(bytes.fromhex(color[1:])) for color in colors])


def lab(linear_rgb):
    """CIE L*a*b* under D65."""
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
    x, y, z = (np.clip(linear_rgb, 0, 1) @ np.transpose(to_xyz) / [0.95047, 1.0, 1.08883]).T
    fx, fy, fz = (np.where(v > 0.008856, np.cbrt(v), 7.787 * v + 16 / 116) for v in (x, y, z))
    return np.stack([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)], axis=1)


def test_lines_stand_out_from_the_page(root):
    style = (root / "t2t_keras/io/pages/base.css").read_text("utf-8")
    surfaces = re.search(r"--surface: light-dark\((#\w{6}), (#\w{6})\)", style).groups()
    for colors, surface in zip((LIGHT_COLORS, DARK_COLORS), surfaces, strict=True):
        *lines, page = linear(rgb([*colors, surface])) @ [0.2126, 0.7152, 0.0722] + 0.05
        assert min(max(line / page, page / line) for line in lines) >= 3.0


@pytest.mark.parametrize("colors", [LIGHT_COLORS, DARK_COLORS])
@pytest.mark.parametrize("vision", VISION)
def test_all_eyes_tell_the_colors_apart(colors, vision):
    seen = lab(linear(rgb(colors)) @ np.transpose(VISION[vision]))
    distances = np.linalg.norm(seen[:, None] - seen[None], axis=-1)
    # 2.3 is a just noticeable difference.
    assert distances[np.triu_indices(len(colors), 1)].min() > 12.0


def test_no_two_of_32_heads_look_alike():
    looks = {(head_color(head), head_dashes(head)) for head in range(32)}
    assert len(looks) == 32
    assert {head_dashes(head) for head in range(8)} == {()}
    assert (head_color(33), head_dashes(33)) == (head_color(1), head_dashes(1)), "they begin anew"
