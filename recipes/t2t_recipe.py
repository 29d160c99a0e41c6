"""Run a recipe, a Snakemake workflow of t2t's commands, from a configuration file.

t2t-recipe student > my-config.yaml
t2t-recipe student my-config.yaml --dry_run
t2t-recipe student my-config.yaml
t2t-recipe student my-config.yaml --profile=slurm

The recipe `student` trains a small, fast student from raw corpora, with filters, back-translation,
teachers, distillation, 8-bit integers, and a page that compares the models. The same command
continues an interrupted recipe. Needs Snakemake: pip install -e '.[recipe]'. See
docs/small_models.md.
"""

from t2t_keras.bin.flags import command, given_flags
from t2t_keras.errors import UserError
from t2t_keras.io.flags import Flags


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.arguments("recipe", "Name of the recipe, and its configuration file")
    flags.switch("dry_run", "Show the remaining jobs, with estimated hours")
    flags.integer("cores", "Cores to use; default: all, or those of --profile", minimum=1)
    flags.path("profile", "Snakemake profile, such as for a cluster; slurm = the built-in one")


@command(define_flags)
def run(flags: Flags) -> None:
    """Runs what the flags say."""
    name, *files = flags.recipe or [""]
    if not name or len(files) > 1:
        raise UserError(
            f"Expected a recipe and its configuration: t2t-recipe student my-config.yaml; "
            f"got '{' '.join(flags.recipe)}'.",
            code="bad_arguments",
        )
    if flags.t2t_usr_dir:
        raise UserError(
            "--t2t_usr_dir: write t2t_usr_dir: DIRECTORY into the configuration.",
            code="conflicting_settings",
        )
    from t2t_keras.recipes.running import describe, example, run_recipe

    if not files:
        print(example(name), end="")
    elif flags.dry_run:
        if excluded := given_flags(flags, "cores", "profile"):
            raise UserError(
                f"--dry_run estimates only for this machine: leave out "
                f"--{' and --'.join(excluded)}.",
                code="conflicting_settings",
            )
        print(describe(name, files[0]))
    else:
        run_recipe(name, files[0], flags.cores, flags.profile)


if __name__ == "__main__":
    run()
