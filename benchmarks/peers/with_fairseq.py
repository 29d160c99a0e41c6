"""fairseq: its `TransformerModel`, its smoothed loss and its `SequenceGenerator`."""

import argparse
import dataclasses
import functools
import logging

import torch_steps
import workload

logging.disable(logging.CRITICAL)
_dataclass = dataclasses.dataclass


def _hashable(cls=None, **options):
    # Python 3.11 requires that a dataclass in a default value is hashable.
    options = dict(unsafe_hash=True) | options
    return _dataclass(cls, **options) if cls else functools.partial(_hashable, **options)


dataclasses.dataclass = _hashable
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss  # noqa: E402
from fairseq.data import Dictionary  # noqa: E402
from fairseq.models.transformer import TransformerModel, base_architecture  # noqa: E402
from fairseq.sequence_generator import SequenceGenerator  # noqa: E402

dataclasses.dataclass = _dataclass
args = workload.arguments()
size, length = args.size, workload.OUTPUT_LENGTH
words = Dictionary()
words.pad_index, words.eos_index = workload.PADDING, workload.EOS
words.unk_index, words.bos_index = workload.UNKNOWN, workload.BOS
for number in range(len(words), size.vocab_size):
    words.add_symbol(str(number))
options = argparse.Namespace(share_all_embeddings=True, dropout=workload.DROPOUT)
options.attention_dropout = options.activation_dropout = 0.0
options.encoder_layers = options.decoder_layers = size.num_layers
options.encoder_embed_dim, options.encoder_ffn_embed_dim = size.d_model, size.d_ff
options.encoder_attention_heads = options.decoder_attention_heads = size.num_heads
options.max_source_positions = options.max_target_positions = 256
base_architecture(options)
task = argparse.Namespace(source_dictionary=words, target_dictionary=words)
model = TransformerModel.build_model(options, task)
beam = dict(beam_size=workload.BEAM_SIZE, len_penalty=workload.ALPHA)


def _loss(source, target_input, target):
    logits, _ = model(source, (source != workload.PADDING).sum(1), target_input)
    scores, target = logits.log_softmax(-1).flatten(0, 1), target.flatten()
    settings = (workload.LABEL_SMOOTHING, workload.PADDING)
    return label_smoothed_nll_loss(scores, target, *settings)[0] / target.count_nonzero()


def _search(source, mask):
    generator = SequenceGenerator([model], words, min_len=length, max_len_b=length, **beam)
    inputs = dict(src_tokens=source, src_lengths=mask.sum(1))
    hypotheses = generator.generate([model], dict(net_input=inputs))
    return [best["tokens"][:length].tolist() for best, *_ in hypotheses]  # An EOS follows.


torch_steps.run(args, model, _loss, _search)
