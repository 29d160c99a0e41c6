"""Makes a Marian model with random weights in all its forms, with what transformers computes.

    python make_marian.py                                      the fixtures of the tests
    python make_marian.py FOLDER SETTINGS SOURCE TARGET LINES  others, from two files of text

Needs torch, transformers and sentencepiece. A folder gets config.json, model.safetensors and
pytorch_model.bin, source.spm, target.spm, vocab.json and, where the target has ids of its own,
target_vocab.json; Marian's own model.npz and *.vocab.yml; and expected.npz.
"""

import copy
import io
import json
import sys
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import transformers
from transformers import LogitsProcessor, LogitsProcessorList, MarianConfig, MarianMTModel

FIXTURES = Path(__file__).parents[2] / "tests" / "interop" / "importers" / "fixtures"
TEXT = """
A dog sleeps in the old house.|Ein Hund schläft im alten Haus.
The doctor sees two children.|Der Arzt sieht zwei Kinder.
We read a book about the sea.|Wir lesen ein Buch über das Meer.
She does not know the teacher.|Sie kennt den Lehrer nicht.
The green car stands at the river.|Das grüne Auto steht am Fluss.
They sing when the sun shines.|Sie singen, wenn die Sonne scheint.
Does he buy bread and milk?|Kauft er Brot und Milch?
The girl gives her friend a flower.|Das Mädchen gibt seinem Freund eine Blume.
I write letters every evening.|Ich schreibe jeden Abend Briefe.
The train leaves the town at nine.|Der Zug verlässt um neun die Stadt.
A student asks a short question.|Ein Student stellt eine kurze Frage.
The birds fly over our garden.|Die Vögel fliegen über unseren Garten.
"""
# Source texts to tokenise; also with characters that no piece has, and one to be normalised.
LINES = [
    "The dog sees the sea.",
    ">>deu<< A girl sings.",
    "",
    "Zoë ﬂies to 東京, ß!",
    " two  birds ",
]
TINY = {
    "marian_shared": dict(
        pieces=95,
        languages=[">>deu<<", ">>fra<<"],
        steps=300,
        encoder_layers=2,
        decoder_layers=1,
        d_model=16,
        encoder_ffn_dim=24,
        encoder_attention_heads=2,
        activation_function="swish",
        scale_embedding=True,
    ),
    "marian_separate": dict(
        pieces=80,
        steps=300,
        start=True,
        encoder_layers=1,
        decoder_layers=2,
        d_model=16,
        encoder_ffn_dim=16,
        encoder_attention_heads=4,
        activation_function="relu",
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
    ),
}
# ﬂ becomes fl, and a space without break another one: as nmt_nfkc, in few bytes.
_RULES = "FB02\t66 6C\nA0\t20\n"
_MARIAN = {
    "type": "transformer",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-no-projection": False,
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-guided-alignment-layer": "last",
    "transformer-ffn-depth": 2,
    "transformer-tied-layers": [],
    "transformer-train-position-embeddings": False,
    "tied-embeddings-all": False,
    "version": "v1.12.0",
}


def make(folder: Path, settings: dict, text: list[list[str]], lines: list[str], rules: str = ""):
    """Writes the folder; `text` is that of source and target, `lines` are translated."""
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    pieces, languages = settings.pop("pieces"), settings.pop("languages", [])
    start, steps = settings.pop("start", False), settings.pop("steps")
    for side, content in zip(("source", "target"), text, strict=True):
        _train_pieces(folder / f"{side}.spm", content, pieces, rules)
    vocabularies = _vocabularies(folder, settings, languages)
    model = _model(settings, list(map(len, vocabularies)))
    tokenizer = transformers.MarianTokenizer(
        *(str(folder / f"{file}") for file in ("source.spm", "target.spm", "vocab.json")),
        str(folder / "target_vocab.json"),
        separate_vocabs=len(vocabularies) > 1,
    )
    padding = model.config.pad_token_id
    sides = tokenizer(text[0]).input_ids, tokenizer(text_target=text[1]).input_ids
    pairs = [torch.from_numpy(_padded(side, padding)) for side in sides]
    _train(model, pairs, steps, start)
    model.eval()
    save(model, folder)
    (folder / "model.npz").write_bytes(marian_npz(model))
    pairs = [side[: max(2, len(lines) // 10)] for side in pairs]
    expected = {"versions": f"transformers {transformers.__version__}", "lines": lines}
    expected |= {"ids": _padded(tokenizer(lines).input_ids, padding)}
    expected |= {
        f"{name}_ids": each.numpy() for name, each in zip(("source", "target"), pairs, strict=True)
    }
    ids = torch.from_numpy(expected["ids"])
    expected |= computed(model, ids, pairs)
    expected["text"] = tokenizer.batch_decode(expected["greedy"], skip_special_tokens=True)
    as_in_marian(model)
    expected |= {f"marian_{name}": each for name, each in computed(model, ids, pairs).items()}
    np.savez_compressed(folder / "expected.npz", **expected)


def _train_pieces(path: Path, text: list[str], pieces: int, rules: str) -> None:
    model = io.BytesIO()
    options = {}
    if rules:
        (path.parent / "rules.tsv").write_text(rules)
        options = {"normalization_rule_tsv": str(path.parent / "rules.tsv")}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=model,
        vocab_size=pieces,
        hard_vocab_limit=False,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        num_threads=2,
        minloglevel=2,
        **options,
    )
    path.write_bytes(model.getvalue())
    (path.parent / "rules.tsv").unlink(missing_ok=True)


def _vocabularies(folder: Path, settings: dict, languages: list[str]) -> list[dict[str, int]]:
    """Writes and returns one vocabulary or two, each with padding as its last id."""
    models = [
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        for side in ("source", "target")
    ]
    sides = [[each.id_to_piece(i) for i in range(each.get_piece_size())] for each in models]
    files = ["vocab.json", "target_vocab.json"]
    if settings.get("share_encoder_decoder_embeddings", True):
        # Some pieces of each side are left out, as where a vocabulary is that of much text.
        sides, files = [sides[0][:-2] + sides[1][:-2] + languages], files[:1]
    else:
        length = min(map(len, sides))  # The id of padding is one for both.
        sides = [side[:length] for side in sides]
    vocabularies, names = [], ["src", "trg"] if len(files) == 2 else ["opus"]
    for file, name, side in zip(files, names, sides, strict=True):
        ids = {piece: i for i, piece in enumerate([*dict.fromkeys(side), "<pad>"])}
        (folder / file).write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
        lines = (f"{json.dumps(each, ensure_ascii=False)}: {i}\n" for each, i in ids.items())
        path = folder / f"{name}.vocab.yml"
        path.write_text("".join(lines).rpartition('"<pad>"')[0], encoding="utf-8")
        vocabularies.append(ids)
    vocabs = [f"/where/it/was/trained/{name}.vocab.yml" for name in (names[0], names[-1])]
    (folder / "decoder.yml").write_text(json.dumps({"models": ["model.npz"], "vocabs": vocabs}))
    return vocabularies


def _model(settings: dict, sizes: list[int]) -> MarianMTModel:
    padding = sizes[0] - 1
    config = MarianConfig(
        vocab_size=sizes[0],
        decoder_vocab_size=sizes[-1],
        decoder_ffn_dim=settings["encoder_ffn_dim"],
        decoder_attention_heads=settings["encoder_attention_heads"],
        pad_token_id=padding,
        decoder_start_token_id=padding,
        max_position_embeddings=64,
        **settings,
    )
    model = MarianMTModel(config)
    model.final_logits_bias.normal_(0, 0.5)
    model.final_logits_bias[0, padding] = 0
    return model


def _train(model: MarianMTModel, pairs: list[torch.Tensor], steps: int, start: bool) -> None:
    """Trains until translations differ and end. Zeros start them, as Marian's, unless `start`."""
    padding, order = model.config.pad_token_id, torch.Generator().manual_seed(0)
    if start:
        torch.nn.init.normal_(model.get_decoder().embed_tokens.weight.data[padding])
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(steps):
        rows = torch.randint(len(pairs[0]), (32,), generator=order)
        source, target = (side[rows] for side in pairs)
        source, target = (each[:, (each != padding).any(0)] for each in (source, target))
        labels = target.masked_fill(target == padding, -100)
        model(source, source != padding, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for stack in (model.get_encoder(), model.get_decoder()):
                stack.embed_tokens.weight[padding] *= start
    with torch.no_grad():  # What published models are saved as.
        trained = (each for each in model.parameters() if each.requires_grad)
        for weight in (*trained, model.final_logits_bias):
            weight.copy_(weight.half())


def save(model: MarianMTModel, folder: Path) -> None:
    """Saves the weights in Hugging Face's two forms."""
    half = copy.deepcopy(model).half()
    half.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if model.config.tie_word_embeddings:
        torch.save(half.state_dict(), folder / "pytorch_model.bin")


def marian_npz(model: MarianMTModel) -> bytes:
    """Returns Marian's own file of the model, which has no row for padding."""
    config = model.config
    options = _MARIAN | {
        "dim-emb": config.d_model,
        "dim-vocabs": [config.vocab_size - 1, config.decoder_vocab_size - 1],
        "enc-depth": config.encoder_layers,
        "dec-depth": config.decoder_layers,
        "tied-embeddings": config.tie_word_embeddings,
        "tied-embeddings-src": config.share_encoder_decoder_embeddings,
        "transformer-dim-ffn": config.encoder_ffn_dim,
        "transformer-heads": config.encoder_attention_heads,
        "transformer-ffn-activation": config.activation_function,
    }
    tables = {
        "encoder_Wemb": model.get_encoder().embed_tokens.weight,
        "decoder_Wemb": model.get_decoder().embed_tokens.weight,
        "decoder_ff_logit_out_Wt": model.lm_head.weight,
    }
    if config.share_encoder_decoder_embeddings:
        tables = {"Wemb": tables["encoder_Wemb"], "decoder_ff_logit_out_Wt": model.lm_head.weight}
    if config.tie_word_embeddings:
        del tables["decoder_ff_logit_out_Wt"]
    found = {name: table.detach().numpy()[:-1] for name, table in tables.items()}
    found["decoder_ff_logit_out_b"] = model.final_logits_bias.numpy()[:, :-1]
    for name, weight in model.state_dict().items():
        if ".layers." in name:
            found[_marian_name(name)] = np.atleast_2d(weight.numpy().T)
    yaml = json.dumps(options).encode() + b"\0"
    file = io.BytesIO()
    np.savez_compressed(file, **{"special:model.yml": np.frombuffer(yaml, np.int8)}, **found)
    return file.getvalue()


def _marian_name(name: str) -> str:
    _, side, _, number, part, *rest = name.split(".")
    kind = {"weight": "W", "bias": "b"}[rest[-1]]
    scale = {"weight": "ln_scale", "bias": "ln_bias"}[rest[-1]]
    sublayer = {"self_attn": "self", "encoder_attn": "context"}
    norm = {"self_attn_layer_norm": "self_Wo", "encoder_attn_layer_norm": "context_Wo"}
    if part in sublayer:
        end = f"{sublayer[part]}_{kind}{rest[0][0]}"
    elif part in ("fc1", "fc2"):
        end = f"ffn_{kind}{part[-1]}"
    else:
        end = f"{norm.get(part, 'ffn_ffn')}_{scale}"
    return f"{side}_l{int(number) + 1}_{end}"


@torch.no_grad()
def as_in_marian(model: MarianMTModel) -> None:
    """Gives the model what Marian's own code computes with, where transformers' differs."""
    half = model.config.d_model // 2
    for stack in (model.get_encoder(), model.get_decoder()):
        table = stack.embed_positions.weight
        angles = np.arange(len(table))[:, None] * 1e4 ** (-np.arange(half) / (half - 1))
        waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        table.copy_(torch.from_numpy(waves))
        stack.embed_scale = model.config.d_model**0.5
    model.get_decoder().embed_tokens.weight[model.config.pad_token_id] = 0
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6


class _End(LogitsProcessor):
    """Ends translations at a length, and keeps the end's probability, which transformers make 1."""

    def __init__(self, end: int, length: int):
        self._end, self._length = end, length

    def __call__(self, ids, scores):
        if ids.shape[1] < self._length:
            return scores
        ended = torch.full_like(scores, -torch.inf)
        ended[:, self._end] = scores[:, self._end]
        return ended


@torch.inference_mode()
def computed(
    model: MarianMTModel, lines: torch.Tensor, pairs: list[torch.Tensor], longest: int = 24
) -> dict[str, np.ndarray]:
    """Returns the logits of pairs, and the ids of translations of lines."""
    padding, bias = model.config.pad_token_id, model.final_logits_bias
    source, target = pairs
    found = {"logits": model(source, source != padding, labels=target).logits.numpy()}
    # Padding has no probability here: it is taken from transformers' too.
    model.final_logits_bias = torch.nn.Buffer(bias.clone())
    model.final_logits_bias[0, padding] = -torch.inf
    for name, beams in (("greedy", 1), ("beam", 4)):
        options = {"length_penalty": 0.0, "early_stopping": False} if beams > 1 else {}
        outputs = [
            model.generate(
                batch,
                attention_mask=batch != padding,
                num_beams=beams,
                do_sample=False,
                max_new_tokens=longest,
                forced_eos_token_id=None,
                logits_processor=LogitsProcessorList([_End(model.config.eos_token_id, longest)]),
                **options,
            )
            for batch in lines.split(64)
        ]
        rows = [row for output in outputs for row in output[:, 1:].tolist()]
        found[name] = _padded(rows, padding)
    model.final_logits_bias = torch.nn.Buffer(bias)
    return found


def _padded(rows: list[list[int]], padding: int) -> np.ndarray:
    padded = np.full((len(rows), max(map(len, rows))), padding)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded


def main() -> None:
    """Makes the fixtures, or what the arguments say."""
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        folder, settings, *files, count = sys.argv[1:]
        text = [Path(file).read_text(encoding="utf-8").splitlines() for file in files]
        make(Path(folder), json.loads(settings), text, text[0][: int(count)])
        return
    text = [
        list(side)
        for side in zip(*(line.split("|") for line in TEXT.split("\n")[1:-1]), strict=True)
    ]
    for name, settings in TINY.items():
        make(FIXTURES / name, settings, text, LINES, _RULES)


if __name__ == "__main__":
    main()
