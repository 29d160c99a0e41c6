"""Hugging Face Transformers: `MarianMTModel` and its `generate`. Option: compile, in training."""

import torch_steps
import workload
from transformers import GenerationConfig, MarianConfig, MarianMTModel

_IDS = dict(pad_token_id=workload.PADDING, eos_token_id=workload.EOS, bos_token_id=workload.BOS)
_IDS["decoder_start_token_id"] = workload.BOS


def new_model(size: workload.Size) -> MarianMTModel:
    """Returns a model with random weights."""
    stack = dict(layers=size.num_layers, ffn_dim=size.d_ff, attention_heads=size.num_heads)
    stacks = {f"{side}_{name}": stack[name] for side in ("encoder", "decoder") for name in stack}
    dropout = dict(dropout=workload.DROPOUT, attention_dropout=0.0, activation_dropout=0.0)
    embedding = dict(d_model=size.d_model, init_std=size.d_model**-0.5, scale_embedding=True)
    options = dict(vocab_size=size.vocab_size, forced_eos_token_id=None, activation_function="relu")
    return MarianMTModel(MarianConfig(**stacks, **dropout, **embedding, **options, **_IDS))


def main() -> None:
    """Times training or decoding."""
    args = workload.arguments("compile")
    model, beam = new_model(args.size), dict(length_penalty=workload.ALPHA, do_sample=False)
    beam |= dict.fromkeys(["min_new_tokens", "max_new_tokens"], workload.OUTPUT_LENGTH)
    config = GenerationConfig(num_beams=workload.BEAM_SIZE, **beam, **_IDS)

    def logits(source, target_input):
        mask = (source != workload.PADDING).long()
        return model(source, mask, decoder_input_ids=target_input, use_cache=False).logits

    def search(source, mask):
        outputs = model.generate(source, attention_mask=mask.long(), generation_config=config)
        return outputs[:, 1:].tolist()

    torch_steps.run(args, model, torch_steps.loss_of_logits(logits), search)


if __name__ == "__main__":
    main()
