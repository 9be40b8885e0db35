/* SPDX-License-Identifier: Apache-2.0 */
/* trace: the ring keeps the last entries in order, and a copy of it is whole. */
#include "service/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROOM UINT64_C(8)

/* A ring beside an engine that says nothing by itself. */
struct bed {
	struct svc_trace trace;
	struct sal_engine *engine; /* owned */
	struct sal_trace_head *copy; /* owned */
};

static void bed_open(struct bed *b)
{
	struct sal_engine_config cfg = {
		.capacity_bytes = 4096,
		.policy = &sal_policy_srtf,
	};

	memset(b, 0, sizeof(*b));
	sal_tuning_default(&cfg.tuning);
	assert_int_equal(svc_trace_open(&b->trace, &cfg, ROOM, NULL), SAL_OK);
	assert_int_equal(sal_engine_create(&cfg, &b->engine, NULL), SAL_OK);
	b->copy = malloc(svc_trace_bytes(2 * ROOM, 1));
	assert_non_null(b->copy);
}

static void bed_close(struct bed *b)
{
	svc_trace_close(&b->trace);
	svc_trace_close(&b->trace); /* twice is fine */
	sal_engine_destroy(b->engine);
	free(b->copy);
}

static void put(struct bed *b, uint64_t first, uint64_t last)
{
	for (; first <= last; first++) {
		struct sal_record r = { .now_ns = first, .what = SAL_TICK, .lane = SAL_NO_LANE };

		svc_trace_put(&b->trace, b->engine, &r, NULL, NULL, NULL);
	}
}

/* The copy holds entries first to last, and says how many came before. */
static void check(struct bed *b, uint64_t most, uint64_t first, uint64_t last)
{
	struct sal_trace_name *names = svc_trace_copy(&b->trace, b->engine, b->copy, most);
	const struct sal_trace_entry *entries = (const struct sal_trace_entry *)(b->copy + 1);
	uint64_t i;

	assert_int_equal(b->copy->magic, SAL_TRACE_MAGIC);
	assert_int_equal(b->copy->entry_bytes, sizeof(*entries));
	assert_int_equal(b->copy->count, last + 1 - first);
	assert_int_equal(b->copy->dropped, first - 1);
	for (i = 0; i < b->copy->count; i++)
		assert_int_equal(entries[i].record.now_ns, first + i);
	assert_ptr_equal(names, entries + b->copy->count);
	assert_int_equal((char *)(names + 1) - (char *)b->copy, svc_trace_bytes(b->copy->count, 1));
}

static void test_the_last_are_kept(void **state)
{
	uint64_t i;
	struct bed b;

	(void)state;
	bed_open(&b);
	check(&b, ROOM, 1, 0);
	for (i = 1; i <= 3 * ROOM + 3; i++) {
		put(&b, i, i);
		check(&b, ROOM, i > ROOM ? i - ROOM + 1 : 1, i);
		check(&b, 2 * ROOM, i > ROOM ? i - ROOM + 1 : 1, i);
	}
	check(&b, 3, i - 3, i - 1); /* more came than there was room for in the copy */
	check(&b, 0, i, i - 1);
	bed_close(&b);
}

static void test_the_head_tells_how_it_began(void **state)
{
	struct bed b;

	(void)state;
	bed_open(&b);
	assert_int_equal(sal_engine_set_policy(b.engine, 1, &sal_policy_fair, NULL), SAL_OK);
	put(&b, 1, 100);
	(void)svc_trace_copy(&b.trace, b.engine, b.copy, ROOM);
	assert_int_equal(b.copy->capacity_bytes, 4096);
	assert_string_equal(b.copy->policy, "srtf");
	assert_int_equal(b.copy->tuning.pass_bound, 64);
	assert_int_equal(b.copy->name_count, 0);
	bed_close(&b);
}

static void test_names_and_times(void **state)
{
	const struct sal_trace_entry *entries;
	struct sal_trace_span span = { 5, 6 };
	struct sal_session *s;
	struct sal_job job = { .declared = { 1024, 512 } };
	struct sal_record r = { .what = SAL_OPEN };
	struct bed b;

	(void)state;
	bed_open(&b);
	assert_int_equal(sal_engine_open(b.engine, 1, &job, NULL, &s, NULL), SAL_OK);
	svc_trace_put(&b.trace, b.engine, &r, s, "a name that is longer than there is room for",
		      &span);
	r.what = SAL_DONE;
	svc_trace_put(&b.trace, b.engine, &r, s, "a", &span);
	(void)svc_trace_copy(&b.trace, b.engine, b.copy, ROOM);
	entries = (const struct sal_trace_entry *)(b.copy + 1);
	assert_string_equal(entries[0].job.name, "a name that is longer than the");
	assert_int_equal(entries[1].span.start_ns, 5);
	assert_int_equal(entries[1].span.end_ns, 6);
	assert_int_equal(b.copy->memory.persist_bytes, 1024);
	assert_int_equal(b.copy->memory.lane_sum_bytes, 512);
	bed_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_last_are_kept),
		cmocka_unit_test(test_the_head_tells_how_it_began),
		cmocka_unit_test(test_names_and_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
