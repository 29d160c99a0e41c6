"""What fairseq does for `fairseq.py`, run by the Python of its own environment.

with_fairseq.py preprocess|train ARGUMENTS    as fairseq-preprocess and fairseq-train
with_fairseq.py answer CHECKPOINT DATA SEGMENTED_LINES EXTRA_LENGTH LOGITS OUTPUT.npz
"""

import dataclasses
import functools
import importlib
import os
import sys
from pathlib import Path

import numpy as np
import torch

# Its own checkpoints are no weights only.
os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"


def _hashable(dataclass):
    """Python 3.11 refuses defaults of fairseq's dataclasses unless their classes have a hash."""

    @functools.wraps(dataclass)
    def wrapped(cls=None, **options):
        if cls is None:
            return lambda cls: wrapped(cls, **options)
        cls = dataclass(cls, **options)
        if cls.__hash__ is None:
            cls.__hash__ = object.__hash__
        return cls

    return wrapped


def _answer(checkpoint, data, lines, extra_length, with_logits, output):
    from fairseq.checkpoint_utils import load_model_ensemble_and_task
    from fairseq.sequence_generator import SequenceGenerator

    (model,), _, task = load_model_ensemble_and_task([checkpoint], arg_overrides={"data": data})
    model.eval()
    searches = {
        name: SequenceGenerator(
            [model],
            task.target_dictionary,
            beam_size=beam_size,
            normalize_scores=False,
            max_len_a=1,
            max_len_b=int(extra_length) - 1,
        )
        for name, beam_size in (("greedy", 1), ("beam", 4))
    }
    found = {}
    for number, line in enumerate(Path(lines).read_text(encoding="utf-8").split("\n")[:-1]):
        source = task.source_dictionary.encode_line(line, add_if_not_exist=False).long()[None]
        found[f"source_{number}"] = source[0].numpy()
        inputs = {"src_tokens": source, "src_lengths": torch.tensor([source.shape[1]])}
        for name, search in searches.items():
            best = search.generate([model], {"net_input": inputs})[0][0]
            found[f"{name}_{number}"] = best["tokens"].numpy()
        if number < int(with_logits):
            target = torch.tensor(found[f"greedy_{number}"])[None]
            shifted = torch.cat([target[:, -1:], target[:, :-1]], dim=1)
            with torch.no_grad():
                found[f"logits_{number}"] = model(**inputs, prev_output_tokens=shifted)[0][
                    0
                ].numpy()
    np.savez_compressed(output, **found)


if __name__ == "__main__":
    dataclasses.dataclass = _hashable(dataclasses.dataclass)
    command = sys.argv.pop(1)
    if command == "answer":
        _answer(*sys.argv[1:])
        print(importlib.import_module("fairseq").__version__)
    else:
        importlib.import_module(f"fairseq_cli.{command}").cli_main()
