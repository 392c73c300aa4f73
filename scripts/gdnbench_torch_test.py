#!/usr/bin/env python3
"""scripts/gdnbench_torch.py on the CPU, and on a CUDA device where there is one. Skipped without PyTorch.
    GDNBENCH_LIBRARY=build/libgdnbench.so scripts/gdnbench_torch_test.py"""
import sys
import unittest

try:
    import torch
except ImportError:
    torch = None

if torch is not None:
    import gdnbench_torch as gdn
    from gdnbench_library import GdnbenchError

SEED = 5


def devices():
    return ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def inputs(device, lengths=(20, 0, 9), key_heads=1, value_heads=2, dim=64, dtype=None):
    dtype = dtype or (torch.bfloat16 if device == "cuda" else torch.float32)
    draw = torch.Generator().manual_seed(SEED)
    tokens = sum(lengths)
    normal = lambda *shape: torch.randn(*shape, generator=draw)
    unit = lambda x: x / x.norm(dim=-1, keepdim=True)
    offsets = torch.tensor([sum(lengths[:n]) for n in range(len(lengths) + 1)])
    made = {"q": unit(normal(tokens, key_heads, dim)).to(dtype), "k": unit(normal(tokens, key_heads, dim)).to(dtype),
            "v": normal(tokens, value_heads, dim).to(dtype), "log_decay": -torch.rand(tokens, value_heads, generator=draw),
            "beta": torch.rand(tokens, value_heads, generator=draw), "sequence_offsets": offsets}
    return {name: x.to(device) for name, x in made.items()}


def problem_of(x, fields=""):
    heads, dim = f"{x['q'].shape[1]}/{x['v'].shape[1]}", x["q"].shape[2]
    dtype = {torch.float32: "f32", torch.bfloat16: "bf16"}[x["q"].dtype]
    return f"gated_delta:heads={heads},dim={dim}x{dim},seq=1x1,dtype={dtype}{fields}"


class Torch(unittest.TestCase):
    def test_a_sequence_without_tokens_and_without_a_state_ends_with_zeros(self):
        for device in devices():
            with self.subTest(device=device, seed=SEED):
                x = inputs(device)
                # Memory that was in use before: what torch.empty would hand out.
                del_before = [torch.full((3, 2, 64, 64), 7.0, device=device) for _ in range(4)]
                del_before.clear()
                _, state = gdn.gated_delta(x["q"], x["k"], x["v"], x["log_decay"], x["beta"], x["sequence_offsets"])
                self.assertTrue(torch.equal(state[1], torch.zeros_like(state[1])))
                self.assertGreater(float(state[0].abs().max()), 0)

    def test_slices_of_one_projection_are_taken_as_they_are(self):
        for device in devices():
            with self.subTest(device=device, seed=SEED):
                x = inputs(device)
                plan = gdn.Plan(problem_of(x), x)
                plan.run()
                gates = torch.cat([x["log_decay"], x["beta"]], dim=1)
                tokens = x["q"].shape[0]
                qkv = torch.cat([x[name].reshape(tokens, -1) for name in "qkv"], dim=1)
                parts = qkv.split([x[name][0].numel() for name in "qkv"], dim=1)
                split = {name: part.unflatten(1, x[name].shape[1:]) for name, part in zip("qkv", parts)}
                sliced = x | split | {"log_decay": gates[:, :2], "beta": gates[:, 2:]}
                self.assertFalse(any(sliced[name].is_contiguous() for name in ("q", "k", "v", "log_decay", "beta")))
                strided = gdn.Plan(problem_of(x), sliced)
                strided.run()
                self.assertTrue(torch.equal(plan.tensors["output"], strided.tensors["output"]))
                self.assertEqual(strided.info["conversions"], "")

    def test_tensors_of_other_forms_are_read_or_converted_by_name(self):
        """[B, H, L, D] memory seen as [B, L, H, D], offsets and slots in int32, betas in bfloat16."""
        for device in devices():
            with self.subTest(device=device, seed=SEED):
                x = inputs(device, lengths=(10, 10))
                x["beta"] = x["beta"].bfloat16().float()
                plan = gdn.Plan(problem_of(x), x)
                plan.run()
                batched = {name: x[name].unflatten(0, (2, 10)).transpose(1, 2).contiguous().transpose(1, 2)
                           for name in "qkv"}
                held = x | batched | {"beta": x["beta"].bfloat16(), "sequence_offsets": x["sequence_offsets"].int()}
                other = gdn.Plan(problem_of(x), held)
                other.run()
                self.assertTrue(torch.equal(plan.tensors["output"], other.tensors["output"]))
                self.assertIn("v: strides", other.info["conversions"])
                for taken in ("beta", "sequence_offsets"):
                    self.assertNotIn(taken, other.info["conversions"])
                with self.assertRaises(GdnbenchError) as caught:
                    gdn.Plan(problem_of(x), held, strict=True)
                self.assertIn("would convert", str(caught.exception))
                exact = gdn.plan_reference_float64(problem_of(x), {k: v for k, v in held.items()})
                error = (other.tensors["output"].double() - exact["output"]).norm() / exact["output"].norm()
                self.assertTrue(float(error) <= 1e-2, float(error))

    def test_a_draft_is_verified_and_committed_in_phases(self):
        for device in devices():
            with self.subTest(device=device, seed=SEED):
                x = inputs(device, lengths=(4, 3))
                state = torch.randn(2, 2, 64, 64, generator=torch.Generator().manual_seed(SEED)).to(device)
                drafts = x | {"initial_state": state.clone(), "accepted": torch.zeros(2, dtype=torch.int64, device=device)}
                problem = problem_of(x, ",h0=normal").replace("gated_delta:", "gated_delta_verify:")
                plan = gdn.Plan(problem, drafts)
                plan.run_phase("verify")
                self.assertTrue(torch.equal(drafts["initial_state"], state))
                drafts["accepted"].copy_(torch.tensor([4, 3]))
                plan.run_phase("commit")
                whole = gdn.Plan(problem, x | {"initial_state": state.clone(), "accepted": drafts["accepted"]})
                whole.run()
                self.assertTrue(torch.equal(drafts["initial_state"], whole.tensors["initial_state"]))
                self.assertFalse(torch.equal(drafts["initial_state"], state))
                with self.assertRaises(GdnbenchError) as caught:
                    plan.run_phase("draft")
                self.assertIn("expected verify or commit", str(caught.exception))

    def test_several_plans_commit_together(self):
        for device in devices():
            for strided in (False, True):
                with self.subTest(device=device, strided=strided, seed=SEED):
                    layers, expected = [], []
                    for layer in range(3):
                        x = inputs(device, lengths=(4, 3))
                        draw = torch.Generator().manual_seed(SEED + layer)
                        state = torch.randn(2, 2, 64, 64, generator=draw).to(device)
                        problem = problem_of(x, ",h0=normal").replace("gated_delta:", "gated_delta_verify:")
                        accepted = torch.tensor([4 - layer, layer], device=device)
                        whole = gdn.Plan(problem, x | {"initial_state": state.clone(), "accepted": accepted})
                        whole.run()
                        expected.append(whole.tensors["initial_state"])
                        # A pool whose columns lie apart is converted around the commit.
                        held = torch.zeros(2, 2, 64, 65, device=device)[..., :64] if strided else torch.zeros_like(state)
                        held.copy_(state)
                        layers.append(gdn.Plan(problem, x | {"initial_state": held, "accepted": accepted}))
                    group = gdn.PlanGroup(layers, "commit")
                    for plan in layers:
                        plan.run_phase("verify")
                    group.run()
                    for plan, state in zip(layers, expected):
                        self.assertTrue(torch.equal(plan.tensors["initial_state"], state))
                    with self.assertRaises(GdnbenchError) as caught:
                        gdn.PlanGroup(layers, "draft")
                    self.assertIn("expected verify or commit", str(caught.exception))
                    with self.assertRaises(GdnbenchError) as caught:
                        gdn.PlanGroup(layers + layers[:1], "commit")
                    self.assertIn("plan 3 is plan 0", str(caught.exception))

    def test_pools_have_the_rows_of_their_tensor(self):
        for device in devices():
            with self.subTest(device=device, seed=SEED):
                x = inputs(device)
                pool = torch.zeros(50, 2, 64, 64, device=device)
                slots = torch.tensor([49, -1, 7], device=device)
                fields = ",h0=normal,slots=padding"
                plan = gdn.Plan(problem_of(x, fields), x | {"initial_state": pool, "slot_index": slots})
                plan.run()
                _, state = gdn.gated_delta(x["q"], x["k"], x["v"], x["log_decay"], x["beta"], x["sequence_offsets"])
                self.assertTrue(torch.equal(pool[49], state[0]))
                self.assertTrue(torch.equal(pool[7], state[2]))
                with self.assertRaises(GdnbenchError) as caught:
                    gdn.Plan(problem_of(x, fields), x | {"initial_state": pool[:49], "slot_index": slots})
                self.assertIn("slot_index: 49", str(caught.exception))


if __name__ == "__main__":
    if torch is None:
        print("PyTorch is not installed")
        sys.exit(77)  # skipped
    unittest.main()
