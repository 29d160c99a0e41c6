"""Packaging. `problems/` and `hparams/` come along as t2t_keras.problems and t2t_keras.hparams."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
# For tools that share an environment with the tests: their snakemake takes no later one, the newest
# twine and virtualenv (of pre-commit) no earlier one.
_PACKAGING = "packaging>=24.2,<26"


def version() -> str:
    """Returns `__version__` of the package without importing it."""
    source = (ROOT / "t2t_keras" / "_version.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', source, flags=re.MULTILINE)[1]


setup(
    name="t2t-keras",
    version=version(),
    description='The Transformer of "Attention Is All You Need" in TensorFlow and Keras 3',
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="The t2t_keras Authors",
    license_expression="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=[
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    # Follows the symlinks t2t_keras/problems, hparams and recipes; the directories that they
    # point to must not be installed at the top level, hence the explicit `include`.
    packages=find_packages(include=["t2t_keras", "t2t_keras.*"]),
    package_data={
        "t2t_keras": ["py.typed"],
        "t2t_keras.io.pages": ["*.html", "*.css"],
        "t2t_keras.lab": ["templates/*"],
        "t2t_keras.problems": ["*.tsv"],
        "t2t_keras.recipes": ["*/Snakefile", "*/*.yaml", "*/*/*.yaml"],
        "t2t_keras.problems.toy": ["*.tsv"],
        "t2t_keras.workbench.server.page": ["*.html", "*.css", "*.js"],
        "t2t_keras.serving": ["*.md"],
    },
    python_requires=">=3.11,<3.14",
    install_requires=[
        "absl-py>=2.1,<3",
        "defusedxml>=0.7.1,<0.8",
        "grpcio>=1.71,<2",
        "Jinja2>=3.1,<4",
        "keras>=3.15,<4",
        "ml-dtypes>=0.5,<0.7",
        "numpy>=2.0,<3",
        "protobuf>=6.31.1,<8",
        "PyYAML>=6,<7",
        "sacrebleu>=2.5,<3",
        "sacremoses>=0.2,<0.3",
        # 0.2.3 needs protobuf 7.36 and does not say so.
        "sentencepiece>=0.2.1,!=0.2.3,<0.3",
        "sentencex>=1.0,<2",
        "tabulate>=0.9,<1",
        "tensorflow>=2.21,<2.22",
        "tensorflow-text>=2.21,<2.22",
        "tqdm>=4.66,<5",
        "urllib3>=2.8,<3",
    ],
    extras_require={
        # It holds protobuf below 7, so its tests skip where it is not installed.
        "beam": ["apache-beam>=2.77,<3"],
        "ctranslate2": ["ctranslate2>=4.8,<5"],
        "documents": [
            "lxml>=6,<7",
            "markdown-it-py>=4,<5",
            "rapidfuzz>=3.14,<4",
        ],
        "import": ["safetensors>=0.8,<0.9"],
        "jax": ["jax>=0.10,<0.11"],
        "keras-hub": ["keras-hub>=0.32,<0.33"],
        "language": ["py3langid>=0.4,<0.5"],
        "litert": ["ai-edge-litert>=2.3,<3"],
        "onnx": ["onnx>=1.23,<2", "onnxruntime>=1.31,<2"],
        "plot": ["matplotlib>=3.11,<4"],
        "recipe": [
            "ctranslate2>=4.8,<5",
            "py3langid>=0.4,<0.5",
            "snakemake>=9,<10",
        ],
        "server": [
            "prometheus-client>=0.22,<1",
            "py3langid>=0.4,<0.5",
            "python-multipart>=0.0.20,<0.1",
            "starlette>=1.10,<2",
            "uvicorn[standard]>=0.38,<1",
        ],
        # tensorflow-datasets uses importlib_resources without asking for it.
        "tfds": ["importlib_resources>=6,<8", "tensorflow-datasets>=4.9.9,<5"],
        "test": [
            "ai-edge-litert>=2.3,<3",
            "ctranslate2>=4.8,<5",
            # The official clients of what t2t-serve speaks.
            "deepl>=1.32,<2",
            "httpx>=0.28,<1",
            "importlib_resources>=6,<8",
            "jax>=0.10,<0.11",
            "keras-nlp>=0.32,<0.33",
            "libretranslatepy>=2.1,<3",
            "lxml>=6,<7",
            "markdown-it-py>=4,<5",
            "matplotlib>=3.11,<4",
            "onnx>=1.23,<2",
            "onnxruntime>=1.31,<2",
            # Drives this machine's Chromium or Chrome over the pages that commands show.
            "playwright>=1.50,<2",
            "polib>=1.2,<2",
            "prometheus-client>=0.22,<1",
            "py3langid>=0.4,<0.5",
            "pydot>=4,<5",
            "pytest>=9,<10",
            # Writes and reads Word documents, to compare with.
            "python-docx>=1.2,<2",
            "python-multipart>=0.0.20,<0.1",
            "pytest-xdist>=3.6,<4",
            "rapidfuzz>=3.14,<4",
            "safetensors>=0.8,<0.9",
            "snakemake>=9,<10",
            # Reads subtitles, to compare with.
            "srt>=3.5,<4",
            "starlette>=1.10,<2",
            # The packaging test builds the wheel with it, without a network.
            "setuptools>=77",
            "tensorflow-datasets>=4.9.9,<5",
            # The official messages of TensorFlow Serving, to compare with.
            "tensorflow-serving-api>=2.21,<2.22",
            "uvicorn[standard]>=0.38,<1",
        ],
        "lint": [
            "import-linter>=2.16,<3",
            "mypy==2.4.1",
            _PACKAGING,
            "pre-commit>=4,<5",
            "ruff==0.17.5",
            "vulture>=2.16,<3",
        ],
        "dist": ["build>=1.3,<2", _PACKAGING, "twine>=6.1,<8"],
        "mutate": ["cosmic-ray>=8.7,<9"],
        "docs": [
            "ipykernel>=6,<8",
            "matplotlib>=3.11,<4",
            "mkdocs-jupyter>=0.26,<0.27",
            "mkdocs-material>=9.6,<10",
            "mkdocstrings[python]>=0.30,<2",
            # Which the notebooks use.
            "t2t-keras[ctranslate2,server]",
        ],
    },
    entry_points=(ROOT / "entry_points.txt").read_text(encoding="utf-8"),
)
