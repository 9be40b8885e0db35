/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kind - the engine finds out which jobs serve and which train.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/driver.h"

static struct drv d;

static int stop(void **state)
{
	(void)state;
	drv_stop(&d);
	return 0;
}

static void start(const struct sal_policy *policy)
{
	struct sal_tuning t;

	sal_tuning_default(&t);
	drv_start(&d, 1000, policy, &t);
}

static struct drv_job *add(uint64_t iter_ns, uint64_t gap_ns)
{
	struct drv_load load = {
		.job = { .kind_undeclared = true, .declared = { 10, 10 } },
		.iter_ns = iter_ns,
		.gap_ns = gap_ns,
		.depth = 1,
	};

	return drv_add(&d, &load);
}

static void test_a_server_is_found_and_gets_its_lane(void **state)
{
	static const struct sal_policy *const policies[] = { &sal_policy_mix,
							     &sal_policy_deadline };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct drv_job *training, *server;

		start(policies[i]);
		training = add(30 * MS, 0);
		server = add(2 * MS, 20 * MS);
		drv_run_until(&d, SEC);
		assert_int_equal(server->s->job.kind, SAL_TRAINING);
		assert_ptr_equal(server->s->lane, training->s->lane);
		drv_run_until(&d, 10 * SEC);
		assert_int_equal(server->s->job.kind, SAL_INFERENCE);
		assert_int_equal(training->s->job.kind, SAL_TRAINING);
		assert_true(server->s->job.kind_undeclared);
		assert_ptr_not_equal(server->s->lane, training->s->lane);
		assert_int_equal(drv_said(&d, SAL_MOVE, NULL), 1);
		drv_run_until(&d, 60 * SEC);
		assert_int_equal(drv_said(&d, SAL_MOVE, NULL), 1);
		drv_stop(&d);
	}
	start(NULL); /* for stop() */
}

/* Nobody knows how long they train: each gets its turn long before the guess is over. */
static void test_training_of_unknown_length_takes_turns(void **state)
{
	static const struct sal_policy *const policies[] = { &sal_policy_mix,
							     &sal_policy_deadline };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct drv_job *jobs[3];

		start(policies[i]);
		for (size_t j = 0; j < 3; j++)
			jobs[j] = add(30 * MS, 0);
		drv_run_until(&d, 12 * SEC);
		for (size_t j = 0; j < 3; j++)
			assert_true(jobs[j]->s->used_ns > 2 * SEC);
		drv_stop(&d);
	}
	start(NULL); /* for stop() */
}

/* Gaps for input and logs make no server, however often it must wait for its turn. */
static void test_training_with_gaps_is_training(void **state)
{
	static const struct {
		uint64_t iter_ns, gap_ns;
	} jobs[] = {
		{ 30 * MS, 0 },		{ 30 * MS, 8 * MS },   { 30 * MS, 30 * MS },
		{ 10 * MS, 15 * MS },	{ 5 * MS, 2 * MS },    { 120 * MS, 2 * SEC },
		{ 200 * US, 200 * US }, { 70 * MS, 400 * MS },
	};
	struct drv_job *added[8];

	(void)state;
	for (size_t i = 0; i < 8; i++) { /* alone */
		struct drv_job *j;

		start(&sal_policy_mix);
		j = add(jobs[i].iter_ns, jobs[i].gap_ns);
		drv_run_until(&d, 60 * SEC);
		assert_int_equal(j->s->job.kind, SAL_TRAINING);
		drv_stop(&d);
	}
	start(&sal_policy_mix);
	for (size_t i = 0; i < 8; i++)
		added[i] = add(jobs[i].iter_ns, jobs[i].gap_ns);
	drv_run_until(&d, 120 * SEC);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(added[i]->s->job.kind, SAL_TRAINING);
	assert_int_equal(drv_said(&d, SAL_MOVE, NULL), 0);
}

static void test_a_declared_kind_stays(void **state)
{
	struct drv_load load = { .iter_ns = 2 * MS, .gap_ns = 20 * MS, .depth = 1 };
	struct drv_job *server, *training, *due;

	(void)state;
	start(&sal_policy_mix);
	server = drv_add(&d, &load);
	load.job.kind_undeclared = true;
	load.job.deadline_ns = SEC;
	load.gap_ns = 0;
	due = drv_add(&d, &load);
	load.job = (struct sal_job){ .kind = SAL_INFERENCE };
	training = drv_add(&d, &load);
	drv_run_until(&d, 30 * SEC);
	assert_int_equal(server->s->job.kind, SAL_TRAINING);
	assert_int_equal(training->s->job.kind, SAL_INFERENCE);
	assert_int_equal(due->s->job.kind, SAL_INFERENCE);
}

static void test_only_policies_that_keep_kinds_apart_find_them(void **state)
{
	struct drv_job *server;

	(void)state;
	start(&sal_policy_srtf);
	server = add(2 * MS, 20 * MS);
	drv_run_until(&d, 30 * SEC);
	assert_int_equal(server->s->job.kind, SAL_TRAINING);
	drv_set_policy(&d, &sal_policy_mix);
	drv_run_until(&d, 40 * SEC);
	assert_int_equal(server->s->job.kind, SAL_INFERENCE);
}

/* Iterations and gaps, one by one. */
static void take_turns(struct drv_job *j, uint64_t expected_ns, uint64_t gap_ns, uint64_t until_ns)
{
	while (d.now_ns < until_ns) {
		drv_submit_short(&d, j, expected_ns);
		drv_done(&d, j, expected_ns ? expected_ns : MS);
		drv_pass(&d, gap_ns);
	}
}

static struct drv_job *open_undeclared(void)
{
	return drv_open_job(&d,
			    &(struct sal_job){ .kind_undeclared = true, .declared = { 10, 10 } });
}

/* A job that starts up runs many programs for the first time, and short ones, between long gaps. */
static void test_a_start_is_no_server(void **state)
{
	struct drv_job *j;

	(void)state;
	start(&sal_policy_mix);
	j = open_undeclared();
	take_turns(j, 0, 50 * MS, 20 * SEC);
	assert_int_equal(j->s->job.kind, SAL_TRAINING);
	take_turns(j, 20 * US, 30 * MS, 40 * SEC);
	assert_int_equal(j->s->job.kind, SAL_TRAINING);
	take_turns(j, 30 * MS, 10 * MS, 60 * SEC);
	assert_int_equal(j->s->job.kind, SAL_TRAINING);
	for (int i = 0; i < 30; i++) { /* a new program every now and then */
		take_turns(j, 2 * MS, 30 * MS, d.now_ns + 700 * MS);
		take_turns(j, 0, 30 * MS, d.now_ns + MS);
	}
	assert_int_equal(j->s->job.kind, SAL_TRAINING);
}

static void test_a_job_that_grows_has_not_started_up(void **state)
{
	struct drv_job *j;

	(void)state;
	start(&sal_policy_mix);
	j = open_undeclared();
	for (uint64_t bytes = 10; bytes < 600; bytes += bytes / 4 + 1) {
		drv_need(&d, j, bytes);
		take_turns(j, 2 * MS, 30 * MS, d.now_ns + 500 * MS);
	}
	assert_int_equal(j->s->job.kind, SAL_TRAINING);
	take_turns(j, 2 * MS, 30 * MS, d.now_ns + 5 * SEC);
	assert_int_equal(j->s->job.kind, SAL_INFERENCE);
}

/* One long wait, for a person or for data, is no rhythm. */
static void test_bursts_are_training(void **state)
{
	struct drv_job *j;

	(void)state;
	start(&sal_policy_mix);
	j = open_undeclared();
	for (int i = 0; i < 30; i++) {
		take_turns(j, 10 * MS, 6 * MS, d.now_ns + 320 * MS);
		drv_pass(&d, 3 * SEC);
	}
	assert_int_equal(j->s->job.kind, SAL_TRAINING);
}

static void test_a_kind_does_not_flap(void **state)
{
	struct drv_job *j;

	(void)state;
	start(&sal_policy_mix);
	j = open_undeclared();
	take_turns(j, 2 * MS, 20 * MS, 5 * SEC);
	assert_int_equal(j->s->job.kind, SAL_INFERENCE);
	for (int i = 0; i < 20; i++) { /* two busy seconds, two calm ones */
		take_turns(j, 20 * MS, 2 * MS, d.now_ns + 2 * SEC);
		assert_int_equal(j->s->job.kind, SAL_INFERENCE);
		take_turns(j, 2 * MS, 20 * MS, d.now_ns + 2 * SEC);
	}
	take_turns(j, 20 * MS, 14 * MS, d.now_ns + 20 * SEC); /* idle for 41 %, half between */
	assert_int_equal(j->s->job.kind, SAL_TRAINING);
	take_turns(j, 20 * MS, 30 * MS, d.now_ns + 60 * SEC); /* idle for 60 %: as it was */
	assert_int_equal(j->s->job.kind, SAL_TRAINING);
	take_turns(j, 2 * MS, 20 * MS, d.now_ns + 5 * SEC);
	assert_int_equal(j->s->job.kind, SAL_INFERENCE);
	take_turns(j, 20 * MS, 30 * MS, d.now_ns + 60 * SEC);
	assert_int_equal(j->s->job.kind, SAL_INFERENCE);
	drv_pass(&d, 3600 * SEC); /* nobody asks */
	take_turns(j, 2 * MS, 20 * MS, d.now_ns + SEC);
	assert_int_equal(j->s->job.kind, SAL_INFERENCE);
}

#define T(test) cmocka_unit_test_teardown(test, stop)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_a_server_is_found_and_gets_its_lane),
		T(test_training_of_unknown_length_takes_turns),
		T(test_training_with_gaps_is_training),
		T(test_a_declared_kind_stays),
		T(test_only_policies_that_keep_kinds_apart_find_them),
		T(test_a_start_is_no_server),
		T(test_a_job_that_grows_has_not_started_up),
		T(test_bursts_are_training),
		T(test_a_kind_does_not_flap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
