"""Who is timed by time_backward.py. Each contender is a function that imports what it needs and returns make(inputs) ->
Pair. Gradients come by the names of GRADIENTS, in this project's shapes."""
import dataclasses
import importlib
from typing import Callable

from contenders import SCALE, Call  # it keeps FLA to its own kernels, and makes gdnbench_torch be found
from inputs import DIM, Inputs

# What a gradient is called in the table: the operand it is.
GRADIENTS = {"dq": "d_q", "dk": "d_k", "dv": "d_v", "dg": "d_log_decay", "dbeta": "d_beta"}
FORWARD = "cuda/fused_sm90"


@dataclasses.dataclass
class TrainingInputs(Inputs):
    """Inputs without an initial state, and d_output as value."""
    d_output: object = None


@dataclasses.dataclass
class Pair:
    """forward_backward.run() enqueues a forward and a backward pass, backward.run() a backward pass of a forward pass that
    prepare() has made, once; each returns the gradients. `workspace_bytes` of this project's plans alone."""
    forward_backward: Call
    backward: Call
    choice: str = ""
    workspace_bytes: dict | None = None
    close: Callable = lambda: None


def fields_of(inputs):
    """Of a problem string; lengths are those of the tensor sequence_offsets."""
    return f"heads={inputs.query.shape[1]}/{inputs.value.shape[1]},dim={DIM},seq=1x1,dtype=bf16,ht=0"


def operands_of(inputs):
    """What gated_delta reads."""
    return {"q": inputs.query, "k": inputs.key, "v": inputs.value, "log_decay": inputs.log_decay, "beta": inputs.beta,
            "sequence_offsets": inputs.offsets}


def pair_of(step, gradients_alone):
    """A Pair of plans: those that a step runs, the last of which makes the gradients, and one of the gradients alone."""
    plans = list(dict.fromkeys([*step, gradients_alone]))

    def call_of(run):
        gradients = {name: run[-1].tensors[operand] for name, operand in GRADIENTS.items()}

        def enqueue():
            for plan in run:
                plan.run()
            return gradients
        return Call(enqueue)

    def workspace_of(run):
        return sum(plan.info["workspace_bytes"] for plan in run)

    def close():
        for plan in plans:
            plan.close()
    return Pair(call_of(step), call_of([gradients_alone]),
                choice=", ".join(f"{plan.implementation} {plan.info['choice']}".strip() for plan in step),
                workspace_bytes={"forward_backward": workspace_of(step), "backward": workspace_of([gradients_alone])},
                close=close)


def plan_of(operation, inputs, implementation):
    import gdnbench_torch as gdn
    tensors = operands_of(inputs)
    if operation != "gated_delta":
        tensors |= {"d_output": inputs.d_output}
    return gdn.Plan(f"{operation}:{fields_of(inputs)}", tensors, implementation)


def ours(implementation):
    """A training step as one plan, in which the forward pass may leave the gradients what they need; and the gradients
    alone, which make it again."""
    def load():
        importlib.import_module("gdnbench_torch")

        def make(inputs):
            return pair_of([plan_of("gated_delta_training", inputs, implementation)],
                           plan_of("gated_delta_backward", inputs, implementation))
        return make
    return load


def ours_recomputed(implementation):
    """The backward pass computes again what it needs of states, and so is the same alone and behind a forward pass."""
    def load():
        importlib.import_module("gdnbench_torch")

        def make(inputs):
            backward = plan_of("gated_delta_backward", inputs, implementation)
            return pair_of([plan_of("gated_delta", inputs, FORWARD), backward], backward)
        return make
    return load


def by_autograd(module):
    """chunk_gated_delta_rule of a module, and PyTorch's autograd through it."""
    def load():
        import torch
        rule = importlib.import_module(module).chunk_gated_delta_rule

        def make(inputs):
            leaves = [x[None].detach().requires_grad_() for x in (inputs.query, inputs.key, inputs.value,
                                                                  inputs.log_decay, inputs.beta)]
            d_output = inputs.d_output[None]
            made = []  # the output of the forward pass that backward passes alone are of

            def forward():
                with torch.enable_grad():
                    return rule(*leaves, scale=SCALE, output_final_state=False, cu_seqlens=inputs.offsets32)[0]

            def gradients_of(output, again):
                found = torch.autograd.grad(output, leaves, d_output, retain_graph=again)
                return {name: x[0] for name, x in zip(GRADIENTS, found)}
            return Pair(Call(lambda: gradients_of(forward(), False)),
                        Call(lambda: gradients_of(made[0], True), prepare=lambda: made or made.append(forward())),
                        close=made.clear)
        return make
    return load


CONTENDERS = {
    "ours": ours("cuda/chunkwise_sm90"),
    "ours-recomputed": ours_recomputed("cuda/chunkwise_sm90"),
    "ours-chunkwise": ours_recomputed("cuda/chunkwise"),
    "fla": by_autograd("fla.ops.gated_delta_rule"),
    "flashqla": by_autograd("flash_qla"),
}
