"""A CPU whose cores are divided among replicas."""

import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.processor_cores import usable_cores
from t2t_keras.training import devices


@pytest.mark.skipif(usable_cores() < 2, reason="one core cannot be divided")
def test_trains_as_one_replica(start_trainer, tmp_path, weights_in):
    size = "--hparams=num_layers=1,d_model=16,d_ff=32,num_heads=2,dropout=0,warmup_steps=10,"
    flags = (f"{size}max_length=32,batch_tokens=300", "--train_steps=8")
    together = {
        replicas: start_trainer(tmp_path / f"{replicas}", *flags, f"--cpu_replicas={replicas}")
        for replicas in (1, 2)
    }
    for replicas, process in together.items():
        assert f"on {replicas} replica(s)" in process.said()
    one, two = (weights_in(tmp_path / f"{replicas}" / "model.ckpt-8") for replicas in together)
    np.testing.assert_allclose(two, one, atol=1e-5)


def test_what_cannot_be_divided(monkeypatch):
    with pytest.raises(UserError, match="for a CPU, and the run uses 3 GPUs"):
        devices.divide_cpu(2, gpus=3)
    with pytest.raises(UserError, match=r"=99999: this process may use \d+ cores"):
        devices.divide_cpu(99_999, gpus=0)
    monkeypatch.setattr(devices, "usable_cores", lambda: 8)
    with pytest.raises(UserError, match="TensorFlow already computes in this process"):
        devices.divide_cpu(4, gpus=0)
