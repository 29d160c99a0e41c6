"""Random lines through t2t-datagen and the decoder's reading: none may crash or go uncounted."""

import random
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.decoding import lines
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.lines import check_lines
from t2t_keras.errors import UserError
from t2t_keras.text.files import decoded, read_lines
from t2t_keras.text.tokenizer import SentencePieceTokenizer

_CONTROLS = list(map(chr, range(32)))
_WORDS = "the house stands near a green tree".split()


def random_lines(count: int, seed: int) -> Iterator[bytes]:
    """Yields lines without line feeds; the first is plain, as it could begin with a mark."""
    generator = random.Random(seed)
    categories = defaultdict(lambda: ["x"])  # Also a long word.
    for code in range(0x110000):
        categories[unicodedata.category(chr(code))].append(chr(code))
    yield b"the first line"
    for _ in range(count - 1):
        size = min(int(generator.paretovariate(1)) + generator.randrange(10), 100_000)
        line = generator.randbytes(size)
        if generator.random() < 0.9:
            characters = generator.choice([*categories.values(), _CONTROLS, ["x"]])
            drawn = "".join(generator.choices(characters, k=size))
            words = generator.choices(_WORDS, k=generator.randrange(5))
            line = " ".join([drawn, *words]).encode("utf-8", "surrogatepass")
        yield line.replace(b"\n", b"")


def check(count: int, seed: int, folder: Path) -> dict[str, int]:
    """Returns how many lines were kept, and left out for each reason; raises if one is lost."""
    for side, code in enumerate(("en", "de")):
        content = b"".join(line + b"\n" for line in random_lines(count, seed + side))
        for split in ("train", "dev"):
            (folder / f"{split}.{code}").write_bytes(content)
    tokenizer = SentencePieceTokenizer.train(_WORDS * 9, 275)
    (folder / "words.model").write_bytes(tokenizer.model_bytes)
    config = f"source_language=en,target_language=de,vocab_file={folder / 'words.model'}"
    problem = make_problem("parallel_text", config)
    splits = generate(problem, folder / "data", folder, chunk_pairs=10_000)["splits"]
    for split in splits.values():
        results = {reason: entry["count"] for reason, entry in split["left_out"].items()}
        results["kept"] = split["examples"]
        assert sum(results.values()) == count, f"{results} are not {count} lines"
    results |= {"read by the decoder": 0, "refused by the decoder": 0}
    for number, line in enumerate(read_lines(folder / "dev.en"), 1):
        try:
            text = decoded(line, "dev.en", number)
            check_lines([text])
            config = DecodeConfig(max_input_length=64, split_long=number % 2 == 0)
            actual = lines.Line(text, text)
            reader = SimpleNamespace(tokenizer=tokenizer, config=config, problem=problem)
            lines.encode_lines([actual], reader)
            assert all(len(part.ids) <= 64 for part in actual.parts)
            results["read by the decoder"] += 1
        except UserError:
            results["refused by the decoder"] += 1
    assert number == count, f"the decoder read {number} of {count} lines"
    return results
