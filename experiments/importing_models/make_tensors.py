"""Makes the tests' tensors.pt and tensors_before_1.6.pt, as torch saves tensors, and tensors.npz.

Needs torch.
"""

import argparse
import collections
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).parents[2] / "tests" / "interop" / "importers" / "fixtures"


def main() -> None:
    """Writes the files."""
    torch.manual_seed(0)
    base = torch.randn(4, 6)
    tensors = collections.OrderedDict(
        base=base,
        transposed=base.t(),
        strided=base[1:3, ::2],
        row=base[2],
        expanded=base[:1].expand(3, 6),
        half=torch.randn(3, 2).half(),
        bfloat16=torch.randn(2, 3).bfloat16(),
        double=torch.randn(2).double(),
        int64=torch.arange(5),
        int16=torch.arange(3, dtype=torch.int16),
        bool=torch.tensor([True, False]),
        scalar=torch.tensor(2.5),
        empty=torch.zeros(0, 3),
        parameter=torch.nn.Parameter(torch.randn(2)),
    )
    content = {"model": tensors, "args": argparse.Namespace(layers=2), "other": [1, None, "text"]}
    torch.save(content, FOLDER / "tensors.pt")
    torch.save(content, FOLDER / "tensors_before_1.6.pt", _use_new_zipfile_serialization=False)
    values = {name: each.detach().float().numpy() for name, each in tensors.items()}
    np.savez_compressed(FOLDER / "tensors.npz", **values)


if __name__ == "__main__":
    main()
