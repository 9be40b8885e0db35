/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job waits: in words and numbers, and without a number where none can be known. */
#include "unit/service/admin_bed.h"

#include "compile/pool/pool.h"
#include "core/engine.h"
#include "service/client/session.h"
#include "service/run/tasks.h"
#include "service/server.h"

static int estimate_us(const json_t *answer)
{
	return (int)(bed_number(answer, "estimate_s") * 1e6 + 0.5);
}

static void test_why_turn(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 1);
	struct svc_session *a = bed_add_plain(b, "a"), *c = bed_add_plain(b, "c"),
			   *d = bed_add_plain(b, "d");
	const json_t *answer;

	(void)state;
	bed_submit(b, a, 10 * MS);
	bed_submit(b, c, 20 * MS);
	bed_submit(b, d, 5 * MS);
	bed_now_ns += 4 * MS;
	answer = bed_ask(b, "{'op': 'why', 'job': 'a'}");
	assert_string_equal(bed_text(answer, "waits_for"), "nothing");
	assert_says(answer, "text", "has run for 4ms in lane 0, and takes about 10ms");

	answer = bed_ask(b, "{'op': 'why', 'job': 'c'}");
	assert_string_equal(bed_text(answer, "waits_for"), "turn");
	assert_says(answer, "text", "where a (id 1) has run for 4ms; it is next (fair).");
	assert_int_equal(estimate_us(answer), 6000);
	assert_says(answer, "text", "About 6ms.");

	answer = bed_ask(b, "{'op': 'why', 'job': 'd'}"); /* 6 ms of a, 20 ms of c */
	assert_says(answer, "text", "; one job is ahead of it (fair): c (id 2).");
	assert_int_equal(estimate_us(answer), 26000);
	assert_int_equal(json_array_size(json_object_get(answer, "holders")), 2);

	bed_now_ns += 100 * MS; /* longer than ever before: the end is unknown */
	assert_true(json_is_null(
		json_object_get(bed_ask(b, "{'op': 'why', 'job': 'c'}"), "estimate_s")));
	bed_close(b);
}

/* Where the first session stays first, the wait of others is unknown. */
static void test_why_turn_of_the_first(void **state)
{
	struct bed *b = bed_open(&sal_policy_priority, 1);
	struct svc_session *a = bed_add(b, "a", &(struct sal_job){ .priority = 1 });
	struct svc_session *c = bed_add(b, "c", &(struct sal_job){ .priority = 2 });
	const json_t *answer;

	(void)state;
	bed_submit(b, a, 10 * MS);
	bed_submit(b, a, 10 * MS);
	bed_submit(b, c, 10 * MS);
	answer = bed_ask(b, "{'op': 'why', 'job': 'c'}");
	assert_true(json_is_null(json_object_get(answer, "estimate_s")));
	assert_null(strstr(bed_text(answer, "text"), "About"));
	(void)bed_ask(b, "{'op': 'set', 'job': 'c', 'priority': 0}");
	answer = bed_ask(b, "{'op': 'why', 'job': 'c'}"); /* now c is next */
	assert_int_equal(estimate_us(answer), 10000);
	(void)bed_ask(b, "{'op': 'policy', 'name': 'fifo'}");
	answer = bed_ask(b, "{'op': 'why', 'job': 'c'}");
	assert_says(answer, "text", "the first keeps the lane until it ends");
	assert_true(json_is_null(json_object_get(answer, "estimate_s")));
	bed_close(b);
}

/* Submits one iteration of a program of this pace. */
static void submit_paced(struct bed *b, struct svc_session *s, struct sal_pace *pace)
{
	b->executions[b->execution_count].iteration.pace = pace;
	bed_submit(b, s, 10 * MS);
}

static const char *hold_reason(const json_t *answer)
{
	return bed_text(json_object_get(answer, "hold"), "reason");
}

/* Both jobs fill the device: a lane for the second one would not pay. */
static void test_why_no_gain(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, SAL_LANES_AUTO);
	struct svc_session *a = bed_add_plain(b, "a"), *c = bed_add_plain(b, "c");
	struct sal_pace full = {
		.alone_ns = 10 * MS, .runs = 5, .alone_runs = 5, .util_milli = 1000
	};
	const json_t *answer;

	(void)state;
	submit_paced(b, a, &full);
	submit_paced(b, c, &full);
	answer = bed_ask(b, "{'op': 'why', 'job': 'c'}");
	assert_says(
		answer, "text",
		"; it would add too little beside a (id 1): 1.00x instead of 1.00x; it is next");
	assert_string_equal(hold_reason(answer), "gain");
	assert_true(bed_number(json_object_get(answer, "hold"), "rate_with") == 1);
	assert_int_equal(estimate_us(answer), 10000);
	assert_true(json_is_null(json_object_get(bed_ask(b, "{'op': 'why', 'job': 'a'}"), "hold")));
	bed_close(b);
}

static void test_why_first_in_rank(void **state)
{
	struct bed *b = bed_open(&sal_policy_srtf, SAL_LANES_AUTO);
	struct svc_session *a = bed_add(b, "a", &(struct sal_job){ .total_ns = 100 * MS });
	struct svc_session *c = bed_add(b, "c", &(struct sal_job){ .total_ns = 9000 * MS });
	struct sal_pace most = {
		.alone_ns = 10 * MS, .runs = 5, .alone_runs = 5, .util_milli = 700
	};
	const json_t *answer;

	(void)state;
	submit_paced(b, a, &most);
	submit_paced(b, c, &most);
	answer = bed_ask(b, "{'op': 'why', 'job': 'c'}");
	assert_says(answer, "text", "; it would slow the first in rank too much: a (id 1);");
	assert_string_equal(hold_reason(answer), "first");
	bed_close(b);
}

/* c runs beside a, until c is far ahead of a. */
static void test_why_share(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 2);
	struct svc_session *a = bed_add_plain(b, "a"), *c = bed_add_plain(b, "c");
	const json_t *answer;
	int i;

	(void)state;
	bed_submit(b, a, 10000 * MS);
	for (i = 0; i < 10; i++) {
		bed_submit(b, c, 100 * MS);
		if (!c->core->running)
			break;
		bed_end(b, c, 100 * MS);
	}
	answer = bed_ask(b, "{'op': 'why', 'job': 'c'}");
	assert_says(answer, "text", "; it had more than its share, and waits for a (id 1);");
	assert_string_equal(hold_reason(answer), "share");
	/* c's own lane is idle: the time of a's iteration decides, and c is not told a time. */
	assert_true(json_is_null(json_object_get(answer, "estimate_s")));
	assert_int_equal(json_array_size(json_object_get(answer, "holders")), 1);
	bed_close(b);
}

static void test_why_solo(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, SAL_LANES_AUTO);
	struct svc_session *a = bed_add_plain(b, "a"), *c = bed_add_plain(b, "c");
	struct sal_pace small = { .alone_ns = 10 * MS,
				  .runs = 5,
				  .alone_runs = 5,
				  .util_milli = 300 },
			unknown = { .runs = 1 };
	const json_t *answer;

	(void)state;
	submit_paced(b, a, &small);
	submit_paced(b, c, &unknown);
	answer = bed_ask(b, "{'op': 'why', 'job': 'c'}");
	assert_says(answer, "text", "until a program that is not understood yet has run alone;");
	assert_string_equal(hold_reason(answer), "solo");
	bed_close(b);
}

static void test_why_memory(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 1);
	struct sal_job two = { .declared = { 2 * GIB, 0 } }, four = { .declared = { 4 * GIB, 0 } };
	struct sal_job needs = { .declared = { 5 * GIB / 2, GIB / 2 } };
	struct sal_job never = { .declared = { 8 * GIB, GIB } };
	const json_t *answer, *holders;

	(void)state;
	(void)bed_add(b, "two", &two);
	(void)bed_add(b, "four", &four);
	(void)bed_add(b, "late", &needs);
	(void)bed_add(b, "never", &never);
	answer = bed_ask(b, "{'op': 'why', 'job': 'late'}");
	assert_string_equal(bed_text(answer, "state"), "waiting");
	assert_string_equal(bed_text(answer, "waits_for"), "memory");
	assert_string_equal(bed_text(answer, "text"),
			    "waiting: it needs 3GiB (2.5GiB P + 512MiB E); 2GiB of 8GiB is free; "
			    "held by four (4GiB), two (2GiB).");
	assert_true(json_is_null(json_object_get(answer, "estimate_s")));
	holders = json_object_get(answer, "holders");
	assert_int_equal(json_array_size(holders), 2);
	assert_true(bed_number(json_array_get(holders, 0), "bytes") == 4.0 * GIB);

	answer = bed_ask(b, "{'op': 'why', 'job': 'never'}");
	assert_string_equal(bed_text(answer, "state"), "refused");
	assert_says(answer, "text", "needs 9GiB, and may have 8GiB at most");
	bed_close(b);
}

/*
 * A session's next iteration needs more memory than the session holds: the session waits for
 * memory.
 */
static void test_why_growth(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 1);
	struct svc_session *a = bed_add_plain(b, "a");
	const json_t *answer;

	(void)state;
	(void)bed_add(b, "c", &(struct sal_job){ .declared = { 6 * GIB, 0 } });
	b->executions[b->execution_count].iteration.grow_bytes = 3 * GIB;
	bed_submit(b, a, 0);
	answer = bed_ask(b, "{'op': 'why', 'job': 'a'}");
	assert_string_equal(bed_text(answer, "waits_for"), "memory");
	assert_says(answer, "text", "it needs 3GiB (3GiB P + 0B E); 2GiB of 8GiB is free");
	bed_close(b);
}

static void test_why_quiet(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 1);
	struct svc_session *s = bed_add_plain(b, "s");
	const json_t *answer;

	(void)state;
	bed_now_ns += 4200 * MS;
	answer = bed_ask(b, "{'op': 'why', 'job': 's'}");
	assert_string_equal(bed_text(answer, "waits_for"), "input");
	assert_says(answer, "text", "idle: it has submitted nothing for 4.2s.");
	(void)bed_ask(b, "{'op': 'pause', 'job': 's'}");
	bed_submit(b, s, 0);
	answer = bed_ask(b, "{'op': 'why', 'job': 's'}");
	assert_string_equal(bed_text(answer, "waits_for"), "operator");
	assert_says(answer, "text", "with 1 iteration queued;");
	bed_close(b);
}

static void test_why_compile(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 1);
	struct svc_session *s = bed_add_plain(b, "s");
	const struct svc_session *slow = bed_add_plain(b, "slow");
	struct svc_task job = { .pending = (struct sal_compile_request *)b };
	const json_t *answer;

	(void)state;
	TAILQ_INIT(&s->tasks);
	s->account.used[SVC_COMPILES] = 1; /* one compilation is under way */
	answer = bed_ask(b, "{'op': 'why', 'job': 's'}");
	assert_string_equal(bed_text(answer, "waits_for"), "compile");
	TAILQ_INSERT_TAIL(&s->tasks, &job, link);
	s->account.used[SVC_COMPILES] = 3;
	b->server.options.compile_time_ns = SAL_COMPILE_TIME_NS;
	bed_wait = (struct sal_compile_wait){ SAL_COMPILE_RUNNING, 9000 * MS, 7000 * MS, 0 };
	answer = bed_ask(b, "{'op': 'why', 'job': 's'}");
	assert_says(answer, "text",
		    "waiting for the compiler: its program has been compiled for 7s; the limit is "
		    "15min (--compile-time); 2 more of its programs wait.");
	bed_wait = (struct sal_compile_wait){ SAL_COMPILE_QUEUED, 9000 * MS, 0, 3 };
	bed_runs[0] = (struct sal_compile_run){ slow->id, 11000 * MS };
	bed_runs[1] = (struct sal_compile_run){ 12345, 1000 * MS };
	answer = bed_ask(b, "{'op': 'why', 'job': 's'}");
	assert_says(answer, "text", "its program has waited for 9s and is number 4 in the queue");
	assert_says(answer, "text", "; the compiler is at work for slow (id ");
	assert_says(answer, "text", "), for 11s, a job that has left, for 1s;");
	assert_int_equal(json_array_size(json_object_get(answer, "holders")), 1);
	s->account.used[SVC_COMPILES] = 0;
	TAILQ_REMOVE(&s->tasks, &job, link);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_why_compile),
		cmocka_unit_test(test_why_turn),
		cmocka_unit_test(test_why_turn_of_the_first),
		cmocka_unit_test(test_why_no_gain),
		cmocka_unit_test(test_why_first_in_rank),
		cmocka_unit_test(test_why_share),
		cmocka_unit_test(test_why_solo),
		cmocka_unit_test(test_why_memory),
		cmocka_unit_test(test_why_growth),
		cmocka_unit_test(test_why_quiet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
