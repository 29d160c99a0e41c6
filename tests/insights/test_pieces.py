from t2t_keras.insights.pieces import END, START, ShownPiece, shown_pieces


def shown(*pieces):
    return [(piece.text, piece.joined) for piece in shown_pieces(pieces)]


def test_pieces_of_a_word_are_joined():
    assert shown("▁a", "▁play", "ho", "use", "▁.", END) == [
        ("a", False),
        ("play", False),
        ("ho", True),
        ("use", True),
        (".", False),
        ("</s>", False),
    ]


def test_the_start_and_the_end_are_special():
    start, word, end = shown_pieces((START, "▁a", END))
    assert start == ShownPiece("start", joined=False, special=True)
    assert end == ShownPiece("</s>", joined=False, special=True)
    assert not word.special


def test_a_word_like_the_end_is_a_word():
    middle, _ = shown_pieces((END, "▁a"))
    assert not middle.special


def test_spaces_that_stand_alone_are_seen():
    assert shown("d", "o", "▁", "a") == [("d", False), ("o", True), ("␣", False), ("a", True)]
    assert shown("▁▁a") == [("␣a", False)]


def test_what_follows_the_start_begins_a_word():
    assert shown(START, "d", "o") == [("start", False), ("d", False), ("o", True)]
