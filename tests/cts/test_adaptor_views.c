/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of host memory whose owner writes to it between two uses, as go-xla does. Memory that is
 * handed over, as by dlpack, is in test_adaptor_buffers.c.
 */
#include "support/plugin_host.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"

#define LARGE 300000 /* floats: too many to ride in a record */

static atomic_int ends;

/* The callback of go-xla: it has no argument. */
static void on_end(void *data, void *arg)
{
	assert_non_null(data);
	assert_null(arg);
	ends++;
}

static PJRT_Error *try_view(struct bed *t, float *data, int64_t count, PJRT_Buffer **out)
{
	ARGS(Client_CreateViewOfDeviceBuffer, v, .client = t->client, .device_buffer_ptr = data,
	     .dims = &count, .num_dims = 1, .element_type = F32, .device = t->device,
	     .on_delete_callback = on_end);
	PJRT_Error *error = api->PJRT_Client_CreateViewOfDeviceBuffer(&v);

	*out = v.buffer;
	return error;
}

/* Skips the test on the fake device, whose memory has no address. */
static PJRT_Buffer *view_of(struct bed *t, float *data, int64_t count)
{
	PJRT_Buffer *b = NULL;

	ends = 0;
	if (t->subject->is_fake)
		skip();
	ok(try_view(t, data, count, &b));
	return b;
}

static void count_up(float *data, size_t count, float first)
{
	size_t i;

	for (i = 0; i < count; i++)
		data[i] = first + (float)i;
}

static PJRT_Buffer *run(PJRT_LoadedExecutable *p, PJRT_Buffer *a, PJRT_Buffer *b)
{
	PJRT_Buffer *args[] = { a, b }, *output = NULL;

	ok(try_execute(
		&(struct run){ .loaded = p, .args = args, .arg_count = 2, .outputs = &output }));
	return output;
}

static void programs_see_what_is_written(void **state)
{
	struct bed *t = *state;
	float data[LANES] = { 0 };
	PJRT_Buffer *view = view_of(t, data, LANES), *other = put_vector(t, 10), *sums[3];
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	size_t i;

	assert_int_equal(ready_code(view), 0);
	for (i = 0; i < 3; i++) { /* what is written after a call does not reach it */
		count_up(data, LANES, (float)i);
		sums[i] = run(p, view, i == 2 ? view : other);
	}
	count_up(data, LANES, 100);
	expect_vector(sums[0], 10, 2);
	expect_vector(sums[1], 11, 2);
	expect_vector(sums[2], 4, 2);
	for (i = 0; i < 3; i++)
		buffer_destroy(sums[i]);
	assert_int_equal(ends, 0);
	buffer_destroy(view);
	assert_int_equal(ends, 1);
	buffer_destroy(other);
	loaded_destroy(p);
}

static void copies_and_downloads_see_what_is_written(void **state)
{
	struct bed *t = *state;
	float data[LANES] = { 0 }, part[2];
	PJRT_Buffer *view = view_of(t, data, LANES);
	ARGS(Buffer_CopyToDevice, c, .buffer = view, .dst_device = t->device);
	ARGS(Buffer_CopyRawToHost, raw, .buffer = view, .dst = part, .offset = sizeof(part),
	     .transfer_size = sizeof(part));
	ARGS(Buffer_UnsafePointer, at, .buffer = view);

	count_up(data, LANES, 1);
	expect_vector(view, 1, 1);
	count_up(data, LANES, 2);
	expect_vector(view, 2, 1);
	ok(api->PJRT_Buffer_CopyToDevice(&c));
	ok(api->PJRT_Buffer_CopyRawToHost(&raw));
	count_up(data, LANES, 3);
	expect_vector(c.dst_buffer, 2, 1);
	assert_int_equal(await(raw.event), 0);
	assert_true(part[0] == 4 && part[1] == 5);
	ok(api->PJRT_Buffer_UnsafePointer(&at));
	assert_true(at.buffer_pointer == (uintptr_t)data);
	buffer_destroy(c.dst_buffer);
	buffer_destroy(view);
}

static void large_ones_are_views_too(void **state)
{
	struct bed *t = *state;
	PJRT_Buffer *view;
	float *data, *down;

	if (t->subject->is_fake)
		skip();
	data = calloc(LARGE, sizeof(*data));
	down = calloc(LARGE, sizeof(*down));
	assert_true(data && down);
	view = view_of(t, data, LARGE);
	count_up(data, LARGE, 1);
	get(view, down, LARGE * sizeof(*down));
	assert_memory_equal(down, data, LARGE * sizeof(*down));
	data[LARGE - 1] = -1;
	get(view, down, LARGE * sizeof(*down));
	assert_memory_equal(down, data, LARGE * sizeof(*down));
	buffer_destroy(view);
	free(data);
	free(down);
}

/* The vendor does not take over memory that is not its own. */
static void views_are_not_donated(void **state)
{
	struct bed *t = *state;
	float data[LANES] = { 1, 2, 3, 4 };
	PJRT_Buffer *view = view_of(t, data, LANES), *other = put_vector(t, 10), *sum;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_DONATE);

	sum = run(p, view, other);
	expect_vector(sum, 11, 2);
	assert_false(is_deleted(view));
	assert_true(data[0] == 1);
	buffer_destroy(sum);
	sum = run(p, view, other);
	expect_vector(sum, 11, 2);
	buffer_destroy(sum);
	buffer_destroy(view);
	buffer_destroy(other);
	loaded_destroy(p);
}

static void deleted_ones_are_gone(void **state)
{
	struct bed *t = *state;
	float data[LANES] = { 1, 2, 3, 4 }, down[LANES];
	PJRT_Buffer *view = view_of(t, data, LANES), *args[] = { view, view }, *sum = NULL;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	ARGS(Buffer_CopyToDevice, c, .buffer = view, .dst_device = t->device);

	ok(CALL(Buffer_Delete, .buffer = view));
	assert_true(is_deleted(view));
	refused(try_get(view, down, sizeof(down)), SAL_INVALID_ARGUMENT, "deleted");
	refused(api->PJRT_Buffer_CopyToDevice(&c), SAL_INVALID_ARGUMENT, "deleted");
	refused(try_execute(&(struct run){
			.loaded = p, .args = args, .arg_count = 2, .outputs = &sum }),
		SAL_INVALID_ARGUMENT, "deleted");
	buffer_destroy(view);
	assert_int_equal(ends, 1);
	loaded_destroy(p);
}

static void a_callback_is_not_needed(void **state)
{
	struct bed *t = *state;
	float data[LANES] = { 0 };
	const int64_t dims[] = { LANES };
	ARGS(Client_CreateViewOfDeviceBuffer, v, .client = t->client, .device_buffer_ptr = data,
	     .dims = dims, .num_dims = 1, .element_type = F32, .device = t->device);

	if (t->subject->is_fake)
		skip();
	ok(api->PJRT_Client_CreateViewOfDeviceBuffer(&v));
	count_up(data, LANES, 7);
	expect_vector(v.buffer, 7, 1);
	buffer_destroy(v.buffer);
}

/* There is nothing to write to: the owner has its memory back at once. */
static void empty_ones_end_at_once(void **state)
{
	float data[1] = { 0 };
	PJRT_Buffer *view = view_of(*state, data, 0);

	assert_int_equal(ends, 1);
	get(view, data, 0);
	buffer_destroy(view);
	assert_int_equal(ends, 1);
}

static PJRT_Error *view_with(struct bed *t, int32_t *data, PJRT_Buffer_Type type,
			     const int64_t *minor_to_major, PJRT_Buffer **out)
{
	static const int64_t dims[] = { 2, 3 };
	PJRT_Buffer_MemoryLayout layout = { .struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
					    .type = PJRT_Buffer_MemoryLayout_Type_Tiled };
	ARGS(Client_CreateViewOfDeviceBuffer, v, .client = t->client, .device_buffer_ptr = data,
	     .dims = dims, .num_dims = 2, .element_type = type, .layout = &layout,
	     .device = t->device);
	PJRT_Error *error;

	layout.tiled.minor_to_major = minor_to_major;
	layout.tiled.minor_to_major_size = 2;
	error = api->PJRT_Client_CreateViewOfDeviceBuffer(&v);
	*out = v.buffer;
	return error;
}

static void other_orders_are_refused(void **state)
{
	static const int64_t rows[] = { 1, 0 }, columns[] = { 0, 1 };
	struct bed *t = *state;
	int32_t data[6] = { 0 }, down[6] = { 1 };
	PJRT_Buffer *b = NULL;

	if (t->subject->is_fake)
		skip();
	refused(view_with(t, data, PJRT_Buffer_Type_S32, columns, &b), SAL_UNIMPLEMENTED,
		"row-major");
	refused(view_with(t, data, PJRT_Buffer_Type_S4, rows, &b), SAL_UNIMPLEMENTED,
		"smaller than a byte");
	ok(view_with(t, data, PJRT_Buffer_Type_S32, rows, &b));
	get(b, down, sizeof(down));
	assert_memory_equal(down, data, sizeof(down));
	buffer_destroy(b);
}

#define T(test) cmocka_unit_test_setup_teardown(test, bed_setup, bed_teardown)

static int run_suite(void)
{
	const struct CMUnitTest tests[] = {
		T(programs_see_what_is_written), T(copies_and_downloads_see_what_is_written),
		T(large_ones_are_views_too),	 T(views_are_not_donated),
		T(deleted_ones_are_gone),	 T(a_callback_is_not_needed),
		T(empty_ones_end_at_once),	 T(other_orders_are_refused),
	};

	return cmocka_run_group_tests(tests, bed_open, bed_close);
}

int main(int argc, char **argv)
{
	return host_main(argc, argv, run_suite);
}
