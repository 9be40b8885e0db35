/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recall, with a real engine and a store in memory. Sessions have only the fields that recall
 * reads.
 */
#include "service/profile/recall.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/engine.h"
#include "core/policy.h"
#include "service/client/session.h"
#include "service/profile/profile.h"
#include "service/server.h"

#define SECOND UINT64_C(1000000000)
#define CAPACITY 1000

static struct svc_server server;

static uint64_t now_ns;

uint64_t svc_now_ns(void)
{
	return now_ns;
}

static int declarations;

/* Counts the declarations of a job after its session was opened. */
static void on_event(void *ctx, const struct sal_record *r, struct sal_session *s,
		     struct sal_iteration *it)
{
	(void)ctx;
	(void)s;
	(void)it;
	declarations += r->what == SAL_DECLARE;
}

static int start(void **state)
{
	struct sal_engine_config cfg = { .capacity_bytes = CAPACITY,
					 .emit = on_event,
					 .emit_events = true };

	(void)state;
	memset(&server, 0, sizeof(server));
	declarations = 0;
	now_ns = 0;
	sal_tuning_default(&cfg.tuning);
	svc_lock_init(&server.lock);
	(void)uv_loop_init(&server.loop);
	(void)uv_async_init(&server.loop, &server.recall.bell, NULL);
	if (svc_profiles_open(NULL, 10, &server.recall.profiles, NULL) < 0)
		return -1;
	return sal_engine_create(&cfg, &server.engine, NULL);
}

static int stop(void **state)
{
	(void)state;
	sal_engine_destroy(server.engine);
	svc_recall_close(&server);
	uv_close((uv_handle_t *)&server.recall.bell, NULL);
	(void)uv_run(&server.loop, UV_RUN_DEFAULT);
	return uv_loop_close(&server.loop);
}

static void open_session(struct svc_session *s, const struct sal_hello *hello)
{
	struct sal_job job = {
		.kind_undeclared = hello->kind == SAL_HELLO_UNDECLARED,
		.total_ns = hello->total_ns,
		.declared = { hello->persist_bytes, hello->ephem_bytes },
	};

	memset(s, 0, sizeof(*s));
	s->server = &server;
	(void)snprintf(s->name, sizeof(s->name), "mlp");
	svc_recall_begin(s, hello, &job);
	assert_int_equal(sal_engine_open(server.engine, 0, &job, s, &s->core, NULL), SAL_OK);
}

static void give(struct svc_session *s, char letter)
{
	uint8_t key[SAL_PROGRAM_KEY_BYTES];

	memset(key, letter, sizeof(key));
	svc_recall_program(s, key);
}

static void close_session(struct svc_session *s)
{
	svc_recall_end(s);
	sal_engine_close(server.engine, 0, s->core);
}

/* Runs a job with these programs once. */
static void run_once(const char *letters, uint64_t persist_bytes, uint64_t ephem_bytes,
		     uint64_t iterations, uint64_t total_ns)
{
	struct svc_session s;

	open_session(&s, &(struct sal_hello){ 0 });
	while (*letters)
		give(&s, *letters++);
	s.peak_bytes = persist_bytes;
	s.temp_bytes = ephem_bytes;
	s.core->done_iterations = iterations;
	s.core->used_ns = total_ns;
	close_session(&s);
}

static void assert_job(const struct svc_session *s, uint64_t persist_bytes, uint64_t ephem_bytes,
		       uint64_t total_ns)
{
	assert_int_equal(s->core->job.declared.persist_bytes, persist_bytes);
	assert_int_equal(s->core->job.declared.ephem_bytes, ephem_bytes);
	assert_int_equal(s->core->job.total_ns, total_ns);
	assert_false(s->core->refused);
	assert_true(sal_engine_check(server.engine, NULL));
}

static void test_the_second_run_is_known(void **state)
{
	struct svc_session s;

	(void)state;
	run_once("ab", 300, 50, 20, SECOND);
	assert_true(server.recall.changed);
	open_session(&s, &(struct sal_hello){ 0 });
	assert_true(s.remembered);
	assert_job(&s, 300, 50, SECOND);
	give(&s, 'b');
	give(&s, 'a');
	assert_true(s.remembered);
	assert_job(&s, 300, 50, SECOND);
	assert_int_equal(declarations, 0); /* the engine was told only at the opening */
	close_session(&s);
}

static void test_programs_tell_which_job_of_that_name(void **state)
{
	struct svc_session s;

	(void)state;
	run_once("ab", 300, 50, 20, SECOND);
	run_once("cd", 200, 20, 20, 3 * SECOND);
	open_session(&s, &(struct sal_hello){ 0 });
	assert_job(&s, 200, 20, 3 * SECOND); /* the latest run */
	declarations = 0;
	give(&s, 'a');
	assert_true(s.remembered);
	assert_job(&s, 300, 50, SECOND);
	assert_int_equal(declarations, 1);
	close_session(&s);
}

static void test_an_unknown_program_makes_it_unknown_again(void **state)
{
	struct svc_session s;

	(void)state;
	run_once("ab", 300, 50, 20, SECOND);
	open_session(&s, &(struct sal_hello){ .total_ns = 5 });
	give(&s, 'a');
	assert_job(&s, 300, 50, 5);
	give(&s, 'c');
	assert_false(s.remembered);
	assert_job(&s, 0, 0, 5);
	close_session(&s);
}

static void test_what_the_user_declared_wins(void **state)
{
	struct svc_session s;

	(void)state;
	run_once("ab", 300, 50, 20, SECOND);
	open_session(&s, &(struct sal_hello){ .persist_bytes = 10 });
	give(&s, 'a');
	assert_job(&s, 10, 50, SECOND);
	close_session(&s);
	open_session(&s, &(struct sal_hello){ .ephem_bytes = 10, .total_ns = 7 });
	give(&s, 'a');
	assert_job(&s, 300, 10, 7);
	close_session(&s);
}

static void test_a_kind_that_was_found_is_remembered(void **state)
{
	const struct sal_hello undeclared = { .kind = SAL_HELLO_UNDECLARED };
	struct svc_session s;

	(void)state;
	open_session(&s, &undeclared);
	give(&s, 'a');
	s.core->done_iterations = 20;
	s.core->used_ns = SECOND;
	s.core->job.kind = SAL_INFERENCE;
	close_session(&s);
	open_session(&s, &undeclared);
	assert_int_equal(s.core->job.kind, SAL_INFERENCE);
	give(&s, 'a');
	assert_int_equal(s.core->job.kind, SAL_INFERENCE);
	give(&s, 'b'); /* another job */
	assert_int_equal(s.core->job.kind, SAL_TRAINING);
	close_session(&s);
	open_session(&s, &(struct sal_hello){ .kind = SAL_HELLO_TRAINING });
	assert_int_equal(s.core->job.kind, SAL_TRAINING);
	close_session(&s);
}

/* Gives the session a program of which nothing is known. Returns what recall tells about it. */
static struct sal_pace pace_given(struct svc_session *s, char letter)
{
	uint8_t key[SAL_PROGRAM_KEY_BYTES];
	struct sal_pace pace = { 0 };

	give(s, letter);
	memset(key, letter, sizeof(key));
	svc_recall_pace(s, key, &pace);
	return pace;
}

static void note(struct svc_session *s, char letter, const struct sal_pace *pace)
{
	uint8_t key[SAL_PROGRAM_KEY_BYTES];

	memset(key, letter, sizeof(key));
	svc_recall_note(s, key, pace);
}

static void test_paces_are_remembered(void **state)
{
	const struct sal_pace measured = { .alone_ns = 7, .runs = 9, .util_milli = 300 };
	struct sal_pace newer = { .alone_ns = 8, .runs = 1 };
	uint8_t key[SAL_PROGRAM_KEY_BYTES];
	struct svc_session s;

	(void)state;
	open_session(&s, &(struct sal_hello){ 0 });
	assert_int_equal(pace_given(&s, 'a').runs, 0);
	note(&s, 'a', &measured);
	note(&s, 'a', &(struct sal_pace){ 0 }); /* loaded again, and not run */
	note(&s, 'b', &measured); /* not a program of the session */
	assert_int_equal(pace_given(&s, 'a').alone_ns, 7); /* unloaded and loaded again */
	s.core->done_iterations = 20;
	s.core->used_ns = SECOND;
	close_session(&s);
	open_session(&s, &(struct sal_hello){ 0 });
	assert_int_equal(pace_given(&s, 'a').util_milli, 300);
	now_ns = 5;
	assert_int_equal(pace_given(&s, 'a').beside_ns, 5); /* the engine's clock */
	note(&s, 'a', &(struct sal_pace){ .runs = 9, .util_milli = 300, .beside_ns = 3 });
	assert_int_equal(pace_given(&s, 'a').beside_ns, 3);
	memset(key, 'a', sizeof(key));
	svc_recall_pace(&s, key, &newer); /* what is measured now counts */
	assert_int_equal(newer.alone_ns, 8);
	assert_int_equal(pace_given(&s, 'b').runs, 0); /* another job */
	close_session(&s);
}

static void test_never_more_than_the_device_has(void **state)
{
	struct svc_session s;

	(void)state;
	run_once("ab", 5000, 200, 20, SECOND);
	open_session(&s, &(struct sal_hello){ 0 });
	give(&s, 'a');
	assert_job(&s, CAPACITY - 200, 200, SECOND);
	close_session(&s);
	open_session(&s, &(struct sal_hello){ .persist_bytes = 900 });
	give(&s, 'a');
	assert_job(&s, 900, 100, SECOND);
	close_session(&s);
	run_once("ab", 5000, 3000, 20, SECOND);
	open_session(&s, &(struct sal_hello){ 0 });
	give(&s, 'a');
	assert_job(&s, 0, CAPACITY, SECOND);
	close_session(&s);
}

static void test_a_run_too_short_is_not_remembered(void **state)
{
	struct svc_session s;

	(void)state;
	run_once("ab", 300, 50, 9, SECOND);
	run_once("ab", 300, 50, 20, SECOND / 10 - 1);
	assert_false(server.recall.changed);
	open_session(&s, &(struct sal_hello){ 0 });
	assert_false(s.remembered);
	give(&s, 'a');
	assert_false(s.remembered);
	close_session(&s);
}

static void test_nothing_is_remembered_if_not_wanted(void **state)
{
	struct svc_session s;

	(void)state;
	svc_recall_close(&server);
	run_once("ab", 300, 50, 20, SECOND);
	assert_false(server.recall.changed);
	open_session(&s, &(struct sal_hello){ 0 });
	assert_int_equal(pace_given(&s, 'a').runs, 0);
	sal_engine_close(server.engine, 0, s.core);
	svc_recall_save(&server);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_the_second_run_is_known),
		CASE(test_programs_tell_which_job_of_that_name),
		CASE(test_an_unknown_program_makes_it_unknown_again),
		CASE(test_what_the_user_declared_wins),
		CASE(test_a_kind_that_was_found_is_remembered),
		CASE(test_paces_are_remembered),
		CASE(test_never_more_than_the_device_has),
		CASE(test_a_run_too_short_is_not_remembered),
		CASE(test_nothing_is_remembered_if_not_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
