/* SPDX-License-Identifier: Apache-2.0 */
/* kind: sessions with several devices, on the fake device. */
#include "service/memory/kind.h"

#include <string.h>

#include "core/session.h"
#include "unit/service/run_bed.h"

#define BYTES UINT64_C(4096)

static struct run_bed bed;

static int teardown(void **state)
{
	(void)state;
	bed_close(&bed);
	return 0;
}

static void open_bed(const char *plugin)
{
	bed_open(&bed, &(struct run_config){ .plugin = plugin, .lanes = 2 });
}

static void upload_to(struct run_client *c, uint64_t id, uint8_t device, unsigned char value)
{
	struct {
		struct sal_msg_upload m;
		int64_t dims[1];
		unsigned char bytes[BYTES];
	} all = {
		.m = { .header = { .type = SAL_MSG_UPLOAD, .device = device },
		       .id = id,
		       .type = 6,
		       .rank = 1,
		       .size = BYTES },
		.dims = { BYTES },
	};

	memset(all.bytes, value, BYTES);
	all.m.header.size = sal_record_size(sizeof(all.m), sizeof(all.dims) + BYTES);
	client_send(c, &all, all.m.header.size);
}

static void copy_to(struct run_client *c, uint64_t from, uint64_t to, uint8_t device)
{
	struct sal_msg_copy m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_COPY, .device = device },
		.from = from,
		.to = to,
	};

	client_send(c, &m, sizeof(m));
}

/* Runs program 1 with two arguments on each device. */
static uint64_t execute_on(struct run_client *c, uint32_t devices, uint64_t first_output,
			   const uint64_t *args)
{
	struct {
		struct sal_msg_execute m;
		uint64_t args[8];
	} all = {
		.m = { .header = { .type = SAL_MSG_EXECUTE, .devices = (uint8_t)devices },
		       .request = ++c->requests,
		       .program = 1,
		       .first_output = first_output,
		       .output_count = 1,
		       .arg_count = 2 },
	};

	memcpy(all.args, args, (size_t)(devices ? devices : 1) * 2 * sizeof(*args));
	all.m.header.size = sal_record_size(sizeof(all.m), (size_t)(devices ? devices : 1) * 16);
	client_send(c, &all, all.m.header.size);
	return c->requests;
}

static bool is_free(uint32_t devices)
{
	for (uint32_t i = 1; i < SVC_KINDS_MAX; i++)
		if (bed.server.kinds[i].state != SVC_KIND_FREE &&
		    bed.server.kinds[i].devices == devices)
			return false;
	return true;
}

#define PAIR "fake 1\nchips 2\ntemp 1000\noutput u8 4096 = add 0 1\ndonate 0 0\n"

static void devices_run_together(void **state)
{
	static const uint64_t args[] = { 10, 11, 12, 13 };
	struct run_client c;
	uint64_t request;

	(void)state;
	open_bed("fake");
	client_open_devices(&c, &bed, "wide", 2);
	assert_int_equal(c.session->devices, 2);
	client_program(&c, 1, PAIR);
	upload_to(&c, 10, 0, 1);
	upload_to(&c, 11, 0, 2);
	upload_to(&c, 12, 1, 30);
	upload_to(&c, 13, 1, 40);
	request = execute_on(&c, 2, 20, args);
	assert_int_equal(client_answer(&c, request), SAL_OK);
	client_expect(&c, 20, BYTES, 3);
	client_expect(&c, 21, BYTES, 70);
	client_expect(&c, 11, BYTES, 2);
	/* Both scratches count, and donated memory counts once. */
	BED_WAIT(&bed, c.session->temp_bytes == 2000);
	BED_WAIT(&bed, c.session->live_bytes == 4 * BYTES);
	assert_int_equal(client_answer(&c, client_await(&c, 12)), SAL_INVALID_ARGUMENT);
	copy_to(&c, 21, 22, 0);
	client_expect(&c, 22, BYTES, 70);
	BED_ASSERT(&bed, ((struct svc_buffer *)svc_idmap_find(&c.session->buffers, 22))->chip == 0);
	client_close(&c);
}

/* An argument on another device than its list is the client's error, not ours. */
static void arguments_are_on_their_device(void **state)
{
	static const uint64_t args[] = { 10, 11, 10, 11 };
	struct run_client c;

	(void)state;
	open_bed("fake");
	client_open_devices(&c, &bed, "wide", 2);
	client_program(&c, 1, "fake 1\nchips 2\noutput u8 4096 = add 0 1\n");
	upload_to(&c, 10, 0, 1);
	upload_to(&c, 11, 0, 2);
	assert_int_equal(client_answer(&c, execute_on(&c, 2, 20, args)), SAL_INVALID_ARGUMENT);
	client_expect(&c, 10, BYTES, 1);
	client_close(&c);
}

static void a_device_too_many_ends_the_client(void **state)
{
	struct run_client c, alone;
	static const uint64_t args[] = { 10, 11, 10, 11 };

	(void)state;
	open_bed("fake");
	client_open_devices(&c, &bed, "wide", 2);
	client_open(&alone, &bed, "alone");
	upload_to(&c, 10, 2, 1);
	BED_WAIT(&bed, c.session->state != SVC_OPEN);
	client_program(&alone, 1, "fake 1\noutput u8 4096 = add 0 1\n");
	upload_to(&alone, 10, 0, 1);
	upload_to(&alone, 11, 0, 2);
	(void)execute_on(&alone, 2, 20, args); /* a list too many */
	BED_WAIT(&bed, alone.session->state != SVC_OPEN);
	client_close(&c);
	client_close(&alone);
}

/* The session is paged out with buffers on both devices, and finds all as it was. */
static void pages_go_back_to_their_device(void **state)
{
	static const uint64_t args[] = { 10, 11, 12, 13 };
	struct run_client c, other;

	(void)state;
	bed_open(&bed, &(struct run_config){ .memory_bytes = 5 * BYTES });
	client_open_devices(&c, &bed, "wide", 2);
	client_open(&other, &bed, "other");
	client_program(&c, 1, "fake 1\nchips 2\noutput u8 4096 = add 0 1\ndonate 0 0\n");
	for (uint64_t i = 0; i < 4; i++)
		upload_to(&c, 10 + i, (uint8_t)(i / 2), (unsigned char)(1 + i));
	client_expect(&c, 13, BYTES, 4);
	client_upload(&other, 1, 2 * BYTES, 9);
	client_expect(&other, 1, 2 * BYTES, 9);
	BED_WAIT(&bed, c.session->core->place == SAL_OUTSIDE);
	client_expect(&c, 12, BYTES, 3);
	assert_int_equal(client_answer(&c, execute_on(&c, 2, 20, args)), SAL_OK);
	client_expect(&c, 20, BYTES, 3);
	client_expect(&c, 21, BYTES, 7);
	client_close(&c);
	client_close(&other);
}

static void the_last_session_closes_the_streams(void **state)
{
	struct run_client a, b, other;

	(void)state;
	open_bed("fake");
	client_open_devices(&a, &bed, "a", 2);
	client_open_devices(&b, &bed, "b", 2);
	client_open_devices(&other, &bed, "other", 3);
	assert_int_equal(a.session->kind, b.session->kind);
	assert_int_not_equal(a.session->kind, other.session->kind);
	client_close(&a);
	BED_ASSERT(&bed, !is_free(2));
	client_close(&b);
	BED_WAIT(&bed, is_free(2));
	BED_ASSERT(&bed, !is_free(3));
	client_open_devices(&a, &bed, "again", 2);
	client_close(&a);
	client_close(&other);
	BED_WAIT(&bed, is_free(2) && is_free(3));
}

static void never(struct svc_server *server, uint32_t kind, const struct sal_err *err)
{
	(void)server;
	(void)kind;
	(void)err;
	fail_msg("nobody asked for this kind");
}

/* The last session may end between the greeting of the next client and its session. */
static void who_has_found_a_kind_can_enter(void **state)
{
	struct run_client c;
	struct sal_err err = { 0 };
	uint32_t found, entered;

	(void)state;
	open_bed("fake");
	client_open_devices(&c, &bed, "last", 2);
	assert_int_equal(svc_kind_find(&bed.server, 2, never, &found, &err), 0);
	client_close(&c);
	assert_int_equal(svc_kind_enter(&bed.server, 2, &entered, &err), SAL_OK);
	assert_int_equal(entered, found);
	svc_kind_leave_soon(&bed.server, found);
	BED_ASSERT(&bed, !is_free(2));
	svc_kind_leave(&bed.server, entered);
	BED_WAIT(&bed, is_free(2));
}

static void wishes_have_bounds(void **state)
{
	struct run_client c[SVC_KINDS_MAX - 1];
	struct sal_err err = { 0 };
	uint32_t kind;

	(void)state;
	open_bed("fake");
	assert_int_equal(svc_kind_find(&bed.server, SAL_DEVICES_MAX + 1, never, &kind, &err),
			 -SAL_INVALID_ARGUMENT);
	assert_non_null(strstr(err.text, "65 devices"));
	for (uint32_t i = 0; i + 1 < SVC_KINDS_MAX; i++)
		client_open_devices(&c[i], &bed, "wide", i + 2);
	assert_int_equal(svc_kind_find(&bed.server, 20, never, &kind, &err),
			 -SAL_RESOURCE_EXHAUSTED);
	for (uint32_t i = 0; i + 1 < SVC_KINDS_MAX; i++)
		client_close(&c[i]);
	BED_WAIT(&bed, is_free(2));
}

/* Settings of JAX's own CPU backend mean nothing to another device. */
static void only_a_host_has_host_devices(void **state)
{
	const struct sal_hello host = { .host_devices = 4 },
			       both = { .devices = 2, .host_devices = 4 };
	const struct sal_hello none = { 0 };

	(void)state;
	open_bed("fake");
	assert_int_equal(svc_kind_wish(&bed.server, &host), 1);
	assert_int_equal(svc_kind_wish(&bed.server, &both), 2);
	assert_int_equal(svc_kind_wish(&bed.server, &none), 1);
}

static svc_kind_opened_fn note_failure;
static int failure;

static void note_failure(struct svc_server *server, uint32_t kind, const struct sal_err *err)
{
	(void)server;
	(void)kind;
	failure = err->code;
}

/* Streams that cannot be opened are told, and the next session tries again. */
static void a_failure_is_told(void **state)
{
	struct run_client c;
	struct sal_err err = { 0 };
	uint32_t kind;

	(void)state;
	open_bed("fake:open_stream@2=8");
	assert_int_equal(svc_kind_find(&bed.server, 2, note_failure, &kind, &err), 1);
	while (!failure)
		(void)uv_run(&bed.server.loop, UV_RUN_ONCE);
	assert_int_equal(failure, SAL_RESOURCE_EXHAUSTED);
	while (bed.server.preparing > 0)
		(void)uv_run(&bed.server.loop, UV_RUN_ONCE);
	BED_WAIT(&bed, is_free(2));
	client_open_devices(&c, &bed, "again", 2);
	client_close(&c);
	BED_WAIT(&bed, is_free(2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(devices_run_together, teardown),
		cmocka_unit_test_teardown(arguments_are_on_their_device, teardown),
		cmocka_unit_test_teardown(a_device_too_many_ends_the_client, teardown),
		cmocka_unit_test_teardown(pages_go_back_to_their_device, teardown),
		cmocka_unit_test_teardown(the_last_session_closes_the_streams, teardown),
		cmocka_unit_test_teardown(who_has_found_a_kind_can_enter, teardown),
		cmocka_unit_test_teardown(wishes_have_bounds, teardown),
		cmocka_unit_test_teardown(only_a_host_has_host_devices, teardown),
		cmocka_unit_test_teardown(a_failure_is_told, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
