"""Expected cost of a step on several GPUs, with the assumptions of README.md."""

import dataclasses

# The paper's models with a vocabulary of 37,000, and the tokens of a step (Table 3, section 5.1).
WEIGHTS = {"base": 63_045_632, "big": 214_171_648}
STEP_TOKENS = 25_000
# Shares of the peak that are reached.
COMPUTE_SHARE, LINK_SHARE = 0.3, 0.8
NETWORK = 100e9 / 8


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A kind of GPU."""

    flops: float  # Peak in bfloat16, operations per second.
    link: float  # NVLink in one direction, bytes per second.


GPUS = {"A100": Gpu(312e12, 300e9), "H100": Gpu(989e12, 450e9)}


def ring_bytes(weights: int, replicas: int, bytes_a_weight: int = 4) -> float:
    """Returns the bytes that each replica sends in a step: all parts but its own, twice."""
    return 2 * (replicas - 1) / replicas * weights * bytes_a_weight


def step_seconds(weights: int, tokens: int, gpu: Gpu, replicas: int) -> float:
    """Returns the expected seconds of computing a step: 6 operations per weight and token."""
    return 6 * weights * tokens / (gpu.flops * COMPUTE_SHARE * replicas)


def expected_rows() -> list[str]:
    """Returns the table as lines of Markdown."""
    names = "model,GPUs,exchanged in,bytes a GPU sends,tokens a step,computing ms,exchanging ms"
    columns = [*names.split(","), "efficiency"]
    rows = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for model, weights in WEIGHTS.items():
        for name, gpu in GPUS.items():
            for machines, times in ((1, 1), (4, 4), (4, 40)):
                for dtype, size in (("float32", 4), ("bfloat16", 2)):
                    replicas, tokens = 8 * machines, STEP_TOKENS * times
                    sent = ring_bytes(weights, replicas, size)
                    exchange = sent / ((gpu.link if machines == 1 else NETWORK) * LINK_SHARE)
                    compute = step_seconds(weights, tokens, gpu, replicas)
                    rows.append(
                        f"| {model} | {machines} x 8 {name} | {dtype} | {sent / 1e6:,.0f} MB "
                        f"| {tokens:,} | {compute * 1e3:.1f} | {exchange * 1e3:.1f} "
                        f"| {compute / (compute + exchange):.0%} |"
                    )
    return rows


if __name__ == "__main__":
    print("\n".join(expected_rows()))
