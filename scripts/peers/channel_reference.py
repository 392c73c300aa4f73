"""Kimi Delta Attention token by token in float64, on the device of its inputs: what rows with a decay per key channel are
judged by. All sequences go on side by side, each as far as it is long; a token is a handful of launches."""
import torch


def evaluate(inputs, scale):
    """(output [T, Hv, Dv], final state [N, Hv, Dk, Dv]) of S <- e^g S, S <- S + beta k (v - k S), o = scale q S."""
    repeat = inputs.value.shape[1] // inputs.query.shape[1]
    offsets = inputs.offsets.tolist()
    # Longest first, so that those still going on are the first ones.
    order = sorted(range(len(inputs.lengths)), key=lambda n: -inputs.lengths[n])
    first = torch.tensor([offsets[n] for n in order], device=inputs.value.device)
    state = inputs.initial_state.double()[order]
    output = torch.empty(inputs.value.shape, dtype=torch.float64, device=inputs.value.device)
    going = len(order)
    for step in range(max(inputs.lengths)):
        while inputs.lengths[order[going - 1]] <= step:
            going -= 1
        at = first[:going] + step

        def rows(tensor):
            return tensor[at].double()  # noqa: B023 - called at once
        query, key = (rows(x).repeat_interleave(repeat, 1) for x in (inputs.query, inputs.key))
        now = state[:going]
        now *= rows(inputs.log_decay).exp()[..., None]
        update = rows(inputs.beta)[..., None] * (rows(inputs.value) - (key[..., None, :] @ now)[..., 0, :])
        now += key[..., None] * update[..., None, :]
        output[at] = scale * (query[..., None, :] @ now)[..., 0, :]
    final = torch.empty_like(state)
    final[order] = state
    return output, final
