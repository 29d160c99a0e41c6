"""Translate documents: PO, XLIFF, TMX, HTML, XML, Markdown, SubRip, Word, plain text.

t2t-translate-file --output_dir=runs/base messages.po messages.de.po
t2t-translate-file --output_dir=runs/base --memory=old.tmx manual.xlf manual.de.xlf
t2t-translate-file --output_dir=runs/base --all index.html about.md news.docx german/
t2t-translate-file --output_dir=runs/base --engine=ctranslate2 website/ website.de/

The last argument is the file or folder to write. Keeps existing translations, except with --all.
Marks new translations for review, if the format has such a mark.
"""

from t2t_keras.bin.flags import (
    command,
    define_common,
    define_engine,
    require,
)
from t2t_keras.decoding.config import decode_config
from t2t_keras.errors import UserError
from t2t_keras.io.flags import Flags
from t2t_keras.registry import ENGINES


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.arguments("IN ... OUT", "Files or folders to translate, and where to write the result")
    flags.group("Model")
    define_common(
        flags, output_dir="Directory of the run, or of an export with --engine=ctranslate2"
    )
    define_common(flags, "checkpoint_path")
    define_engine(flags)
    define_common(flags, "decode_hparams")
    flags.group("Documents")
    flags.switch("all", "Replace existing translations as well")
    flags.switch("final", "Mark new translations as final, not for review")
    flags.path("memory", "Translation memory to reuse: TMX, PO, XLIFF, ...")
    flags.number("least", "Minimum similarity of suggestions from --memory, 0 to 1", 0.75)
    flags.path("glossary", "File of terms and their translations, one source<tab>target per line")
    flags.switch(
        "confidence", "Write the model's confidence into XLIFF files, as match quality in %"
    )
    flags.string("source_language", "Code of the source language, as en; default: the problem's")
    flags.string("target_language", "Code of the target language, as de; default: the problem's")


@command(define_flags)
def run(flags: Flags) -> int:
    """Translates files; returns the exit status: 2 if some of several files failed."""
    require(flags, "output_dir")
    if not 0 <= flags.least <= 1:
        raise UserError(f"--least is {flags.least:g}: expected 0 to 1.", code="bad_value")
    from t2t_keras.workbench.documents.translating import plan_files, translate_files

    paths = getattr(flags, "IN ... OUT")
    plan = plan_files(paths, [flags.output_dir, flags.memory, flags.glossary])
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.workbench.markup.translator import MarkupTranslator
    from t2t_keras.workbench.terms.glossary import Glossary
    from t2t_keras.workbench.terms.stage import with_terms

    glossary = Glossary.read(flags.glossary) if flags.glossary else None
    stored = ENGINES[flags.engine](flags.output_dir, flags.checkpoint_path or None)
    defaults = {**stored.defaults, "check_placeholders": True}
    config = decode_config(flags.decode_hparams, defaults)
    stored.share_cores(config)
    translator = Translator.from_stored(stored, config)
    failed = translate_files(
        plan,
        MarkupTranslator(with_terms(translator, glossary)),
        (flags.source_language, flags.target_language),
        flags.memory,
        everything=flags.all,
        final=flags.final,
        least=flags.least,
        confidence=flags.confidence,
    )
    return 2 if failed else 0


if __name__ == "__main__":
    run()
