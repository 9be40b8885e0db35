/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: a grant runs in the stream of its lane and tier, and buffers and programs follow. The
 * test chooses the tier of each grant, in place of the engine.
 */
#include "unit/service/run_bed.h"

#include <sys/resource.h>

#include "service/idmap.h"
#include "service/memory/program.h"
#include "service/memory/stream.h"
#include "service/run/dispatch.h"
#include "service/run/worker.h"
#include "service/server.h"

#define ADD "fake 1\noutput u8 64 = add 0 0\n"
#define LONG_ADD "fake 1\noutput u8 64 = add 0 0\ntime 2000000\n"
#define BYTES 64
#define LOW SVC_ROWS_MAX /* the stream of lane 0 in tier 1 */

static struct run_bed bed;
static struct run_client a, b;
static _Atomic uint32_t tier; /* of the next grants */
static uint64_t busy_ns, ends; /* under the lock: of the last iteration; how many ended */
static struct sal_iteration seen; /* under the lock: the last iteration that was submitted */

/* The linker requires these names. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
void __real_svc_on_decision(void *ctx, const struct sal_record *r, struct sal_session *core,
			    struct sal_iteration *it);
void __wrap_svc_on_decision(void *ctx, const struct sal_record *r, struct sal_session *core,
			    struct sal_iteration *it);

void __wrap_svc_on_decision(void *ctx, const struct sal_record *r, struct sal_session *core,
			    struct sal_iteration *it)
{
	struct sal_record record = *r;

	if (r->what == SAL_GRANT)
		record.value = atomic_load(&tier);
	if (r->what == SAL_SUBMIT)
		seen = *it;
	if (r->what == SAL_DONE) {
		busy_ns = it->busy_ns;
		ends++;
	}
	__real_svc_on_decision(ctx, &record, core, it);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static struct sal_stream *stream_at(uint32_t index)
{
	return atomic_load(&bed.server.streams[index].device);
}

static const struct svc_program *program_of(const struct run_client *c)
{
	return svc_idmap_find(&c->session->programs, 1);
}

static void run_once(struct run_client *c, uint64_t output)
{
	static const uint64_t args[] = { 1 };
	uint64_t before;

	svc_lock(&bed.server);
	before = ends;
	svc_unlock(&bed.server);
	assert_int_equal(client_answer(c, client_execute(c, 1, output, 1, args, 1)), 0);
	BED_WAIT(&bed, ends == before + 1);
}

static void open_one(const char *plugin, const char *program)
{
	atomic_store(&tier, 0);
	bed_open(&bed, &(struct run_config){ .plugin = plugin });
	client_open(&a, &bed, "a");
	client_program(&a, 1, program);
	client_upload(&a, 1, BYTES, 3);
}

static void close_one(void)
{
	client_close(&a);
	bed_close(&bed);
}

/* Tests */

static void a_session_moves_between_tiers(void **state)
{
	static const char *const plugins[] = { "fake", "fake:chained", "fake:inline,chained" };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(plugins) / sizeof(plugins[0]); i++) {
		open_one(plugins[i], ADD);
		run_once(&a, 10);
		assert_null(stream_at(LOW));
		BED_ASSERT(&bed, program_of(&a)->stream == 0);
		atomic_store(&tier, 1);
		run_once(&a, 11);
		assert_non_null(stream_at(LOW));
		assert_int_equal(stream_at(LOW)->tier, 1);
		BED_ASSERT(&bed, program_of(&a)->stream == LOW && a.session->tier == 1);
		client_expect(&a, 11, BYTES, 6);
		atomic_store(&tier, 0);
		run_once(&a, 12);
		BED_ASSERT(&bed, program_of(&a)->stream == 0);
		client_expect(&a, 12, BYTES, 6);
		client_expect(&a, 10, BYTES, 6); /* a buffer that stayed where it was made */
		assert_int_equal(bed_calls(&bed, FAKE_CALL_LOAD), 3); /* one copy at a time */
		assert_int_equal(bed_calls(&bed, FAKE_CALL_UNLOAD), 2);
		assert_int_equal(bed_calls(&bed, FAKE_CALL_ADOPT), 2); /* and nothing is copied */
		assert_int_equal(bed_calls(&bed, FAKE_CALL_SAVE), 0);
		BED_ASSERT(&bed, bed.server.lanes[0].iterations == 3);
		close_one();
	}
}

/* A device that cannot adopt: the buffer is saved and restored. */
static void a_buffer_that_needs_a_copy_moves_too(void **state)
{
	(void)state;
	open_one("fake:adopt@1=12", ADD);
	run_once(&a, 10);
	atomic_store(&tier, 1);
	run_once(&a, 11);
	client_expect(&a, 11, BYTES, 6);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_SAVE), 1);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_RESTORE), 1);
	close_one();
}

/* Chains of iterations in tier 1: a thread of low priority never does the daemon's work. */
static void tier_1_runs_many(void **state)
{
	uint64_t i;

	(void)state;
	open_one("fake:chained", ADD);
	atomic_store(&tier, 1);
	for (i = 0; i < 100; i++)
		run_once(&a, 10 + i);
	client_expect(&a, 109, BYTES, 6);
	close_one();
}

/* Sessions with the same program share its number and its pace; other programs have others. */
static void iterations_name_their_program(void **state)
{
	struct sal_iteration first;

	(void)state;
	open_one(NULL, ADD);
	run_once(&a, 10);
	svc_lock(&bed.server);
	first = seen;
	svc_unlock(&bed.server);
	assert_int_equal(first.program, 1);
	assert_ptr_equal(first.pace, &program_of(&a)->shared->pace);
	client_open(&b, &bed, "b");
	client_program(&b, 1, ADD);
	client_upload(&b, 1, BYTES, 3);
	run_once(&b, 10);
	BED_ASSERT(&bed, seen.program == 1 && seen.pace == first.pace);
	client_close(&b);
	client_open(&b, &bed, "b");
	client_program(&b, 1, LONG_ADD);
	client_upload(&b, 1, BYTES, 3);
	run_once(&b, 10);
	BED_ASSERT(&bed, seen.program == 2 && seen.pace != first.pace);
	client_close(&b);
	close_one();
}

/* The fake device is busy for as long as an iteration lasts. A short iteration is not measured. */
static void long_iterations_tell_their_busy_time(void **state)
{
	(void)state;
	open_one(NULL, LONG_ADD);
	run_once(&a, 10);
	BED_ASSERT(&bed, busy_ns == 0); /* how long the program takes was not known */
	run_once(&a, 11);
	BED_ASSERT(&bed, busy_ns >= 2000000 / bed.server.cpus - 1 &&
				 busy_ns <= 2000000 / bed.server.cpus + 1);
	svc_lock(&bed.server); /* as if the program were short */
	((struct svc_program *)program_of(&a))->mean_ns = 1000;
	svc_unlock(&bed.server);
	run_once(&a, 12);
	BED_ASSERT(&bed, busy_ns == 0);
	close_one();
}

/* Once the program is known, only every 16th run is measured. */
static void known_programs_are_measured_rarely(void **state)
{
	struct sal_pace *pace;

	(void)state;
	open_one(NULL, LONG_ADD);
	run_once(&a, 10);
	pace = &program_of(&a)->shared->pace;
	svc_lock(&bed.server);
	pace->alone_runs = 8;
	pace->runs = 17;
	svc_unlock(&bed.server);
	run_once(&a, 11);
	BED_ASSERT(&bed, busy_ns == 0);
	svc_lock(&bed.server);
	pace->alone_runs = 8;
	pace->runs = 32;
	svc_unlock(&bed.server);
	run_once(&a, 12);
	BED_ASSERT(&bed, busy_ns > 0);
	close_one();
}

/* Opens b in a lane beside a. b loads its program before it runs anything. */
static void open_beside(const char *plugin, const struct sal_policy *policy, uint32_t kind)
{
	atomic_store(&tier, 0);
	bed_open(&bed, &(struct run_config){ .plugin = plugin, .policy = policy, .lanes = 4 });
	client_open(&a, &bed, "a");
	client_open_kind(&b, &bed, "b", kind);
	client_program(&b, 1, ADD);
	svc_lock(&bed.server);
	svc_program_load_ahead(svc_idmap_find(&b.session->programs, 1));
	svc_unlock(&bed.server);
	svc_worker_wake(&bed.server);
	BED_WAIT(&bed, program_of(&b)->refs == 1); /* the errand has ended */
}

static void run_beside(void)
{
	client_upload(&b, 1, BYTES, 3);
	run_once(&b, 10);
	client_expect(&b, 10, BYTES, 6);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_LOAD), 1); /* never twice */
}

static void close_beside(void)
{
	client_close(&b);
	close_one();
}

/* The stream of an inference lane is open, and the program is loaded, before the first request. */
static void inference_is_ready_before_its_first_request(void **state)
{
	uint32_t home;

	(void)state;
	open_beside(NULL, &sal_policy_mix, SAL_HELLO_INFERENCE);
	svc_lock(&bed.server);
	home = svc_stream_home(b.session);
	svc_unlock(&bed.server);
	assert_int_not_equal(home, 0); /* a lane of its own */
	assert_non_null(stream_at(home));
	BED_ASSERT(&bed, program_of(&b)->loaded && program_of(&b)->stream == home);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_OPEN_STREAM), 2);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_LOAD), 1);
	run_beside();
	close_beside();
}

/* The vendor cannot open the stream at first: the first request opens it. */
static void a_stream_that_fails_ahead_is_opened_later(void **state)
{
	(void)state;
	open_beside("fake:open_stream@2=8", &sal_policy_mix, SAL_HELLO_INFERENCE);
	BED_ASSERT(&bed, !program_of(&b)->loaded);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_LOAD), 0);
	run_beside();
	close_beside();
}

/* A training session that runs nothing opens no stream. */
static void training_opens_its_stream_when_it_runs(void **state)
{
	uint32_t home;

	(void)state;
	open_beside(NULL, &sal_policy_pack, SAL_HELLO_TRAINING);
	svc_lock(&bed.server);
	home = svc_stream_home(b.session);
	svc_unlock(&bed.server);
	assert_int_not_equal(home, 0);
	assert_null(stream_at(home));
	BED_ASSERT(&bed, !program_of(&b)->loaded);
	run_beside();
	close_beside();
}

/* Rows of sessions */

#define MANY 20 /* more sessions than rows for sessions that do not run */

static struct run_client many[MANY];

static void open_many(void)
{
	int i;

	atomic_store(&tier, 0);
	bed_open(&bed, &(struct run_config){ .plugin = "fake" });
	bed.server.rows_are_cheap = true; /* as on a host device */
	for (i = 0; i < MANY; i++) {
		client_open(&many[i], &bed, "many");
		client_program(&many[i], 1, ADD);
		client_upload(&many[i], 1, BYTES, 3);
	}
}

static void close_many(void)
{
	int i;

	for (i = 0; i < MANY; i++)
		client_close(&many[i]);
	bed_close(&bed);
}

static uint32_t stream_of(struct run_client *c)
{
	uint32_t stream;

	svc_lock(&bed.server);
	stream = program_of(c)->stream;
	svc_unlock(&bed.server);
	return stream;
}

/* Sessions of one lane have streams of their own, so a change of lanes loads nothing. */
static void a_session_keeps_its_row(void **state)
{
	uint32_t stream_a, stream_b, lane;

	(void)state;
	open_many();
	run_once(&many[0], 10);
	run_once(&many[1], 10);
	stream_a = stream_of(&many[0]);
	stream_b = stream_of(&many[1]);
	assert_int_not_equal(stream_a, stream_b);
	svc_lock(&bed.server);
	for (lane = 0; lane < SAL_LANES_MAX; lane++)
		assert_int_equal(svc_stream_index(many[0].session, lane, 0), stream_a);
	assert_int_equal(svc_stream_index(many[0].session, 5, 1), stream_a + SVC_ROWS_MAX);
	svc_unlock(&bed.server);
	run_once(&many[0], 11);
	assert_int_equal(stream_of(&many[0]), stream_a);
	client_expect(&many[0], 11, BYTES, 6);
	close_many();
}

/* One of many sessions that is idle for long gives its row away, and gets another one when it runs. */
static void rows_are_few(void **state)
{
	struct run_client one_more;
	uint32_t i;

	(void)state;
	open_many();
	for (i = 0; i < MANY; i++)
		run_once(&many[i], 10);
	for (i = 0; i < MANY; i++) /* idle for a moment only */
		BED_ASSERT(&bed, many[i].session->row);
	svc_lock(&bed.server);
	many[3].session->row->used_ns = 0;
	svc_unlock(&bed.server);
	client_open(&one_more, &bed, "one more");
	client_program(&one_more, 1, ADD);
	client_upload(&one_more, 1, BYTES, 3);
	run_once(&one_more, 10);
	BED_ASSERT(&bed, !many[3].session->row && one_more.session->row);
	run_once(&many[3], 11);
	client_expect(&many[3], 11, BYTES, 6);
	client_expect(&many[3], 10, BYTES, 6);
	BED_ASSERT(&bed, many[3].session->row && many[3].session->row->owner == many[3].session);
	client_close(&one_more);
	close_many();
}

/* A session that ends leaves its row to the next. */
static void a_row_is_used_again(void **state)
{
	const struct svc_row *row;

	(void)state;
	open_one(NULL, ADD);
	bed.server.rows_are_cheap = true;
	run_once(&a, 10);
	row = a.session->row;
	assert_non_null(row);
	client_open(&b, &bed, "b");
	client_close(&a);
	BED_ASSERT(&bed, !row->owner);
	client_program(&b, 1, ADD);
	client_upload(&b, 1, BYTES, 3);
	run_once(&b, 10);
	BED_ASSERT(&bed, b.session->row == row && row->owner == b.session);
	client_close(&b);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_moves_between_tiers),
		cmocka_unit_test(a_buffer_that_needs_a_copy_moves_too),
		cmocka_unit_test(tier_1_runs_many),
		cmocka_unit_test(iterations_name_their_program),
		cmocka_unit_test(long_iterations_tell_their_busy_time),
		cmocka_unit_test(known_programs_are_measured_rarely),
		cmocka_unit_test(inference_is_ready_before_its_first_request),
		cmocka_unit_test(a_stream_that_fails_ahead_is_opened_later),
		cmocka_unit_test(training_opens_its_stream_when_it_runs),
		cmocka_unit_test(a_session_keeps_its_row),
		cmocka_unit_test(rows_are_few),
		cmocka_unit_test(a_row_is_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
