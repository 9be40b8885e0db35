/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records: which ones break the rules, which ones are refused, what a refusal leaves behind, and
 * which ones wait for memory.
 */
#include "unit/service/run_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/client/intake.h"
#include "service/client/session.h"
#include "service/ledger.h"
#include "service/memory/buffer.h"
#include "service/memory/memory.h"
#include "service/run/dispatch.h"
#include "service/run/tasks.h"
#include "service/run/worker.h"
#include "service/server.h"

#define FILL "fake 1\noutput u8 64 = fill 7\n"
#define ADD "fake 1\noutput u8 64 = add 0 1\n"

static struct run_bed bed;
static struct run_client a, b;

static void open_one(const struct run_config *cfg)
{
	bed_open(&bed, cfg);
	client_open(&a, &bed, "a");
}

static void close_one(void)
{
	client_close(&a);
	bed_close(&bed);
}

static enum svc_taken take(const void *record)
{
	enum svc_taken taken;

	svc_lock(&bed.server);
	taken = svc_intake(a.session, record);
	svc_unlock(&bed.server);
	svc_worker_wake(&bed.server);
	return taken;
}

struct upload {
	struct sal_msg_upload m;
	int64_t dims[2];
	unsigned char bytes[64];
};

static struct upload upload_of(uint64_t id, int64_t rows, int64_t columns, uint64_t bytes)
{
	struct upload u = { .m = { .header = { .type = SAL_MSG_UPLOAD },
				   .id = id,
				   .type = 6,
				   .rank = 2,
				   .size = bytes },
			    .dims = { rows, columns } };

	u.m.header.size = sal_record_size(sizeof(u.m), sizeof(u.dims) + (bytes <= 64 ? bytes : 0));
	return u;
}

static uint64_t used(enum svc_resource what)
{
	uint64_t all[SVC_RESOURCES];

	svc_account_usage(&a.session->account, svc_now_ns(), all);
	return all[what];
}

/* The rules */

static void expect_upload(int64_t rows, int64_t columns, uint64_t bytes, enum svc_taken taken)
{
	struct upload u = upload_of(500, rows, columns, bytes);

	assert_int_equal(take(&u), taken);
}

static void sizes_must_add_up(void **state)
{
	(void)state;
	open_one(&(struct run_config){ 0 });
	expect_upload(2, 4, 7, SVC_BROKEN);
	expect_upload(-1, 4, 4, SVC_BROKEN);
	expect_upload(0, -1, 0, SVC_BROKEN);
	expect_upload(-1, 0, 0, SVC_BROKEN);
	expect_upload(INT64_MAX, INT64_MAX, 1, SVC_BROKEN);
	expect_upload(1LL << 62, 4, 0, SVC_BROKEN);
	expect_upload(2, 4, 8, SVC_TAKEN);
	expect_upload(2, 4, 8, SVC_BROKEN); /* the id is in use */
	client_delete(&a, 500);
	BED_WAIT(&bed, a.session->buffers.count == 0);
	expect_upload(0, 5, 0, SVC_TAKEN); /* an empty array is valid */
	BED_WAIT(&bed, a.session->charged_bytes == SVC_BUFFER_BYTES_MIN);
	close_one();
}

static void places_must_be_in_the_arena(void **state)
{
	struct upload u = upload_of(1, 1, 64, 64);
	struct sal_msg_download d = { .header = { .size = sizeof(d), .type = SAL_MSG_DOWNLOAD },
				      .id = 1,
				      .size = 8000,
				      .into = { .offset = SVC_SEGMENT_BYTES - 7999,
						.size = 8000 } };

	(void)state;
	open_one(&(struct run_config){ 0 });
	u.m.header.size = sal_record_size(sizeof(u.m), sizeof(u.dims));
	u.m.from = (struct sal_place_in_arena){ .offset = SVC_SEGMENT_BYTES - 63, .size = 64 };
	assert_int_equal(take(&u), SVC_BROKEN);
	u.m.from = (struct sal_place_in_arena){ .segment = 1, .size = 64 };
	assert_int_equal(take(&u), SVC_BROKEN);
	u.m.from = (struct sal_place_in_arena){ .offset = UINT64_MAX - 10, .size = 64 };
	assert_int_equal(take(&u), SVC_BROKEN);
	u.m.from = (struct sal_place_in_arena){ .offset = SVC_SEGMENT_BYTES - 64, .size = 64 };
	assert_int_equal(take(&u), SVC_TAKEN);
	assert_int_equal(take(&d), SVC_BROKEN);
	d.into.offset--;
	assert_int_equal(take(&d), SVC_TAKEN);
	close_one();
}

static struct sal_msg_execute execute_of(uint64_t program, uint64_t first, uint32_t outputs)
{
	return (struct sal_msg_execute){ .header = { .size = sizeof(struct sal_msg_execute),
						     .type = SAL_MSG_EXECUTE },
					 .request = ++a.requests,
					 .program = program,
					 .first_output = first,
					 .output_count = outputs };
}

static void outputs_must_be_new_and_as_many_as_there_are(void **state)
{
	struct sal_msg_execute m;
	struct sal_msg_copy c = { .header = { .size = sizeof(c), .type = SAL_MSG_COPY },
				  .from = 1,
				  .to = 1 };

	(void)state;
	open_one(&(struct run_config){ 0 });
	client_program(&a, 1, FILL);
	client_upload(&a, 1, 64, 1);
	BED_WAIT(&bed, a.session->live_bytes == 64);
	m = execute_of(1, 10, 2);
	assert_int_equal(take(&m), SVC_BROKEN);
	m = execute_of(1, 1, 1);
	assert_int_equal(take(&m), SVC_BROKEN); /* the id is in use */
	m = execute_of(1, 0, 1);
	assert_int_equal(take(&m), SVC_BROKEN);
	assert_int_equal(take(&c), SVC_BROKEN);
	assert_int_equal(used(SVC_QUEUED_ITERATIONS), 0);
	assert_int_equal(used(SVC_QUEUED_BYTES), 0);
	assert_int_equal(used(SVC_BUFFERS), 1);
	close_one();
}

/* Through the ring: a session that breaks the rules is ended. */
static void who_breaks_the_rules_is_ended(void **state)
{
	struct sal_header nonsense = { .size = sizeof(nonsense), .type = 40 };

	(void)state;
	open_one(&(struct run_config){ 0 });
	client_send(&a, &nonsense, sizeof(nonsense));
	BED_WAIT(&bed, client_has_ended(&a));
	close_one();
}

static void what_is_not_there_is_said_so(void **state)
{
	static const uint64_t args[] = { 1, 77 };

	(void)state;
	open_one(&(struct run_config){ 0 });
	client_program(&a, 1, ADD);
	client_upload(&a, 1, 64, 1);
	assert_int_equal(client_answer(&a, client_execute(&a, 9, 10, 1, NULL, 0)),
			 SAL_INVALID_ARGUMENT);
	assert_non_null(memmem(a.answer.tail, a.answer.size, "program 9", 9));
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 10, 1, args, 2)),
			 SAL_INVALID_ARGUMENT);
	assert_non_null(memmem(a.answer.tail, a.answer.size, "buffer 77", 9));
	assert_int_equal(client_answer(&a, client_await(&a, 10)), SAL_INVALID_ARGUMENT);
	assert_int_equal(client_answer(&a, client_await(&a, 78)), SAL_INVALID_ARGUMENT);
	assert_int_equal(client_answer(&a, client_download(&a, 78, 64)), SAL_INVALID_ARGUMENT);
	client_copy(&a, 78, 20);
	assert_int_equal(client_answer(&a, client_await(&a, 20)), SAL_INVALID_ARGUMENT);
	client_delete(&a, 78);
	client_expect(&a, 1, 64, 1);
	BED_WAIT(&bed, a.session->promised_bytes == 0 && a.session->queued_bytes == 0 &&
			       a.session->charged_bytes == SVC_BUFFER_BYTES_MIN);
	assert_int_equal(used(SVC_QUEUED_ITERATIONS), 0);
	close_one();
}

/* Limits */

static void buffers_beyond_the_limit_fail(void **state)
{
	static const uint64_t args[] = { 1, 1 };
	struct run_config cfg = { 0 };

	(void)state;
	cfg.limits.max[SVC_JOB][SVC_BUFFERS] = 2;
	open_one(&cfg);
	client_program(&a, 1, ADD);
	client_upload(&a, 1, 64, 1);
	client_upload(&a, 2, 64, 1);
	client_upload(&a, 3, 8000, 1);
	assert_int_equal(client_answer(&a, client_await(&a, 3)), SAL_RESOURCE_EXHAUSTED);
	assert_non_null(memmem(a.answer.tail, a.answer.size, "job-buffers", 11));
	assert_int_equal(a.released_bytes, 8000);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 10, 1, args, 2)),
			 SAL_RESOURCE_EXHAUSTED);
	client_copy(&a, 1, 20);
	assert_int_equal(client_answer(&a, client_await(&a, 20)), SAL_RESOURCE_EXHAUSTED);
	BED_ASSERT(&bed, a.session->beyond_count == 3);
	assert_int_equal(used(SVC_BUFFERS), 2);
	client_delete(&a, 3);
	client_delete(&a, 10);
	client_delete(&a, 20);
	client_delete(&a, 2);
	BED_WAIT(&bed, a.session->beyond_count == 0 && used(SVC_BUFFERS) == 1);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 11, 1, args, 2)), 0);
	BED_WAIT(&bed, a.session->promised_bytes == 0);
	assert_int_equal(used(SVC_QUEUED_BYTES), 0);
	close_one();
}

/* A client that goes on making buffers beyond the limit is ended. */
static void who_goes_on_beyond_the_limit_is_ended(void **state)
{
	struct run_config cfg = { 0 };
	uint64_t i;

	(void)state;
	cfg.limits.max[SVC_JOB][SVC_BUFFERS] = 1;
	open_one(&cfg);
	for (i = 1; i <= 5000; i++)
		client_upload(&a, i, 8, 1);
	BED_WAIT(&bed, client_has_ended(&a));
	close_one();
}

/* A user's queue is full: the record is refused, and both counts stay the same. */
static void a_full_queue_is_refused(enum svc_resource what, uint64_t most)
{
	struct run_config cfg = { .plugin = "fake:slow:execute@1:100" };
	uint64_t first, second;

	cfg.limits.max[SVC_USER][what] = most;
	open_one(&cfg);
	client_program(&a, 1, FILL);
	first = client_execute(&a, 1, 10, 1, NULL, 0);
	(void)client_execute(&a, 1, 20, 1, NULL, 0);
	(void)client_execute(&a, 1, 21, 1, NULL, 0);
	second = client_execute(&a, 1, 22, 1, NULL, 0);
	assert_int_equal(client_answer(&a, second), SAL_RESOURCE_EXHAUSTED);
	assert_int_equal(client_answer(&a, client_await(&a, 22)), SAL_RESOURCE_EXHAUSTED);
	assert_int_equal(client_answer(&a, first), 0);
	BED_WAIT(&bed, TAILQ_EMPTY(&a.session->executions) && a.session->queued_bytes == 0);
	BED_WAIT(&bed, used(SVC_QUEUED_ITERATIONS) == 0 && used(SVC_QUEUED_BYTES) == 0);
	close_one();
}

static void queues_have_limits(void **state)
{
	(void)state;
	a_full_queue_is_refused(SVC_QUEUED_ITERATIONS, 2);
	a_full_queue_is_refused(SVC_QUEUED_BYTES, 2 * sizeof(struct svc_execution));
}

static void texts_to_compile_have_limits(void **state)
{
	struct sal_msg_compile m = { .header = { .size = sizeof(m), .type = SAL_MSG_COMPILE },
				     .id = 1,
				     .program = { .size = 100 },
				     .format = "mlir" };
	struct run_config cfg = { 0 };

	(void)state;
	cfg.limits.max[SVC_JOB][SVC_COMPILES] = 1;
	cfg.limits.max[SVC_JOB][SVC_COMPILE_BYTES] = 150;
	open_one(&cfg);
	m.program.size = 200;
	m.request = ++a.requests;
	assert_int_equal(take(&m), SVC_TAKEN);
	assert_int_equal(client_answer(&a, m.request), SAL_RESOURCE_EXHAUSTED);
	assert_int_equal(used(SVC_COMPILES), 0);
	m.program.size = 100;
	m.request = ++a.requests;
	assert_int_equal(take(&m), SVC_TAKEN); /* waits for the main loop, which does not run */
	assert_int_equal(used(SVC_COMPILES), 1);
	assert_int_equal(used(SVC_COMPILE_BYTES), 100);
	m.request = ++a.requests;
	assert_int_equal(take(&m), SVC_TAKEN);
	assert_int_equal(client_answer(&a, m.request), SAL_RESOURCE_EXHAUSTED);
	assert_int_equal(used(SVC_COMPILES), 1);
	m.program.offset = SVC_SEGMENT_BYTES - 50;
	assert_int_equal(take(&m), SVC_BROKEN);
	client_kill(&a);
	svc_on_tasks(&bed.server.task_bell);
	close_one();
}

/* Memory */

/*
 * An array larger than the device is refused, with the numbers, and its arena range is given back.
 */
static void what_can_never_fit_is_refused(void **state)
{
	(void)state;
	open_one(&(struct run_config){ .memory_bytes = 1 << 20 });
	client_upload(&a, 1, 2 << 20, 1);
	assert_int_equal(client_answer(&a, client_await(&a, 1)), SAL_RESOURCE_EXHAUSTED);
	assert_non_null(memmem(a.answer.tail, a.answer.size, "out of memory", 13));
	assert_int_equal(a.released_bytes, 2 << 20);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_UPLOAD), 0);
	BED_ASSERT(&bed, a.session->charged_bytes == 0 && a.session->promised_bytes == 0);
	client_upload(&a, 2, 700000, 1);
	client_expect(&a, 2, 700000, 1);
	client_copy(&a, 2, 3);
	assert_int_equal(client_answer(&a, client_await(&a, 3)), SAL_RESOURCE_EXHAUSTED);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_COPY), 0);
	BED_WAIT(&bed, a.session->charged_bytes == 700000 && a.session->promised_bytes == 0);
	bed_check(&bed);
	close_one();
}

/* The record waits until the session's own buffers are freed. */
static void a_record_waits_for_own_buffers_to_go(void **state)
{
	uint64_t wait;

	(void)state;
	open_one(&(struct run_config){ .plugin = "fake:endless:free_buffer@1",
				       .memory_bytes = 112 << 20 });
	client_upload(&a, 1, 12 << 20, 1);
	BED_WAIT(&bed, a.session->live_bytes == 12 << 20);
	client_delete(&a, 1);
	client_upload(&a, 2, 12 << 20, 2);
	wait = client_await(&a, 2);
	BED_WAIT(&bed, a.session->parked && a.session->freeing_bytes == 12 << 20);
	BED_ASSERT(&bed, !svc_memory_is_settling(a.session, 0) ||
				 svc_memory_is_settling(a.session, 12 << 20));
	bed_let_go(&bed);
	assert_int_equal(client_answer(&a, wait), 0);
	client_expect(&a, 2, 12 << 20, 2);
	BED_ASSERT(&bed, !a.session->parked && a.session->freeing_bytes == 0);
	close_one();
}

/* The same for an iteration whose outputs need the memory. */
static void an_iteration_waits_for_own_buffers_to_go(void **state)
{
	uint64_t run;

	(void)state;
	open_one(&(struct run_config){ .plugin = "fake:endless:free_buffer@1",
				       .memory_bytes = 8 << 20 });
	client_program(&a, 1, "fake 1\noutput u8 6000000 = fill 7\n");
	client_upload(&a, 1, 6 << 20, 1);
	BED_WAIT(&bed, a.session->live_bytes == 6 << 20);
	client_delete(&a, 1);
	run = client_execute(&a, 1, 10, 1, NULL, 0);
	BED_WAIT(&bed, a.session->parked);
	/* Nothing has changed for the record, so the worker does not try it over and over. */
	BED_WAIT(&bed, atomic_load(&bed.server.worker.sleeps));
	bed_let_go(&bed);
	assert_int_equal(client_answer(&a, run), 0);
	client_expect(&a, 10, 6000000, 7);
	bed_check(&bed);
	close_one();
}

/*
 * The engine admits the record after the other session's iteration ends and that session can be
 * paged out.
 */
static void a_record_waits_until_the_engine_admits(void **state)
{
	uint64_t wait;

	(void)state;
	open_one(&(struct run_config){ .memory_bytes = 8 << 20 });
	client_open(&b, &bed, "b");
	client_program(&a, 1, FILL "time 100000000\n");
	client_upload(&a, 1, 6 << 20, 1);
	BED_WAIT(&bed, a.session->live_bytes == 6 << 20);
	(void)client_execute(&a, 1, 10, 1, NULL, 0);
	BED_WAIT(&bed, bed.server.running == 1);
	client_upload(&b, 1, 6 << 20, 2);
	wait = client_await(&b, 1);
	BED_WAIT(&bed, b.session->parked != NULL);
	client_delete(&b, 999); /* no record after the parked one is read */
	assert_int_equal(client_answer(&b, wait), 0);
	client_expect(&b, 1, 6 << 20, 2);
	client_expect(&a, 1, 6 << 20, 1); /* paged out, with its contents */
	bed_check(&bed);
	client_close(&b);
	close_one();
}

/*
 * The iteration is parked until the last output is freed. That happens at any time in the worker's
 * round, while the worker starts iterations of another session: the records behind the parked one
 * must wait all the same.
 */
#define OTHERS 16
static void no_record_overtakes_a_parked_one(void **state)
{
	uint64_t id, k;

	(void)state;
	open_one(&(struct run_config){ .memory_bytes = 16 << 20, .lanes = 2 });
	client_open(&b, &bed, "b");
	client_program(&a, 1, "fake 1\noutput u8 9000000 = fill 7\n");
	client_program(&b, 1, FILL "time 1000\n");
	for (id = 1; id <= 400; id++) {
		uint64_t others[OTHERS], run, wait;

		for (k = 0; k < OTHERS; k++)
			others[k] = client_execute(&b, 1, OTHERS * id + k, 1, NULL, 0);
		client_delete(&a, id - 1);
		run = client_execute(&a, 1, id, 1, NULL, 0);
		wait = client_await(&a, id);
		assert_int_equal(client_answer(&a, run), 0);
		assert_int_equal(client_answer(&a, wait), 0);
		for (k = 0; k < OTHERS; k++) {
			assert_int_equal(client_answer(&b, others[k]), 0);
			client_delete(&b, OTHERS * id + k);
		}
	}
	bed_check(&bed);
	client_close(&b);
	close_one();
}

static bool all_decisions_are_of_a(void)
{
	const struct svc_decision *d;

	STAILQ_FOREACH(d, &bed.server.decisions, link)
		if (d != &a.session->decision)
			return false;
	return true;
}

/* A session that declares more than the device has is not created, and leaves nothing. */
static void a_session_that_can_never_fit_is_refused(void **state)
{
	struct sal_hello hello = { .magic = SAL_WIRE_MAGIC,
				   .major = SAL_WIRE_MAJOR,
				   .size = sizeof(hello),
				   .persist_bytes = UINT64_MAX,
				   .name = "greedy" };
	struct ucred me = { .pid = 1 };
	struct svc_session *none;
	struct sal_err err = { 0 };
	int fds[4];

	(void)state;
	open_one(&(struct run_config){ 0 });
	assert_int_equal(svc_session_create(&bed.server, &hello, &me, &none, fds, &err),
			 -SAL_RESOURCE_EXHAUSTED);
	assert_null(none);
	assert_int_equal(fds[0], -1);
	BED_ASSERT(&bed, all_decisions_are_of_a()); /* no decision is about the refused session */
	client_upload(&a, 1, 64, 3);
	client_expect(&a, 1, 64, 3);
	close_one();
}

/* The engine gets back the memory that a session frees. */
static void freed_memory_goes_back_to_the_engine(void **state)
{
	(void)state;
	open_one(&(struct run_config){ .memory_bytes = 8 << 20 });
	client_upload(&a, 1, 3 << 20, 1);
	client_upload(&a, 2, 3 << 20, 1);
	BED_WAIT(&bed, a.session->core->tracked_bytes >= 6 << 20);
	client_delete(&a, 1);
	BED_WAIT(&bed,
		 a.session->core->tracked_bytes < 4 << 20 && a.session->live_bytes == 3 << 20);
	client_delete(&a, 2);
	BED_WAIT(&bed, a.session->core->tracked_bytes <= 2 * bed.server.grain_bytes);
	assert_int_equal(bed_device_bytes(&bed), 0);
	close_one();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_must_add_up),
		cmocka_unit_test(places_must_be_in_the_arena),
		cmocka_unit_test(outputs_must_be_new_and_as_many_as_there_are),
		cmocka_unit_test(who_breaks_the_rules_is_ended),
		cmocka_unit_test(what_is_not_there_is_said_so),
		cmocka_unit_test(buffers_beyond_the_limit_fail),
		cmocka_unit_test(who_goes_on_beyond_the_limit_is_ended),
		cmocka_unit_test(queues_have_limits),
		cmocka_unit_test(texts_to_compile_have_limits),
		cmocka_unit_test(what_can_never_fit_is_refused),
		cmocka_unit_test(a_record_waits_for_own_buffers_to_go),
		cmocka_unit_test(an_iteration_waits_for_own_buffers_to_go),
		cmocka_unit_test(a_record_waits_until_the_engine_admits),
		cmocka_unit_test(no_record_overtakes_a_parked_one),
		cmocka_unit_test(a_session_that_can_never_fit_is_refused),
		cmocka_unit_test(freed_memory_goes_back_to_the_engine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
