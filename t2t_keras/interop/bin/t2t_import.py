"""Import a model from another toolkit, to decode, fine-tune and export it here.

t2t-import --from=tensor2tensor --model=t2t_train/base --output_dir=runs/imported
    --problem=parallel_text --problem_config=source_language=en,target_language=de
t2t-import --from=fairseq --model=checkpoints/checkpoint_best.pt --vocabulary=data-bin,spm.model ...
t2t-import --from=opennmt_tf --model=run --vocabulary=data.yml ...
"""

from t2t_keras.bin.flags import command, define_common, require
from t2t_keras.data.problem import make_problem
from t2t_keras.interop.importers import IMPORTERS
from t2t_keras.io.flags import Flags


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Model")
    flags.choice("from", "Toolkit that trained the model", [*IMPORTERS], None)
    flags.path("model", "Folder or checkpoint of the model")
    flags.paths("vocabulary", "Vocabulary, with commas between files; default: next to the model")
    flags.integer("target_space", "tensor2tensor's SpaceID of the target; default: the trained one")
    flags.group("Run")
    define_common(flags, output_dir="Directory to write the run to")
    define_common(flags, "problem", "problem_config", "t2t_usr_dir")
    flags.assignments("hparams", 'Hyperparameters missing from the files, "name=value,..."')


@command(define_flags)
def run(flags: Flags) -> None:
    """Imports the model."""
    require(flags, "from", "model", "output_dir", "problem")
    from t2t_keras.interop.importers.imported import make_run, read_model

    problem = make_problem(flags.problem, flags.problem_config)
    imported = read_model(
        getattr(flags, "from"),
        flags.model,
        problem.languages(),
        vocabulary=",".join(flags.vocabulary or ()),
        target_space=flags.target_space,
        changes=flags.hparams,
    )
    make_run(imported, problem, flags.output_dir, flags.model)


if __name__ == "__main__":
    run()
