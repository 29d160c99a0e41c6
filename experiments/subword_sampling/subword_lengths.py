"""How much longer do lines get when their divisions are drawn, and how long does that take?

python experiments/subword_sampling/subword_lengths.py DATA/multi30k/train.de
"""

import sys
import time
from pathlib import Path

from t2t_keras.text.files import read_text
from t2t_keras.text.tokenizer import SentencePieceTokenizer


def main(path: str) -> None:
    """Prints a line for each kind of vocabulary, and for the 64 likeliest divisions."""
    lines = read_text(Path(path))
    for kind, nbest in (("bpe", 0), ("unigram", 0), ("unigram", 64)):
        tokenizer = SentencePieceTokenizer.train(lines, 8000, kind)
        usual = sum(map(len, tokenizer.encode(lines)))
        sampler = tokenizer.sampler(0.1, nbest)
        # The first pass fills what it remembers of words.
        for epoch in (1, 2):
            start = time.perf_counter()
            drawn = sum(
                map(len, sampler.sample(lines, [f"{epoch} {each}" for each in range(len(lines))]))
            )
            seconds = time.perf_counter() - start
        print(
            f"{kind}, subword_nbest={nbest}: {drawn / usual:.2f} tokens of one, "
            f"{seconds / drawn * 2000:.3f} s for 2,000"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
