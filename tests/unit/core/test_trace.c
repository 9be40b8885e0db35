/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace: an entry has every argument of its engine call; names are cut between characters.
 */
#include "core/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/driver.h"

struct tap {
	struct drv d;
	struct sal_trace_entry last[SAL_WHAT_END]; /* indexed by enum sal_what */
};

static void on_record(void *ctx, const struct sal_record *r, struct sal_session *s,
		      struct sal_iteration *it)
{
	struct tap *t = ctx;

	sal_trace_fill(&t->last[r->what], t->d.engine, r, s, it);
}

static void start(struct tap *t)
{
	memset(t, 0, sizeof(*t));
	drv_start(&t->d, 1000, &sal_policy_fifo, NULL);
	t->d.tap = on_record;
	t->d.tap_ctx = t;
}

static const struct sal_job facts = {
	.kind = SAL_INFERENCE,
	.weight_milli = 2500,
	.priority = 7,
	.total_ns = 123456789,
	.deadline_ns = 987654,
	.declared = { 300, 200 },
	.limit_bytes = 900,
};

static void check_job(const struct sal_trace_entry *e, const struct sal_job *job)
{
	assert_true(sal_trace_has_job(e));
	assert_int_equal(e->job.kind, job->kind);
	assert_int_equal(e->job.weight_milli, job->weight_milli);
	assert_int_equal(e->job.priority, job->priority);
	assert_int_equal(e->job.limit_bytes, job->limit_bytes);
	assert_int_equal(e->job.deadline_ns, job->deadline_ns);
	assert_int_equal(e->job.kind_undeclared, job->kind_undeclared);
	assert_int_equal(e->record.value, job->total_ns);
	assert_int_equal(e->record.persist_bytes, job->declared.persist_bytes);
	assert_int_equal(e->record.ephem_bytes, job->declared.ephem_bytes);
}

static void test_jobs_and_memory(void **state)
{
	struct sal_job other = facts;
	struct drv_job *j;
	struct tap t;

	(void)state;
	start(&t);
	j = drv_open_job(&t.d, &facts);
	check_job(&t.last[SAL_OPEN], &facts);
	assert_int_equal(t.last[SAL_OPEN].memory.persist_bytes, 0);
	other.weight_milli = 1;
	other.kind = SAL_TRAINING;
	other.deadline_ns = 0;
	other.kind_undeclared = true;
	other.declared.persist_bytes = 1;
	drv_declare(&t.d, j, &other);
	check_job(&t.last[SAL_DECLARE], &other);
	assert_int_equal(t.last[SAL_DECLARE].memory.persist_bytes, 300);
	assert_int_equal(t.last[SAL_DECLARE].memory.lane_sum_bytes, 200);
	drv_stop(&t.d);
}

static void test_policy_and_tuning(void **state)
{
	struct sal_tuning tuning = drv_plain_tuning();
	struct tap t;

	(void)state;
	start(&t);
	tuning.short_ns = 4711;
	tuning.lanes = 3;
	drv_set_tuning(&t.d, &tuning);
	assert_int_equal(t.last[SAL_SET_TUNING].tuning.short_ns, 4711);
	assert_int_equal(t.last[SAL_SET_TUNING].tuning.lanes, 3);
	drv_set_policy(&t.d, &sal_policy_las);
	assert_ptr_equal(sal_policy_numbered(t.last[SAL_SET_POLICY].record.value), &sal_policy_las);
	drv_stop(&t.d);
}

static void test_policy_numbers(void **state)
{
	const struct sal_policy unknown = { .name = "fifo" };
	uint64_t i;

	(void)state;
	for (i = 0; sal_policies[i]; i++)
		assert_ptr_equal(sal_policy_numbered(sal_policy_number(sal_policies[i])),
				 sal_policies[i]);
	assert_int_equal(sal_policy_number(&unknown), 0);
	assert_int_equal(sal_policy_number(NULL), 0);
	assert_null(sal_policy_numbered(0));
	assert_null(sal_policy_numbered(i + 1));
	assert_null(sal_policy_numbered(UINT64_MAX));
}

static void test_names(void **state)
{
	static const struct {
		const char *from, *to;
	} cases[] = {
		{ "", "" },
		{ "a", "a" },
		{ "1234567", "1234567" },
		{ "12345678", "1234567" },
		{ "123456\xc3\xa9", "123456" }, /* the last character does not fit whole */
		{ "12345\xc3\xa9", "12345\xc3\xa9" },
		{ "\xf0\x9f\x9a\x80\xf0\x9f\x9a\x80", "\xf0\x9f\x9a\x80" },
		{ "a\xff"
		  "b",
		  "a?b" },
		{ "a\xc3", "a?" },
		{ "\xed\xa0\x80", "???" }, /* half of a surrogate pair */
		{ "\xc0\x80", "??" },
		{ "\xf4\x90\x80\x80", "????" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char to[8];

		memset(to, 'x', sizeof(to));
		sal_trace_copy_name(to, sizeof(to), cases[i].from);
		assert_string_equal(to, cases[i].to);
		assert_int_equal(to[7], 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jobs_and_memory),
		cmocka_unit_test(test_policy_and_tuning),
		cmocka_unit_test(test_policy_numbers),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
