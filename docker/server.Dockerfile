# t2t-serve in a container. From the top of the checkout:
#
#     docker build -f docker/server.Dockerfile -t t2t-serve .
#     docker run --rm -p 127.0.0.1:5000:5000 -v "$PWD/runs:/models:ro" -v t2t-serve:/storage \
#         t2t-serve --model=en-de=/models/averaged --storage=/storage
#
# Exports for CTranslate2 need less: they are served without TensorFlow.
#
# With --certificate or another --port, tell the health check:
# --env=HEALTH_URL=https://127.0.0.1:5000/health

FROM python:3.12-slim-bookworm AS wheel
WORKDIR /source
COPY setup.py entry_points.txt pyproject.toml README.md LICENSE ./
COPY t2t_keras t2t_keras
COPY problems problems
COPY hparams hparams
COPY recipes recipes
RUN pip wheel --no-cache-dir --no-deps --wheel-dir=/wheels .

FROM python:3.12-slim-bookworm
COPY --from=wheel /wheels /wheels
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# setup.py bounds the versions.
# hadolint ignore=DL3013
RUN wheel=$(echo /wheels/*.whl) \
    && pip install --no-cache-dir "${wheel}[server,documents,ctranslate2]" \
    && rm -r /wheels \
    && useradd --create-home --uid=10001 serve \
    && install --directory --owner=serve /storage
USER 10001
VOLUME /storage
EXPOSE 5000
ENV HEALTH_URL=http://127.0.0.1:5000/health
# It answers as soon as the models are loaded. A certificate is not for this address.
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s CMD \
    ["python", "-c", "import os, ssl, urllib.request as r; r.urlopen(os.environ['HEALTH_URL'], context=ssl._create_unverified_context())"]
# SIGTERM, which `docker stop` sends, lets it answer the requests that have arrived: give it time, --time=30.
STOPSIGNAL SIGTERM
ENTRYPOINT ["t2t-serve", "--host=0.0.0.0", "--port=5000"]
