"""Collectives read from a compiled program: loops, asynchronous ones, branches."""

from cem_jax.sharding.collectives import Traffic, collectives

PROGRAM = """
HloModule jit_f

%body (p: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %p = (s32[], f32[4,8]) parameter(0)
  %g = f32[4,8]{1,0} all-reduce(%x), channel_id=1, to_apply=%add
  ROOT %t = (s32[], f32[4,8]) tuple(%i, %g)
}

%cond (p: (s32[], f32[4,8])) -> pred[] {
  ROOT %lt = pred[] compare(%i, %n), direction=LT
}

%add (a: f32[], b: f32[]) -> f32[] {
  ROOT %s = f32[] add(%a, %b)
}

ENTRY %main (x: bf16[2,8]) -> f32[4,8] {
  %w = (s32[], f32[4,8]) while(%init), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  %a = (bf16[2,8]{1,0}, bf16[8,8]{1,0}) all-gather-start(%x), dimensions={0}
  %d = bf16[8,8]{1,0} all-gather-done(%a)
  %b = (f32[128]{0}, f32[2,3]{1,0}) all-reduce(%u, %v), to_apply=%add
  ROOT %r = f32[4,8]{1,0} get-tuple-element(%w), index=1
}
"""  # noqa: E501 - as XLA writes it


def test_what_is_in_a_loop_counts_as_often_as_it_runs():
    found = collectives(PROGRAM)
    assert found["all-reduce"] == Traffic(6, 5 * 4 * 8 * 4 + (128 + 6) * 4)
    assert found.keys() == {"all-reduce", "all-gather"}


def test_an_asynchronous_result_is_counted_once_and_without_its_operand():
    assert collectives(PROGRAM)["all-gather"] == Traffic(1, 8 * 8 * 2)


TPU = """
HloModule jit_f

%body (p: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %p = (s32[]{:T(128)}, f32[4,8]{1,0:T(8,128)}) parameter(0)
  %big = bf16[64,8]{1,0:T(8,128)(2,1)} fusion(%p), kind=kLoop, calls=%f
  %part = bf16[8,8]{1,0:T(8,128)(2,1)} reduce-scatter(%big), channel_id=1, dimensions={0}, to_apply=%add
  %s = (bf16[4,6]{1,0:T(8,128)S(1)}, bf16[4,6]{1,0:T(8,128)S(1)}, u32[]{:S(2)}, u32[]{:S(2)}) collective-permute-start(%q), channel_id=38
  %d = bf16[4,6]{1,0:T(8,128)S(1)} collective-permute-done(%s)
  ROOT %t = (s32[]{:T(128)}, f32[4,8]{1,0:T(8,128)}) tuple(%i, %p)
}

%cond (p: (s32[], f32[4,8])) -> pred[] {
  %n.1 = s32[]{:T(128)} constant(12)
  %i = s32[]{:T(128)} get-tuple-element(%p), index=0
  ROOT %lt = pred[]{:T(512)} compare(%i, %n.1), direction=LT, metadata={op_name="lt"}
}

ENTRY %main (x: f32[1024]) -> f32[4,8] {
  %w = (s32[]{:T(128)}, f32[4,8]{1,0:T(8,128)}) while(%init), condition=%cond, body=%body, metadata={op_name="while"}
  %a = (f32[1024]{0:T(1024)}, f32[4096]{0:T(1024)}) all-reduce-start(%x, %y), to_apply=%add
  ROOT %r = f32[4,8]{1,0} get-tuple-element(%w), index=1
}
"""  # noqa: E501 - as XLA writes it for a TPU


def test_a_loop_on_a_tpu_runs_as_often_as_its_condition_says():
    assert collectives(TPU)["reduce-scatter"] == Traffic(12, 12 * 64 * 8 * 2)


def test_counters_of_the_device_are_not_sent():
    assert collectives(TPU)["collective-permute"] == Traffic(12, 12 * 4 * 6 * 2)


def test_an_asynchronous_sum_has_results_alone():
    assert collectives(TPU)["all-reduce"] == Traffic(1, (1024 + 4096) * 4)


def test_a_program_for_one_device_has_none():
    assert collectives("ENTRY %main (x: f32[]) -> f32[] {\n  ROOT %x = f32[] parameter(0)\n}") == {}
