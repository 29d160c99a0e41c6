"""Ranges of characters, as they stand in the classes of regular expressions."""

# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, hiragana, Chinese.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U000323af"
)
# Japanese has no spaces either, but a run of these is a word.
KATAKANA = "\u30a0-\u30ff\u31f0-\u31ff\uff66-\uff9f"
# Private use: what is a symbol of a vocabulary is a piece of it inside of words, too.
PRIVATE = "\ue000-\uf8ff\U000f0000-\U0010fffd"
