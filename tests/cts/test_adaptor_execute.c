/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Iterations: pending outputs, donation, errors and where they go, order, and many threads at once.
 */
#include "support/plugin_host.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define MAX_OUTPUTS 300

static bool is_ready(PJRT_Event *e)
{
	ARGS(Event_IsReady, a, .event = e);

	ok(api->PJRT_Event_IsReady(&a));
	return a.is_ready;
}

static PJRT_Error *try_run(PJRT_LoadedExecutable *p, PJRT_Buffer *const *args, size_t n,
			   PJRT_Buffer **outputs)
{
	return try_execute(
		&(struct run){ .loaded = p, .args = args, .arg_count = n, .outputs = outputs });
}

static void destroy_all(PJRT_Buffer **buffers, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		buffer_destroy(buffers[i]);
}

static void outputs_are_described_at_once(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p =
		t->subject->is_fake
			? compile_text(t, "fake 1\noutput s64 2 3 = fill 1\ntime 100000000\n")
			: compile_text(t,
				       "module @f { func.func public @main() -> tensor<2x3xi64> { "
				       "%0 = stablehlo.constant dense<72340172838076673> : "
				       "tensor<2x3xi64> return %0 : tensor<2x3xi64> } }");
	PJRT_Buffer *b = NULL;
	PJRT_Event *e;
	int64_t data[6] = { 0 };
	int i;

	ok(try_run(p, NULL, 0, &b));
	e = ready_event(b);
	if (t->subject->is_fake)
		assert_false(is_ready(e));
	{
		ARGS(Buffer_ElementType, type, .buffer = b);
		ARGS(Buffer_Dimensions, dims, .buffer = b);
		ARGS(Buffer_OnDeviceSizeInBytes, size, .buffer = b);
		ARGS(Buffer_Device, device, .buffer = b);
		ARGS(Buffer_Memory, memory, .buffer = b);

		ok(api->PJRT_Buffer_ElementType(&type));
		ok(api->PJRT_Buffer_Dimensions(&dims));
		ok(api->PJRT_Buffer_OnDeviceSizeInBytes(&size));
		ok(api->PJRT_Buffer_Device(&device));
		ok(api->PJRT_Buffer_Memory(&memory));
		assert_int_equal(type.type, PJRT_Buffer_Type_S64);
		assert_int_equal(dims.num_dims, 2);
		assert_int_equal(dims.dims[0], 2);
		assert_int_equal(dims.dims[1], 3);
		assert_int_equal(size.on_device_size_in_bytes, 48);
		assert_ptr_equal(device.device, t->device);
		assert_ptr_equal(memory.memory, t->memory);
	}
	assert_false(is_deleted(b));
	get(b, data, sizeof(data));
	for (i = 0; i < 6; i++)
		assert_int_equal(data[i], 0x0101010101010101);
	assert_int_equal(await(e), 0);
	buffer_destroy(b);
	loaded_destroy(p);
}

/* Donation */

static void donation_is_visible_at_once(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_DONATE);
	PJRT_Buffer *args[] = { put_vector(t, 1), put_vector(t, 10) }, *sum = NULL, *again = NULL;
	float data[LANES];

	ok(try_run(p, args, 2, &sum));
	assert_true(is_deleted(args[0]));
	assert_false(is_deleted(args[1]));
	refused(try_run(p, args, 2, &again), SAL_INVALID_ARGUMENT, "deleted or donated");
	assert_null(again);
	refused(try_get(args[0], data, sizeof(data)), SAL_INVALID_ARGUMENT, NULL);
	expect_vector(sum, 11, 2);
	expect_vector(args[1], 10, 1);
	buffer_destroy(sum);
	destroy_all(args, 2);
	loaded_destroy(p);
}

/* A program that the device refuses, and that would donate its first argument. */
#define REFUSED "fake 1\noutput f32 4 = add 0 1\ndonate 0 0\nrefuse 9 not now\n"

static void what_did_not_start_took_nothing(void **state)
{
	struct bed *t = *state;
	PJRT_Buffer *args[2], *out = NULL;
	PJRT_LoadedExecutable *p, *works;
	int i;

	if (!t->subject->is_fake)
		skip();
	args[0] = put_vector(t, 1);
	args[1] = put_vector(t, 10);
	p = compile_text(t, REFUSED);
	for (i = 0; i < 3; i++) {
		ok(try_run(p, args, 2, &out));
		assert_int_equal(ready_code(out), SAL_FAILED_PRECONDITION);
		assert_false(is_deleted(args[0]));
		expect_vector(args[0], 1, 1);
		buffer_destroy(out);
	}
	works = compile(t, PROGRAM_DONATE);
	ok(try_run(works, args, 2, &out));
	expect_vector(out, 11, 2);
	assert_true(is_deleted(args[0]));
	buffer_destroy(out);
	destroy_all(args, 2);
	loaded_destroy(p);
	loaded_destroy(works);
}

static void expect_buffers(struct bed *t, long count)
{
	uint64_t end = host_now_ns() + (uint64_t)(30e9 * host_patience());
	char answer[65536], *at;
	long found;

	do {
		daemon_ask(&t->daemon, "{\"op\":\"ps\"}\n", answer, sizeof(answer));
		at = strstr(answer, "\"buffers\":");
		found = at ? strtol(at + strlen("\"buffers\":"), NULL, 10) : -1;
	} while (found != count && host_now_ns() < end);
	assert_int_equal(found, count);
}

/* The host destroys an argument before it comes back: the daemon does not keep it. */
static void what_comes_back_to_nobody_is_deleted(void **state)
{
	struct bed *t = *state;
	PJRT_Buffer *b, *out = NULL;
	PJRT_LoadedExecutable *p, *slow;
	PJRT_Buffer *waits = NULL;
	int i;

	if (!t->subject->is_fake)
		skip();
	slow = compile_text(t, "fake 1\noutput f32 4 = fill 1\ntime 100000000\n");
	p = compile_text(t, REFUSED);
	b = put_vector(t, 10);
	for (i = 0; i < 8; i++) {
		PJRT_Buffer *args[] = { put_vector(t, 1), b };

		ok(try_run(slow, NULL, 0, &waits));
		ok(try_run(p, args, 2, &out));
		if (i % 2)
			ok(CALL(Buffer_Delete, .buffer = args[0]));
		buffer_destroy(args[0]);
		assert_int_equal(ready_code(out), SAL_FAILED_PRECONDITION);
		buffer_destroy(out);
		buffer_destroy(waits);
	}
	expect_buffers(t, 1);
	buffer_destroy(b);
	loaded_destroy(p);
	loaded_destroy(slow);
}

static void what_is_not_donatable_stays(void **state)
{
	static const int64_t retained[] = { 0 };
	static const int64_t odd[] = { 0, 0, 0, 0, 7, -1, INT64_MAX, 0 }; /* repeated, invalid */
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_DONATE);
	PJRT_Buffer *args[] = { put_vector(t, 1), put_vector(t, 10) }, *sum = NULL;

	ok(try_execute(&(struct run){ .loaded = p,
				      .args = args,
				      .arg_count = 2,
				      .outputs = &sum,
				      .retained = retained,
				      .retained_count = 1 }));
	assert_false(is_deleted(args[0]));
	expect_vector(sum, 11, 2);
	expect_vector(args[0], 1, 1);
	buffer_destroy(sum);
	ok(try_execute(&(struct run){ .loaded = p,
				      .args = args,
				      .arg_count = 2,
				      .outputs = &sum,
				      .retained = odd,
				      .retained_count = 8 }));
	assert_false(is_deleted(args[0]));
	expect_vector(sum, 11, 2);
	expect_vector(args[0], 1, 1);
	buffer_destroy(sum);
	destroy_all(args, 2);
	loaded_destroy(p);
}

/* A numpy view holds a reference: the buffer is not donated. The vendor does the same. */
static void what_somebody_looks_at_stays(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_DONATE);
	PJRT_Buffer *args[] = { put_vector(t, 1), put_vector(t, 10) }, *sum = NULL;

	ok(CALL(Buffer_IncreaseExternalReferenceCount, .buffer = args[0]));
	ok(try_run(p, args, 2, &sum));
	assert_false(is_deleted(args[0]));
	expect_vector(sum, 11, 2);
	expect_vector(args[0], 1, 1);
	buffer_destroy(sum);
	ok(CALL(Buffer_DecreaseExternalReferenceCount, .buffer = args[0]));
	ok(try_run(p, args, 2, &sum));
	assert_true(is_deleted(args[0]));
	expect_vector(sum, 11, 2);
	buffer_destroy(sum);
	destroy_all(args, 2);
	loaded_destroy(p);
}

/*
 * The same buffer is donated twice, or donated once and used once: the call is refused, and the
 * buffer stays valid.
 */
static void nothing_is_donated_twice(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *both = compile(t, PROGRAM_DONATE_BOTH),
			      *one = compile(t, PROGRAM_DONATE);
	PJRT_Buffer *a = put_vector(t, 1), *b = put_vector(t, 10), *outputs[2] = { NULL, NULL };
	PJRT_Buffer *twice[] = { a, a }, *fine[] = { a, b };

	refused(try_run(both, twice, 2, outputs), SAL_INVALID_ARGUMENT, "same buffer twice");
	refused(try_run(one, twice, 2, outputs), SAL_INVALID_ARGUMENT, "previously donated");
	assert_null(outputs[0]);
	assert_null(outputs[1]);
	assert_false(is_deleted(a));
	expect_vector(a, 1, 1);
	ok(try_run(one, fine, 2, outputs)); /* the refused calls changed nothing */
	assert_true(is_deleted(a));
	expect_vector(outputs[0], 11, 2);
	buffer_destroy(outputs[0]);
	buffer_destroy(a);
	buffer_destroy(b);
	loaded_destroy(both);
	loaded_destroy(one);
}

static void a_chain_of_donations(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_DONATE);
	PJRT_Buffer *args[] = { put_vector(t, 0), put_vector(t, 1) };
	int i;

	for (i = 0; i < 500; i++) {
		PJRT_Buffer *next = NULL;

		ok(try_run(p, args, 2, &next));
		assert_true(is_deleted(args[0]));
		buffer_destroy(args[0]);
		args[0] = next;
	}
	expect_vector(args[0], 500, 501); /* i + 500 * (1 + i) */
	destroy_all(args, 2);
	loaded_destroy(p);
}

/* Errors */

/* A failed iteration affects its own outputs and results computed from them, and nothing else. */
static void errors_reach_whom_they_concern(void **state)
{
	static const char *const texts[] = {
		"fake 1\noutput f32 4 = fill 0\noutput f32 4 = fill 1\nfail 8 as it was told to\n",
		"fake 1\noutput f32 4 = fill 0\noutput f32 4 = fill 1\nrefuse 8 as it was told to\n",
	};
	struct bed *t = *state;
	int i;

	if (!t->subject->is_fake)
		skip();
	for (i = 0; i < 2; i++) {
		PJRT_LoadedExecutable *failing = compile_text(t, texts[i]),
				      *add = compile(t, PROGRAM_ADD);
		PJRT_Buffer *good[] = { put_vector(t, 1), put_vector(t, 10) }, *bad[2], *mixed[2];
		PJRT_Buffer *next = NULL, *sum = NULL;
		PJRT_Event *done = NULL, *ready;
		float data[LANES];

		ok(try_execute(&(struct run){ .loaded = failing, .outputs = bad, .done = &done }));
		mixed[0] = good[0];
		mixed[1] = bad[1];
		ok(try_run(add, mixed, 2, &next));
		ok(try_run(add, good, 2, &sum));
		{
			ARGS(Buffer_CopyToMemory, copy, .buffer = bad[0], .dst_memory = t->memory);

			ok(api->PJRT_Buffer_CopyToMemory(&copy));
			refused(try_get(copy.dst_buffer, data, sizeof(data)), 8, "told to");
			assert_int_equal(ready_code(copy.dst_buffer), 8);
			buffer_destroy(copy.dst_buffer);
		}
		refused(await_error(done), 8, "as it was told to");
		ready = ready_event(bad[0]);
		refused(CALL(Event_Await, .event = ready), 8, "as it was told to");
		refused(CALL(Event_Error, .event = ready), 8, "as it was told to");
		assert_true(is_ready(ready));
		ok(CALL(Event_Destroy, .event = ready));
		assert_int_equal(ready_code(bad[1]), 8);
		refused(try_get(bad[0], data, sizeof(data)), 8, "as it was told to");
		assert_int_equal(ready_code(next), 8);
		refused(try_get(next, data, sizeof(data)), 8, NULL);
		assert_int_equal(ready_code(sum), 0);
		expect_vector(sum, 11, 2);
		expect_vector(good[0], 1, 1);
		destroy_all(bad, 2);
		destroy_all(good, 2);
		buffer_destroy(next);
		buffer_destroy(sum);
		loaded_destroy(failing);
		loaded_destroy(add);
	}
}

static void wrong_calls_are_refused(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	PJRT_Buffer *args[] = { put_vector(t, 1), put_vector(t, 10), put_vector(t, 20) };
	PJRT_Buffer *outputs[2] = { NULL, NULL };
	PJRT_Buffer *const *lists[2] = { args, args };
	PJRT_Buffer **output_lists[2] = { &outputs[0], &outputs[1] };
	PJRT_ExecuteOptions options = { .struct_size = PJRT_ExecuteOptions_STRUCT_SIZE };
	size_t n;

	refused(CALL(LoadedExecutable_Execute, .executable = p, .options = &options,
		     .argument_lists = lists, .num_devices = 2, .num_args = 2,
		     .output_lists = output_lists),
		SAL_INVALID_ARGUMENT, "devices");
	refused(CALL(LoadedExecutable_Execute, .executable = p, .options = &options,
		     .argument_lists = lists, .num_devices = 0, .num_args = 2,
		     .output_lists = output_lists),
		SAL_INVALID_ARGUMENT, "devices");
	options.num_send_ops = 1;
	refused(CALL(LoadedExecutable_Execute, .executable = p, .options = &options,
		     .argument_lists = lists, .num_devices = 1, .num_args = 2,
		     .output_lists = output_lists),
		SAL_UNIMPLEMENTED, NULL);
	assert_null(outputs[0]);
	for (n = 0; n <= 3; n++) { /* too few and too many */
		if (n == 2)
			continue;
		ok(try_run(p, args, n, outputs));
		assert_int_equal(ready_code(outputs[0]), SAL_INVALID_ARGUMENT);
		buffer_destroy(outputs[0]);
	}
	outputs[0] = NULL;
	ok(CALL(Buffer_Delete, .buffer = args[1]));
	refused(try_run(p, args, 2, outputs), SAL_INVALID_ARGUMENT, "argument 1");
	assert_null(outputs[0]);
	destroy_all(args, 3);
	loaded_destroy(p);
}

/*
 * Up to the protocol's maximum of arguments, the daemon judges their number. Above the maximum, the
 * plugin refuses the call.
 */
static void there_is_a_most_of_arguments(void **state)
{
	const size_t most = 65536;
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	PJRT_Buffer *a = put_vector(t, 1), **args = calloc(most + 1, sizeof(PJRT_Buffer *)),
		    *out = NULL;
	size_t i;

	assert_non_null(args);
	for (i = 0; i <= most; i++)
		args[i] = a;
	refused(try_run(p, args, most + 1, &out), SAL_INVALID_ARGUMENT, "65537 arguments");
	assert_null(out);
	ok(try_run(p, args, most, &out));
	assert_int_equal(ready_code(out), SAL_INVALID_ARGUMENT);
	buffer_destroy(out);
	ok(try_run(p, args, 2, &out));
	expect_vector(out, 2, 2);
	buffer_destroy(out);
	buffer_destroy(a);
	free(args);
	loaded_destroy(p);
}

/* Arguments whose shapes differ from the program's. */
static void wrong_shapes_are_refused(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	const int64_t dims[] = { 7 };
	const float data[7] = { 0 };
	PJRT_Buffer *args[] = {
		put_vector(t, 1),
		put(t, &(struct array){ .type = F32, .dims = dims, .rank = 1, .data = data })
	};
	PJRT_Buffer *sum = NULL;

	ok(try_run(p, args, 2, &sum)); /* only the daemon knows the shapes */
	assert_int_equal(ready_code(sum), SAL_INVALID_ARGUMENT);
	buffer_destroy(sum);
	expect_vector(args[0], 1, 1);
	destroy_all(args, 2);
	loaded_destroy(p);
}

/* Number of arguments, order of iterations */

static void a_hundred_arguments(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_MANY_ARGS);
	PJRT_Buffer *args[100], *sum = NULL;
	int i;

	for (i = 0; i < 100; i++)
		args[i] = put_vector(t, (float)i);
	ok(try_run(p, args, 100, &sum));
	expect_vector(sum, 98 + 99, 2);
	buffer_destroy(sum);
	destroy_all(args, 100);
	loaded_destroy(p);
}

static void hundreds_of_outputs(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_MANY_OUTPUTS);
	PJRT_Buffer *arg = put_vector(t, 4), *outputs[MAX_OUTPUTS];
	size_t i;

	ok(try_run(p, &arg, 1, outputs));
	buffer_destroy(arg);
	for (i = 0; i < t->subject->many_outputs; i++)
		expect_vector(outputs[i], 4, 1);
	destroy_all(outputs, t->subject->many_outputs);
	loaded_destroy(p);
}

static void no_outputs_at_all(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_NOTHING);
	PJRT_Buffer *none[1] = { NULL };
	PJRT_Event *done = NULL;

	ok(try_execute(&(struct run){ .loaded = p, .outputs = none, .done = &done }));
	assert_int_equal(await(done), 0);
	if (t->subject->is_fake)
		buffer_destroy(none[0]);
	loaded_destroy(p);
}

/* Iterations submitted without waiting: each uses the output of the one before. */
static void order_is_kept(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	PJRT_Buffer *one = put_vector(t, 1), *all[300];
	PJRT_Event *last = NULL;
	int i;

	all[0] = put_vector(t, 0);
	for (i = 1; i < 300; i++) {
		PJRT_Buffer *args[] = { all[i - 1], one };

		ok(try_execute(&(struct run){ .loaded = p,
					      .args = args,
					      .arg_count = 2,
					      .outputs = &all[i],
					      .done = i == 299 ? &last : NULL }));
		if (i % 2)
			buffer_destroy(all[i - 1]); /* while an iteration uses the buffer */
	}
	expect_vector(all[299], 299, 300);
	assert_int_equal(await(last), 0);
	expect_vector(all[1], 1, 2);
	for (i = 1; i < 300; i += 2)
		buffer_destroy(all[i]);
	buffer_destroy(one);
	loaded_destroy(p);
}

static void the_device_can_be_named(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	PJRT_Buffer *args[] = { put_vector(t, 1), put_vector(t, 10) }, *sum = NULL;

	ok(try_execute(&(struct run){
		.loaded = p, .args = args, .arg_count = 2, .outputs = &sum, .device = t->device }));
	expect_vector(sum, 11, 2);
	buffer_destroy(sum);
	destroy_all(args, 2);
	loaded_destroy(p);
}

/* Each execution has its own event, which the caller owns. */
static void completion_events_are_separate(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	PJRT_Buffer *args[] = { put_vector(t, 1), put_vector(t, 10) }, *sums[20];
	PJRT_Event *done[20];
	int i;

	for (i = 0; i < 20; i++)
		ok(try_execute(&(struct run){ .loaded = p,
					      .args = args,
					      .arg_count = 2,
					      .outputs = &sums[i],
					      .done = &done[i] }));
	for (i = 19; i >= 0; i--) {
		assert_int_equal(await(done[i]), 0);
		assert_true(i == 0 || done[i] != done[i - 1]);
	}
	destroy_all(sums, 20);
	destroy_all(args, 2);
	loaded_destroy(p);
}

/* Many threads */

#define THREADS 16

struct gang {
	struct bed *bed;
	PJRT_LoadedExecutable *add, *donate;
	PJRT_Buffer *shared;
	int rounds;
	_Atomic int called, failed;
};

static void on_called(PJRT_Error *error, void *arg)
{
	struct gang *g = arg;

	if (code_of(error))
		(void)atomic_fetch_add(&g->failed, 1);
	(void)atomic_fetch_add(&g->called, 1);
}

/* Without cmocka, whose assertions work in the main thread only. */
static bool holds(PJRT_Buffer *b, float first, float step)
{
	float data[LANES] = { 0 };
	int i;

	if (code_of(try_get(b, data, sizeof(data))))
		return false;
	for (i = 0; i < LANES; i++)
		if (data[i] != first + (float)i * step)
			return false;
	return true;
}

static PJRT_Buffer *put_quietly(struct bed *t, float first, size_t n)
{
	float *data = malloc(n * sizeof(float));
	const int64_t dims[] = { (int64_t)n };
	PJRT_Buffer *b = NULL;
	size_t i;

	for (i = 0; i < n; i++)
		data[i] = first + (float)i;
	(void)code_of(try_put(t,
			      &(struct array){ .type = F32, .dims = dims, .rank = 1, .data = data },
			      &b, NULL));
	free(data);
	return b;
}

static bool one_round(struct gang *g, int number)
{
	struct bed *t = g->bed;
	float x = (float)number;
	PJRT_Buffer *a = put_quietly(t, x, LANES), *big = put_quietly(t, x, 5000), *sum = NULL;
	PJRT_Buffer *args[] = { a, g->shared };
	PJRT_Event *e = NULL;
	float *down = malloc(5000 * sizeof(float));
	bool good = a && big;

	good = good && code_of(try_run(g->add, args, 2, &sum)) == 0;
	good = good && holds(sum, x + 1, 2);
	if (sum)
		(void)CALL(Buffer_Destroy, .buffer = sum);
	sum = NULL;
	good = good && code_of(try_execute(&(struct run){ .loaded = g->donate,
							  .args = args,
							  .arg_count = 2,
							  .outputs = &sum,
							  .done = &e })) == 0;
	if (good) {
		(void)CALL(Event_OnReady, .event = e, .callback = on_called, .user_arg = g);
		good = code_of(CALL(Event_Destroy, .event = e)) == 0;
	}
	good = good && holds(sum, x + 1, 2);
	good = good && code_of(try_get(big, down, 5000 * sizeof(float))) == 0 &&
	       down[4999] == x + 4999;
	if (good && number % 5 == 0) {
		ARGS(Buffer_CopyToMemory, copy, .buffer = big, .dst_memory = t->memory);

		good = code_of(api->PJRT_Buffer_CopyToMemory(&copy)) == 0;
		if (good)
			(void)CALL(Buffer_Destroy, .buffer = copy.dst_buffer);
	}
	(void)CALL(Buffer_Destroy, .buffer = sum);
	(void)CALL(Buffer_Destroy, .buffer = big);
	(void)CALL(Buffer_Destroy, .buffer = a);
	free(down);
	return good;
}

static void *work(void *arg)
{
	struct gang *g = arg;
	int i;

	for (i = 0; i < g->rounds; i++) {
		PJRT_LoadedExecutable *own = NULL;

		if (!one_round(g, i))
			(void)atomic_fetch_add(&g->failed, 1);
		if (i % 10 == 3) {
			const char *text = g->bed->subject->program(PROGRAM_SWAP);

			if (code_of(try_compile(g->bed, text, strlen(text), &own)))
				(void)atomic_fetch_add(&g->failed, 1);
			else
				(void)CALL(LoadedExecutable_Destroy, .executable = own);
		}
	}
	return NULL;
}

static void sixteen_threads_at_once(void **state)
{
	struct bed *t = *state;
	struct gang g = { .bed = t,
			  .add = compile(t, PROGRAM_ADD),
			  .donate = compile(t, PROGRAM_DONATE),
			  .shared = put_vector(t, 1),
			  .rounds = 40 };
	pthread_t threads[THREADS];
	int i;

	host_deadline(120);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, &g), 0);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&g.failed), 0);
	expect_vector(g.shared, 1, 1);
	/* The outputs are ready, so all callbacks have been called or will be soon. */
	while (atomic_load(&g.called) < THREADS * g.rounds)
		(void)sched_yield();
	assert_int_equal(atomic_load(&g.called), THREADS * g.rounds);
	buffer_destroy(g.shared);
	loaded_destroy(g.add);
	loaded_destroy(g.donate);
}

/*
 * One thread deletes programs and arguments that another thread uses. The user gets an error at
 * worst.
 */
struct race {
	struct bed *bed;
	PJRT_LoadedExecutable *program;
	PJRT_Buffer *arg;
	_Atomic int code;
};

static void *use(void *arg)
{
	struct race *r = arg;
	PJRT_Buffer *args[] = { r->arg, r->arg }, *sum = NULL;
	int code = code_of(try_run(r->program, args, 2, &sum));

	if (code == 0) {
		ARGS(Buffer_CopyToMemory, copy, .buffer = sum, .dst_memory = r->bed->memory);

		if (code_of(api->PJRT_Buffer_CopyToMemory(&copy)) == 0) {
			code = code_of(await_error(ready_event(copy.dst_buffer)));
			(void)CALL(Buffer_Destroy, .buffer = copy.dst_buffer);
		}
		(void)CALL(Buffer_Destroy, .buffer = sum);
	}
	atomic_store(&r->code, code);
	return NULL;
}

static void *delete (void *arg)
{
	struct race *r = arg;

	(void)CALL(Buffer_Delete, .buffer = r->arg);
	(void)CALL(LoadedExecutable_Delete, .executable = r->program);
	return NULL;
}

static void deletion_races_with_use(void **state)
{
	struct bed *t = *state;
	int i;

	for (i = 0; i < 100; i++) {
		struct race r = { .bed = t,
				  .program = compile(t, PROGRAM_ADD),
				  .arg = put_vector(t, 1) };
		pthread_t a, b;

		assert_int_equal(pthread_create(&a, NULL, use, &r), 0);
		assert_int_equal(pthread_create(&b, NULL, delete, &r), 0);
		assert_int_equal(pthread_join(a, NULL), 0);
		assert_int_equal(pthread_join(b, NULL), 0);
		assert_int_not_equal(atomic_load(&r.code), SAL_UNAVAILABLE);
		buffer_destroy(r.arg);
		loaded_destroy(r.program);
	}
	{
		PJRT_Buffer *b = put_vector(t, 1);

		expect_vector(b, 1, 1);
		buffer_destroy(b);
	}
}

#define T(test) cmocka_unit_test_setup_teardown(test, bed_setup, bed_teardown)

static int run_suite(void)
{
	const struct CMUnitTest tests[] = {
		T(outputs_are_described_at_once),
		T(donation_is_visible_at_once),
		T(what_did_not_start_took_nothing),
		T(what_comes_back_to_nobody_is_deleted),
		T(what_is_not_donatable_stays),
		T(what_somebody_looks_at_stays),
		T(nothing_is_donated_twice),
		T(a_chain_of_donations),
		T(errors_reach_whom_they_concern),
		T(wrong_calls_are_refused),
		T(there_is_a_most_of_arguments),
		T(wrong_shapes_are_refused),
		T(a_hundred_arguments),
		T(hundreds_of_outputs),
		T(no_outputs_at_all),
		T(order_is_kept),
		T(the_device_can_be_named),
		T(completion_events_are_separate),
		T(sixteen_threads_at_once),
		T(deletion_races_with_use),
	};

	return cmocka_run_group_tests(tests, bed_open, bed_close);
}

int main(int argc, char **argv)
{
	return host_main(argc, argv, run_suite);
}
