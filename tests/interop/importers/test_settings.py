"""Each setting of a toolkit that changes what a model computes has a counterpart or is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from refusals import refused

from t2t_keras.interop.importers import fairseq, marian, tensor2tensor
from t2t_keras.interop.importers.files import read_pytorch, read_yaml
from t2t_keras.interop.importers.imported import Settings
from t2t_keras.interop.importers.pickles import to_containers

FIXTURES = Path(__file__).parent / "fixtures"


def fairseq_settings():
    checkpoint = read_pytorch(FIXTURES / "fairseq" / "shared" / "checkpoint.pt")
    return to_containers(checkpoint["cfg"]["model"], "it")


def marian_settings():
    options = np.load(FIXTURES / "marian_shared" / "model.npz")["special:model.yml"]
    return read_yaml(options.tobytes()[:-1], "it")


def huggingface_settings():
    return json.loads((FIXTURES / "marian_shared" / "config.json").read_text())


def tensor2tensor_settings():
    sets = json.loads((FIXTURES / "tensor2tensor_sets.json").read_text())
    return sets["transformer_base_v1"] | sets["transformer_base_v3"]


TOOLKITS = {
    "fairseq": (fairseq.hyperparameters, fairseq_settings),
    "huggingface": (marian.huggingface_hyperparameters, huggingface_settings),
    "marian": (marian.hyperparameters, marian_settings),
    "tensor2tensor": (tensor2tensor.hyperparameters, tensor2tensor_settings),
}

# Toolkit, setting and value.
REFUSED = """
fairseq decoder_normalize_before: true
fairseq no_decoder_final_norm: true
fairseq adaptive_softmax_cutoff: "10,20"
fairseq cross_self_attention: true
fairseq no_token_positional_embeddings: true
fairseq encoder_layers_to_keep: "0,2"
fairseq decoder_layers_to_keep: "0,2"
fairseq adaptive_input: true
fairseq no_cross_attention: true
fairseq base_layers: 1
fairseq encoder_learned_pos: true
fairseq encoder_embed_dim: 8
fairseq decoder_input_dim: 8
fairseq encoder_attention_heads: 8
fairseq encoder_ffn_embed_dim: 64
fairseq decoder_output_dim: 8
fairseq activation_fn: relu_squared
huggingface model_type: bart
huggingface activation_function: tanh
huggingface normalize_embedding: true
huggingface decoder_ffn_dim: 48
huggingface decoder_attention_heads: 4
huggingface static_position_embeddings: false
huggingface normalize_before: true
huggingface add_final_layer_norm: true
huggingface encoder_layerdrop: 0.1
huggingface decoder_layerdrop: 0.1
marian type: s2s
marian transformer-decoder-autoreg: rnn
marian transformer-decoder-autoreg: average-attention
marian transformer-ffn-activation: gelu
marian transformer-ffn-depth: 3
marian transformer-decoder-ffn-depth: 3
marian transformer-decoder-dim-ffn: 999
marian transformer-no-projection: true
marian transformer-pool: true
marian transformer-train-position-embeddings: true
marian transformer-disable-position-embeddings: true
marian transformer-attention-mask: alibi
marian transformer-no-bias: true
marian transformer-no-affine: true
marian right-left: true
marian ulr: true
marian input-types: [class]
marian transformer-tied-layers: [1, 1]
marian transformer-postprocess: dhn
marian lemma-dim-emb: 4
tensor2tensor self_attention_type: dot_product_relative
tensor2tensor ffn_layer: self_attention_ffn
tensor2tensor norm_type: batch
tensor2tensor proximity_bias: true
tensor2tensor unidirectional_encoder: true
tensor2tensor layer_preprocess_sequence: dn
tensor2tensor layer_preprocess_sequence: none
"""
# Toolkit, its settings and ours.
COUNTERPARTS = """
fairseq {dropout: 0.3} => {dropout: 0.3}
fairseq {attention_dropout: 0.2} => {attention_dropout: 0.2}
fairseq {activation_dropout: 0.15, relu_dropout: 0.25} => {relu_dropout: 0.15}
fairseq {activation_dropout: 0.0, relu_dropout: 0.25} => {relu_dropout: 0.25}
fairseq {no_scale_embedding: true} => {scale_embedding: false}
fairseq {layernorm_embedding: true} => {embedding_norm: true}
fairseq {encoder_normalize_before: true, decoder_normalize_before: true} => {pre_norm: true}
fairseq {encoder_layers: 7, decoder_layers: 5} => {num_encoder_layers: 7, num_decoder_layers: 5}
fairseq {activation_fn: gelu} => {activation: gelu}
fairseq {activation_fn: gelu_accurate} => {activation: gelu_tanh}
fairseq {activation_fn: gelu_fast} => {activation: gelu_tanh}
huggingface {dropout: 0.3} => {dropout: 0.3}
huggingface {attention_dropout: 0.2} => {attention_dropout: 0.2}
huggingface {activation_dropout: 0.15} => {relu_dropout: 0.15}
huggingface {scale_embedding: false} => {scale_embedding: false}
huggingface {encoder_layers: 7} => {num_encoder_layers: 7, num_decoder_layers: 1}
huggingface {decoder_layers: 7} => {num_encoder_layers: 2, num_decoder_layers: 7}
huggingface {activation_function: relu} => {activation: relu}
huggingface {activation_function: gelu} => {activation: gelu}
huggingface {encoder_ffn_dim: 48, decoder_ffn_dim: 48} => {d_ff: 48}
huggingface {encoder_attention_heads: 4, decoder_attention_heads: 4} => {num_heads: 4, d_model: 16}
"""


@pytest.mark.parametrize("case", REFUSED.strip().splitlines())
def test_what_cannot_be_represented_is_refused_by_name(case):
    toolkit, setting = case.split(" ", 1)
    hyperparameters, settings = TOOLKITS[toolkit]
    hyperparameters(Settings(settings(), "it"))
    [(name, value)] = yaml.safe_load(setting).items()
    with refused("not_supported", "it: ") as error:
        hyperparameters(Settings(settings() | {name: value}, "it"))
    # One that must be that of the other side may be named by the other.
    sides = {name.replace("encoder", "decoder"), name.replace("decoder", "encoder")}
    message = str(error.value)
    assert f"{name}={value!r}" in message or any(f"it: {side}=" in message for side in sides)


@pytest.mark.parametrize("case", COUNTERPARTS.strip().splitlines())
def test_settings_have_their_counterpart(case):
    toolkit, settings = case.split(" ", 1)
    theirs, ours = map(yaml.safe_load, settings.split(" => "))
    hyperparameters, settings = TOOLKITS[toolkit]
    as_is = hyperparameters(Settings(settings(), "it"))
    actual = hyperparameters(Settings(settings() | theirs, "it"))
    assert actual.items() >= ours.items()
    assert actual != as_is
