"""Other projects' functions on this library's kernels, each under its own name, with its own arguments, defaults and
returns. Whoever calls one of them changes the import:

    from gdnbench.causal_conv1d import causal_conv1d_fn     # in the place of: from causal_conv1d import causal_conv1d_fn
    from gdnbench.fla import chunk_gated_delta_rule         # in the place of: from fla.ops.gated_delta_rule import ..

| module | project |
|---|---|
| causal_conv1d | Dao-AILab's causal-conv1d |
| fla | flash-linear-attention: recurrences, short convolutions, ShortConvolution |
| flashinfer, gdn_decode_bf16_state | FlashInfer: prefill and decoding; decoding with bfloat16 states |
| vllm, sglang | vLLM's and SGLang's convolutions, and recurrences as they serve them |
| ggml | ggml's ssm_conv and gated_delta_net |

Tensors are PyTorch's, or objects with array, dtype, shape, strides, address and device as scripts/peers/cases/tensors.py
has them. A function only views them: what the kernels do not take as it lies, the library converts on the device
(docs/contract.md, section 8). Heads that several others share are viewed once for each of these, with a stride of 0,
and converted where no kernel shares them so. Whoever would rather have an error than a conversion sets

    gdnbench.strict = True

Then a call that would convert is refused by the library, with a GdnbenchError of status "unsupported" that names the
operand and its strides or dtype. Inputs that a call leaves out and the kernels ask for, such as gates of zero, are a
number with strides of 0, and refused with the others.

Kernels that live elsewhere are judged by functions of this package (docs/python.md), which need NumPy:

    verdicts = gdnbench.judge(my_kernel, suite="quick")     # a function on every case of a suite
    gdnbench.cases("quick"), gdnbench.case(problem)         # cases: inputs(), reference(), explain(outputs)
    gdnbench.reference(problem), gdnbench.explain(problem, outputs)
    gdnbench.time(my_kernel, problems, beside=["cuda/fused_sm90"], device="cuda")     # timed in turns with others

States that a function reads in one tensor and returns in another are copied there first,
on the device. What cannot be said is refused with a GdnbenchError of status "unsupported" that names the argument; an
argument of no such name is Python's TypeError. The library is found as scripts/gdnbench_library.py says, which lies
beside this folder.
"""
strict = False  # True: what would be converted on the device is refused

# Where the functions that need NumPy are, which is imported when one of them is asked for.
_HOMES = {"judge": "judging", "case": "judged_case", "cases": "judged_case", "explain": "judged_case",
          "reference": "judged_case", "time": "timing", "Timing": "timings", "Timings": "timings",
          "Verdict": "verdicts", "Verdicts": "verdicts"}


def __getattr__(name):
    import importlib
    if name in _HOMES:
        return getattr(importlib.import_module("." + _HOMES[name], __name__), name)
    raise AttributeError(f"module 'gdnbench' has no attribute '{name}'")
