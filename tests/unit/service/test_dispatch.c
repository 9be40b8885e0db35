/* SPDX-License-Identifier: Apache-2.0 */
/* One iteration from its record to its end: states, waiters, donations, and what failures leave. */
#include "unit/service/run_bed.h"

#include <stdio.h>
#include <string.h>

#include "service/idmap.h"
#include "service/memory/buffer.h"
#include "service/memory/program.h"
#include "service/run/dispatch.h"
#include "service/server.h"

#define FILL "fake 1\noutput u8 64 = fill 7\n"
#define ADD "fake 1\noutput u8 64 = add 0 1\n"
#define SLOW_FILL "fake 1\noutput u8 64 = fill 7\ntime 50000000\n"

static struct run_bed bed;
static struct run_client a, b;

static void open_one(const char *plugin)
{
	bed_open(&bed, &(struct run_config){ .plugin = plugin });
	client_open(&a, &bed, "a");
}

static void close_one(void)
{
	client_close(&a);
	bed_close(&bed);
}

/* States */

struct step {
	int from, to;
};

static void move(void *arg)
{
	const struct step *step = arg;
	struct svc_execution x = { 0 };

	atomic_store(&x.state, step->from);
	svc_execution_move(&x, (enum svc_execution_state)step->to);
}

static void states_follow_the_arrows(void **state)
{
	static const enum svc_execution_state arrows[][2] = {
		{ SVC_NEW, SVC_QUEUED },       { SVC_QUEUED, SVC_GRANTED },
		{ SVC_QUEUED, SVC_ENDED },     { SVC_GRANTED, SVC_FETCHING },
		{ SVC_GRANTED, SVC_RUNNING },  { SVC_GRANTED, SVC_ENDED },
		{ SVC_FETCHING, SVC_RUNNING }, { SVC_FETCHING, SVC_ENDED },
		{ SVC_RUNNING, SVC_ENDED },    { SVC_ENDED, SVC_TOLD },
	};
	size_t i;
	int from, to;

	(void)state;
	for (from = SVC_NEW; from <= SVC_TOLD; from++) {
		for (to = SVC_NEW; to <= SVC_TOLD; to++) {
			bool is_legal = false;

			for (i = 0; i < sizeof(arrows) / sizeof(arrows[0]); i++)
				is_legal |= (int)arrows[i][0] == from && (int)arrows[i][1] == to;
			assert_int_equal(bed_aborts(move, &(struct step){ from, to }), !is_legal);
		}
	}
}

/* Work */

static void a_sum_is_right(void **state)
{
	static const uint64_t args[] = { 1, 2 };

	(void)state;
	open_one("fake:strict");
	client_program(&a, 1, ADD);
	client_upload(&a, 1, 64, 3);
	client_upload(&a, 2, 64, 4);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 10, 1, args, 2)), 0);
	client_expect(&a, 10, 64, 7);
	close_one();
}

/*
 * Each iteration uses the output of the one before. Some are chained inside `done`, some are
 * computed inside the call.
 */
static void run_chain(const char *plugin)
{
	uint64_t last = 0;
	uint32_t i;

	open_one(plugin);
	client_program(&a, 1, ADD);
	client_upload(&a, 1, 64, 1);
	client_upload(&a, 2, 64, 1);
	for (i = 0; i < 100; i++) {
		uint64_t args[] = { i == 0 ? 1 : 9 + i, 2 };

		last = client_execute(&a, 1, 10 + i, 1, args, 2);
		if (i > 0)
			client_delete(&a, 9 + i);
	}
	assert_int_equal(client_answer(&a, last), 0);
	client_expect(&a, 109, 64, 101);
	BED_WAIT(&bed, a.session->promised_bytes == 0 && a.session->freeing_bytes == 0 &&
			       a.session->live_bytes == UINT64_C(3) * 64 &&
			       a.session->charged_bytes == UINT64_C(3) * SVC_BUFFER_BYTES_MIN);
	BED_WAIT(&bed, a.session->waiting_count == 0 && a.session->queued_count == 0 &&
			       TAILQ_EMPTY(&a.session->executions));
	bed_check(&bed);
	close_one();
}

static void a_chain_is_computed_in_order(void **state)
{
	(void)state;
	run_chain("fake:strict");
	run_chain("fake:inline");
	run_chain("fake:chained");
	run_chain("fake:chained,inline");
}

/* The iteration's answer comes before the answers to the waiters for its outputs. */
static void outputs_are_waited_for(void **state)
{
	uint64_t run, get, large, wait, copied;

	(void)state;
	open_one(NULL);
	client_program(&a, 1,
		       "fake 1\noutput u8 100000 = fill 9\noutput u8 64 = fill 7\n"
		       "time 30000000\n");
	run = client_execute(&a, 1, 10, 2, NULL, 0);
	large = client_download(&a, 10, 100000); /* waits in another way: see SMALL_BYTES_MAX */
	get = client_download(&a, 11, 64);
	wait = client_await(&a, 11);
	client_copy(&a, 10, 20);
	copied = client_download(&a, 20, 100000);
	assert_int_equal(client_answer(&a, run), 0);
	assert_int_equal(client_answer(&a, get), 0);
	assert_int_equal(a.answer.tail[63], 7);
	assert_int_equal(client_answer(&a, wait), 0);
	assert_int_equal(client_answer(&a, large), 0);
	assert_int_equal(client_answer(&a, copied), 0);
	assert_int_equal(a.arena[a.arena_bytes - 1], 9);
	BED_WAIT(&bed, a.session->waiting_count == 0 && atomic_load(&a.session->reads) == 0);
	close_one();
}

/*
 * All waiters for a failed iteration get its reason. Iterations that use its outputs fail with the
 * same reason.
 */
static void expect_poison(const char *plugin, const char *program, int code)
{
	static const uint64_t args[] = { 10, 10 };
	uint64_t run, get, wait, next;

	open_one(plugin);
	client_program(&a, 1, program);
	client_program(&a, 2, ADD);
	run = client_execute(&a, 1, 10, 1, NULL, 0);
	get = client_download(&a, 10, 64);
	wait = client_await(&a, 10);
	client_copy(&a, 10, 20);
	next = client_execute(&a, 2, 30, 1, args, 2);
	assert_int_equal(client_answer(&a, run), code);
	assert_int_equal(client_answer(&a, get), code);
	assert_int_equal(client_answer(&a, wait), code);
	assert_int_equal(client_answer(&a, next), code);
	assert_int_equal(client_answer(&a, client_download(&a, 30, 64)), code);
	assert_int_equal(client_answer(&a, client_download(&a, 20, 64)), code);
	BED_WAIT(&bed, a.session->promised_bytes == 0 && a.session->waiting_count == 0);
	BED_ASSERT(&bed, bed.server.running == 0);
	bed_check(&bed);
	close_one();
}

static void failures_reach_all_who_wait(void **state)
{
	(void)state;
	expect_poison(NULL, FILL "fail 13 it burns\n", SAL_INTERNAL);
	expect_poison(NULL, FILL "refuse 9 not now\n", SAL_FAILED_PRECONDITION);
	expect_poison("fake:execute@1=8", FILL, SAL_RESOURCE_EXHAUSTED);
	expect_poison("fake:load@1=14", FILL, SAL_UNAVAILABLE);
	expect_poison("fake:inline", FILL "fail 13 it burns\n", SAL_INTERNAL);
	expect_poison("fake:chained", FILL "fail 13 it burns\n", SAL_INTERNAL);
}

/* After a failed load, the next iteration loads the program again. */
static void a_load_that_failed_is_tried_again(void **state)
{
	(void)state;
	open_one("fake:load@1=14");
	client_program(&a, 1, FILL);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 10, 1, NULL, 0)), SAL_UNAVAILABLE);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 11, 1, NULL, 0)), 0);
	client_expect(&a, 11, 64, 7);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_LOAD), 2);
	close_one();
}

static void a_failed_upload_poisons_what_uses_it(void **state)
{
	static const uint64_t args[] = { 1, 2 };
	uint64_t run;

	(void)state;
	open_one("fake:upload@1=8");
	client_program(&a, 1, ADD);
	client_upload(&a, 1, 8000, 3); /* in the arena, which gets its range back */
	client_upload(&a, 2, 64, 4);
	run = client_execute(&a, 1, 10, 1, args, 2);
	assert_int_equal(client_answer(&a, run), SAL_RESOURCE_EXHAUSTED);
	assert_int_equal(client_answer(&a, client_await(&a, 1)), SAL_RESOURCE_EXHAUSTED);
	client_expect(&a, 2, 64, 4);
	assert_int_equal(a.released_bytes, 8000);
	BED_WAIT(&bed, a.session->promised_bytes == 0 && a.session->live_bytes == 64);
	close_one();
}

/* Donation */

/* A donated argument is deleted for the client at once, and its bytes are counted once. */
static void donated_arguments_are_taken_over(void **state)
{
	static const uint64_t args[] = { 1 };
	uint64_t run;

	(void)state;
	open_one(NULL);
	client_program(&a, 1, "fake 1\noutput u8 1000000 = copy 0\ndonate 0 0\n");
	client_upload(&a, 1, 1000000, 3);
	run = client_execute(&a, 1, 10, 1, args, 1);
	assert_int_equal(client_answer(&a, client_download(&a, 1, 1000000)), SAL_INVALID_ARGUMENT);
	assert_int_equal(client_answer(&a, run), 0);
	client_expect(&a, 10, 1000000, 3);
	BED_WAIT(&bed, a.session->charged_bytes == 1000000 && a.session->live_bytes == 1000000);
	BED_ASSERT(&bed, a.session->peak_bytes == 1000000);
	close_one();
}

/* The client retains the argument: the output gets memory of its own. */
static void retained_arguments_stay(void **state)
{
	struct {
		struct sal_msg_execute m;
		uint64_t args[2];
		uint32_t keep[2]; /* the second is padding */
	} all = { .m = { .header = { .size = sizeof(all), .type = SAL_MSG_EXECUTE },
			 .program = 1,
			 .first_output = 10,
			 .output_count = 2,
			 .arg_count = 2,
			 .retained_count = 1 },
		  .args = { 1, 2 },
		  .keep = { 1 } };

	(void)state;
	open_one(NULL);
	client_program(&a, 1,
		       "fake 1\noutput u8 64 = copy 0\noutput u8 64 = copy 1\n"
		       "donate 0 0\ndonate 1 1\n");
	client_upload(&a, 1, 64, 3);
	client_upload(&a, 2, 64, 4);
	all.m.request = ++a.requests;
	client_send(&a, &all, sizeof(all));
	assert_int_equal(client_answer(&a, all.m.request), 0);
	client_expect(&a, 2, 64, 4);
	client_expect(&a, 10, 64, 3);
	client_expect(&a, 11, 64, 4);
	assert_int_equal(client_answer(&a, client_await(&a, 1)), SAL_INVALID_ARGUMENT);
	BED_WAIT(&bed, a.session->live_bytes == UINT64_C(3) * 64);
	close_one();
}

#define MANY 80

/* More donated arguments than one word has bits. */
static void many_arguments_are_donated(void **state)
{
	char text[8192] = "fake 1\n";
	uint64_t args[MANY];
	size_t used = strlen(text);
	int i;

	(void)state;
	open_one(NULL);
	for (i = 0; i < MANY; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "output u8 64 = copy %d\ndonate %d %d\n", i, i, i);
	client_program(&a, 1, text);
	for (i = 0; i < MANY; i++) {
		args[i] = (uint64_t)i + 1;
		client_upload(&a, args[i], 64, (unsigned char)i);
	}
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 1000, MANY, args, MANY)), 0);
	for (i = 0; i < MANY; i++) {
		client_expect(&a, 1000 + (uint64_t)i, 64, (unsigned char)i);
		assert_int_equal(client_answer(&a, client_await(&a, args[i])),
				 SAL_INVALID_ARGUMENT);
	}
	BED_WAIT(&bed, a.session->charged_bytes == UINT64_C(1) * MANY * SVC_BUFFER_BYTES_MIN);
	close_one();
}

/* An iteration fails after a donation: the argument is deleted, and no bytes stay counted. */
static void a_donation_to_a_failed_iteration_leaves_nothing(void **state)
{
	static const uint64_t args[] = { 1 };

	(void)state;
	open_one("fake:execute@1");
	client_program(&a, 1, "fake 1\noutput u8 8000 = copy 0\ndonate 0 0\n");
	client_upload(&a, 1, 8000, 3);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 10, 1, args, 1)), SAL_INTERNAL);
	assert_int_equal(client_answer(&a, client_await(&a, 1)), SAL_INVALID_ARGUMENT);
	BED_WAIT(&bed, a.session->charged_bytes == 0 && a.session->freeing_bytes == 0);
	BED_WAIT(&bed, bed_device_bytes(&bed) == 0);
	close_one();
}

/* Decisions */

static uint32_t count_decisions(void)
{
	struct svc_decision *d;
	uint32_t n = 0;

	STAILQ_FOREACH(d, &bed.server.decisions, link)
		n++;
	return n;
}

/* A repeated decision is carried out once. */
static void decisions_are_carried_out_once(void **state)
{
	struct sal_record again;

	(void)state;
	open_one(NULL);
	client_upload(&a, 1, 64, 1);
	assert_int_equal(client_answer(&a, client_await(&a, 1)), 0);
	memset(&again, 0, sizeof(again));
	again.what = SAL_ADMIT;
	svc_lock(&bed.server);
	a.session->retry = false;
	svc_on_decision(&bed.server, &again, a.session->core, NULL);
	svc_on_decision(&bed.server, &again, a.session->core, NULL);
	assert_int_equal(count_decisions(), 1);
	assert_int_equal(a.session->decision.verdicts, SVC_VERDICT_ADMIT);
	assert_true(svc_dispatch(&bed.server));
	assert_int_equal(a.session->decision.verdicts, 0);
	assert_true(a.session->retry);
	assert_int_equal(count_decisions(), 0);
	assert_false(svc_dispatch(&bed.server));
	svc_unlock(&bed.server);
	close_one();
}

/* An iteration that can never be granted fails, with the numbers. The next iteration runs. */
static void a_refused_iteration_leaves_nothing(void **state)
{
	uint64_t run, next;

	(void)state;
	bed_open(&bed, &(struct run_config){ .memory_bytes = 1 << 20 });
	client_open(&a, &bed, "a");
	client_program(&a, 1, FILL "temp 4000000\n");
	client_program(&a, 2, FILL);
	run = client_execute(&a, 1, 10, 1, NULL, 0);
	next = client_execute(&a, 2, 11, 1, NULL, 0);
	assert_int_equal(client_answer(&a, run), SAL_RESOURCE_EXHAUSTED);
	assert_non_null(memmem(a.answer.tail, a.answer.size, "out of memory", 13));
	assert_int_equal(client_answer(&a, next), 0);
	assert_int_equal(client_answer(&a, client_await(&a, 10)), SAL_RESOURCE_EXHAUSTED);
	client_expect(&a, 11, 64, 7);
	BED_WAIT(&bed, a.session->promised_bytes == 0 && a.session->queued_bytes == 0 &&
			       a.session->queued_count == 0 && bed.server.queued == 0);
	bed_check(&bed);
	close_one();
}

#define DONATE "fake 1\noutput u8 64 = add 0 1\ndonate 0 0\n"

/* Run a program that donates buffer 1, and that fails. Buffers 1 and 2 have 64 bytes, 1 and 2. */
static void run_in_vain(const char *plugin, const char *program, bool takes_back, int code)
{
	static const uint64_t args[] = { 1, 2 };

	bed_open(&bed, &(struct run_config){ .memory_bytes = 1 << 20, .plugin = plugin });
	client_open(&a, &bed, "a");
	svc_lock(&bed.server);
	a.session->takes_back = takes_back;
	svc_unlock(&bed.server);
	client_program(&a, 1, program);
	client_upload(&a, 1, 64, 1);
	client_upload(&a, 2, 64, 2);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 10, 1, args, 2)), code);
}

static void end_in_vain(void)
{
	BED_WAIT(&bed, a.session->promised_bytes == 0 && a.session->queued_bytes == 0);
	bed_check(&bed);
	close_one();
}

/* An iteration that does not start consumes nothing, whoever refuses it. */
static void donations_come_back(void **state)
{
	static const struct {
		const char *plugin, *program;
		int code;
	} rows[] = {
		{ NULL, DONATE "temp 4000000\n", SAL_RESOURCE_EXHAUSTED },
		{ NULL, DONATE "refuse 9 not now\n", SAL_FAILED_PRECONDITION },
		{ "fake:execute@1=8", DONATE, SAL_RESOURCE_EXHAUSTED },
		{ "fake:load@1=14", DONATE, SAL_UNAVAILABLE },
	};
	static const uint64_t args[] = { 1, 2 };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		run_in_vain(rows[i].plugin, rows[i].program, true, rows[i].code);
		assert_true(a.answer.is_refused);
		client_expect(&a, 1, 64, 1);
		client_program(&a, 2, DONATE);
		assert_int_equal(client_answer(&a, client_execute(&a, 2, 20, 1, args, 2)), 0);
		client_expect(&a, 20, 64, 3);
		assert_int_equal(client_answer(&a, client_download(&a, 1, 64)),
				 SAL_INVALID_ARGUMENT);
		end_in_vain();
	}
}

/* The device has begun: the argument is consumed. */
static void donations_of_a_failed_run_are_gone(void **state)
{
	(void)state;
	run_in_vain(NULL, DONATE "fail 13 it burns\n", true, SAL_INTERNAL);
	assert_false(a.answer.is_refused);
	assert_int_equal(client_answer(&a, client_download(&a, 1, 64)), SAL_INVALID_ARGUMENT);
	end_in_vain();
}

/* An older client has forgotten its buffer. */
static void donations_of_older_clients_are_gone(void **state)
{
	(void)state;
	run_in_vain(NULL, DONATE "refuse 9 not now\n", false, SAL_FAILED_PRECONDITION);
	assert_false(a.answer.is_refused);
	BED_WAIT(&bed, !svc_idmap_find(&a.session->buffers, 1));
	end_in_vain();
}

/* A client that reuses the id at once keeps its new buffer. */
static void a_donation_yields_to_a_new_buffer(void **state)
{
	static const uint64_t args[] = { 1, 2 };
	uint64_t slow, run;

	(void)state;
	open_one(NULL);
	svc_lock(&bed.server);
	a.session->takes_back = true;
	svc_unlock(&bed.server);
	client_program(&a, 1, SLOW_FILL);
	client_program(&a, 2, DONATE "refuse 9 not now\n");
	client_upload(&a, 1, 64, 1);
	client_upload(&a, 2, 64, 2);
	slow = client_execute(&a, 1, 10, 1, NULL, 0);
	run = client_execute(&a, 2, 11, 1, args, 2);
	client_upload(&a, 1, 64, 9);
	assert_int_equal(client_answer(&a, slow), 0);
	assert_int_equal(client_answer(&a, run), SAL_FAILED_PRECONDITION);
	client_expect(&a, 1, 64, 9);
	close_one();
}

/* The user has to know why the first iteration failed, whatever the next one needs. */
static void the_first_reason_is_told(void **state)
{
	static const uint64_t arg[] = { 10 };
	uint64_t run, copy, next;

	(void)state;
	bed_open(&bed, &(struct run_config){ .memory_bytes = 1 << 20 });
	client_open(&a, &bed, "a");
	client_program(&a, 1, "fake 1\noutput u8 4000000 = fill 7\ntemp 12345\n");
	client_program(&a, 2, "fake 1\noutput u8 4000000 = copy 0\n");
	run = client_execute(&a, 1, 10, 1, NULL, 0);
	client_copy(&a, 10, 11);
	next = client_execute(&a, 2, 12, 1, arg, 1);
	assert_int_equal(client_answer(&a, run), SAL_RESOURCE_EXHAUSTED);
	assert_non_null(memmem(a.answer.tail, a.answer.size, "12.1KiB scratch", 15));
	assert_int_equal(client_answer(&a, next), SAL_RESOURCE_EXHAUSTED);
	assert_non_null(memmem(a.answer.tail, a.answer.size, "12.1KiB scratch", 15));
	copy = client_await(&a, 11);
	assert_int_equal(client_answer(&a, copy), SAL_RESOURCE_EXHAUSTED);
	assert_non_null(memmem(a.answer.tail, a.answer.size, "12.1KiB scratch", 15));
	client_copy(&a, 10, 13); /* now it is known that its source failed */
	assert_int_equal(client_answer(&a, client_await(&a, 13)), SAL_RESOURCE_EXHAUSTED);
	assert_non_null(memmem(a.answer.tail, a.answer.size, "12.1KiB scratch", 15));
	end_in_vain();
}

/* Learning */

/*
 * A carrier starts the first run of a program, and programs that were slow to start. The worker
 * starts the others.
 */
static void the_worker_starts_what_is_known_to_be_brief(void **state)
{
	const struct svc_program *p;

	(void)state;
	open_one(NULL);
	client_program(&a, 1, FILL);
	svc_lock(&bed.server);
	p = svc_idmap_find(&a.session->programs, 1);
	assert_int_equal(p->mean_ns, 0);
	svc_unlock(&bed.server);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 10, 1, NULL, 0)), 0);
	BED_WAIT(&bed, p->mean_ns > 0 && p->shared->mean_ns > 0);
	BED_ASSERT(&bed, p->loaded && p->stream == 0 && bed.server.lanes[0].iterations == 1 &&
				 bed.server.lanes[0].busy_ns > 0);
	/* Another session with the same program starts with the measured time. */
	client_open(&b, &bed, "b");
	client_program(&b, 1, FILL);
	BED_ASSERT(&bed, ((struct svc_program *)svc_idmap_find(&b.session->programs, 1))->mean_ns ==
				 p->shared->mean_ns);
	client_close(&b);
	close_one();
}

static void a_program_that_computes_inside_the_call_slowness(void **state)
{
	const struct svc_program *p;

	(void)state;
	open_one("fake:inline");
	client_program(&a, 1, SLOW_FILL);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 10, 1, NULL, 0)), 0);
	svc_lock(&bed.server);
	p = svc_idmap_find(&a.session->programs, 1);
	assert_true(p->shared->slowness);
	svc_unlock(&bed.server);
	close_one();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_follow_the_arrows),
		cmocka_unit_test(a_sum_is_right),
		cmocka_unit_test(a_chain_is_computed_in_order),
		cmocka_unit_test(outputs_are_waited_for),
		cmocka_unit_test(failures_reach_all_who_wait),
		cmocka_unit_test(a_load_that_failed_is_tried_again),
		cmocka_unit_test(a_failed_upload_poisons_what_uses_it),
		cmocka_unit_test(donated_arguments_are_taken_over),
		cmocka_unit_test(retained_arguments_stay),
		cmocka_unit_test(many_arguments_are_donated),
		cmocka_unit_test(a_donation_to_a_failed_iteration_leaves_nothing),
		cmocka_unit_test(decisions_are_carried_out_once),
		cmocka_unit_test(a_refused_iteration_leaves_nothing),
		cmocka_unit_test(donations_come_back),
		cmocka_unit_test(donations_of_a_failed_run_are_gone),
		cmocka_unit_test(donations_of_older_clients_are_gone),
		cmocka_unit_test(a_donation_yields_to_a_new_buffer),
		cmocka_unit_test(the_first_reason_is_told),
		cmocka_unit_test(the_worker_starts_what_is_known_to_be_brief),
		cmocka_unit_test(a_program_that_computes_inside_the_call_slowness),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
