/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine: the life of a session, its needs, pause, close in every state, changes while it runs.
 */
#include "core/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/driver.h"

static struct drv d;

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

/* A device of 1000 bytes. */
static void start(const struct sal_policy *policy)
{
	drv_start(&d, 1000, policy, NULL);
}

static void start_without_paging(const struct sal_policy *policy)
{
	struct sal_tuning t = drv_plain_tuning();

	t.page_bytes_per_s = 0;
	drv_start(&d, 1000, policy, &t);
}

/* An ordinary life */

static void test_open_admit_submit_grant_done(void **state)
{
	const struct sal_record *r;
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open(&d, 100, 300);
	r = drv_last(&d, SAL_ADMIT, a);
	assert_int_equal(r->persist_bytes, 100);
	assert_int_equal(r->ephem_bytes, 300);
	assert_int_equal(r->lane, 0);
	assert_int_equal(drv_free(&d), 600);
	assert_int_equal(drv_said(&d, SAL_GRANT, NULL), 0);

	d.now_ns = 50;
	drv_submit(&d, a, 80, 200);
	r = drv_last(&d, SAL_GRANT, a);
	assert_int_equal(r->iteration, 1);
	assert_int_equal(r->lane, 0);
	assert_int_equal(r->now_ns, 50);
	drv_submit(&d, a, 80, 200);
	assert_int_equal(drv_said(&d, SAL_GRANT, a), 1);
	drv_done(&d, a, 7);
	assert_int_equal(drv_last(&d, SAL_GRANT, a)->iteration, 2);
	assert_int_equal(a->s->waited_ns, 0); /* its own first iteration ran meanwhile */
	drv_done(&d, a, 8);
	assert_int_equal(a->s->used_ns, 15);
	assert_int_equal(a->s->done_iterations, 2);
	drv_close(&d, a);
	assert_int_equal(drv_free(&d), 1000);
	assert_int_equal(drv_lanes(&d), 0);
}

static void test_time_never_runs_backwards(void **state)
{
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	d.now_ns = 1000;
	a = drv_open(&d, 1, 1);
	d.now_ns = 400;
	drv_submit(&d, a, 1, 1);
	assert_int_equal(drv_last(&d, SAL_GRANT, a)->now_ns, 1000);
	assert_int_equal(a->s->running->submit_ns, 1000);
}

/* Refusals */

static void test_refused_only_if_it_cannot_fit_alone(void **state)
{
	struct drv_job *a, *b, *c;
	const struct sal_record *r;

	(void)state;
	start(&sal_policy_fifo);
	a = drv_open(&d, 900, 100);
	b = drv_open(&d, 1, 999);
	c = drv_open(&d, 2, 999);
	assert_int_equal(a->refusals, 0);
	assert_int_equal(b->refusals, 0); /* it waits */
	assert_false(drv_is_in(b));
	r = drv_last(&d, SAL_REFUSE, c);
	assert_int_equal(r->reason, SAL_REFUSE_CAPACITY);
	assert_int_equal(r->persist_bytes, 2);
	assert_int_equal(r->ephem_bytes, 999);
	assert_int_equal(r->value, 1000);
	drv_close(&d, a);
	assert_true(drv_is_in(b));
}

/* Fault (1) of the original Salus: a refusal must not lose the lane's turn. */
static void test_no_lost_run_slot_after_refusals(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_rr);
	a = drv_open(&d, 100, 100);
	b = drv_open(&d, 100, 100);
	for (int i = 0; i < 20; i++) {
		drv_submit(&d, a, 100, 901); /* never fits */
		drv_submit(&d, a, 100, 100);
		drv_submit(&d, b, 1001, 0); /* never fits */
		drv_submit(&d, b, 100, 100);
		for (int k = 0; k < 2; k++)
			drv_submit(&d, b, 100, 2000); /* never fits; refused when it is first */
		while (drv_runs(a) || drv_runs(b))
			drv_done(&d, drv_runs(a) ? a : b, 10);
	}
	assert_int_equal(a->done, 20);
	assert_int_equal(b->done, 20);
	assert_int_equal(a->refusals, 20);
	assert_int_equal(b->refusals, 60);
}

static void test_refused_session_gets_answers_and_a_second_chance(void **state)
{
	struct sal_job small = { .declared = { 10, 10 } };
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open(&d, 2000, 0);
	drv_mark(&d);
	drv_submit(&d, a, 1, 1);
	assert_int_equal(drv_last(&d, SAL_REFUSE, a)->iteration, 1);
	drv_mark(&d);
	drv_need(&d, a, 5);
	assert_int_equal(drv_said(&d, SAL_REFUSE, a), 1);
	drv_declare(&d, a, &small);
	assert_true(drv_is_in(a));
	drv_submit(&d, a, 1, 1);
	assert_true(drv_runs(a));
}

static void test_limit_of_a_session(void **state)
{
	struct sal_job job = { .declared = { 50, 50 }, .limit_bytes = 200 };
	const struct sal_record *r;
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open_job(&d, &job);
	drv_submit(&d, a, 101, 100);
	r = drv_last(&d, SAL_REFUSE, a);
	assert_int_equal(r->reason, SAL_REFUSE_LIMIT);
	assert_int_equal(r->persist_bytes, 101);
	assert_int_equal(r->ephem_bytes, 100);
	assert_int_equal(r->value, 200);
	drv_submit(&d, a, 100, 100);
	assert_true(drv_runs(a));
	drv_need(&d, a, 201);
	assert_int_equal(a->refusals, 2);
	drv_need(&d, a, 101); /* fits when the iteration has ended */
	assert_int_equal(a->refusals, 2);
	assert_int_equal(a->s->held_bytes, 100);
	/* The operator raises the limit while the job runs. */
	job.limit_bytes = 0;
	drv_declare(&d, a, &job);
	assert_int_equal(a->refusals, 2);
	assert_int_equal(a->s->held_bytes, 101);
}

/* An array that does not fit beside the session's own iteration waits for its end. */
static void test_need_beside_an_iteration(void **state)
{
	struct sal_job job = { .declared = { 50, 50 } };
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open_job(&d, &job);
	drv_submit(&d, a, 100, 900); /* the whole device */
	assert_true(drv_runs(a));
	drv_need(&d, a, 150);
	assert_int_equal(a->refusals, 0);
	assert_int_equal(a->s->held_bytes, 100);
	drv_done(&d, a, MS);
	assert_int_equal(a->s->held_bytes, 150);
	assert_int_equal(a->refusals, 0);
}

/* A client that asks for absurd sizes is refused, and can go on. */
static void test_absurd_sizes(void **state)
{
	static const uint64_t sizes[] = { UINT64_MAX / 2 + 1, UINT64_MAX - 100, UINT64_MAX };
	struct sal_job job = { .declared = { 10, 10 } };
	struct drv_job *a;

	(void)state;
	for (uint64_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		start(&sal_policy_fair);
		job.declared = (struct sal_needs){ 10, 10 };
		a = drv_open_job(&d, &job);
		drv_submit(&d, a, 10, sizes[i]);
		drv_submit(&d, a, sizes[i], sizes[i]);
		drv_need(&d, a, sizes[i]);
		assert_int_equal(a->refusals, 3);
		drv_submit(&d, a, 200, 300); /* more than it holds: it must be able to grow */
		assert_true(drv_runs(a));
		drv_done(&d, a, 1);
		job.declared = (struct sal_needs){ sizes[i], sizes[i] };
		drv_declare(&d, a, &job);
		drv_submit(&d, a, 300, 400);
		assert_true(drv_runs(a));
		if (i + 1 < sizeof(sizes) / sizeof(sizes[0]))
			drv_stop(&d);
	}
}

/* Needs */

static void test_undeclared_needs_are_tracked(void **state)
{
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open(&d, 0, 0);
	assert_true(drv_is_in(a));
	assert_int_equal(drv_free(&d), 1000);
	drv_need(&d, a, 100);
	assert_int_equal(drv_last(&d, SAL_ADMIT, a)->persist_bytes, 100);
	drv_submit(&d, a, 120, 300);
	assert_int_equal(drv_free(&d), 580);
	drv_done(&d, a, 1);
	drv_submit(&d, a, 110, 500);
	assert_int_equal(drv_free(&d), 380);
	drv_done(&d, a, 1);
	/* The session holds the iteration's bytes until it reports less. Scratch stays reserved. */
	assert_int_equal(a->s->held_bytes, 120);
	drv_mark(&d);
	drv_need(&d, a, 20);
	assert_int_equal(a->s->held_bytes, 20);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 0);
	assert_int_equal(drv_free(&d), 480);
}

static void test_declared_bytes_stay_reserved(void **state)
{
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open(&d, 300, 100);
	drv_need(&d, a, 200);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 2); /* answered at once */
	drv_need(&d, a, 50);
	assert_int_equal(a->s->held_bytes, 300);
	drv_need(&d, a, 400);
	assert_int_equal(a->s->held_bytes, 400);
	drv_need(&d, a, 50);
	assert_int_equal(a->s->held_bytes, 300);
}

static void test_need_is_answered_later(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start_without_paging(&sal_policy_fair);
	a = drv_open(&d, 100, 100);
	b = drv_open(&d, 700, 100);
	drv_submit(&d, b, 700, 100);
	drv_mark(&d);
	drv_need(&d, a, 300);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 0);
	assert_true(a->s->need_open);
	drv_done(&d, b, 1);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 0);
	drv_close(&d, b);
	assert_int_equal(drv_last(&d, SAL_ADMIT, a)->persist_bytes, 300);
	assert_false(a->s->need_open);
}

static void test_open_need_can_be_taken_back(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start_without_paging(&sal_policy_fair);
	a = drv_open(&d, 100, 100);
	b = drv_open(&d, 700, 100);
	drv_need(&d, a, 300);
	assert_int_equal(sal_engine_waiting_count(d.engine), 1);
	drv_need(&d, a, 60);
	assert_int_equal(sal_engine_waiting_count(d.engine), 0);
	drv_mark(&d);
	drv_close(&d, b);
	assert_int_equal(drv_said(&d, SAL_ADMIT, a), 0);
	assert_int_equal(a->s->held_bytes, 100);
}

static void test_running_session_grows(void **state)
{
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open(&d, 100, 200);
	drv_submit(&d, a, 100, 200);
	drv_mark(&d);
	drv_need(&d, a, 500);
	assert_int_equal(drv_last(&d, SAL_ADMIT, a)->persist_bytes, 500);
	/* The next iteration needs more scratch. The lane grows before the first iteration ends. */
	drv_submit(&d, a, 500, 400);
	drv_done(&d, a, 1);
	assert_int_equal(drv_last(&d, SAL_GRANT, a)->iteration, 2);
	assert_int_equal(sal_engine_lane(d.engine, 0)->span, 400);
	assert_int_equal(sal_engine_lane(d.engine, 0)->at, 600);
}

static void test_growth_waits_for_the_scratch_that_runs(void **state)
{
	struct drv_job *a;

	(void)state;
	start(&sal_policy_fair);
	a = drv_open(&d, 100, 600);
	drv_submit(&d, a, 100, 600);
	drv_submit(&d, a, 700, 100); /* fits only after the first iteration frees its scratch */
	assert_int_equal(a->refusals, 0);
	drv_done(&d, a, 1);
	assert_int_equal(drv_last(&d, SAL_GRANT, a)->iteration, 2);
	assert_int_equal(a->s->held_bytes, 700);
}

static void test_later_iterations_wait_behind_one_that_grows(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start_without_paging(&sal_policy_fair);
	a = drv_open(&d, 100, 100);
	b = drv_open(&d, 600, 100);
	drv_submit(&d, a, 500, 100); /* waits until b closes */
	drv_submit(&d, a, 100, 100);
	assert_false(drv_runs(a));
	drv_close(&d, b);
	assert_int_equal(drv_last(&d, SAL_GRANT, a)->iteration, 1);
	drv_done(&d, a, 1);
	assert_int_equal(drv_last(&d, SAL_GRANT, a)->iteration, 2);
}

/* Pause */

static void test_pause_and_resume(void **state)
{
	struct drv_job *a, *b;
	char order[16];

	(void)state;
	start(&sal_policy_rr);
	a = drv_open(&d, 10, 10);
	b = drv_open(&d, 10, 10);
	for (int i = 0; i < 3; i++) {
		drv_submit(&d, a, 10, 10);
		drv_submit(&d, b, 10, 10);
	}
	drv_pause(&d, a);
	assert_true(drv_runs(a)); /* the running iteration runs to its end */
	drv_done(&d, a, 1);
	drv_done(&d, b, 1);
	drv_done(&d, b, 1);
	assert_string_equal(drv_grants(&d, order, sizeof(order)), "abbb");
	drv_done(&d, b, 1);
	assert_string_equal(drv_grants(&d, order, sizeof(order)), "abbb");
	drv_resume(&d, a);
	assert_true(drv_runs(a));
}

static void test_paused_session_is_not_let_in(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fifo);
	a = drv_open(&d, 600, 300);
	b = drv_open(&d, 600, 300);
	drv_submit(&d, a, 600, 300);
	drv_submit(&d, b, 600, 300);
	drv_pause(&d, b);
	drv_done(&d, a, 1);
	drv_close(&d, a);
	assert_false(drv_is_in(b));
	drv_resume(&d, b);
	assert_true(drv_runs(b));
}

/* Close in every state */

static void all_free(void)
{
	assert_int_equal(drv_free(&d), 1000);
	assert_int_equal(drv_lanes(&d), 0);
	assert_int_equal(sal_engine_waiting_count(d.engine), 0);
	assert_int_equal(sal_engine_resident_count(d.engine), 0);
}

static void test_close_waiting(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fifo);
	a = drv_open(&d, 900, 100);
	b = drv_open(&d, 900, 100);
	drv_submit(&d, b, 900, 100);
	drv_close(&d, b);
	assert_int_equal(sal_engine_waiting_count(d.engine), 0);
	drv_close(&d, a);
	all_free();
}

static void test_close_running(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fifo);
	a = drv_open(&d, 900, 100);
	b = drv_open(&d, 900, 100);
	drv_submit(&d, a, 900, 100);
	drv_submit(&d, a, 900, 100);
	drv_submit(&d, b, 900, 100);
	drv_close(&d, a);
	assert_int_equal(drv_free(&d), 0); /* until its iteration has ended */
	assert_false(drv_is_in(b));
	drv_done(&d, a, 1);
	assert_null(a->s);
	assert_int_equal(a->grants, 1); /* the queued iteration is dropped */
	assert_true(drv_runs(b));
	drv_done(&d, b, 1);
	drv_close(&d, b);
	all_free();
}

/* a holds 600 bytes and has run once. b is shorter and waits with work, so a is paged out. */
static void start_eviction(struct drv_job **a, struct drv_job **b, bool a_runs)
{
	struct sal_job long_job = { .declared = { 600, 100 }, .total_ns = 100 * SEC };
	struct sal_job short_job = { .declared = { 600, 100 }, .total_ns = 10 * SEC };

	start(&sal_policy_srtf);
	*a = drv_open_job(&d, &long_job);
	*b = drv_open_job(&d, &short_job);
	drv_submit(&d, *a, 600, 100);
	drv_submit(&d, *a, 600, 100);
	drv_done(&d, *a, 1);
	if (!a_runs)
		drv_done(&d, *a, 1);
	drv_submit(&d, *b, 600, 100);
}

static void test_close_one_being_evicted(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start_eviction(&a, &b, true);
	assert_true(a->s->evicting);
	drv_close(&d, a);
	drv_done(&d, a, 1);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0);
	assert_true(drv_runs(b));
	drv_done(&d, b, 1);
	drv_close(&d, b);
	all_free();
}

static void test_close_paging_out(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start_eviction(&a, &b, true);
	drv_done(&d, a, 1);
	assert_int_equal(drv_last(&d, SAL_PAGE_OUT, a)->value, 600);
	drv_close(&d, a);
	assert_non_null(a->s);
	assert_false(drv_is_in(b)); /* the copy still reads the bytes */
	drv_copied(&d, a);
	assert_null(a->s);
	assert_true(drv_runs(b));
	drv_done(&d, b, 1);
	drv_close(&d, b);
	all_free();
}

static void test_close_paging_in(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start_eviction(&a, &b, true);
	drv_submit(&d, a, 600, 100);
	drv_done(&d, a, 1);
	drv_copied(&d, a);
	drv_done(&d, b, 1);
	drv_close(&d, b);
	assert_int_equal(drv_last(&d, SAL_PAGE_IN, a)->value, 600);
	drv_close(&d, a);
	assert_int_equal(drv_free(&d), 300); /* the copy still writes to those bytes */
	drv_copied(&d, a);
	assert_null(a->s);
	all_free();
}

static void test_close_the_one_room_is_made_for(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start_eviction(&a, &b, true);
	assert_true(a->s->evicting);
	drv_close(&d, b);
	assert_false(a->s->evicting); /* it may stay */
	drv_submit(&d, a, 600, 100);
	drv_done(&d, a, 1);
	assert_true(drv_runs(a));
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0);
	drv_done(&d, a, 1);
	drv_close(&d, a);
	all_free();
}

static void test_pause_the_one_room_is_made_for(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start_eviction(&a, &b, true);
	drv_pause(&d, b);
	assert_false(a->s->evicting);
	drv_resume(&d, b);
	assert_true(a->s->evicting);
	drv_done(&d, a, 1);
	drv_copied(&d, a);
	assert_true(drv_runs(b));
}

static void test_destroy_in_the_middle(void **state)
{
	struct drv_job *a, *b;

	(void)state;
	start_eviction(&a, &b, true);
	drv_done(&d, a, 1); /* a is being copied and b waits: stop() frees both */
	assert_int_equal(a->s->place, SAL_PAGING_OUT);
	sal_engine_destroy(NULL);
}

/* Changes while it runs */

static void test_tuning_takes_effect_at_once(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *a, *b;

	(void)state;
	t.lanes = 1;
	drv_start(&d, 1000, &sal_policy_pack, &t);
	a = drv_open(&d, 10, 100);
	b = drv_open(&d, 10, 100);
	drv_submit(&d, a, 10, 100);
	drv_submit(&d, b, 10, 100);
	assert_int_equal(drv_lanes(&d), 1);
	assert_false(drv_runs(b));
	t.lanes = 2;
	drv_set_tuning(&d, &t);
	assert_int_equal(drv_lanes(&d), 2);
	assert_true(drv_runs(b)); /* it moved to the new lane, beside a */
	assert_int_equal(drv_said(&d, SAL_MOVE, b), 1);
}

static void test_tuning_reaches_those_that_wait(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *a, *b;

	(void)state;
	start(&sal_policy_fifo);
	a = drv_open(&d, 10, 10);
	b = drv_open(&d, 10, 10);
	for (int i = 0; i < 2; i++)
		drv_submit(&d, a, 10, 10);
	drv_submit_short(&d, b, 20 * US);
	t.short_ns = 50 * US;
	drv_set_tuning(&d, &t);
	drv_done(&d, a, MS);
	assert_true(drv_runs(b)); /* it did not count as short when it was submitted */
}

/* After a change of policy, the new policy orders the sessions that already wait. */
static void test_policy_change_reorders_the_ready(void **state)
{
	struct sal_job job = { .declared = { 10, 10 } };
	struct drv_job *j[3];
	char order[8];

	(void)state;
	start(&sal_policy_rr);
	for (uint32_t i = 0; i < 3; i++) {
		job.priority = 3 - i;
		j[i] = drv_open_job(&d, &job);
	}
	for (uint32_t i = 0; i < 3; i++)
		for (uint32_t k = 0; k < 2; k++)
			drv_submit(&d, j[i], 10, 10);
	drv_set_policy(&d, &sal_policy_priority);
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t k = 0; k < 3; k++)
			if (drv_runs(j[k])) {
				drv_done(&d, j[k], 1);
				break;
			}
	assert_string_equal(drv_grants(&d, order, sizeof(order)), "accbb");
}

static void test_paging_is_turned_off_while_room_is_made(void **state)
{
	struct sal_tuning t = drv_plain_tuning();
	struct drv_job *a, *b;

	(void)state;
	start_eviction(&a, &b, true);
	t.page_bytes_per_s = 0;
	drv_set_tuning(&d, &t);
	drv_submit(&d, a, 600, 100);
	drv_done(&d, a, 1);
	assert_int_equal(drv_said(&d, SAL_PAGE_OUT, NULL), 0);
	assert_true(drv_runs(a));
	drv_done(&d, a, 1);
	drv_close(&d, a);
	assert_true(drv_runs(b));
}

#define T(f) cmocka_unit_test_teardown(f, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_open_admit_submit_grant_done),
		T(test_time_never_runs_backwards),
		T(test_refused_only_if_it_cannot_fit_alone),
		T(test_no_lost_run_slot_after_refusals),
		T(test_refused_session_gets_answers_and_a_second_chance),
		T(test_limit_of_a_session),
		T(test_need_beside_an_iteration),
		T(test_absurd_sizes),
		T(test_undeclared_needs_are_tracked),
		T(test_declared_bytes_stay_reserved),
		T(test_need_is_answered_later),
		T(test_open_need_can_be_taken_back),
		T(test_running_session_grows),
		T(test_growth_waits_for_the_scratch_that_runs),
		T(test_later_iterations_wait_behind_one_that_grows),
		T(test_pause_and_resume),
		T(test_paused_session_is_not_let_in),
		T(test_close_waiting),
		T(test_close_running),
		T(test_close_one_being_evicted),
		T(test_close_paging_out),
		T(test_close_paging_in),
		T(test_close_the_one_room_is_made_for),
		T(test_pause_the_one_room_is_made_for),
		T(test_destroy_in_the_middle),
		T(test_tuning_takes_effect_at_once),
		T(test_tuning_reaches_those_that_wait),
		T(test_policy_change_reorders_the_ready),
		T(test_paging_is_turned_off_while_room_is_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
