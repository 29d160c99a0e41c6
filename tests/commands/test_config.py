"""Every command takes its flags from a file, too."""

from types import SimpleNamespace

import pytest
from commands import call, modules_of_commands

from t2t_keras import experiment


@pytest.mark.parametrize("command", modules_of_commands())
def test_every_command_reads_a_file_of_flags(command, refused, tmp_path):
    (tmp_path / "run.yaml").write_text("registered_help: true\n")
    refused("unknown_flag 'registered_help' run.yaml", command, f"--config={tmp_path}/run.yaml")


def test_a_training_from_a_file(tmp_path, random_run, monkeypatch):
    configs = []

    def train_run(config, output_dir, worker_gpu, options):
        configs.append((config, output_dir, options))
        return config, SimpleNamespace(signal=0)

    monkeypatch.setattr(experiment, "train_run", train_run)
    (tmp_path / "run.yaml").write_text(f"""
problem: parallel_text
problem_config: {{source_language: en, target_language: de, vocab_size: 300, metrics: []}}
data_dir: {random_run.parent / "data"}
output_dir: {tmp_path / "new"}
hparams_set: transformer_tiny
hparams:
  trainable: ["encoder_[0-9]{{1,2}}.+", decoder.*]
  dropout: 0.3
save_checkpoints_secs: 7
""")
    call(f"t2t-trainer --config={tmp_path}/run.yaml --hparams=dropout=0.2 --eval_bleu")
    [(config, output_dir, options)] = configs
    assert output_dir == str(tmp_path / "new")
    assert config.hparams.trainable == ("encoder_[0-9]{1,2}.+", "decoder.*")
    assert config.hparams.dropout == 0.2, "what is given overrides the file, name by name"
    assert config.problem.source_language == "en"
    assert (options.save_checkpoints_secs, options.eval_bleu) == (7, True)
