"""FlashInfer's functions of the gated delta rule. States are [.., V, K], but those of gated_delta_rule_decode [.., K, V].
A negative index is padding: its outputs are zeros and it touches no row, whatever the type of the states. Arguments that
choose among FlashInfer's own kernels (use_cp) change nothing here."""
import gdnbench

from . import convolution, recurrence
from .tensors import (View, bad_input, copy_into, copy_rows, clone, empty, indices, one_view, refuse_given, unsupported,
                      zero_view)


def chunk_gated_delta_rule(q, k, v, g=None, beta=None, scale=None, initial_state=None, output_final_state=False,
                           cu_seqlens=None, use_qk_l2norm_in_kernel=False, output=None, output_state=None,
                           state_checkpoints=None, checkpoint_cu_starts=None, checkpoint_every_n_tokens=0,
                           use_cp="auto", state_indices=None, _cp_chunk_len=None):
    """output [T, H, V], or (output, output_state) with output_final_state. Sequences lie one behind the other; the
    numbers of cu_seqlens are read on the host where a plan is made. g are factors of 0..1. use_qk_l2norm_in_kernel
    changes nothing, as in FlashInfer's own.

    Packed states of which some are read and others written are copied first, on the device, and then updated in place:
    a sequence of no tokens then has its initial state as its final one. Two pools beside state_indices are refused.

    state_checkpoints gets the state after every checkpoint_every_n_tokens tokens, any number of them; the numbers of
    cu_seqlens and checkpoint_cu_starts are then read on the host at every call. Sequences with unlike numbers of such
    states have them laid out one behind the other by copies on the device, which gdnbench.strict refuses."""
    queries, keys, vals = (View.of(tensor, name) for tensor, name in ((q, "q"), (k, "k"), (v, "v")))
    if cu_seqlens is None:
        bad_input("cu_seqlens", "None, expected offsets of the sequences")
    ends = View.of(cu_seqlens, "cu_seqlens")
    tokens, size = queries.extents[0], queries.extents[2]
    heads = max(queries.extents[1], vals.extents[1])
    shares = queries.extents[1] > keys.extents[1]
    if shares:
        # Query heads that share keys and values, and have a state each.
        keys, vals = recurrence.shared(keys, heads, "k"), recurrence.shared(vals, heads, "v")
    out = empty(q, (tokens, heads, vals.extents[-1])) if output is None else output
    gates = {"log_decay": zero_view(q, (tokens, heads))} if g is None else {"decay": View.of(g, "g")}
    betas = one_view(q, (tokens, heads)) if beta is None else View.of(beta, "beta")
    state = initial_state
    if output_final_state:
        state = _final_state(initial_state, output_state, state_indices, q,
                             (ends.extents[0] - 1, heads, vals.extents[-1], size))
    inner = _checkpoints(checkpoint_every_n_tokens, state_checkpoints, checkpoint_cu_starts, ends)
    recurrence.run(queries, keys, vals, View.of(out, "output"), gate="decay" if g is not None else None, gates=gates,
                   beta=None, betas={"beta": betas}, offsets=ends, host_offsets=ends.numbers,
                   state=View.of(state, "output_state"), reads=initial_state is not None, writes=output_final_state,
                   slots=View.of(state_indices, "state_indices"), v_first=True, scale=scale,
                   heads=(heads, heads) if shares else None, checkpoints=inner and (inner.counts, View.of(inner.states)))
    if inner is not None:
        inner.lay_out()
    return (out, state) if output_final_state else out


class _Inner:
    """States inside a call: `counts` [N, K] of tokens, and `states` [N, K, H, V, K] that are written. Those of FlashInfer
    lie one behind the other; of sequences that have as many of them each, they are the same memory."""

    def __init__(self, every, states, starts, ends):
        ends = ends.numbers()
        self._numbers = [(end - begin) // every for begin, end in zip(ends, ends[1:])]
        self._wanted, self._begins = states, View.of(starts, "checkpoint_cu_starts").numbers()
        view, most = View.of(states, "state_checkpoints"), max(self._numbers)
        if len(self._begins) != len(ends) or any(
                after - begin != number
                for begin, after, number in zip(self._begins, self._begins[1:], self._numbers)):
            bad_input("checkpoint_cu_starts", f"{self._begins}, expected sums of the sequences' {self._numbers} states")
        if view.rank != 4 or view.extents[0] < self._begins[-1]:
            bad_input("state_checkpoints", f"{list(view.extents)}, expected [{self._begins[-1]}, H, V, K]")
        counts = [every * (j + 1) if j < number else 0 for number in self._numbers for j in range(most)]
        self.counts = View.of(indices(counts, states)).split(0, (len(self._numbers), most))
        self._is_laid_out = min(self._numbers) == most
        if self._is_laid_out:
            self.states = view.narrow(0, self._begins[0], self._begins[-1] - self._begins[0]).split(
                0, (len(self._numbers), most))
        elif gdnbench.strict:
            unsupported("state_checkpoints", f"{self._numbers} of the sequences, expected as many of each: they would be "
                                             "copied")
        else:
            self.states = empty(states, (len(self._numbers), most, *view.extents[1:]))

    def lay_out(self):
        if not self._is_laid_out:
            for row, number in enumerate(self._numbers):
                copy_rows(self._wanted, self._begins[row], self.states, row, number)


def _checkpoints(every, states, starts, ends):
    """What the call hands out from inside; None where that is nothing."""
    if every < 0:
        bad_input("checkpoint_every_n_tokens", f"{every}, expected at least 0")
    if every == 0:
        refuse_given(state_checkpoints=states, checkpoint_cu_starts=starts)
        return None
    for name, tensor in (("state_checkpoints", states), ("checkpoint_cu_starts", starts)):
        if tensor is None:
            bad_input(name, "None, expected a tensor beside checkpoint_every_n_tokens")
    numbers = ends.numbers()
    if all(end - begin < every for begin, end in zip(numbers, numbers[1:])):
        return None
    return _Inner(every, states, starts, ends)


def _final_state(initial, final, indices, like, shape):
    """The tensor that is updated in place and returned."""
    if indices is not None:
        if final is None:
            bad_input("output_state", "None beside state_indices, expected the pool")
        if initial is not None and View.of(initial) != View.of(final):
            unsupported("output_state", "another pool than initial_state beside state_indices, expected the same")
        return final
    if final is None:
        return empty(like, shape, "f32") if initial is None else clone(initial)
    if initial is not None and View.of(initial) != View.of(final):
        copy_into(final, initial)
    return final


def _decode(q, k, v, state, A_log, a, dt_bias, b, scale, output, norm, *, reads=None, written=None, v_first=True,
            updates=True, between=None):
    """Tokens [B, T, ..], a sequence a row of the batch. `between` [B, T, ..] gets the state after every token."""
    queries, vals = View.of(q, "q"), View.of(v, "v")
    batch, tokens = queries.extents[:2]
    offsets, numbers = convolution.even_offsets(batch, tokens, q)
    out = empty(q, vals.extents) if output is None else output
    gates, betas = recurrence.of_logits(a, A_log, dt_bias, b)
    checkpoints = None
    if between is not None:
        inner = View.of(between, "intermediate_states_buffer")
        if inner.rank != 5 or inner.extents[0] < batch or inner.extents[1] < tokens:
            bad_input("intermediate_states_buffer", f"{list(inner.extents)}, expected [{batch}, {tokens}, HV, V, K]")
        counts = View.of(indices([t + 1 for _ in range(batch) for t in range(tokens)], q)).split(0, (batch, tokens))
        checkpoints = counts, inner.narrow(0, 0, batch).narrow(1, 0, tokens)
    recurrence.run(queries, View.of(k, "k"), vals, View.of(out, "output"), gate="logits", gates=gates, beta="logit",
                   betas=betas, offsets=View.of(offsets), host_offsets=numbers, state=View.of(state, "state"),
                   writes=updates, slots=View.of(reads, "initial_state_indices"),
                   written=View.of(written, "output_state_indices"), v_first=v_first, norm=norm, scale=scale,
                   checkpoints=checkpoints)
    return out


def gated_delta_rule_decode_pretranspose(q, k, v, state, A_log, a, dt_bias, b, scale=None, output=None,
                                         use_qk_l2norm=True, initial_state=None, initial_state_indices=None,
                                         output_state_indices=None):
    """(output [B, T, HV, V], state or initial_state), which is updated in place: a state for each row of the batch, or
    a pool that is read through initial_state_indices and written through output_state_indices, where these are given,
    else through the same."""
    if (state is None) == (initial_state is None):
        bad_input("state", "beside initial_state, or neither of them, expected one")
    if initial_state is not None and initial_state_indices is None:
        bad_input("initial_state_indices", "None, expected the rows of initial_state")
    pool = state if initial_state is None else initial_state
    out = _decode(q, k, v, pool, A_log, a, dt_bias, b, scale, output, use_qk_l2norm,
                  reads=None if initial_state is None else initial_state_indices, written=output_state_indices)
    return out, pool


def gated_delta_rule_decode(q, k, v, state, A_log, a, dt_bias, b, scale=None, output=None, use_qk_l2norm=True):
    """(output [B, 1, HV, V], state [B, HV, K, V]), which is updated in place."""
    return _decode(q, k, v, state, A_log, a, dt_bias, b, scale, output, use_qk_l2norm, v_first=False), state


def gated_delta_rule_mtp(q, k, v, initial_state, initial_state_indices, A_log, a, dt_bias, b, scale=None, output=None,
                         intermediate_states_buffer=None, ssm_state_indices=None, disable_state_update=None,
                         use_qk_l2norm=True, output_state_indices=None):
    """(output [B, T, HV, V], initial_state), which stays as it is unless disable_state_update is False. Row n of
    intermediate_states_buffer [B, T, HV, V, K] gets sequence n's states after each token; other rows of it
    (ssm_state_indices) are refused."""
    refuse_given(ssm_state_indices=ssm_state_indices)
    updates = disable_state_update is not None and not disable_state_update
    return _decode(q, k, v, initial_state, A_log, a, dt_bias, b, scale, output, use_qk_l2norm,
                   reads=initial_state_indices, written=output_state_indices, updates=updates,
                   between=intermediate_states_buffer), initial_state
