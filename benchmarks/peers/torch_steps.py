"""What the toolkits on PyTorch share: loss, optimizer, training and decoding."""

from collections.abc import Callable

import torch
import workload

torch.set_num_threads(workload.THREADS)
torch.manual_seed(1)


def loss_of_logits(forward: Callable) -> Callable:
    """Returns the mean loss per token as a function of source, decoder input and target."""
    options = dict(ignore_index=workload.PADDING, label_smoothing=workload.LABEL_SMOOTHING)

    def loss_of(source, target_input, target):
        logits = forward(source, target_input).flatten(0, 1)
        return torch.nn.functional.cross_entropy(logits, target.flatten(), **options)

    return loss_of


def run(args, model: torch.nn.Module, loss_of: Callable, search: Callable | None = None) -> None:
    """Times Adam's steps on `loss_of`, or `search`, which takes source ids and their mask."""
    if args.mode == "train":
        weights, betas = model.train().parameters(), (workload.BETA_1, workload.BETA_2)
        epsilon = workload.EPSILON
        adam = torch.optim.Adam(weights, workload.LEARNING_RATE, betas, epsilon, fused=True)
        if getattr(args, "compile", 0):
            loss_of = torch.compile(loss_of, dynamic=False)

        def step(*batch) -> float:
            loss = loss_of(*(torch.from_numpy(ids).long() for ids in batch))
            adam.zero_grad()
            loss.backward()
            adam.step()
            return loss.item()

        workload.time_training(args.size, step)
        return
    model.eval()

    @torch.inference_mode()
    def translate(source):
        ids = torch.from_numpy(source).long()
        return search(ids, ids != workload.PADDING)

    workload.time_decoding(args, translate)
