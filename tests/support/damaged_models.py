"""Damages models and records and reads them: each is accepted, or refused with one line.

    python tests/support/damaged_models.py FOLDER FIRST_SEED LAST_SEED

does so in an empty folder with bounded memory and time; a crash follows the seed that it printed.
"""

import contextlib
import io
import json
import random
import resource
import shutil
import signal
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import sentencepiece

from t2t_keras import hyperparameters, registry
from t2t_keras.data.problem import make_problem
from t2t_keras.errors import UserError
from t2t_keras.interop.importers.files import read_pytorch, read_yaml
from t2t_keras.interop.importers.imported import make_run, read_model
from t2t_keras.io.terminal import printable
from t2t_keras.text.tokenizer import SentencePieceTokenizer, Tokenizer
from t2t_keras.training.run_config import RunConfig

FIXTURES = Path(__file__).parents[1] / "interop" / "importers" / "fixtures"
_MOST_MEMORY, _MOST_SECONDS = 12 << 30, 120
_MOST_MESSAGE = 3000
_LINES = ("The house is green.", "", " ", "\u2581 a\u0301 \u4f60 \U0001f600 1/2 ﬁ", "x" * 2000)
_HOSTILE = [
    *(b"/dev/zero", b"../../x", b"", b"[]", b"{}", b"null", b"true", b"-1", b"1e999", b"NaN", b"0"),
    *(b"1000000000", b"9" * 5000, b'"x"', b"[[1]]", b"\\ud800", b"\x00", b"\xff\xfe", b"\x85"),
    *(b"2020-99-99", b"!!int ''", b"&a [*a]", b"<<: 1", b"\xff\xff\xff\x7f", b"\x00" * 8),
]


def damaged(content: bytes, generator: random.Random) -> bytes:
    """Returns content with one to four faults."""
    result = bytearray(content)
    for _ in range(generator.choice((1, 1, 2, 4))):
        start = generator.randrange(len(result) + 1)
        end = min(len(result), start + int(generator.paretovariate(0.7)))
        kind = generator.randrange(7)
        if kind == 0 and start < len(result):
            result[start] ^= 1 << generator.randrange(8)
        elif kind == 1:
            del result[start:end]
        elif kind == 2:
            result[start:start] = result[start:end]
        elif kind == 3:
            result[start:end] = generator.randbytes(min(end - start, 64))
        elif kind == 4:
            result[start:end] = generator.choice(_HOSTILE)
        elif kind == 5:
            del result[start if generator.random() < 0.3 else len(result) :]
        else:
            other = generator.randrange(len(result) + 1)
            result[start:end] = result[other : other + end - start]
    return bytes(result)


def damaged_archive(content: bytes, generator: random.Random) -> bytes:
    """Returns an archive with correct checksums and faults in one member."""
    if generator.random() < 0.2 or not zipfile.is_zipfile(io.BytesIO(content)):
        return damaged(content, generator)
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(result, "w") as new:
        names = old.namelist()
        pickles = [name for name in names if name.endswith("data.pkl")]
        hit = generator.choice(names if generator.random() < 0.3 else pickles or names)
        for name in names:
            member = old.read(name)
            new.writestr(name, damaged(member, generator) if name == hit else member)
    return result.getvalue()


def damaged_json(content: bytes, generator: random.Random) -> bytes:
    """Returns JSON in which values have been replaced."""
    if generator.random() < 0.4:
        return damaged(content, generator)
    values = json.loads(content)
    for _ in range(generator.choice((1, 1, 2))):
        owner = values
        while True:
            keys = list(owner) if isinstance(owner, dict) else range(len(owner))
            key = generator.choice(keys)
            is_leaf = not isinstance(owner[key], (dict, list)) or not owner[key]
            if is_leaf or generator.random() < 0.3:
                break
            owner = owner[key]
        odd = [[], {}, None, True, -1, 0, 10**9, 10**400, 1e308]
        odd += ["", "x", "../x", [[]], "1", "\ud800"]
        owner[key] = generator.choice(odd)
    return json.dumps(values).encode("utf-8", "surrogatepass")


def _use(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(_LINES)
    tokenizer.decode(ids), tokenizer.pieces(ids[0]), tokenizer.vocabulary()


def _import(toolkit: str, file: str = "", vocabulary: str = "") -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        model = read_model(toolkit, folder / file, ("en", "de"), vocabulary.format(folder))
        _use(model.tokenizer), _use(model.tokenizer.source)

    return read


def _make_run(folder: Path) -> None:
    problem = make_problem("parallel_text", "source_language=en,target_language=de")
    shutil.rmtree(folder / "made", ignore_errors=True)
    with contextlib.redirect_stdout(None):
        make_run(read_model("huggingface", folder, ("en", "de")), problem, folder / "made", "it")


def _run(folder: Path) -> None:
    record = RunConfig.load(folder)
    record.content(), record.resume_invariants(), _use(record.vocabulary)


def _make_model(folder: Path) -> None:
    RunConfig.load(folder).make_model(will_load=True)


def _recipe(folder: Path) -> None:
    from t2t_keras.recipes.student.plan import Plan

    Plan(read_yaml((folder / "config.yaml").read_bytes(), "config.yaml"), folder)


def _vocabulary(file: str) -> Callable[[Path], None]:
    return lambda folder: _use(Tokenizer.load(folder / file))


def _tensors(file: str) -> Callable[[Path], object]:
    return lambda folder: read_pytorch(folder / file)


_SPM, _DICT, _YML = "{0}/source.spm,{0}/target.spm", "{0},{0}/spm.model", "{0}/shared.yml"
# Kind, folder of the fixture, file that is damaged, how, and what reads it.
_CASES: list[tuple[str, str, str, Callable[..., bytes], Callable[[Path], object]]] = [
    ("pt", "fairseq", "checkpoint.pt", damaged_archive, _import("fairseq", "checkpoint.pt", _DICT)),
    ("pt", "tensors", "tensors.pt", damaged_archive, _tensors("tensors.pt")),
    ("pt", "tensors", "tensors_before_1.6.pt", damaged, _tensors("tensors_before_1.6.pt")),
    ("npz", "marian", "model.npz", damaged_archive, _import("marian", "model.npz")),
    ("safetensors", "marian", "model.safetensors", damaged, _import("huggingface")),
    ("JSON", "marian", "config.json", damaged_json, _import("huggingface")),
    ("JSON", "marian", "vocab.json", damaged_json, _import("huggingface")),
    ("JSON", "marian", "config.json", damaged_json, _make_run),
    ("YAML", "marian", "decoder.yml", damaged, _import("marian", "model.npz")),
    ("YAML", "marian", "src.vocab.yml", damaged, _import("marian", "model.npz")),
    ("YAML", "opennmt_tf", "shared.yml", damaged, _import("opennmt_tf", "shared", _YML)),
    ("YAML", "recipe", "config.yaml", damaged, _recipe),
    ("SentencePiece", "marian", "source.spm", damaged, _import("marian", "model.npz")),
    ("SentencePiece", "marian", "target.spm", damaged, _import("marian", "model.npz", _SPM)),
    ("SentencePiece", "run", "vocab.model", damaged, _vocabulary("vocab.model")),
    ("SentencePiece", "run", "nfkc.model", damaged, _vocabulary("nfkc.model")),
    ("run.json", "run", "run.json", damaged_json, _run),
    ("run.json", "run", "run.json", damaged_json, _make_model),
]  # fmt: skip


def make_fixtures(folder: Path) -> None:
    """Writes intact models and records to damage."""
    sources = {"marian": "marian_separate", "fairseq": "fairseq/shared", "opennmt_tf": "opennmt_tf"}
    for name, source in sources.items():
        shutil.copytree(FIXTURES / source, folder / name)
    shutil.copy(FIXTURES / "fairseq" / "spm.model", folder / "fairseq")
    (folder / "tensors").mkdir()
    for file in ("tensors.pt", "tensors_before_1.6.pt"):
        shutil.copy(FIXTURES / file, folder / "tensors")
    recipe = Path(registry.__file__).parents[1] / "recipes" / "student" / "config.yaml"
    (folder / "recipe" / "text").mkdir(parents=True)
    shutil.copy(recipe, folder / "recipe" / "config.yaml")
    for name in ("train.en", "train.de", "dev.en", "dev.de", "news.de"):
        (folder / "recipe" / "text" / name).write_text("Some text.\n")
    tokenizer = SentencePieceTokenizer.train(["the house stands near a green tree"] * 9, 275)
    problem = make_problem("parallel_text", "source_language=en,target_language=de")
    hparams = hyperparameters.hparams("transformer_tiny", "")
    RunConfig(problem, hparams, tokenizer=tokenizer).save(folder / "run")
    with io.BytesIO() as model:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["The house stands near a ﬁne green tree."] * 9),
            model_writer=model,
            vocab_size=40,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (folder / "run" / "nfkc.model").write_bytes(model.getvalue())


def check_fixtures(folder: Path) -> None:
    """Reads everything that `make_fixtures` wrote: a refused fixture would hide all crashes."""
    for _kind, name, *_, read in _CASES:
        read(folder / name)


def check(seed: int, folder: Path) -> tuple[str, str]:
    """Damages one file and reads it; returns its kind, and "read" or the code of the refusal.

    Raises:
      Exception: what its reader raised; also AssertionError, for a message of several lines.
    """
    generator = random.Random(seed)
    kind, name, file, damage, read = _CASES[seed % len(_CASES)]
    path = folder / name / file
    content = path.read_bytes()
    try:
        path.write_bytes(damage(content, generator))
        read(folder / name)
        return kind, "read"
    except UserError as error:
        message = printable(str(error))
        assert "\n" not in message
        assert len(message) < _MOST_MESSAGE
        return kind, error.code
    finally:
        path.write_bytes(content)


def main(folder: str, first: str, last: str) -> None:
    """Damages a file for each seed."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    make_fixtures(Path(folder))
    check_fixtures(Path(folder))
    for seed in range(int(first), int(last) + 1):
        print(seed, flush=True)
        signal.alarm(_MOST_SECONDS)
        check(seed, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
