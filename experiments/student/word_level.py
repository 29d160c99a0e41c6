"""Word-level distillation, to be compared with whole translations: t2t-trainer with a teacher.

python word_level.py TEACHER SHARE --output_dir=... [further flags of t2t-trainer]

The loss is SHARE of the cross-entropy against the teacher's distribution for each token, and for
the rest that against the token (Kim and Rush, 2016, section 3.1). On TensorFlow, with one replica.
"""

import sys

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

from keras import ops  # noqa: E402

from t2t_keras.bin.t2t_trainer import run  # noqa: E402
from t2t_keras.layers import RaggedLayout  # noqa: E402
from t2t_keras.training.backends.tensorflow import TensorFlowStep  # noqa: E402
from t2t_keras.training.checkpoints import load_model  # noqa: E402
from t2t_keras.training.optimizer import token_sums  # noqa: E402


def main():
    """Trains as the arguments say."""
    teacher, share = load_model(sys.argv[1]).model, float(sys.argv[2])
    without = TensorFlowStep._token_sums

    def with_teacher(step, source, target, training, **options):
        if not training:
            return without(step, source, target, training, **options)
        inputs, real = {"source": source, "target": target}, ops.not_equal(target, 0)
        teacher_logits, logits = (
            model(inputs, packed=True, training=learns)
            for model, learns in ((teacher, False), (step.model, True))
        )
        packed = RaggedLayout(real).pack(target)
        sums = token_sums(logits, packed, **options)
        given = ops.stop_gradient(ops.softmax(teacher_logits))
        each = ops.categorical_crossentropy(given, logits, from_logits=True)
        taught = ops.sum(each * ops.cast(ops.not_equal(packed, 0), each.dtype))
        return sums | {"loss": (1 - share) * sums["loss"] + share * taught}

    TensorFlowStep._token_sums = with_teacher
    run(["t2t-trainer", *sys.argv[3:]])


if __name__ == "__main__":
    main()
