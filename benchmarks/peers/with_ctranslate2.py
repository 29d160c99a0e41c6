"""CTranslate2: decoding with a random model of Transformers, converted. Option: int8."""

import tempfile

import ctranslate2
import workload
from ctranslate2.converters.transformers import BartLoader
from with_transformers import new_model

args = workload.arguments("int8")
names = ["<pad>", "</s>", "<unk>", "<s>", *map(str, range(4, args.size.vocab_size))]
model = new_model(args.size)
# BART's loader: Marian's would drop a vocabulary entry that this model does not have.
model.config.normalize_before = model.config.normalize_embedding = False
spec = BartLoader().get_model_spec(model)
spec.register_source_vocabulary(names)
spec.register_target_vocabulary(names)
spec.config.bos_token = spec.config.decoder_start_token = names[workload.BOS]
spec.config.eos_token, spec.config.unk_token = names[workload.EOS], names[workload.UNKNOWN]
spec.validate()
spec.optimize()
with tempfile.TemporaryDirectory() as folder:
    spec.save(folder)
    dtype, threads = "int8" if args.int8 else "float32", workload.THREADS
    translator = ctranslate2.Translator(folder, compute_type=dtype, intra_threads=threads)
options = dict(beam_size=workload.BEAM_SIZE, length_penalty=workload.ALPHA)
for bound in ("min", "max"):
    options[f"{bound}_decoding_length"] = workload.OUTPUT_LENGTH


def _translate(source):
    rows = [[names[piece] for piece in ids if piece != workload.PADDING] for ids in source]
    return [result.hypotheses[0] for result in translator.translate_batch(rows, **options)]


workload.time_decoding(args, _translate)
