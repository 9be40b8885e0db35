/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small results that a job reads each time: they arrive before the job asks for them, and have the
 * right bytes in every order of calls.
 */
#include "support/plugin_host.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

/* How many iterations prefetch an output after its last read; see prefetch.c. */
#define CREDIT 8
#define SMALL 1024 /* bytes; see prefetch.c */

static PJRT_Buffer *run_add(PJRT_LoadedExecutable *p, PJRT_Buffer *const *args, PJRT_Event **done)
{
	PJRT_Buffer *sum = NULL;

	ok(try_execute(&(struct run){
		.loaded = p, .args = args, .arg_count = 2, .outputs = &sum, .done = done }));
	return sum;
}

/* Runs iterations and reads their result. Later iterations prefetch the result. */
static void make_a_habit(PJRT_LoadedExecutable *p, PJRT_Buffer *const *args)
{
	PJRT_Buffer *sum = run_add(p, args, NULL);

	expect_vector(sum, 11, 2);
	buffer_destroy(sum);
}

/*
 * Runs an iteration, and waits for its end and all its completions. Answers come in the order of
 * the requests, and this function waits for the answer to a later request.
 */
static PJRT_Buffer *run_and_rest(PJRT_LoadedExecutable *p, PJRT_Buffer *const *args)
{
	PJRT_Event *done = NULL;
	PJRT_Buffer *sum = run_add(p, args, &done);

	assert_int_equal(await(done), 0);
	expect_vector(args[0], 1, 1);
	return sum;
}

/* Reads b while the daemon is frozen. Returns whether the bytes were there before the thaw. */
static bool read_alone(struct bed *t, PJRT_Buffer *b, void *data, size_t size)
{
	ARGS(Buffer_ToHostBuffer, a, .src = b, .dst = data, .dst_size = size);
	bool here;

	daemon_freeze(&t->daemon);
	ok(api->PJRT_Buffer_ToHostBuffer(&a));
	{
		ARGS(Event_IsReady, ready, .event = a.event);

		ok(api->PJRT_Event_IsReady(&ready));
		here = ready.is_ready;
	}
	daemon_thaw(&t->daemon);
	assert_int_equal(await(a.event), 0);
	return here;
}

static bool is_here(struct bed *t, PJRT_Buffer *b)
{
	float data[LANES] = { 0 };
	bool here = read_alone(t, b, data, sizeof(data));

	assert_true(data[0] == 11 && data[LANES - 1] == 11 + 2 * (LANES - 1));
	return here;
}

struct sum {
	PJRT_LoadedExecutable *add;
	PJRT_Buffer *args[2];
};

static struct sum sum_create(struct bed *t)
{
	return (struct sum){ compile(t, PROGRAM_ADD), { put_vector(t, 1), put_vector(t, 10) } };
}

static void sum_destroy(struct sum *s)
{
	buffer_destroy(s->args[0]);
	buffer_destroy(s->args[1]);
	loaded_destroy(s->add);
}

static void what_is_read_each_time_is_here(void **state)
{
	struct bed *t = *state;
	struct sum s = sum_create(t);
	PJRT_Buffer *first = run_and_rest(s.add, s.args), *second, *third;

	assert_false(is_here(t, first)); /* unknown at first; this reads the output */
	second = run_and_rest(s.add, s.args);
	assert_true(is_here(t, second));
	assert_true(is_here(t, second)); /* any number of times */
	expect_vector(first, 11, 2);
	third = run_and_rest(s.add, s.args);
	assert_true(is_here(t, third));
	buffer_destroy(first);
	buffer_destroy(second);
	buffer_destroy(third);
	sum_destroy(&s);
}

static void what_is_read_no_more_is_asked_for_no_more(void **state)
{
	struct bed *t = *state;
	struct sum s = sum_create(t);
	PJRT_Buffer *b;
	int i;

	make_a_habit(s.add, s.args);
	for (i = 0; i < CREDIT; i++)
		buffer_destroy(run_add(s.add, s.args, NULL));
	b = run_and_rest(s.add, s.args);
	assert_false(is_here(t, b));
	buffer_destroy(b);
	sum_destroy(&s);
}

/* Whether an output of this size, beside a small one, is prefetched after the job read it once. */
static bool comes_by_itself(struct bed *t, size_t size)
{
	PJRT_Buffer *known = put_vector(t, 1), *outputs[2] = { NULL, NULL };
	char text[96], *data = malloc(size);
	PJRT_LoadedExecutable *p;
	bool here = false;
	int round;

	(void)snprintf(text, sizeof(text), "fake 1\noutput u8 4 = fill 1\noutput u8 %zu = fill 7\n",
		       size);
	p = compile_text(t, text);
	for (round = 0; round < 2; round++) {
		PJRT_Event *done = NULL;

		ok(try_execute(&(struct run){ .loaded = p, .outputs = outputs, .done = &done }));
		assert_int_equal(await(done), 0);
		expect_vector(known, 1, 1); /* see run_and_rest */
		here = read_alone(t, outputs[1], data, size);
		assert_true(data[0] == 7 && data[size - 1] == 7);
		buffer_destroy(outputs[0]);
		buffer_destroy(outputs[1]);
	}
	buffer_destroy(known);
	loaded_destroy(p);
	free(data);
	return here;
}

static void only_small_results_come_by_themselves(void **state)
{
	struct bed *t = *state;

	if (!t->subject->is_fake)
		skip();
	assert_true(comes_by_itself(t, SMALL));
	assert_false(comes_by_itself(t, SMALL + 1));
	assert_false(comes_by_itself(t, (size_t)4 * SMALL));
}

/* Of several outputs, only those that the job reads are prefetched. */
static void each_output_for_itself(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *swap = compile(t, PROGRAM_SWAP);
	PJRT_Buffer *args[] = { put_vector(t, 1), put_vector(t, 10) }, *outputs[2];
	int i;

	for (i = 0; i < 20; i++) {
		ok(try_execute(&(struct run){
			.loaded = swap, .args = args, .arg_count = 2, .outputs = outputs }));
		if (i % 3 != 1)
			expect_vector(outputs[0], 10, 1);
		if (i % 2)
			expect_vector(outputs[1], 1, 1);
		buffer_destroy(outputs[0]);
		buffer_destroy(outputs[1]);
	}
	buffer_destroy(args[0]);
	buffer_destroy(args[1]);
	loaded_destroy(swap);
}

/* Several reads, one of them partial, during the iteration and afterwards. */
static void all_readers_get_it(void **state)
{
	static const char *const slow = "fake 1\noutput s32 4 = fill 7\ntime 50000000\n";
	struct bed *t = *state;
	PJRT_LoadedExecutable *p;
	PJRT_Buffer *b = NULL;
	int32_t whole[2][4] = { 0 }, part[2] = { 0 };
	PJRT_Event *done[2];
	int round, i;

	if (!t->subject->is_fake)
		skip();
	p = compile_text(t, slow);
	for (round = 0; round < 2; round++) {
		ok(try_execute(&(struct run){ .loaded = p, .outputs = &b }));
		for (i = 0; i < 2; i++) {
			ARGS(Buffer_ToHostBuffer, a, .src = b, .dst = whole[i],
			     .dst_size = sizeof(whole[i]));

			ok(api->PJRT_Buffer_ToHostBuffer(&a));
			done[i] = a.event;
		}
		{
			ARGS(Buffer_CopyRawToHost, a, .buffer = b, .dst = part, .offset = 4,
			     .transfer_size = 8);

			ok(api->PJRT_Buffer_CopyRawToHost(&a));
			assert_int_equal(await(a.event), 0);
		}
		assert_int_equal(await(done[0]), 0);
		assert_int_equal(await(done[1]), 0);
		assert_int_equal(whole[0][3], 0x07070707);
		assert_int_equal(whole[1][0], 0x07070707);
		assert_int_equal(part[0], 0x07070707);
		assert_int_equal(part[1], 0x07070707);
		buffer_destroy(b);
	}
	loaded_destroy(p);
}

static void errors_come_with_it(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p;
	PJRT_Buffer *b = NULL;
	float data[LANES];
	int i;

	if (!t->subject->is_fake)
		skip();
	p = compile_text(t, "fake 1\noutput f32 4 = fill 0\nfail 8 as it was told to\n");
	for (i = 0; i < 3; i++) {
		ok(try_execute(&(struct run){ .loaded = p, .outputs = &b }));
		refused(try_get(b, data, sizeof(data)), 8, "as it was told to");
		buffer_destroy(b);
	}
	loaded_destroy(p);
}

/* Buffers and programs are destroyed before the bytes arrive or are read. */
static void it_may_come_too_late(void **state)
{
	struct bed *t = *state;
	struct sum s = sum_create(t);
	float data[LANES];
	PJRT_Buffer *b;
	int i;

	for (i = 0; i < 50; i++) {
		make_a_habit(s.add, s.args);
		buffer_destroy(run_add(s.add, s.args, NULL));
	}
	b = run_add(s.add, s.args, NULL);
	ok(CALL(Buffer_Delete, .buffer = b));
	refused(try_get(b, data, sizeof(data)), SAL_INVALID_ARGUMENT, "deleted");
	buffer_destroy(b);
	b = run_add(s.add, s.args, NULL);
	sum_destroy(&s);
	expect_vector(b, 11, 2);
	buffer_destroy(b);
}

/* The prefetch is under way when an iteration takes over the donated buffer. */
static void what_is_donated_was_read_before(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_DONATE);
	PJRT_Buffer *args[] = { put_vector(t, 0), put_vector(t, 1) };
	int i;

	for (i = 1; i <= 100; i++) {
		PJRT_Buffer *next = run_add(p, args, NULL);

		buffer_destroy(args[0]);
		args[0] = next;
		if (i % 4 == 0)
			expect_vector(next, (float)i, (float)(i + 1));
	}
	buffer_destroy(args[0]);
	buffer_destroy(args[1]);
	loaded_destroy(p);
}

/* A pending output is read, then donated to the next iteration. The read gets the right bytes. */
static void a_read_before_a_donation(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_DONATE);
	PJRT_Buffer *args[] = { put_vector(t, 0), put_vector(t, 1) };
	float data[100][LANES];
	PJRT_Event *read[100];
	int i;

	for (i = 0; i < 100; i++) {
		PJRT_Buffer *next = run_add(p, args, NULL);
		ARGS(Buffer_ToHostBuffer, a, .src = next, .dst = data[i],
		     .dst_size = sizeof(data[i]));

		ok(api->PJRT_Buffer_ToHostBuffer(&a));
		read[i] = a.event;
		buffer_destroy(args[0]);
		args[0] = next;
	}
	for (i = 0; i < 100; i++) {
		assert_int_equal(await(read[i]), 0);
		assert_true(data[i][0] == (float)(i + 1) && data[i][1] == (float)(2 * i + 3));
	}
	buffer_destroy(args[0]);
	buffer_destroy(args[1]);
	loaded_destroy(p);
}

static void the_daemon_may_die(void **state)
{
	struct bed *t = *state;
	struct sum s = sum_create(t);
	float data[LANES];
	PJRT_Buffer *here, *gone;

	make_a_habit(s.add, s.args);
	here = run_and_rest(s.add, s.args);
	daemon_freeze(&t->daemon);
	gone = run_add(s.add, s.args, NULL);
	daemon_kill(&t->daemon);
	refused(try_get(gone, data, sizeof(data)), SAL_UNAVAILABLE, NULL);
	expect_vector(here, 11, 2);
	buffer_destroy(here);
	buffer_destroy(gone);
	sum_destroy(&s);
}

#define T(test) cmocka_unit_test_setup_teardown(test, bed_setup, bed_teardown)

static int run_suite(void)
{
	const struct CMUnitTest tests[] = {
		T(what_is_read_each_time_is_here),
		T(what_is_read_no_more_is_asked_for_no_more),
		T(only_small_results_come_by_themselves),
		T(each_output_for_itself),
		T(all_readers_get_it),
		T(errors_come_with_it),
		T(it_may_come_too_late),
		T(what_is_donated_was_read_before),
		T(a_read_before_a_donation),
	};
	const struct CMUnitTest with_own_daemon[] = {
		cmocka_unit_test_setup_teardown(the_daemon_may_die, bed_setup_own,
						bed_teardown_own),
	};

	return cmocka_run_group_tests(tests, bed_open, bed_close) +
	       cmocka_run_group_tests(with_own_daemon, NULL, NULL);
}

int main(int argc, char **argv)
{
	return host_main(argc, argv, run_suite);
}
