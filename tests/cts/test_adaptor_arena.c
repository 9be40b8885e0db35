/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers at their limits. A transfer leaves nothing in the shared memory, whatever its outcome.
 */
#include "support/plugin_host.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define MB (UINT64_C(1) << 20)
#define INLINE_MAX 4096 /* as in the protocol */

static PJRT_Buffer *put_bytes(struct bed *t, const void *data, size_t size)
{
	const int64_t dims[] = { (int64_t)size };

	return put(t, &(struct array){
			      .type = PJRT_Buffer_Type_U8, .dims = dims, .rank = 1, .data = data });
}

static unsigned char *pattern(size_t size, unsigned int seed)
{
	unsigned char *data = malloc(size + 1);
	size_t i;

	assert_non_null(data);
	for (i = 0; i < size; i++)
		data[i] = (unsigned char)(i * 31 + i / 253 + seed);
	return data;
}

/* Sizes from the largest that fits into a record to the smallest that does not. */
static void sizes_around_the_limit_of_a_record(void **state)
{
	struct bed *t = *state;
	size_t size;

	for (size = INLINE_MAX - 2; size <= INLINE_MAX + 2; size++) {
		unsigned char *up = pattern(size, (unsigned int)size), *down = calloc(1, size);
		PJRT_Buffer *b = put_bytes(t, up, size);

		get(b, down, size);
		assert_memory_equal(up, down, size);
		buffer_destroy(b);
		free(up);
		free(down);
	}
}

/* The device packs small types, and rounds their size up to whole bytes. */
static void few_bits_fill_whole_bytes(void **state)
{
	static const struct {
		PJRT_Buffer_Type type;
		int64_t count;
		size_t bytes;
	} rows[] = {
		{ PJRT_Buffer_Type_S4, 1, 1 },	{ PJRT_Buffer_Type_S4, 2, 1 },
		{ PJRT_Buffer_Type_U4, 3, 2 },	{ PJRT_Buffer_Type_U2, 4, 1 },
		{ PJRT_Buffer_Type_S2, 5, 2 },	{ PJRT_Buffer_Type_S8, 3, 3 },
		{ PJRT_Buffer_Type_S16, 3, 6 },
	};
	struct bed *t = *state;
	const char data[16] = { 0 };
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		PJRT_Buffer *b = put(t, &(struct array){ .type = rows[i].type,
							 .dims = &rows[i].count,
							 .rank = 1,
							 .data = data });
		ARGS(Buffer_OnDeviceSizeInBytes, size, .buffer = b);

		ok(api->PJRT_Buffer_OnDeviceSizeInBytes(&size));
		assert_int_equal(size.on_device_size_in_bytes, rows[i].bytes);
		buffer_destroy(b);
	}
}

static PJRT_Error *make_uninitialised(struct bed *t, const int64_t *dims, size_t rank,
				      PJRT_Buffer **out)
{
	ARGS(Client_CreateUninitializedBuffer, u, .client = t->client, .shape_dims = dims,
	     .shape_num_dims = rank, .shape_element_type = PJRT_Buffer_Type_F64,
	     .device = t->device);
	PJRT_Error *error = api->PJRT_Client_CreateUninitializedBuffer(&u);

	*out = u.buffer;
	return error;
}

static void on_gone(void *data, void *arg)
{
	(void)data;
	(void)arg;
}

static PJRT_Error *make_view(struct bed *t, const int64_t *dims, size_t rank, void *data)
{
	return CALL(Client_CreateViewOfDeviceBuffer, .client = t->client, .device_buffer_ptr = data,
		    .dims = dims, .num_dims = rank, .element_type = F32, .device = t->device,
		    .on_delete_callback = on_gone);
}

/* A negative dimension is refused in every call that makes an array, also beside a zero. */
static void sides_below_zero_are_refused(void **state)
{
	static const int64_t shapes[][2] = {
		{ -1, 1 }, { 1, -1 }, { 0, -1 }, { -1, 0 }, { -2, -2 }
	};
	struct bed *t = *state;
	float data[4] = { 0 };
	PJRT_Buffer *b = NULL;
	size_t i;

	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		refused(try_put(t,
				&(struct array){
					.type = F32, .dims = shapes[i], .rank = 2, .data = data },
				&b, NULL),
			SAL_INVALID_ARGUMENT, NULL);
		refused(make_uninitialised(t, shapes[i], 2, &b), SAL_INVALID_ARGUMENT, NULL);
		refused(make_view(t, shapes[i], 2, data),
			t->subject->is_fake ? SAL_UNIMPLEMENTED : SAL_INVALID_ARGUMENT, NULL);
	}
	b = put_vector(t, 1); /* the client still works */
	expect_vector(b, 1, 1);
	buffer_destroy(b);
}

static void uninitialised_buffers_have_a_shape(void **state)
{
	static const int64_t dims[] = { 64, 3, 0 };
	struct bed *t = *state;
	size_t rank;

	for (rank = 0; rank <= 3; rank++) {
		size_t count = rank == 3 ? 0 : rank == 2 ? 192 : rank == 1 ? 64 : 1, i;
		double *down = malloc(count * sizeof(*down) + 1);
		PJRT_Buffer *b = NULL;

		ok(make_uninitialised(t, dims, rank, &b));
		{
			ARGS(Buffer_ElementType, type, .buffer = b);
			ARGS(Buffer_Dimensions, shape, .buffer = b);
			ARGS(Buffer_OnDeviceSizeInBytes, size, .buffer = b);

			ok(api->PJRT_Buffer_ElementType(&type));
			ok(api->PJRT_Buffer_Dimensions(&shape));
			ok(api->PJRT_Buffer_OnDeviceSizeInBytes(&size));
			assert_int_equal(type.type, PJRT_Buffer_Type_F64);
			assert_int_equal(shape.num_dims, rank);
			assert_memory_equal(shape.dims, dims, rank * sizeof(dims[0]));
			assert_int_equal(size.on_device_size_in_bytes, count * sizeof(*down));
		}
		assert_int_equal(ready_code(b), 0);
		get(b, down, count * sizeof(*down));
		for (i = 0; i < count; i++)
			assert_true(down[i] == 0); /* no bytes of another buffer */
		buffer_destroy(b);
		free(down);
	}
}

/* Bytes with an address */

static void *address_of(PJRT_Buffer *b)
{
	ARGS(Buffer_UnsafePointer, p, .buffer = b);

	ok(api->PJRT_Buffer_UnsafePointer(&p));
	return (void *)p.buffer_pointer;
}

#define STAYING 200000

/* The bytes behind an address do not change, however many transfers other buffers make. */
static void an_address_keeps_its_bytes(void **state)
{
	struct bed *t = *state;
	unsigned char *ours, *down;
	PJRT_Buffer *kept;
	const void *at;
	unsigned int i;

	if (t->subject->is_fake)
		skip(); /* bytes of the fake device have no address */
	ours = pattern(STAYING, 1);
	down = malloc(STAYING);
	assert_non_null(down);
	kept = put_bytes(t, ours, STAYING);
	at = address_of(kept);
	for (i = 2; i < 20; i++) {
		unsigned char *theirs = pattern(STAYING, i);
		PJRT_Buffer *b = put_bytes(t, theirs, STAYING);

		get(b, down, STAYING);
		assert_memory_equal(down, theirs, STAYING);
		assert_memory_equal(at, ours, STAYING);
		buffer_destroy(b);
		free(theirs);
	}
	buffer_destroy(kept);
	free(ours);
	free(down);
}

/* Whether the memory is shared with the daemon. */
static bool is_shared(const void *at)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long from, to;
	char line[512];
	bool shared = false;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%llx-%llx", &from, &to) == 2 && (uintptr_t)at >= from &&
		    (uintptr_t)at < to)
			shared = strstr(line, "memfd:") != NULL;
	(void)fclose(maps);
	return shared;
}

#define LARGE (40 * MB)
#define SHARED_MAX 6 /* arrays: 256 MiB, as in host.c */

/*
 * A job may hold on to everything it reads. Only a part of the arena may hold such bytes, and freed
 * bytes can be used again.
 */
static void what_stays_is_limited_and_comes_back(void **state)
{
	PJRT_Buffer *all[SHARED_MAX + 2];
	struct bed *t = *state;
	unsigned char *data;
	size_t i, round;

	if (t->subject->is_fake)
		skip();
	data = pattern(LARGE, 7);
	host_deadline(120);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < SHARED_MAX + 2; i++) {
			const void *at;

			all[i] = put_bytes(t, data, LARGE);
			at = address_of(all[i]);
			assert_memory_equal(at, data, LARGE);
			assert_int_equal(is_shared(at), i < SHARED_MAX);
		}
		for (i = 0; i < SHARED_MAX + 2; i++)
			buffer_destroy(all[i]);
	}
	free(data);
}

/* A full device */

static uint64_t mapped(void)
{
	size_t count;

	return host_mapped_bytes("memfd:", &count);
}

static int64_t bytes_in_use(struct bed *t)
{
	ARGS(Device_MemoryStats, a, .device = t->device);

	ok(api->PJRT_Device_MemoryStats(&a));
	return a.bytes_in_use;
}

/* A client of a daemon with a small device. leave_small restores the old client. */
struct small {
	struct host_daemon daemon;
	PJRT_Client *client;
	PJRT_Device *device;
};

static void join_small(struct bed *t, struct small *s)
{
	static const char *const options[] = { "--memory", "32MiB", NULL };
	ARGS(Client_Devices, devices);

	*s = (struct small){ .client = t->client, .device = t->device };
	daemon_start(&s->daemon, "fake", options);
	t->client = client_create();
	devices.client = t->client;
	ok(api->PJRT_Client_Devices(&devices));
	t->device = devices.devices[0];
}

static void leave_small(struct bed *t, struct small *s)
{
	client_destroy(t->client);
	daemon_stop(&s->daemon);
	t->client = s->client;
	t->device = s->device;
	(void)setenv("SALUS_SOCKET", t->daemon.socket, 1);
}

/*
 * A refused upload gives back its arena range, and its bytes no longer count as in use, though no
 * call asked about the upload.
 */
static void a_refused_upload_leaves_nothing(void **state)
{
	struct bed *t = *state;
	unsigned char *data;
	struct small s;
	uint64_t before = 0;
	int i;

	if (!t->subject->is_fake)
		skip();
	data = pattern(LARGE, 1);
	join_small(t, &s);
	for (i = 0; i < 20; i++) {
		PJRT_Buffer *b = put_bytes(t, data, LARGE), *fine;

		refused(try_get(b, data, LARGE), SAL_RESOURCE_EXHAUSTED, NULL);
		while (bytes_in_use(t) != 0)
			(void)sched_yield(); /* or the deadline */
		buffer_destroy(b);
		assert_int_equal(bytes_in_use(t), 0);
		fine = put_vector(t, 1);
		expect_vector(fine, 1, 1);
		buffer_destroy(fine);
		if (i == 1)
			before = mapped();
		/*
		 * The arena range may come back a little later than the answer, but not twenty
		 * times.
		 */
		if (i > 1)
			assert_true(mapped() <= before + 4 * LARGE);
	}
	leave_small(t, &s);
	free(data);
}

#define T(test) cmocka_unit_test_setup_teardown(test, bed_setup, bed_teardown)

static int run_suite(void)
{
	const struct CMUnitTest tests[] = {
		T(sizes_around_the_limit_of_a_record), T(few_bits_fill_whole_bytes),
		T(sides_below_zero_are_refused),       T(uninitialised_buffers_have_a_shape),
		T(an_address_keeps_its_bytes),	       T(what_stays_is_limited_and_comes_back),
		T(a_refused_upload_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, bed_open, bed_close);
}

int main(int argc, char **argv)
{
	return host_main(argc, argv, run_suite);
}
