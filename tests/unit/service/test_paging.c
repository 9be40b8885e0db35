/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paging: memory moves out and in while sessions work, and moves fail. The fake device cannot empty
 * a buffer: a page-out frees the buffer, and a page-in makes a new one.
 */
#include "unit/service/run_bed.h"

#include <stdio.h>

#include "service/idmap.h"
#include "service/memory/buffer.h"
#include "service/memory/memory.h"
#include "service/memory/program.h"
#include "service/server.h"

#define BYTES 3000000u
#define ADD "fake 1\noutput u8 3000000 = add 0 0\n"
#define STEP "fake 1\noutput u8 3000000 = add 0 0\ndonate 0 0\n"
#define ROOM (5u << 20) /* room for one array, not for two */

static struct run_bed bed;
static struct run_client a, b;

static void open_two(const char *plugin)
{
	bed_open(&bed, &(struct run_config){ .plugin = plugin, .memory_bytes = ROOM });
	client_open(&a, &bed, "a");
	client_open(&b, &bed, "b");
	client_program(&a, 1, STEP);
	client_program(&b, 1, STEP);
}

static void close_two(void)
{
	client_close(&a);
	client_close(&b);
	bed_check(&bed);
	bed_close(&bed);
}

/* a has its array. Then b needs one, and a is paged out. */
static void let_b_push_a_out(void)
{
	client_upload(&a, 1, BYTES, 3);
	assert_int_equal(client_answer(&a, client_await(&a, 1)), 0);
	client_upload(&b, 1, BYTES, 5);
	assert_int_equal(client_answer(&b, client_await(&b, 1)), 0);
	BED_WAIT(&bed, a.session->core->place == SAL_OUTSIDE);
}

/* Runs one iteration, which doubles every element. */
static void step(struct run_client *c, uint64_t from, uint64_t to)
{
	uint64_t args[] = { from };

	assert_int_equal(client_answer(c, client_execute(c, 1, to, 1, args, 1)), 0);
	bed_check(&bed);
}

static void memory_moves_out_and_in(void **state)
{
	(void)state;
	open_two("fake:strict");
	let_b_push_a_out();
	BED_ASSERT(&bed, b.session->core->place == SAL_RESIDENT);
	BED_ASSERT(&bed, a.session->live_bytes == BYTES); /* the session still has its array */
	client_expect(&a, 1, BYTES, 3); /* read from host memory */
	BED_ASSERT(&bed, a.session->core->place == SAL_OUTSIDE);
	step(&a, 1, 2);
	BED_WAIT(&bed, b.session->core->place == SAL_OUTSIDE);
	client_expect(&a, 2, BYTES, 6);
	step(&b, 1, 2);
	client_expect(&b, 2, BYTES, 10);
	client_expect(&a, 2, BYTES, 6);
	close_two();
}

#define GRAIN 2560u /* the grain of a device of 40 MiB */
#define LARGE (9000u * GRAIN + 100)

/*
 * One more small array fits into the session's old size, in whole grains. The session comes back
 * for that array, too.
 */
static void one_that_is_out_comes_back_for_what_it_had(void **state)
{
	(void)state;
	bed_open(&bed, &(struct run_config){ .memory_bytes = 40u << 20 });
	assert_int_equal(bed.server.grain_bytes, GRAIN);
	client_open(&a, &bed, "a");
	client_open(&b, &bed, "b");
	client_upload(&a, 1, LARGE, 3);
	assert_int_equal(client_answer(&a, client_await(&a, 1)), 0);
	client_upload(&b, 1, LARGE, 5);
	assert_int_equal(client_answer(&b, client_await(&b, 1)), 0);
	BED_WAIT(&bed, a.session->core->place == SAL_OUTSIDE);
	BED_ASSERT(&bed, svc_memory_round(&bed.server, LARGE + SVC_BUFFER_BYTES_MIN) ==
				 a.session->core->tracked_bytes);
	client_upload(&a, 2, 8, 4);
	client_expect(&a, 2, 8, 4);
	client_expect(&a, 1, LARGE, 3);
	client_expect(&b, 1, LARGE, 5);
	close_two();
}

/* A buffer is deleted while its session is paged out. */
static void what_is_out_can_be_dropped(void **state)
{
	(void)state;
	open_two("fake");
	let_b_push_a_out();
	client_delete(&a, 1);
	BED_WAIT(&bed, a.session->live_bytes == 0 && a.session->freeing_bytes == 0);
	client_expect(&b, 1, BYTES, 5);
	close_two();
}

/* One session ends while its memory is out, the other while its memory is in. */
static void a_session_ends_while_it_is_out(void **state)
{
	(void)state;
	open_two("fake");
	let_b_push_a_out();
	client_kill(&a);
	BED_WAIT(&bed, client_has_ended(&a));
	client_expect(&b, 1, BYTES, 5);
	close_two();
}

/* A save fails: the session keeps its memory. The other session waits and is let in later. */
static void a_failed_page_out_leaves_the_session_where_it_is(void **state)
{
	uint64_t wait;

	(void)state;
	open_two("fake:save@1");
	client_upload(&a, 1, BYTES, 3);
	assert_int_equal(client_answer(&a, client_await(&a, 1)), 0);
	client_upload(&b, 1, BYTES, 5);
	wait = client_await(&b, 1);
	BED_WAIT(&bed, a.session->core->out_failures == 1);
	BED_ASSERT(&bed, a.session->core->place == SAL_RESIDENT && b.session->parked);
	bed_check(&bed);
	step(&a, 1, 2); /* the session works as before */
	client_expect(&a, 2, BYTES, 6);
	assert_int_equal(client_answer(&b, wait), 0);
	client_expect(&b, 1, BYTES, 5);
	client_expect(&a, 2, BYTES, 6);
	close_two();
}

/* The session has two arrays, and the second cannot be saved: the first is restored. */
static void a_page_out_that_fails_halfway_is_taken_back(void **state)
{
	static const uint64_t args[] = { 1 };
	uint64_t run;

	(void)state;
	open_two("fake:save@2");
	client_program(&a, 2, "fake 1\noutput u8 64 = add 0 0\n");
	client_upload(&a, 1, 64, 3);
	client_upload(&a, 2, BYTES, 4);
	assert_int_equal(client_answer(&a, client_await(&a, 2)), 0);
	client_upload(&b, 1, BYTES, 5);
	BED_WAIT(&bed, a.session->core->out_failures == 1);
	BED_WAIT(&bed, svc_buffer_is_resident(svc_idmap_find(&a.session->buffers, 1)) &&
			       svc_buffer_is_resident(svc_idmap_find(&a.session->buffers, 2)));
	run = client_execute(&a, 2, 10, 1, args, 1);
	assert_int_equal(client_answer(&a, run), 0);
	client_expect(&a, 10, 64, 6);
	client_expect(&a, 2, BYTES, 4);
	client_expect(&b, 1, BYTES, 5);
	close_two();
}

/*
 * As above, but restoring the first array fails, too. The next iteration that uses the array
 * restores it.
 */
static void what_could_not_be_taken_back_comes_when_it_is_used(void **state)
{
	static const uint64_t args[] = { 1 };

	(void)state;
	open_two("fake:save@2,restore@1");
	client_program(&a, 2, "fake 1\noutput u8 64 = add 0 0\n");
	client_upload(&a, 1, 64, 3);
	client_upload(&a, 2, BYTES, 4);
	assert_int_equal(client_answer(&a, client_execute(&a, 2, 9, 1, args, 1)), 0);
	client_delete(&a, 9);
	BED_WAIT(&bed, a.session->live_bytes == BYTES + 64);
	client_upload(&b, 1, BYTES, 5);
	BED_WAIT(&bed, a.session->core->out_failures == 1);
	BED_ASSERT(&bed, ((struct svc_buffer *)svc_idmap_find(&a.session->buffers, 1))->saved);
	client_expect(&a, 1, 64, 3); /* read from host memory */
	assert_int_equal(client_answer(&a, client_execute(&a, 2, 10, 1, args, 1)), 0);
	client_expect(&a, 10, 64, 6);
	client_expect(&b, 1, BYTES, 5);
	close_two();
}

/* A page-in fails: the session stays outside and is let in later, with its contents. */
static void a_failed_page_in_is_tried_again(void **state)
{
	static const uint64_t args[] = { 1 };
	uint64_t run;

	(void)state;
	open_two("fake:restore@1");
	let_b_push_a_out();
	run = client_execute(&a, 1, 2, 1, args, 1);
	BED_WAIT(&bed, a.session->core->in_failures == 1);
	BED_ASSERT(&bed, a.session->core->place == SAL_OUTSIDE && bed.server.queued == 1);
	bed_check(&bed);
	assert_int_equal(client_answer(&a, run), 0);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_RESTORE), 2);
	client_expect(&a, 2, BYTES, 6);
	client_expect(&b, 1, BYTES, 5);
	close_two();
}

/* A page-out waits until running downloads have ended. */
static void a_page_out_waits_for_reads(void **state)
{
	(void)state;
	open_two("fake");
	client_upload(&a, 1, BYTES, 3);
	assert_int_equal(client_answer(&a, client_await(&a, 1)), 0);
	(void)atomic_fetch_add(&a.session->reads, 1);
	client_upload(&b, 1, BYTES, 5);
	BED_WAIT(&bed, a.session->core->place == SAL_PAGING_OUT && a.session->is_carried &&
			       STAILQ_EMPTY(&a.session->errands) && a.session->transit.count == 1);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_SAVE), 0);
	(void)atomic_fetch_sub(&a.session->reads, 1);
	client_expect(&b, 1, BYTES, 5);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_SAVE), 1);
	client_expect(&a, 1, BYTES, 3);
	close_two();
}

/* Two sessions work, the device has room for one, and some moves fail. */
static void run_both(const char *plugin)
{
	unsigned char x = 3, y = 5;
	uint64_t i;

	open_two(plugin);
	let_b_push_a_out();
	for (i = 1; i <= 6; i++) {
		step(&a, i, i + 1);
		step(&b, i, i + 1);
		x = (unsigned char)(x * 2);
		y = (unsigned char)(y * 2);
	}
	client_expect(&a, 7, BYTES, x);
	client_expect(&b, 7, BYTES, y);
	close_two();
}

static void two_sessions_take_turns_with_the_memory(void **state)
{
	(void)state;
	run_both("fake:strict");
	run_both("fake:chained");
	run_both("fake:save@3,restore@4");
	run_both("fake:restore@1,save@4");
}

/*
 * A session that moves to another lane takes its program along. If loading fails there, the next
 * iteration loads the program.
 */
static void a_program_follows_to_another_lane(void **state)
{
	static const uint64_t args[] = { 1 };

	(void)state;
	bed_open(&bed, &(struct run_config){ .plugin = "fake:load@2" });
	client_open(&a, &bed, "a");
	client_program(&a, 1, ADD);
	client_upload(&a, 1, BYTES, 3);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 10, 1, args, 1)), 0);
	BED_WAIT(&bed, !a.session->is_carried);
	svc_lock(&bed.server); /* as if the session had used another lane before */
	((struct svc_program *)svc_idmap_find(&a.session->programs, 1))->stream = 1;
	svc_unlock(&bed.server);
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 11, 1, args, 1)), SAL_INTERNAL);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_UNLOAD), 1); /* the old copy is unloaded */
	assert_int_equal(client_answer(&a, client_execute(&a, 1, 12, 1, args, 1)), 0);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_LOAD), 3);
	client_expect(&a, 12, BYTES, 6);
	client_close(&a);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_moves_out_and_in),
		cmocka_unit_test(one_that_is_out_comes_back_for_what_it_had),
		cmocka_unit_test(what_is_out_can_be_dropped),
		cmocka_unit_test(a_session_ends_while_it_is_out),
		cmocka_unit_test(a_failed_page_out_leaves_the_session_where_it_is),
		cmocka_unit_test(a_page_out_that_fails_halfway_is_taken_back),
		cmocka_unit_test(what_could_not_be_taken_back_comes_when_it_is_used),
		cmocka_unit_test(a_failed_page_in_is_tried_again),
		cmocka_unit_test(a_page_out_waits_for_reads),
		cmocka_unit_test(two_sessions_take_turns_with_the_memory),
		cmocka_unit_test(a_program_follows_to_another_lane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
