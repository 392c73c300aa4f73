"""Who is timed. Each contender is a function that imports what it needs and returns make(inputs) -> Call; what a
library must be told differently from us (decay instead of its logarithm, state transposed, heads repeated) is done in
make(), outside of what is timed."""
import dataclasses
import os
import sys
from typing import Callable

os.environ.setdefault("FLA_FLASH_QLA", "0")  # FLA's own kernels, not FlashQLA's, which it hands over to if it is there
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from inputs import steps_of  # noqa: E402

SCALE = 128 ** -0.5


@dataclasses.dataclass
class Call:
    """run() enqueues and returns (output [T, Hv, 128], final state [N, Hv, 128 of k, 128 of v]); prepare() comes
    before each run, outside the time."""
    run: Callable
    prepare: Callable = lambda: None
    choice: str = ""
    close: Callable = lambda: None


def ours(implementation, of_channels):
    def load():
        import torch
        import gdnbench_torch

        def by_fields(inputs, field, of):
            heads = f"{inputs.query.shape[1]}/{inputs.initial_state.shape[1]}"
            fields = f"heads={heads},dim=128,seq=1x1,dtype=bf16,h0=normal"
            plan = gdnbench_torch.Plan(f"gated_delta:{fields},{field}", {
                "q": inputs.query, "k": inputs.key, "v": inputs.value, "log_decay": inputs.log_decay,
                "beta": inputs.beta, "sequence_offsets": inputs.offsets,
                "initial_state": torch.empty_like(inputs.initial_state)}, of)
            output, state = plan.tensors["output"], plan.tensors["initial_state"]

            def run():
                plan.run()
                return output, state
            return Call(run, prepare=lambda: state.copy_(inputs.initial_state),
                        choice=f"{plan.implementation} {plan.info['choice']}".strip(), close=plan.close)

        def make(inputs):
            if inputs.decays_by_channel:
                return by_fields(inputs, "decay=channel", of_channels)
            if steps_of(inputs) > 1:
                return by_fields(inputs, f"steps={steps_of(inputs)}", implementation)
            plan = gdnbench_torch.GatedDelta(
                inputs.query, inputs.key, inputs.value, inputs.log_decay, inputs.beta, inputs.offsets,
                torch.empty_like(inputs.initial_state), implementation=implementation)
            return Call(run=plan.run, prepare=lambda: plan.state.copy_(inputs.initial_state),
                        choice=f"{plan.implementation} {plan.info['choice']}".strip(), close=plan.close)
        return make
    return load


def fla():
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.kda import chunk_kda

    def by_steps(inputs):
        """Its function takes as many keys as values, and steps as tokens."""
        from fla.ops.gated_delta_product import chunk_gated_delta_product
        repeat = inputs.value.shape[2] // inputs.key.shape[2]
        query = inputs.query.repeat_interleave(repeat, 1).contiguous()
        key = inputs.key.repeat_interleave(repeat, 2).flatten(0, 1).contiguous()
        value, beta = inputs.value.flatten(0, 1), inputs.beta.flatten(0, 1)

        def run():
            output, state = chunk_gated_delta_product(
                query[None], key[None], value[None], inputs.log_decay[None], beta[None], steps_of(inputs),
                scale=SCALE, initial_state=inputs.initial_state, output_final_state=True,
                cu_seqlens=inputs.offsets32)
            return output[0], state
        return Call(run)

    def make(inputs):
        if steps_of(inputs) > 1:
            return by_steps(inputs)
        batch = [x[None] for x in (inputs.query, inputs.key, inputs.value, inputs.log_decay, inputs.beta)]
        function = chunk_kda if inputs.decays_by_channel else chunk_gated_delta_rule

        def run():
            output, state = function(*batch, scale=SCALE, initial_state=inputs.initial_state,
                                     output_final_state=True, cu_seqlens=inputs.offsets32)
            return output[0], state
        return Call(run)
    return make


def require_decay_per_head(inputs):
    if inputs.decays_by_channel:
        raise ValueError("one decay per head alone")
    require_one_step(inputs)


def require_one_step(inputs):
    if steps_of(inputs) > 1:
        raise ValueError("one step per token alone")


def flashinfer(context_parallel):
    def load():
        import torch
        from flashinfer.gdn_prefill import chunk_gated_delta_rule

        def make(inputs):
            require_decay_per_head(inputs)
            decay = inputs.log_decay.exp()
            start = inputs.initial_state.transpose(-1, -2).contiguous()
            output, state = torch.empty_like(inputs.value), torch.empty_like(start)
            longest = max(inputs.lengths)

            def run():
                chunk_gated_delta_rule(inputs.query, inputs.key, inputs.value, decay, inputs.beta, None, start, True,
                                       inputs.offsets32, False, output, state, use_cp=context_parallel,
                                       max_seqlen=longest)
                return output, state.transpose(-1, -2)
            return Call(run)
        return make
    return load


def flashqla(context_parallel):
    def load():
        from flash_qla import chunk_gated_delta_rule_fwd

        def make(inputs):
            require_decay_per_head(inputs)
            batch = [x[None] for x in (inputs.query, inputs.key, inputs.value, inputs.log_decay, inputs.beta)]

            def run():
                _, _, output, _, state, _ = chunk_gated_delta_rule_fwd(
                    *batch, scale=SCALE, initial_state=inputs.initial_state, cu_seqlens=inputs.offsets32,
                    output_final_state=True, auto_cp=context_parallel, is_train=False)
                return output[0], state
            return Call(run)
        return make
    return load


def cudnn_kda():
    """A kernel for one decay per key channel: where there is one per head, given that in all of them, and keys repeated
    per value head."""
    from cudnn.linear_attention.ops import kimi_delta_attention

    def make(inputs):
        require_one_step(inputs)
        repeat = inputs.value.shape[1] // inputs.query.shape[1]
        query, key = (x.repeat_interleave(repeat, 1).contiguous() for x in (inputs.query, inputs.key))
        gate = inputs.log_decay
        if not inputs.decays_by_channel:
            gate = gate[:, :, None].expand(-1, -1, query.shape[2]).contiguous()
        start = inputs.initial_state.transpose(-1, -2).contiguous()

        def run():
            output, state = kimi_delta_attention(query, key, inputs.value, gate, inputs.beta, inputs.offsets32,
                                                 initial_state=start, output_final_state=True)[:2]
            return output, state.transpose(-1, -2)
        return Call(run)
    return make


OURS = "ours"
CONTENDERS = {
    OURS: ours("cuda/fused_sm90", of_channels="cuda/channel_sm90"),
    "fla": fla,
    "flashinfer": flashinfer(False),
    "flashinfer-cp": flashinfer(True),
    "flashqla": flashqla(True),
    "flashqla-nocp": flashqla(False),
    "cudnn-kda": cudnn_kda,
}
# Tunes itself by timing: alone on the GPU only.
TUNED_BY_TIME = ("fla",)
# Distributions whose versions a measurement names.
DISTRIBUTIONS = ("torch", "triton", "fla-core", "flashinfer-python", "flash-qla", "tilelang", "nvidia-cutlass-dsl",
                 "nvidia-cudnn-frontend")
