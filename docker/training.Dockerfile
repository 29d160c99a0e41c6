# All commands, with CUDA for NVIDIA's GPUs, in a container. From the top of the checkout:
#
#     docker build -f docker/training.Dockerfile -t t2t-keras .
#     docker run --rm --init --gpus=all -v t2t:/t2t t2t-keras \
#         t2t-trainer --problem=translate_ende_toy --generate_data --data_dir=data \
#         --hparams_set=auto --output_dir=runs/toy
#
# The machine needs NVIDIA's driver and the NVIDIA Container Toolkit; without --gpus=all it trains
# on the CPU. The volume t2t keeps data and runs. With a folder of yours in its place, run as
# yourself:
#
#     docker run --rm --init --gpus=all -v "$PWD:/t2t" --user="$(id -u):$(id -g)" t2t-keras \
#         t2t-datagen --problem=parallel_text --tmp_dir=text --data_dir=data ...
#
# `docker stop --time=300` leaves a training the time to finish its step and write a checkpoint; the
# same command continues it.

FROM python:3.12-slim-bookworm AS wheel
WORKDIR /source
COPY setup.py entry_points.txt pyproject.toml README.md LICENSE ./
COPY t2t_keras t2t_keras
COPY problems problems
COPY hparams hparams
COPY recipes recipes
RUN pip wheel --no-cache-dir --no-deps --wheel-dir=/wheels .

FROM python:3.12-slim-bookworm
# Others: docs/start.md.
ARG EXTRAS=documents,import,language,plot,recipe,server,tfds
COPY --from=wheel /wheels /wheels
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# setup.py bounds the versions.
# hadolint ignore=DL3013
RUN wheel=$(echo /wheels/*.whl) \
    && pip install --no-cache-dir "${wheel}[${EXTRAS}]" "tensorflow[and-cuda]" \
    && rm -r /wheels \
    && useradd --create-home --uid=10001 train \
    && install --directory --owner=train /t2t
# Lines are shown as they are printed; the driver gives what computing needs.
ENV PYTHONUNBUFFERED=1 NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001
WORKDIR /t2t
VOLUME /t2t
# Any command takes its place.
CMD ["t2t-trainer", "--help"]
