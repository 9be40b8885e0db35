/* SPDX-License-Identifier: Apache-2.0 */
/* host: arrays in the host's memory, on the fake device, whose second memory is pinned_host. */
#include "service/memory/host.h"

#include <string.h>

#include "core/session.h"
#include "unit/service/run_bed.h"

#define BYTES UINT64_C(4096)
#define DEVICE 1
#define HOST 2

static struct run_bed bed;

static int teardown(void **state)
{
	(void)state;
	bed_close(&bed);
	return 0;
}

static void open_client(struct run_client *c, const char *name)
{
	client_open(c, &bed, name);
	svc_lock(&bed.server);
	c->session->names_memories = true;
	svc_unlock(&bed.server);
}

static void upload_to(struct run_client *c, uint64_t id, uint8_t memory, unsigned char value)
{
	struct {
		struct sal_msg_upload m;
		int64_t dims[1];
		unsigned char bytes[BYTES];
	} all = {
		.m = { .header = { .type = SAL_MSG_UPLOAD, .memory = memory },
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

static void copy_to(struct run_client *c, uint64_t from, uint64_t to, uint8_t memory)
{
	struct sal_msg_copy m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_COPY, .memory = memory },
		.from = from,
		.to = to,
	};

	client_send(c, &m, sizeof(m));
}

static uint64_t host_bytes(const struct run_client *c)
{
	return c->session->account.used[SVC_HOST_BYTES];
}

static void arrays_on_the_host_take_no_device_memory(void **state)
{
	struct run_client c;

	(void)state;
	bed_open(&bed, &(struct run_config){ .memory_bytes = 2 * BYTES });
	open_client(&c, "job");
	for (uint64_t i = 1; i <= 8; i++)
		upload_to(&c, i, HOST, (unsigned char)i);
	client_expect(&c, 8, BYTES, 8);
	BED_ASSERT(&bed, c.session->live_bytes == 0 && c.session->charged_bytes == 0);
	BED_ASSERT(&bed, host_bytes(&c) == 8 * BYTES);
	assert_int_equal(bed_device_bytes(&bed), 0);
	copy_to(&c, 3, 20, DEVICE);
	client_expect(&c, 20, BYTES, 3);
	BED_WAIT(&bed, c.session->live_bytes == BYTES);
	assert_int_equal(bed_device_bytes(&bed), BYTES);
	copy_to(&c, 20, 21, HOST);
	client_expect(&c, 21, BYTES, 3);
	BED_ASSERT(&bed, c.session->live_bytes == BYTES && host_bytes(&c) == 9 * BYTES);
	client_delete(&c, 21);
	client_delete(&c, 1);
	BED_WAIT(&bed, host_bytes(&c) == 7 * BYTES);
	bed_check(&bed);
	client_close(&c);
}

/* A client that is older than memories leaves anything in that byte. */
static void older_clients_name_no_memory(void **state)
{
	struct run_client c;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	client_open(&c, &bed, "old");
	upload_to(&c, 1, HOST, 5);
	upload_to(&c, 2, 77, 6);
	client_expect(&c, 2, BYTES, 6);
	BED_ASSERT(&bed, c.session->live_bytes == 2 * BYTES && host_bytes(&c) == 0);
	client_close(&c);
}

static void an_unknown_memory_ends_the_client(void **state)
{
	struct run_client a, b;

	(void)state;
	bed_open(&bed, &(struct run_config){ 0 });
	open_client(&a, "a");
	open_client(&b, "b");
	upload_to(&a, 1, HOST + 1, 1);
	BED_WAIT(&bed, a.session->state != SVC_OPEN);
	upload_to(&b, 1, DEVICE, 1);
	copy_to(&b, 1, 2, HOST + 1);
	BED_WAIT(&bed, b.session->state != SVC_OPEN);
	client_close(&a);
	client_close(&b);
}

static void the_host_has_a_limit(void **state)
{
	struct run_config config = { 0 };
	struct run_client c;

	(void)state;
	config.limits.max[SVC_JOB][SVC_HOST_BYTES] = 2 * BYTES;
	bed_open(&bed, &config);
	open_client(&c, "job");
	client_program(&c, 1, "fake 1\noutput u8 4096 = copy 0\nhost 0\n");
	upload_to(&c, 1, HOST, 1);
	upload_to(&c, 2, HOST, 2);
	upload_to(&c, 3, HOST, 3);
	assert_int_equal(client_answer(&c, client_await(&c, 3)), SAL_RESOURCE_EXHAUSTED);
	c.answer.tail[c.answer.size] = '\0';
	assert_non_null(strstr((char *)c.answer.tail, "job-host"));
	copy_to(&c, 1, 4, HOST);
	assert_int_equal(client_answer(&c, client_await(&c, 4)), SAL_RESOURCE_EXHAUSTED);
	assert_int_equal(client_answer(&c, client_execute(&c, 1, 5, 1, (uint64_t[]){ 1 }, 1)),
			 SAL_RESOURCE_EXHAUSTED);
	client_expect(&c, 1, BYTES, 1);
	client_delete(&c, 2);
	BED_WAIT(&bed, host_bytes(&c) == BYTES);
	assert_int_equal(client_answer(&c, client_execute(&c, 1, 6, 1, (uint64_t[]){ 1 }, 1)),
			 SAL_OK);
	client_expect(&c, 6, BYTES, 1);
	client_close(&c);
}

static void outputs_go_where_the_program_says(void **state)
{
	struct run_client c;

	(void)state;
	bed_open(&bed, &(struct run_config){ .memory_bytes = 2 * BYTES });
	open_client(&c, "job");
	client_program(&c, 1, "fake 1\noutput u8 4096 = copy 0\noutput u8 4096 = copy 0\nhost 1\n");
	upload_to(&c, 1, HOST, 7);
	assert_int_equal(client_answer(&c, client_execute(&c, 1, 10, 2, (uint64_t[]){ 1 }, 1)),
			 SAL_OK);
	client_expect(&c, 10, BYTES, 7);
	client_expect(&c, 11, BYTES, 7);
	BED_ASSERT(&bed, c.session->live_bytes == BYTES && host_bytes(&c) == 2 * BYTES);
	client_close(&c);
}

/* A page-out leaves them where they are, and they can be read meanwhile. */
static void arrays_on_the_host_are_not_paged(void **state)
{
	struct run_client c, other;
	uint64_t saved;

	(void)state;
	bed_open(&bed, &(struct run_config){ .memory_bytes = 3 * BYTES });
	open_client(&c, "job");
	open_client(&other, "other");
	client_program(&c, 1, "fake 1\noutput u8 4096 = add 0 1\ndonate 0 0\n");
	upload_to(&c, 1, DEVICE, 1);
	upload_to(&c, 2, HOST, 2);
	client_expect(&c, 1, BYTES, 1);
	client_expect(&c, 2, BYTES, 2);
	saved = bed_calls(&bed, FAKE_CALL_SAVE);
	client_upload(&other, 1, 2 * BYTES + BYTES / 2, 9);
	client_expect(&other, 1, 2 * BYTES + BYTES / 2, 9);
	BED_WAIT(&bed, c.session->core->place == SAL_OUTSIDE);
	assert_int_equal(bed_calls(&bed, FAKE_CALL_SAVE), saved + 1);
	client_expect(&c, 2, BYTES, 2);
	client_delete(&other, 1);
	assert_int_equal(client_answer(&c, client_execute(&c, 1, 10, 1, (uint64_t[]){ 1, 2 }, 2)),
			 SAL_OK);
	client_expect(&c, 10, BYTES, 3);
	client_close(&c);
	client_close(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(arrays_on_the_host_take_no_device_memory, teardown),
		cmocka_unit_test_teardown(older_clients_name_no_memory, teardown),
		cmocka_unit_test_teardown(an_unknown_memory_ends_the_client, teardown),
		cmocka_unit_test_teardown(the_host_has_a_limit, teardown),
		cmocka_unit_test_teardown(outputs_go_where_the_program_says, teardown),
		cmocka_unit_test_teardown(arrays_on_the_host_are_not_paged, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
