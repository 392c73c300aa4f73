"""The results of time_serving.py's problems in float64, straight from the equations (docs/contract.md, section 1), in
PyTorch: what everyone is judged by. Sequences of a recurrence are equally long."""
import torch


def expected(problem, tensors):
    """By the operands' names after the call."""
    operation = problem.split(":")[0]
    if operation == "causal_conv1d":
        return convolution(tensors)
    if operation != "gated_delta_layer":
        return recurrence(tensors["q"], tensors["k"], tensors["v"], tensors, "layout=vk" in problem)
    results = convolution(tensors)
    mixed = results.pop("conv_output")
    heads = tensors["A_log"].numel()
    keys = (mixed.shape[1] - heads * 128) // 2
    q, k, v = (x.reshape(len(x), -1, 128) for x in mixed.split((keys, keys, heads * 128), dim=-1))
    return results | recurrence(q, k, v, tensors, "layout=vk" in problem)


def convolution(tensors):
    """SiLU of four taps; each sequence behind its window, or behind zeros where there are none."""
    x, weight, offsets = tensors["qkv"].double(), tensors["conv_weight"].double(), tensors["sequence_offsets"].tolist()
    outputs, windows = [], []
    for n, (begin, end) in enumerate(zip(offsets, offsets[1:])):
        before = (tensors["conv_state"][n].double().T if "conv_state" in tensors
                  else x.new_zeros(3, x.shape[1]))
        whole = torch.cat((before, x[begin:end]))
        summed = sum(weight[:, tap] * whole[tap:tap + end - begin] for tap in range(4))
        outputs.append(torch.nn.functional.silu(summed))
        windows.append(whole[-3:].T)
    results = {"conv_output": torch.cat(outputs)}
    if "conv_state" in tensors:
        results["conv_state"] = torch.stack(windows)
    return results


def recurrence(q, k, v, tensors, keys_fastest):
    """With gates and betas from logits, and normalised queries and keys."""
    start = tensors["initial_state"]
    sequences, heads, dim = start.shape[0], start.shape[1], start.shape[-1]

    def by_sequence(x):
        x = x.double().reshape(sequences, -1, *x.shape[1:])
        return x if x.shape[2] == heads else x.repeat_interleave(heads // x.shape[2], dim=2)

    def unit(x):
        return x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()

    q, k, v = unit(by_sequence(q)), unit(by_sequence(k)), by_sequence(v)
    logit = by_sequence(tensors["decay_logit"]) + tensors["dt_bias"].double()
    decay = (-tensors["A_log"].double().exp() * torch.logaddexp(logit, torch.zeros_like(logit))).exp()
    beta = by_sequence(tensors["beta_logit"]).sigmoid()
    state = start.double()
    if keys_fastest:
        state = state.transpose(-1, -2)
    outputs = torch.empty_like(v)
    for t in range(q.shape[1]):
        state = state * decay[:, t, :, None, None]
        update = beta[:, t, :, None] * (v[:, t] - torch.einsum("nhk,nhkv->nhv", k[:, t], state))
        state = state + k[:, t, :, :, None] * update[:, :, None, :]
        outputs[:, t] = torch.einsum("nhk,nhkv->nhv", q[:, t], state) * dim ** -0.5
    if keys_fastest:
        state = state.transpose(-1, -2)
    return {"output": outputs.reshape(-1, heads, v.shape[-1]), "final_state": state}
