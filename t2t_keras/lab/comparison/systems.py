"""What is compared: several translations of one text, with its reference."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.text.files import is_blank, read_text


@dataclasses.dataclass(frozen=True)
class System:
    """What one system made of the text.

    Attributes:
      name: what it is called beside the others.
      translations: one for each line.
      file: where they are.
      training_seconds: what its training took; None = unknown, here and below.
      training_hardware: what it was trained on, "" = unknown.
      decoding_seconds: what translating the text took, after loading the model.
      decoding_hardware: what it was translated on, "" = unknown.
      megabytes: of its checkpoint, or of the export that translated; 10^6 bytes.
    """

    name: str
    translations: Sequence[str]
    file: str
    training_seconds: float | None = None
    training_hardware: str = ""
    decoding_seconds: float | None = None
    decoding_hardware: str = ""
    megabytes: float | None = None


@dataclasses.dataclass(frozen=True)
class TranslatedText:
    """A text with its reference and what several systems made of it, line by line.

    Raises `UserError` where it has no lines or files have different numbers of them, where there
    are fewer than two systems, or two of the same name.

    Attributes:
      systems: the first is the baseline.
      references: one for each line.
      reference_file: where they are.
      sources: one for each line; empty if they are not known.
      source_file: where they are, "" if they are not known.
      tokenize: sacreBLEU's tokenisation for this text.
    """

    systems: Sequence[System]
    references: Sequence[str]
    reference_file: str
    sources: Sequence[str] = ()
    source_file: str = ""
    tokenize: str = "13a"

    def __post_init__(self) -> None:
        if len(self.systems) < 2:
            raise UserError(
                f"Expected at least two systems to compare, the first of them the baseline; got "
                f"{', '.join(system.file for system in self.systems)}.",
                code="too_few",
            )
        names = [system.name for system in self.systems]
        if twice := {name for name in names if names.count(name) > 1}:
            raise UserError(
                f"Each system needs a name of its own; {min(twice)!a} is given twice. --names=... "
                f"gives others.",
                code="given_twice",
            )
        counts = [(self.reference_file, len(self.references))]
        counts += [(self.source_file, len(self.sources))] * bool(self.source_file)
        counts += [(system.file, len(system.translations)) for system in self.systems]
        for file, count in counts:
            if not count:
                raise UserError(
                    f"{file} is empty: expected a line for each sentence.", code="no_text"
                )
        if all(map(is_blank, self.references)):
            raise UserError(
                f"{self.reference_file} has blank lines only: nothing to compare with.",
                code="blank",
            )
        if len({count for _, count in counts}) > 1:
            found = ", ".join(f"{file} has {count:,}" for file, count in counts)
            raise UserError(
                f"Expected as many lines in each file, got: {found}.", code="unequal_counts"
            )


def read_files(
    reference: str | Path,
    translations: Sequence[str | Path],
    source: str | Path = "",
    names: Sequence[str] = (),
) -> TranslatedText:
    """Returns what files hold; the first of the translations is the baseline's.

    Raises:
      UserError: a file cannot be read or is not UTF-8, or they do not fit together.
    """
    names = system_names(translations, names)
    systems = [
        System(name, read_text(Path(path)), str(path))
        for name, path in zip(names, translations, strict=True)
    ]
    sources = read_text(Path(source)) if source else ()
    return TranslatedText(systems, read_text(Path(reference)), str(reference), sources, str(source))


def system_names(paths: Sequence[str | Path], names: Sequence[str] = ()) -> list[str]:
    """Returns a name for each path: those given, or as much of its end as tells it apart.

    Raises:
      UserError: there is not one name for each.
    """
    if names and len(names) != len(paths):
        raise UserError(
            f"Expected a name for each of {len(paths)} systems, got {len(names)}: "
            f"{', '.join(names)}.",
            code="bad_arguments",
        )
    if names:
        return list(names)
    parts = [Path(path).parts or Path(path).absolute().parts for path in paths]
    for count in range(1, max(map(len, parts), default=0)):
        short = ["/".join(each[-count:]) for each in parts]
        if len(set(short)) == len(short):
            return short
    return list(map(str, paths))
