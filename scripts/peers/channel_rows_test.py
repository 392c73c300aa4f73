#!/usr/bin/env python3
"""Rows of time_peers.py with a decay per key channel or several steps per token, without a GPU: the gates that are drawn, the float64 results that
everyone is judged by, and the adapters, on the CPU's implementations and on stand-ins of libraries. Needs PyTorch and, by
GDNBENCH_LIBRARY, the library; without PyTorch everything is skipped."""
import os
import sys
import types
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import contenders  # noqa: E402
import inputs as inputs_of  # noqa: E402


def drawn(gates, heads="1/2", seq="1x40+1x7"):
    with mock.patch.object(inputs_of, "DEVICE", "cpu"):
        return inputs_of.with_gates(inputs_of.random_inputs(heads, seq), gates)


def relative(found, exact):
    return float((found.double() - exact).norm() / exact.norm())


@unittest.skipIf(torch is None, "PyTorch is not installed")
class ChannelRows(unittest.TestCase):
    def errors_of(self, make, inputs):
        """Of the output and of the final state."""
        import channel_reference
        call = make(inputs)
        call.prepare()
        found, exact = call.run(), channel_reference.evaluate(inputs, contenders.SCALE)
        self.assertEqual([tuple(x.shape) for x in found], [tuple(x.shape) for x in exact])
        errors = [relative(x, y) for x, y in zip(found, exact)]
        call.close()
        return errors

    def test_gates_have_a_decay_for_each_channel_where_their_name_says_so(self):
        for gates in inputs_of.GATES:
            inputs = drawn(gates)
            by_channel = gates.startswith("channel-")
            self.assertEqual(inputs.decays_by_channel, by_channel, gates)
            self.assertEqual(tuple(inputs.log_decay.shape), (47, 2, 128) if by_channel else (47, 2), gates)
            steps = inputs_of.STEPS.get(gates[:len("steps2-")], 1)
            self.assertEqual(inputs_of.steps_of(inputs), steps, gates)
            self.assertEqual(inputs.value.numel(), 47 * steps * 2 * 128, gates)
            self.assertLessEqual(float(inputs.log_decay.max()), 0.0, gates)

    def test_bounded_gates_decay_by_half_the_bound_in_the_mean_and_are_weak_and_strong(self):
        log_decay = drawn("channel-bounded", "64/64", "1x64").log_decay
        self.assertGreaterEqual(float(log_decay.min()), -5.0)
        self.assertAlmostEqual(float(log_decay.mean()), -2.5, delta=0.15)
        self.assertGreater(float((log_decay > -0.5).float().mean()), 0.03)
        self.assertGreater(float((log_decay < -4.5).float().mean()), 0.03)

    def test_float64_results_are_those_of_this_project_on_ragged_batches(self):
        make = contenders.ours("cpu/naive", of_channels="cpu/naive")()
        for gates in ("channel-weak", "channel-strong", "channel-bounded", "channel-bounded-alike", "channel-none"):
            for heads, seq in (("1/2", "1x40+1x7"), ("2/2", "1x3+1x1+1x50+1x3")):
                # rounding outputs to bfloat16 costs 1.7e-3; states are float32
                output, state = self.errors_of(make, drawn(gates, heads, seq))
                self.assertLess(output, 2.5e-3, (gates, heads, seq))
                self.assertLess(state, 1e-5, (gates, heads, seq))

    def test_channels_are_told_apart(self):
        inputs = drawn("channel-strong")
        make = contenders.ours("cpu/naive", of_channels="cpu/naive")()

        def turned(given):
            return make(types.SimpleNamespace(**(vars(given) | {"log_decay": given.log_decay.flip(-1).contiguous(),
                                                                "decays_by_channel": True})))
        self.assertGreater(min(self.errors_of(turned, inputs)), 0.05)

    def test_flas_function_is_the_one_for_channels(self):
        make = contenders.ours("cpu/naive", of_channels="cpu/naive")()
        asked = []

        def rule(name):
            def function(q, k, v, g, beta, *, scale, initial_state, output_final_state, cu_seqlens):
                asked.append((name, tuple(g.shape), output_final_state))
                call = make(types.SimpleNamespace(
                    query=q[0], key=k[0], value=v[0], log_decay=g[0], beta=beta[0], initial_state=initial_state,
                    offsets=cu_seqlens.long(), decays_by_channel=g.dim() == 4))
                call.prepare()
                output, state = call.run()
                return output[None], state
            return function
        modules = {name: types.ModuleType(name) for name in ("fla", "fla.ops", "fla.ops.gated_delta_rule", "fla.ops.kda")}
        modules["fla.ops.gated_delta_rule"].chunk_gated_delta_rule = rule("heads")
        modules["fla.ops.kda"].chunk_kda = rule("channels")
        with mock.patch.dict(sys.modules, modules):
            adapter = contenders.fla()
            self.assertLess(max(self.errors_of(adapter, drawn("channel-weak"))), 2.5e-3)
            adapter(drawn("weak")).run()
        self.assertEqual(asked, [("channels", (1, 47, 2, 128), True), ("heads", (1, 47, 2), True)])

    def test_cudnn_is_given_every_channels_decay_or_the_heads_in_all_of_them(self):
        given = {}

        def kimi_delta_attention(query, key, value, gate, beta, offsets, *, initial_state, output_final_state):
            given.update(query=query, gate=gate)
            return value, initial_state, None
        modules = {name: types.ModuleType(name)
                   for name in ("cudnn", "cudnn.linear_attention", "cudnn.linear_attention.ops")}
        modules["cudnn.linear_attention.ops"].kimi_delta_attention = kimi_delta_attention
        with mock.patch.dict(sys.modules, modules):
            make = contenders.cudnn_kda()
            of_channels, of_heads = drawn("channel-strong"), drawn("strong")
            make(of_channels).run()
            self.assertTrue(torch.equal(given["gate"], of_channels.log_decay))
            self.assertEqual(given["query"].shape[1], 2)
            make(of_heads).run()
            self.assertTrue(torch.equal(given["gate"], of_heads.log_decay[..., None].expand(-1, -1, 128)))

    def test_who_has_no_kernel_for_channels_says_so(self):
        modules = {name: types.ModuleType(name) for name in ("flashinfer", "flashinfer.gdn_prefill", "flash_qla")}
        modules["flashinfer.gdn_prefill"].chunk_gated_delta_rule = None
        modules["flash_qla"].chunk_gated_delta_rule_fwd = None
        with mock.patch.dict(sys.modules, modules):
            for name in ("flashinfer", "flashqla"):
                with self.assertRaisesRegex(ValueError, "one decay per head alone"):
                    contenders.CONTENDERS[name]()(drawn("channel-weak"))

    def errors_of_steps(self, make, inputs):
        """As errors_of, by the rows of the steps."""
        import channel_reference
        rows, steps = inputs_of.rows_of_steps(inputs), inputs_of.steps_of(inputs)
        rows.log_decay = rows.log_decay[..., None].expand(-1, -1, 128)
        output, state = channel_reference.evaluate(rows, contenders.SCALE)
        call = make(inputs)
        call.prepare()
        errors = [relative(x, y) for x, y in zip(call.run(), (output[steps - 1::steps], state))]
        call.close()
        return errors

    def test_steps_are_rows_with_one_decay_and_one_query(self):
        make = contenders.ours("cpu/naive", of_channels="cpu/naive")()
        for gates in ("steps2-weak", "steps3-strong"):
            for heads, seq in (("1/2", "1x40+1x7"), ("2/2", "1x3+1x1+1x50")):
                output, state = self.errors_of_steps(make, drawn(gates, heads, seq))
                self.assertLess(output, 2.5e-3, (gates, heads, seq))
                self.assertLess(state, 1e-5, (gates, heads, seq))

    def test_fla_is_given_steps_as_tokens_and_a_key_for_each_value(self):
        make = contenders.ours("cpu/naive", of_channels="cpu/naive")()
        asked = []

        def product(q, k, v, g, beta, num_householder, *, scale, initial_state, output_final_state, cu_seqlens):
            asked.append((tuple(q.shape), tuple(k.shape), num_householder))
            tokens, steps = q.shape[1], num_householder
            call = make(inputs_of.Inputs(
                query=q[0], key=k[0].unflatten(0, (tokens, steps)), value=v[0].unflatten(0, (tokens, steps)),
                log_decay=g[0], beta=beta[0].unflatten(0, (tokens, steps)), initial_state=initial_state,
                offsets=cu_seqlens.long(), offsets32=cu_seqlens, lengths=[]))
            call.prepare()
            output, state = call.run()
            return output[None], state
        names = ("fla", "fla.ops", "fla.ops.gated_delta_rule", "fla.ops.kda", "fla.ops.gated_delta_product")
        modules = {name: types.ModuleType(name) for name in names}
        modules["fla.ops.gated_delta_rule"].chunk_gated_delta_rule = None
        modules["fla.ops.kda"].chunk_kda = None
        modules["fla.ops.gated_delta_product"].chunk_gated_delta_product = product
        with mock.patch.dict(sys.modules, modules):
            self.assertLess(max(self.errors_of_steps(contenders.fla(), drawn("steps3-weak"))), 2.5e-3)
        self.assertEqual(asked, [((1, 47, 2, 128), (1, 47 * 3, 2, 128), 3)])

    def test_who_has_no_kernel_for_steps_says_so(self):
        modules = {name: types.ModuleType(name)
                   for name in ("flashinfer", "flashinfer.gdn_prefill", "flash_qla", "cudnn", "cudnn.linear_attention",
                                "cudnn.linear_attention.ops")}
        modules["flashinfer.gdn_prefill"].chunk_gated_delta_rule = None
        modules["flash_qla"].chunk_gated_delta_rule_fwd = None
        modules["cudnn.linear_attention.ops"].kimi_delta_attention = None
        with mock.patch.dict(sys.modules, modules):
            for name in ("flashinfer", "flashqla", "cudnn-kda"):
                with self.assertRaisesRegex(ValueError, "one step per token alone"):
                    contenders.CONTENDERS[name]()(drawn("steps2-weak"))


if __name__ == "__main__":
    unittest.main()
