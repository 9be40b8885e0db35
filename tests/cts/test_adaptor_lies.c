/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon that lies, everywhere the plugin relies on its answers. The job gets an error that it
 * can catch, and the plugin leaves nothing of the connection behind.
 */
#include "support/false_daemon.h"
#include "support/plugin_host.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"

#define LARGE 65536 /* bytes, which go through the arena */

/* A job with one object of each kind */

struct job {
	struct bed bed;
	PJRT_LoadedExecutable *program;
	PJRT_Buffer *buffers[8];
	size_t count;
	char *bytes; /* owned; 2 * FALSE_SEGMENT_BYTES */
};

static PJRT_Error *join(struct job *j)
{
	ARGS(Client_Create, a);
	PJRT_Error *error = api->PJRT_Client_Create(&a);

	if (error)
		return error;
	j->bed.client = a.client;
	{
		ARGS(Client_AddressableDevices, d, .client = a.client);

		ok(api->PJRT_Client_AddressableDevices(&d));
		j->bed.device = d.addressable_devices[0];
	}
	{
		ARGS(Device_DefaultMemory, m, .device = j->bed.device);

		ok(api->PJRT_Device_DefaultMemory(&m));
	}
	return NULL;
}

static PJRT_Error *upload(struct job *j, size_t size)
{
	const int64_t dims[] = { (int64_t)size };

	return try_put(
		&j->bed,
		&(struct array){
			.type = PJRT_Buffer_Type_U8, .dims = dims, .rank = 1, .data = j->bytes },
		&j->buffers[j->count++], NULL);
}

/* Runs an iteration and reads its result. */
static PJRT_Error *step(struct job *j)
{
	PJRT_Buffer **out = &j->buffers[j->count++];
	PJRT_Event *done = NULL;
	PJRT_Error *error =
		try_execute(&(struct run){ .loaded = j->program, .outputs = out, .done = &done });

	if (!error)
		error = await_error(done);
	return error ? error : try_get(*out, j->bytes, LANES * sizeof(float));
}

static PJRT_Error *work(struct job *j)
{
	PJRT_Error *error = join(j);

	if (!error)
		error = try_compile(&j->bed, "any", 3, &j->program);
	if (!error)
		error = step(j);
	if (!error)
		error = step(j); /* now the result is prefetched */
	if (!error)
		error = upload(j, LARGE);
	if (!error)
		error = try_get(j->buffers[j->count - 1], j->bytes, LARGE);
	if (!error)
		error = upload(j, 2 * FALSE_SEGMENT_BYTES);
	return error;
}

static void leave(struct job *j)
{
	while (j->count > 0)
		if (j->buffers[--j->count])
			buffer_destroy(j->buffers[j->count]);
	if (j->program)
		loaded_destroy(j->program);
	if (j->bed.client)
		client_destroy(j->bed.client);
	free(j->bytes);
}

/* Lies */

static void other_magic(struct greeting *g)
{
	g->welcome.magic++;
}

static void other_major(struct greeting *g)
{
	g->welcome.major++;
}

static void endless_reason(struct greeting *g)
{
	g->welcome.code = SAL_PERMISSION_DENIED;
	memset(g->welcome.reason, 'x', sizeof(g->welcome.reason));
}

static void reason_of_no_code(struct greeting *g)
{
	g->welcome.code = INT_MIN;
}

static void keep_descriptors(struct greeting *g, int count)
{
	for (; count < 4; count++) {
		(void)close(g->fds[count]);
		g->fds[count] = -1;
	}
}

static void no_descriptor(struct greeting *g)
{
	keep_descriptors(g, 0);
}

static void one_descriptor(struct greeting *g)
{
	keep_descriptors(g, 1);
}

static void three_descriptors(struct greeting *g)
{
	keep_descriptors(g, 3);
}

static void rings_of_nothing(struct greeting *g)
{
	g->welcome.ring_bytes = 0;
}

static void small_rings(struct greeting *g)
{
	g->welcome.ring_bytes = 4096;
}

static void odd_rings(struct greeting *g)
{
	g->welcome.ring_bytes += 8;
}

static void rings_beyond_their_memory(struct greeting *g)
{
	g->welcome.ring_bytes *= 2;
}

static void endless_rings(struct greeting *g)
{
	g->welcome.ring_bytes = UINT64_C(1) << 63;
}

/* An older daemon has no holding, so its shared memory is smaller than the one sent here. */
static void older_minor(struct greeting *g)
{
	g->welcome.minor = 0;
}

static void segment_beyond_its_memory(struct greeting *g)
{
	g->welcome.segment_bytes += 4096;
}

static void segment_of_nothing(struct greeting *g)
{
	g->welcome.segment_bytes = 0;
}

static void replace(int *fd, int other)
{
	assert_true(other >= 0);
	(void)close(*fd);
	*fd = other;
}

/* Memory that its owner could truncate while the plugin reads it. */
static int unsealed(uint64_t bytes)
{
	int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

static void segment_that_can_shrink(struct greeting *g)
{
	replace(&g->fds[3], unsealed(FALSE_SEGMENT_BYTES));
}

static void segment_that_is_no_memory(struct greeting *g)
{
	replace(&g->fds[3], open("/dev/null", O_RDWR | O_CLOEXEC));
}

static void too_many_facts(struct greeting *g)
{
	g->welcome.fact_bytes = UINT64_C(1) << 60;
}

static void fewer_facts(struct greeting *g)
{
	g->cut = g->fact_size / 2;
}

static void no_facts(struct greeting *g)
{
	g->welcome.fact_bytes = g->fact_size = 0;
}

static void garbled_facts(struct greeting *g)
{
	memset(g->facts, 0xff, g->fact_size);
}

static void half_a_welcome(struct greeting *g)
{
	g->cut = g->fact_size + sizeof(g->welcome) / 2;
}

static void nothing_at_all(struct greeting *g)
{
	g->cut = g->fact_size + sizeof(g->welcome);
}

static void longer_than_anything(struct greeting *g)
{
	g->welcome.size = UINT32_MAX;
}

static void no_memories(struct sal_device_facts *f)
{
	f->memory_count = 0;
}

static void default_of_no_memory(struct sal_device_facts *f)
{
	f->default_memory = 7;
}

static const struct sal_memory_facts many_memories[100];

static void a_hundred_memories(struct sal_device_facts *f)
{
	f->memories = many_memories;
	f->memory_count = 100;
}

static void the_hundredth_memory(struct sal_device_facts *f)
{
	a_hundred_memories(f);
	f->default_memory = 99;
}

static const int64_t deep_dims[100];

static void of_rank_100(struct sal_program_facts *f)
{
	static const struct sal_output_facts o = { .type = 11, .rank = 100, .dims = deep_dims };

	f->outputs = &o;
}

static void of_negative_size(struct sal_program_facts *f)
{
	static const int64_t dims[] = { -4, 1 };
	static const struct sal_output_facts o = { .type = 11, .rank = 2, .dims = dims };

	f->outputs = &o;
}

/* The zero dimension hides the negative one: the array has no bytes. */
static void of_minus_one(struct sal_program_facts *f)
{
	static const int64_t dims[] = { 0, -1 };
	static const struct sal_output_facts o = { .type = 11, .rank = 2, .dims = dims };

	f->outputs = &o;
}

static void of_too_many_elements(struct sal_program_facts *f)
{
	static const int64_t dims[] = { INT64_MAX, INT64_MAX, 16 };
	static const struct sal_output_facts o = { .type = 11, .rank = 3, .dims = dims };

	f->outputs = &o;
}

static void of_no_type(struct sal_program_facts *f)
{
	static const int64_t dims[] = { 4 };
	static const struct sal_output_facts o = { .type = -1, .rank = 1, .dims = dims };

	f->outputs = &o;
}

static void value_of_nothing(struct spoken *s)
{
	s->record.reply.value = 0;
}

static void value_beyond_all(struct spoken *s)
{
	s->record.reply.value = UINT64_MAX;
}

static void value_one_more(struct spoken *s)
{
	s->record.reply.value++;
}

static void value_one_less(struct spoken *s)
{
	s->record.reply.value--;
}

static void code_without_a_word(struct spoken *s)
{
	s->record.reply.code = SAL_INTERNAL;
}

static void code_of_no_error(struct spoken *s)
{
	s->record.reply.code = 4711;
}

static void least_code(struct spoken *s)
{
	s->record.reply.code = INT_MIN;
}

static void text_of_no_end(struct spoken *s)
{
	s->record.reply.header.size = s->room = sizeof(s->record.reply) + 64;
	s->record.reply.code = SAL_INTERNAL;
	s->record.reply.text_size = 64;
	memset(&s->record.reply + 1, 'x', 64);
}

static void text_beyond_the_record(struct spoken *s)
{
	s->record.reply.code = SAL_INTERNAL;
	s->record.reply.text_size = 1u << 20;
}

static void a_done_instead(struct spoken *s)
{
	uint64_t request = s->record.reply.request;

	memset(&s->record, 0, sizeof(s->record));
	s->record.done.header.size = sizeof(s->record.done);
	s->record.done.header.type = SAL_MSG_DONE;
	s->record.done.request = request;
	s->room = sizeof(s->record.done);
}

static void a_reply_instead(struct spoken *s)
{
	uint64_t request = s->record.done.request;

	memset(&s->record, 0, sizeof(s->record));
	s->record.reply.header.size = sizeof(s->record.reply);
	s->record.reply.header.type = SAL_MSG_REPLY;
	s->record.reply.request = request;
	s->record.reply.value = 16;
	s->room = sizeof(s->record.reply);
}

static void twice(struct spoken *s)
{
	s->times = 2;
}

static void fewer_bytes(struct spoken *s)
{
	s->record.done.tail_size = 4;
	s->record.done.header.size = s->room = sal_record_size(sizeof(s->record.done), 4);
}

static void one_byte_fewer(struct spoken *s)
{
	s->record.done.tail_size--;
	s->record.done.header.size = s->room =
		sal_record_size(sizeof(s->record.done), s->record.done.tail_size);
}

static void no_bytes(struct spoken *s)
{
	s->record.done.tail_size = 0;
	s->record.done.header.size = s->room = sizeof(s->record.done);
}

static void more_bytes(struct spoken *s)
{
	s->record.done.tail_size = 512;
	s->record.done.header.size = s->room = sal_record_size(sizeof(s->record.done), 512);
}

static void bytes_beyond_the_record(struct spoken *s)
{
	s->record.done.tail_size = UINT32_MAX;
}

static void a_type_of_clients(struct spoken *s)
{
	s->record.header.type = SAL_MSG_EXECUTE;
}

static void a_type_of_nobody(struct spoken *s)
{
	s->record.header.type = 9999;
}

static void a_record_of_nothing(struct spoken *s)
{
	s->record.header.size = 0;
}

static void a_record_of_odd_size(struct spoken *s)
{
	s->record.header.size += 4;
}

static void a_record_beyond_the_ring(struct spoken *s)
{
	s->record.header.size = UINT32_MAX & ~7u;
}

static void a_leap(struct spoken *s)
{
	s->leap = FALSE_RING_BYTES * 2;
}

static void an_odd_leap(struct spoken *s)
{
	s->leap = 4;
}

static void a_place_in_no_segment(struct spoken *s)
{
	s->record.released.place.segment = UINT32_MAX;
}

static void a_place_beyond_the_segment(struct spoken *s)
{
	s->record.released.place.offset = UINT64_MAX;
}

static void a_place_of_nobody(struct spoken *s)
{
	s->record.released.place.offset += 8;
}

static void grown_by_nothing(struct growth *g)
{
	(void)close(g->fd);
	g->fd = -1;
}

static void grown_by_less(struct growth *g)
{
	replace(&g->fd, unsealed(4096));
}

static void grown_by_what_can_shrink(struct growth *g)
{
	replace(&g->fd, unsealed(g->grown.bytes));
}

static void grown_by_nobody(struct growth *g)
{
	g->last = "last words";
}

#define NONSENSE "sent nonsense"
#define LOST "connection to salusd is lost"
#define ABOUT(answer, fn) .name = #fn ", to " #answer, .speak = (fn), .to = ANSWER_##answer
#define WELCOME(fn) .name = #fn, .greet = (fn)

/* The error that the job gets: a code (0: no error) and words. */
static const struct {
	struct lie lie;
	int code;
	const char *words;
} lies[] = {
	{ { .name = "none" }, 0, "" },
	{ { WELCOME(other_magic) }, SAL_FAILED_PRECONDITION, "another protocol" },
	{ { WELCOME(other_major) }, SAL_FAILED_PRECONDITION, "another protocol" },
	{ { WELCOME(endless_reason) }, SAL_PERMISSION_DENIED, "xxx" },
	{ { WELCOME(reason_of_no_code) }, SAL_UNKNOWN, "salusd" },
	{ { WELCOME(no_descriptor) }, SAL_DATA_LOSS, NONSENSE },
	{ { WELCOME(one_descriptor) }, SAL_DATA_LOSS, NONSENSE },
	{ { WELCOME(three_descriptors) }, SAL_DATA_LOSS, NONSENSE },
	{ { WELCOME(rings_of_nothing) }, SAL_DATA_LOSS, NONSENSE },
	{ { WELCOME(small_rings) }, SAL_DATA_LOSS, NONSENSE },
	{ { WELCOME(odd_rings) }, SAL_DATA_LOSS, NONSENSE },
	{ { WELCOME(rings_beyond_their_memory) }, SAL_RESOURCE_EXHAUSTED, "cannot map" },
	{ { WELCOME(endless_rings) }, SAL_DATA_LOSS, NONSENSE },
	{ { WELCOME(older_minor) }, SAL_RESOURCE_EXHAUSTED, "cannot map" },
	{ { WELCOME(segment_beyond_its_memory) }, SAL_RESOURCE_EXHAUSTED, "cannot map" },
	{ { WELCOME(segment_of_nothing) }, SAL_RESOURCE_EXHAUSTED, "cannot map" },
	{ { WELCOME(segment_that_can_shrink) }, SAL_RESOURCE_EXHAUSTED, "cannot map" },
	{ { WELCOME(segment_that_is_no_memory) }, SAL_RESOURCE_EXHAUSTED, "cannot map" },
	{ { WELCOME(too_many_facts) }, SAL_DATA_LOSS, NONSENSE },
	{ { WELCOME(fewer_facts) }, SAL_UNAVAILABLE, "hung up" },
	{ { WELCOME(no_facts) }, SAL_DATA_LOSS, "no device facts" },
	{ { WELCOME(garbled_facts) }, SAL_DATA_LOSS, "no device facts" },
	{ { WELCOME(half_a_welcome) }, SAL_UNAVAILABLE, "hung up" },
	{ { WELCOME(nothing_at_all) }, SAL_UNAVAILABLE, "hung up" },
	{ { WELCOME(longer_than_anything) }, SAL_DATA_LOSS, NONSENSE },
	{ { .name = "no_memories", .of_device = no_memories }, SAL_UNIMPLEMENTED, "without memory" },
	{ { .name = "default_of_no_memory", .of_device = default_of_no_memory },
	  SAL_DATA_LOSS,
	  "no device facts" },
	{ { .name = "a_hundred_memories", .of_device = a_hundred_memories }, 0, "" },
	{ { .name = "the_hundredth_memory", .of_device = the_hundredth_memory },
	  SAL_UNIMPLEMENTED,
	  "too many kinds" },
	{ { .name = "of_rank_100", .of_program = of_rank_100 },
	  SAL_UNIMPLEMENTED,
	  "100 dimensions" },
	{ { .name = "of_negative_size", .of_program = of_negative_size }, SAL_DATA_LOSS, NONSENSE },
	{ { .name = "of_minus_one", .of_program = of_minus_one }, SAL_DATA_LOSS, NONSENSE },
	{ { .name = "of_too_many_elements", .of_program = of_too_many_elements },
	  SAL_DATA_LOSS,
	  NONSENSE },
	{ { .name = "of_no_type", .of_program = of_no_type }, 0, "" },
	{ { ABOUT(COMPILE, value_of_nothing) }, SAL_DATA_LOSS, NONSENSE },
	{ { ABOUT(COMPILE, value_beyond_all) }, SAL_DATA_LOSS, NONSENSE },
	{ { ABOUT(COMPILE, value_one_more) }, SAL_DATA_LOSS, NONSENSE },
	{ { ABOUT(COMPILE, value_one_less) }, SAL_DATA_LOSS, NONSENSE },
	{ { ABOUT(COMPILE, code_without_a_word) }, SAL_INTERNAL, "" },
	{ { ABOUT(COMPILE, code_of_no_error) }, SAL_UNKNOWN, "" },
	{ { ABOUT(COMPILE, least_code) }, SAL_UNKNOWN, "" },
	{ { ABOUT(COMPILE, text_of_no_end) }, SAL_INTERNAL, "xxx" },
	{ { ABOUT(COMPILE, text_beyond_the_record) }, SAL_UNAVAILABLE, LOST },
	{ { ABOUT(COMPILE, a_done_instead) }, SAL_DATA_LOSS, NONSENSE },
	{ { ABOUT(COMPILE, twice) }, 0, "" },
	{ { ABOUT(FETCH, value_of_nothing) }, SAL_DATA_LOSS, NONSENSE },
	{ { ABOUT(FETCH, value_beyond_all) }, SAL_DATA_LOSS, NONSENSE },
	{ { ABOUT(FETCH, value_one_more) }, SAL_DATA_LOSS, NONSENSE },
	{ { ABOUT(FETCH, value_one_less) }, SAL_DATA_LOSS, NONSENSE },
	{ { ABOUT(FETCH, code_of_no_error) }, SAL_UNKNOWN, "" },
	{ { ABOUT(FETCH, a_done_instead) }, SAL_DATA_LOSS, NONSENSE },
	{ { ABOUT(FETCH, twice) }, 0, "" },
	{ { ABOUT(EXECUTE, a_reply_instead) }, 0, "" },
	{ { ABOUT(EXECUTE, more_bytes) }, 0, "" },
	{ { ABOUT(EXECUTE, bytes_beyond_the_record) }, SAL_UNAVAILABLE, LOST },
	{ { ABOUT(EXECUTE, twice) }, 0, "" },
	{ { ABOUT(EXECUTE, a_type_of_clients) }, SAL_UNAVAILABLE, LOST },
	{ { ABOUT(EXECUTE, a_type_of_nobody) }, SAL_UNAVAILABLE, LOST },
	{ { ABOUT(EXECUTE, a_record_of_nothing) }, SAL_UNAVAILABLE, LOST },
	{ { ABOUT(EXECUTE, a_record_of_odd_size) }, SAL_UNAVAILABLE, LOST },
	{ { ABOUT(EXECUTE, a_record_beyond_the_ring) }, SAL_UNAVAILABLE, LOST },
	{ { ABOUT(EXECUTE, a_leap) }, SAL_UNAVAILABLE, LOST },
	{ { ABOUT(EXECUTE, an_odd_leap) }, SAL_UNAVAILABLE, LOST },
	{ { ABOUT(DOWNLOAD, fewer_bytes) }, SAL_DATA_LOSS, "too few bytes" },
	{ { ABOUT(DOWNLOAD, one_byte_fewer), .once = true }, SAL_DATA_LOSS, "too few bytes" },
	{ { ABOUT(DOWNLOAD, no_bytes) }, SAL_DATA_LOSS, "too few bytes" },
	{ { ABOUT(DOWNLOAD, more_bytes) }, 0, "" },
	{ { ABOUT(DOWNLOAD, a_reply_instead) }, SAL_DATA_LOSS, "too few bytes" },
	{ { ABOUT(DOWNLOAD, twice) }, 0, "" },
	/* The second download is a prefetch. */
	{ { ABOUT(DOWNLOAD, fewer_bytes), .honest = 1 }, SAL_DATA_LOSS, "too few bytes" },
	{ { ABOUT(DOWNLOAD, one_byte_fewer), .honest = 1, .once = true },
	  SAL_DATA_LOSS,
	  "too few bytes" },
	{ { ABOUT(DOWNLOAD, no_bytes), .honest = 1 }, SAL_DATA_LOSS, "too few bytes" },
	{ { ABOUT(DOWNLOAD, more_bytes), .honest = 1 }, 0, "" },
	{ { ABOUT(DOWNLOAD, a_reply_instead), .honest = 1 }, SAL_DATA_LOSS, "too few bytes" },
	{ { ABOUT(DOWNLOAD, twice), .honest = 1 }, 0, "" },
	{ { ABOUT(DOWNLOAD_PLACED, more_bytes) }, 0, "" },
	{ { ABOUT(DOWNLOAD_PLACED, twice) }, 0, "" },
	{ { ABOUT(UPLOAD_PLACED, twice) }, 0, "" },
	{ { ABOUT(UPLOAD_PLACED, a_place_in_no_segment) }, 0, "" },
	{ { ABOUT(UPLOAD_PLACED, a_place_beyond_the_segment) }, 0, "" },
	{ { ABOUT(UPLOAD_PLACED, a_place_of_nobody) }, 0, "" },
	{ { .name = "grown_by_nothing", .grow = grown_by_nothing },
	  SAL_RESOURCE_EXHAUSTED,
	  "no shared memory" },
	{ { .name = "grown_by_nobody", .grow = grown_by_nobody }, SAL_UNAVAILABLE, "last words" },
	{ { .name = "grown_by_less", .grow = grown_by_less }, SAL_RESOURCE_EXHAUSTED, "cannot map" },
	{ { .name = "grown_by_what_can_shrink", .grow = grown_by_what_can_shrink },
	  SAL_RESOURCE_EXHAUSTED,
	  "cannot map" },
};

#define LIES (sizeof(lies) / sizeof(lies[0]))

static void a_lie(void **state)
{
	size_t i = (size_t)(uintptr_t)*state % LIES;
	struct lie lie = lies[i].lie;
	size_t fds = host_fd_count(), threads = host_thread_count();
	struct false_daemon daemon;
	struct job job = { .bed.subject = host_subject, .bytes = calloc(2, FALSE_SEGMENT_BYTES) };
	char text[1024];
	int code;

	assert_non_null(job.bytes);
	host_deadline(10);
	/*
	 * A daemon that sleeps answers at once, and the calling thread finds the lie. Otherwise the
	 * reader thread finds it.
	 */
	lie.sleeps = (size_t)(uintptr_t)*state >= LIES;
	false_daemon_start(&daemon, &lie);
	code = explain(work(&job), text, sizeof(text));
	leave(&job);
	false_daemon_stop(&daemon);
	host_deadline(0);
	if (code != lies[i].code || !strstr(text, lies[i].words))
		fail_msg("code %d, not %d, or not \"%s\": %s", code, lies[i].code, lies[i].words,
			 text);
	host_expect_counts(fds, threads);
}

static int run_suite(void)
{
	struct CMUnitTest tests[2 * LIES];
	size_t i;

	for (i = 0; i < 2 * LIES; i++)
		tests[i] = (struct CMUnitTest){ .name = lies[i % LIES].lie.name,
						.test_func = a_lie,
						.initial_state = (void *)(uintptr_t)i };
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	(void)setenv("SALUS_TEST_SUBJECT", "fake", 1); /* the false daemon has no device */
	return host_main(argc, argv, run_suite);
}
