"""Checks a model, and writes the files next to it, for all exporters."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.environment import installed_versions
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import ModelConfig
from t2t_keras.interop.tokenizers import LookedUpPieces
from t2t_keras.io.files import write_json
from t2t_keras.models.transformer import Transformer
from t2t_keras.special_ids import EOS_ID, PADDING_ID, UNKNOWN_ID
from t2t_keras.text.tokenizer import SentencePieceTokenizer, Tokenizer


def supported_model(
    translator: Translator, name: str, refused_settings: Collection[str] = ()
) -> Transformer:
    """Returns the model of a translator, for a format that takes one Transformer.

    Raises:
      UserError: the translator has several models or one of another class, forbids phrases, or
        changes one of `refused_settings`.
    """
    kinds = [type(model) for model in translator.models]
    if kinds != [Transformer]:
        names = ", ".join(kind.__name__ for kind in kinds) or translator.engine.name
        raise UserError(
            f"--format={name}: expected one Transformer, got {names}.", code="not_supported"
        )
    settings, default = vars(translator.config), vars(DecodeConfig())
    changes = [f"{n}={settings[n]}" for n in refused_settings if settings[n] != default[n]]
    changes += [f"forbidden={', '.join(translator.forbidden)}"] * bool(translator.forbidden)
    if changes:
        raise UserError(
            f"--format={name} does not support {' and '.join(changes)}: leave it out.",
            code="not_supported",
        )
    return translator.models[0]


def check_config(config: ModelConfig, name: str, allowed: Mapping[str, Collection[Any]]) -> None:
    """Raises `UserError` if a model has a setting that a format does not allow."""
    refused = {n: values for n, values in allowed.items() if getattr(config, n) not in values}
    if refused:
        actual = " and ".join(f"{n}={getattr(config, n)}" for n in refused)
        expected = "; ".join(f"{n} in {', '.join(map(str, refused[n]))}" for n in refused)
        raise UserError(
            f"--format={name} cannot represent {actual}: expected {expected}. Use "
            f"--format=saved_model, or litert for greedy decoding.",
            code="not_supported",
        )


_README = """# A translation model for {program}

`{file}` maps ids to ids, int32 [sentences, length]. A row ends with EOS, {end}, then padding,
{padding}. It decodes greedily, like `t2t-decoder --decode_hparams="beam_size=1,{settings}"`.
Weights: {dtype}.
{outputs}
```python
{python}
```

prints the translation when run in this folder. A row has at most {max_ids} ids. {batch}
`config.json` has the special ids, the limits, and the versions of the packages that exported it.
"""

_SENTENCEPIECE_EXAMPLE = """import numpy as np
import sentencepiece
{imports}

source = sentencepiece.SentencePieceProcessor(model_file="{source}")
target = sentencepiece.SentencePieceProcessor(model_file="{target}")
ids = np.array([source.encode("A sentence.", add_eos=True)], np.int32)
{translate}
print(target.decode([int(i) for i in outputs[0] if i > {end}]))"""

_TOKENIZER_EXAMPLE = """import numpy as np
from t2t_keras.text.tokenizer import Tokenizer
{imports}

source, target = Tokenizer.load("{source}"), Tokenizer.load("{target}")
ids = np.stack(source.encode(["A sentence."]))
{translate}
print(target.decode(outputs)[0])"""


def greedy_model(translator: Translator, name: str) -> Transformer:
    """Returns the model of a translator, in float32, for a format that decodes greedily.

    Ignores the beam size and the penalties.

    Raises:
      UserError: see `supported_model`, or a setting is not supported by greedy exports.
    """
    from t2t_keras.serving.signatures import export_settings  # Needs TensorFlow.

    model = supported_model(translator, name, ["samples"])
    export_settings(translator, "float32")
    if model.compute_dtype == "float32":
        return model
    float32_model = Transformer.from_config(model.get_config() | {"dtype": "float32"})
    float32_model.build()
    float32_model.set_weights(model.get_weights())
    return float32_model


def write_companion_files(
    translator: Translator,
    folder: Path,
    *,
    file: str,
    dtype: str,
    program: str,
    imports: str,
    translate: str,
    batch: str,
) -> None:
    """Writes the vocabulary, README.md and config.json next to a model.

    Args:
      translator: the model, the vocabulary and the settings.
      folder: contains the model's file.
      file: name of the model's file.
      dtype: type of the model's weights.
      program: name of the program that runs the model.
      imports: Python statements that load the program.
      translate: Python statements that compute `outputs` from `ids`.
      batch: the README's sentence about batches.
    """
    tokenizer, config = translator.tokenizer, translator.config
    tokenizer.save(folder)
    names = ("max_input_length", "extra_length", "max_length", "min_length")
    settings = {name: getattr(config, name) for name in names}
    content = {
        "ids": {**_IDS, "start": translator.models[0].config.start_id},
        "decoding": {"beam_size": 1, **settings},
        "vocabulary": tokenizer.record(),
        "dtype": dtype,
        "provenance": installed_versions(),
    }
    write_json(folder / "config.json", content, indent=1)
    raw_output = translator.problem.raw_output
    text = _README.format(
        program=program,
        file=file,
        dtype=dtype,
        settings=",".join(f"{name}={value}" for name, value in settings.items()),
        outputs=f"\n{raw_output}\n" if raw_output else "",
        python=_example(tokenizer, imports, translate),
        max_ids=config.max_input_length,
        batch=batch,
        **_IDS,
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


_IDS = {"padding": PADDING_ID, "end": EOS_ID, "unknown": UNKNOWN_ID}


def _example(tokenizer: Tokenizer, imports: str, translate: str) -> str:
    """Returns the README's program; see `write_companion_files`."""
    record = tokenizer.record()
    # SentencePiece by itself does not look up pieces.
    is_plain = not isinstance(tokenizer.source, LookedUpPieces) and all(
        isinstance(side, SentencePieceTokenizer) for side in (tokenizer.source, tokenizer)
    )
    return (_SENTENCEPIECE_EXAMPLE if is_plain else _TOKENIZER_EXAMPLE).format(
        imports=imports,
        source=record.get("source", record)["file"],
        target=record["file"],
        translate=translate,
        **_IDS,
    )
