r"""Terms that no training hint ever had: chosen, and counted in translations.

python experiments/terms/held_out.py choose --data=data/parallel_text --text=text/dev \
    --languages=en,de --output=test
python experiments/terms/held_out.py count --test=test soft.de none.de
"""

import argparse
import collections
import json
import random
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.io.files import MANIFEST_FILE, write_atomically, write_json
from t2t_keras.text.files import read_text
from t2t_keras.workbench.terms.glossary import Glossary, folded, tokens_of
from t2t_keras.workbench.terms.pair_transform import Lexicon, Terms
from t2t_keras.workbench.terms.uses import EXACT, INFLECTED, MISSING, find_uses, same_stem


def choose(data: Path, text: str, languages: str, output: Path, share: float, lines: int) -> None:
    """Draws terms of a dev set, takes them out of the data's lexicon, and writes a test set.

    A term is a word and its translation in the reference, in the form that is most frequent in
    training. The test set has the lines with such terms whose references have all of them, in any
    form.
    """
    if output.exists():
        raise UserError(
            f"{output} is there already. Take it away, or give another --output.",
            code="output_exists",
        )
    lexicon = Lexicon.from_bytes((data / Terms.artifact).read_bytes())
    sides = (read_text(Path(f"{text}.{language}")) for language in languages.split(","))
    pairs = list(zip(*sides, strict=True))
    forms: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for source, target in pairs:
        tokens = tokens_of(source), tokens_of(target)
        for row, column in lexicon.align(*tokens):
            words = tokens[0][row].text, tokens[1][column].text
            # Words that are frequent are no terms.
            if all(len(word) > 3 and word.isalpha() for word in words) and (
                2 <= lexicon.count(words[0]) <= 300
            ):
                forms[folded(words[0])][words[1]] += 1
    types = sorted(forms)
    drawn = sorted(random.Random(1).sample(types, round(share * len(types))))
    terms = [(word, _dictionary_form(word, forms[word], lexicon)) for word in drawn]
    glossary = Glossary.of(terms)
    test = []
    for source, target in pairs:
        matches = glossary.matches(source)
        if matches and all(_has(target, match.term.target) for match in matches):
            test.append((source, target))
    used = {match.term for source, _ in test[:lines] for match in glossary.matches(source)}
    # The folder comes last: it tells that the lexicon is without the terms.
    _leave_out(data, lexicon, terms)
    partial = output.with_name(f"{output.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    for side, name in enumerate(("source", "reference")):
        content = "".join(f"{pair[side]}\n" for pair in test[:lines])
        write_atomically(partial / f"{name}.txt", content.encode())
    rows = "".join(f"{term.source}\t{term.target}\n" for term in glossary)
    write_atomically(partial / "glossary.tsv", rows.encode())
    partial.rename(output)
    print(f"{len(test[:lines]):,} lines with {len(used):,} of {len(glossary):,} held-out terms")


def _dictionary_form(word: str, forms: collections.Counter, lexicon: Lexicon) -> str:
    [(seen, _)] = forms.most_common(1)
    usual = next((each for each in lexicon.translations(word) if same_stem(each, seen)), seen)
    return usual[:1].upper() + usual[1:] if seen[:1].isupper() else usual


def _has(text: str, term: str) -> bool:
    words = [token.text for token in tokens_of(text)]
    return any(same_stem(word, term) for word in words)


def _leave_out(data: Path, lexicon: Lexicon, terms: list[tuple[str, str]]) -> None:
    """Writes the data's lexicon without words of the terms, so that no hint has them."""
    forms = [form for form in lexicon.targets if any(same_stem(form, each) for _, each in terms)]
    content = lexicon.without([source for source, _ in terms], forms).to_bytes()
    manifest = json.loads((data / MANIFEST_FILE).read_text(encoding="utf-8"))
    manifest["files"][Terms.artifact] = write_atomically(data / Terms.artifact, content)
    write_json(data / MANIFEST_FILE, manifest, indent=1)


def count(test: Path, systems: list[str]) -> None:
    """Prints how many terms the translations of each system have."""
    glossary = Glossary.read(test / "glossary.tsv")
    sources = read_text(test / "source.txt")
    for path in systems:
        kinds: collections.Counter = collections.Counter()
        for source, target in zip(sources, read_text(Path(path)), strict=True):
            for use in find_uses(source, glossary.matches(source), target):
                # Anywhere, as no alignment is known.
                inflected = use.kind == MISSING and _has(target, use.match.term.target)
                kinds[INFLECTED if inflected else use.kind] += 1
        total = sum(kinds.values())
        shares = ", ".join(
            f"{kind} {kinds[kind]:,} ({kinds[kind] / total:.1%})"
            for kind in (EXACT, INFLECTED, MISSING)
        )
        print(f"{path}: {total:,} terms, {shares}")


def main() -> None:
    """Reads the flags."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    chooser = commands.add_parser("choose")
    chooser.add_argument("--data", type=Path, required=True)
    chooser.add_argument("--text", required=True)
    chooser.add_argument("--languages", required=True)
    chooser.add_argument("--output", type=Path, required=True)
    chooser.add_argument("--share", type=float, default=0.15)
    chooser.add_argument("--lines", type=int, default=2000)
    counter = commands.add_parser("count")
    counter.add_argument("--test", type=Path, required=True)
    counter.add_argument("systems", nargs="+")
    arguments = vars(parser.parse_args())
    {"choose": choose, "count": count}[arguments.pop("command")](**arguments)


if __name__ == "__main__":
    main()
