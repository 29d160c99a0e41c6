import types

import numpy as np
from refusals import refused

from t2t_keras.decoding.search.ensemble import Ensemble


def test_ids_of_each_side_are_of_its_own_vocabulary():
    config = types.SimpleNamespace(self_attention_radius=0)
    model = types.SimpleNamespace(vocab_size=5, source_vocab_size=7, config=config)
    ensemble = Ensemble([model])
    ensemble.check_ids(np.array([[6]]), np.array([[4]]))
    with refused("other_vocabulary", "from 0 to 6", "7 to 7"):
        ensemble.check_ids(np.array([[7]]))
    with refused("other_vocabulary", "from 0 to 4", "-1 to 5"):
        ensemble.check_ids(np.array([[6]]), np.array([[5, -1]]))
