/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread is woken, when, and which records are sent. The test plays the daemon, which sleeps
 * until the plugin rings, as the real daemon does.
 */
#include "support/scene.h"
#include "support/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"

#define WAKE_BYTES (1 << 20) /* as in buffer.c */

/* A client of a false daemon */

static unsigned int records(struct scene *s)
{
	return atomic_load(&s->daemon.records);
}

static unsigned int rings(struct scene *s)
{
	return atomic_load(&s->daemon.rings);
}

/* Waits until the daemon has taken `more` records than `before`, and sleeps again. */
static void expect_taken(struct scene *s, unsigned int before, unsigned int more)
{
	false_daemon_expect_asleep(&s->daemon, before + more);
}

static const struct lie sleeper = { .name = "none", .sleeps = true };

/* Deletes */

/* A session may wait for the memory. */
static void a_large_delete_wakes(void **state)
{
	struct scene s;
	PJRT_Buffer *b;

	(void)state;
	scene_open(&s, &sleeper);
	b = scene_put(&s, WAKE_BYTES);
	expect_taken(&s, 0, 2); /* the upload, and the request to await it */
	ok(CALL(Buffer_Delete, .buffer = b));
	expect_taken(&s, 2, 1);
	buffer_destroy(b); /* the buffer is deleted already */
	scene_close(&s);
}

#define SMALL_ONES 10

/* Small deletes wait for the next urgent record. Then the daemon takes all records at once. */
static void small_deletes_wake_nobody(void **state)
{
	unsigned int round, taken = 0, left = 0, rung;
	struct scene s;

	(void)state;
	scene_open(&s, &sleeper);
	for (round = 0; round < 20; round++) {
		PJRT_Buffer *small[SMALL_ONES], *urgent;
		size_t i;

		for (i = 0; i < SMALL_ONES; i++)
			small[i] = scene_put(&s, 100);
		taken += left + SMALL_ONES;
		expect_taken(&s, taken, 0);
		rung = rings(&s);
		for (i = 0; i < SMALL_ONES; i++)
			buffer_destroy(small[i]);
		assert_int_equal(records(&s), taken);
		urgent = scene_put(&s, 100);
		taken += SMALL_ONES + 1;
		expect_taken(&s, taken, 0);
		assert_int_equal(rings(&s), rung + 1);
		buffer_destroy(urgent);
		left = 1; /* the daemon has not read this delete yet */
	}
	scene_close(&s);
}

#define MIDDLING (100 << 10)
#define ENOUGH (WAKE_BYTES / MIDDLING + 1)

/* The bytes of small deletes add up. After a wake-up the sum starts at zero again. */
static void many_small_deletes_are_a_large_one(void **state)
{
	PJRT_Buffer *all[2 * ENOUGH - 1];
	struct scene s;
	unsigned int taken, rung;
	size_t i;

	(void)state;
	scene_open(&s, &sleeper);
	for (i = 0; i < 2 * ENOUGH - 1; i++)
		all[i] = scene_put(&s, MIDDLING);
	expect_taken(&s, 0, 2 * ENOUGH - 1);
	rung = rings(&s);
	for (i = 0; i < ENOUGH; i++)
		buffer_destroy(all[i]);
	taken = 3 * ENOUGH - 1;
	expect_taken(&s, taken, 0);
	assert_int_equal(rings(&s), rung + 1);
	for (; i < 2 * ENOUGH - 1; i++) /* one less than enough */
		buffer_destroy(all[i]);
	all[0] = scene_put(&s, 100);
	expect_taken(&s, taken, ENOUGH);
	assert_int_equal(rings(&s), rung + 2);
	buffer_destroy(all[0]);
	scene_close(&s);
}

/* A full ring wakes the daemon, even if no record in it is urgent. */
static void a_full_ring_wakes(void **state)
{
	/*
	 * The deleted bytes are too few to wake the daemon. The records are more than the ring
	 * holds.
	 */
	const size_t count = FALSE_RING_BYTES / sizeof(struct sal_msg_delete) + 1;
	PJRT_Buffer **all = calloc(count, sizeof(PJRT_Buffer *));
	unsigned int taken, rung;
	struct scene s;
	size_t i;

	(void)state;
	assert_non_null(all);
	scene_open(&s, &sleeper);
	for (i = 0; i < count; i++)
		all[i] = scene_put(&s, 1);
	expect_taken(&s, 0, (unsigned int)count);
	taken = records(&s);
	rung = rings(&s);
	for (i = 0; i < count; i++) /* or the deadline */
		buffer_destroy(all[i]);
	assert_true(records(&s) > taken && rings(&s) > rung);
	free(all);
	scene_close(&s);
}

/* Programs */

#define MANY 200

static const uint32_t *numbers(void)
{
	static uint32_t at[MANY];
	uint32_t i;

	for (i = 0; i < MANY; i++)
		at[i] = i;
	return at;
}

static void takes_200_arguments_over(struct sal_program_facts *f)
{
	f->donated = numbers();
	f->donated_count = MANY;
}

static const struct lie donating = { .name = "none",
				     .sleeps = true,
				     .of_program = takes_200_arguments_over };

/*
 * Runs the program with this many arguments, some of them retained. Checks which ones are deleted,
 * and which record the daemon got.
 */
static void donate(struct scene *s, PJRT_LoadedExecutable *p, size_t count, const int64_t *retained,
		   size_t retained_count)
{
	PJRT_Buffer *args[MANY], *out = NULL;
	PJRT_Event *done = NULL;
	struct executed told;
	size_t i, k;

	for (i = 0; i < count; i++)
		args[i] = scene_put(s, 4);
	ok(try_execute(&(struct run){ .loaded = p,
				      .args = args,
				      .arg_count = count,
				      .outputs = &out,
				      .done = &done,
				      .retained = retained,
				      .retained_count = retained_count }));
	assert_int_equal(await(done), 0);
	told = false_daemon_executed(&s->daemon);
	assert_int_equal(told.arg_count, count);
	assert_int_equal(told.retained_count, retained_count);
	for (k = 0; k < retained_count; k++)
		assert_int_equal(told.retained[k], retained[k]);
	for (i = 0; i < count; i++) {
		bool is_retained = false;

		for (k = 0; k < retained_count; k++)
			is_retained |= retained[k] == (int64_t)i;
		assert_int_equal(is_deleted(args[i]), !is_retained);
		buffer_destroy(args[i]);
	}
	buffer_destroy(out);
}

static void any_number_of_arguments_is_donated(void **state)
{
	static const size_t counts[] = { 1, 63, 64, 65, 66, 128, MANY };
	static const int64_t retained[] = { 0, 62, 63, 64, 65, 150, MANY - 1 };
	PJRT_LoadedExecutable *p;
	struct scene s;
	size_t i;

	(void)state;
	scene_open(&s, &donating);
	p = compile_text(&s.bed, "any");
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		donate(&s, p, counts[i], NULL, 0);
	donate(&s, p, MANY, retained, sizeof(retained) / sizeof(retained[0]));
	loaded_destroy(p);
	scene_close(&s);
}

static void of_a_dimension_twice(struct sal_program_facts *f)
{
	static const int64_t dims[] = { 2, 3 };
	static const struct sal_output_facts o = {
		.type = 11, .rank = 2, .dims = dims, .layout = { "{0,0}", 5 }, .bytes = 24
	};

	f->outputs = &o;
}

/* The plugin treats an invalid layout as row-major. */
static void a_layout_that_cannot_be_is_not_believed(void **state)
{
	static const struct lie lie = { .name = "none", .of_program = of_a_dimension_twice };
	PJRT_LoadedExecutable *p;
	PJRT_Buffer *out = NULL;
	struct scene s;

	(void)state;
	scene_open(&s, &lie);
	p = compile_text(&s.bed, "any");
	ok(try_execute(&(struct run){ .loaded = p, .outputs = &out }));
	{
		ARGS(Buffer_GetMemoryLayout, a, .buffer = out);

		ok(api->PJRT_Buffer_GetMemoryLayout(&a));
		assert_int_equal(a.layout.tiled.minor_to_major_size, 2);
		assert_int_equal(a.layout.tiled.minor_to_major[0], 1);
		assert_int_equal(a.layout.tiled.minor_to_major[1], 0);
	}
	buffer_destroy(out);
	loaded_destroy(p);
	scene_close(&s);
}

/* Completions */

/* The arguments of a callback. */
struct seen {
	_Atomic bool called;
	int code;
	char text[256];
};

static void on_ready(PJRT_Error *error, void *arg)
{
	struct seen *seen = arg;

	seen->code = explain(error, seen->text, sizeof(seen->text));
	atomic_store(&seen->called, true);
}

static void expect_call(struct seen *seen)
{
	while (!atomic_load(&seen->called))
		(void)sched_yield(); /* or the deadline */
}

/*
 * After polling without success, the daemon must ring again: no other thread would see a later
 * completion.
 */
static void what_comes_after_polling_is_seen(void **state)
{
	static const struct lie honest = { .name = "none" };
	struct seen seen = { .called = false };
	PJRT_LoadedExecutable *p;
	PJRT_Buffer *out = NULL;
	PJRT_Event *done = NULL;
	struct scene s;

	(void)state;
	scene_open(&s, &honest);
	p = compile_text(&s.bed, "any");
	false_daemon_hear(&s.daemon, false);
	ok(try_execute(&(struct run){ .loaded = p, .outputs = &out, .done = &done }));
	{
		ARGS(Event_IsReady, ready, .event = done);

		ok(api->PJRT_Event_IsReady(&ready));
		assert_false(ready.is_ready);
	}
	ok(CALL(Event_OnReady, .event = done, .callback = on_ready, .user_arg = &seen));
	false_daemon_hear(&s.daemon, true);
	expect_call(&seen);
	assert_int_equal(seen.code, 0);
	ok(CALL(Event_Destroy, .event = done));
	buffer_destroy(out);
	loaded_destroy(p);
	scene_close(&s);
}

static void fails_and_leaves(struct spoken *s)
{
	static const char words[] = "last words";

	s->record.done.code = SAL_ABORTED;
	s->record.done.tail_size = sizeof(words) - 1;
	s->record.done.header.size = s->room =
		sal_record_size(sizeof(s->record.done), sizeof(words) - 1);
	memcpy(&s->record.done + 1, words, sizeof(words) - 1);
	s->last = true;
}

/*
 * The completions sent before the daemon closes the connection still count, though it did not ring.
 */
static void last_words_are_heard(void **state)
{
	static const struct lie lie = { .name = "none",
					.speak = fails_and_leaves,
					.to = ANSWER_EXECUTE };
	struct seen seen = { .called = false };
	PJRT_LoadedExecutable *p;
	PJRT_Buffer *out = NULL, *later = NULL;
	PJRT_Event *done = NULL;
	struct scene s;
	char text[256];

	(void)state;
	scene_open(&s, &lie);
	p = compile_text(&s.bed, "any");
	ok(try_execute(&(struct run){ .loaded = p, .outputs = &out, .done = &done }));
	ok(CALL(Event_OnReady, .event = done, .callback = on_ready, .user_arg = &seen));
	expect_call(&seen);
	assert_int_equal(seen.code, SAL_ABORTED);
	assert_string_equal(seen.text, "last words");
	while (explain(try_execute(&(struct run){ .loaded = p, .outputs = &later }), text,
		       sizeof(text)) == 0) {
		buffer_destroy(later); /* the plugin has not noticed yet */
		later = NULL;
	}
	assert_non_null(strstr(text, "connection to salusd is lost"));
	ok(CALL(Event_Destroy, .event = done));
	buffer_destroy(out);
	loaded_destroy(p);
	scene_close(&s);
}

/* Messages for the job's user */

static void after_a_word(struct spoken *s)
{
	s->word = "salus: something for you to read";
}

/* The text on stderr after a compilation whose answer carries a message. */
static void stderr_of_a_word(char *text, size_t room)
{
	static const struct lie lie = { .name = "none",
					.speak = after_a_word,
					.to = ANSWER_COMPILE };
	int fd = memfd_create("stderr", MFD_CLOEXEC), old = dup(STDERR_FILENO);
	struct scene s;
	ssize_t size;

	assert_true(fd >= 0 && old >= 0);
	(void)fflush(stderr);
	assert_true(dup2(fd, STDERR_FILENO) >= 0);
	scene_open(&s, &lie);
	loaded_destroy(compile_text(&s.bed, "any"));
	scene_close(&s);
	assert_true(dup2(old, STDERR_FILENO) >= 0);
	size = pread(fd, text, room - 1, 0);
	text[size > 0 ? size : 0] = '\0';
	(void)close(fd);
	(void)close(old);
}

static void words_are_shown_unless_they_are_not_wanted(void **state)
{
	char text[256];

	(void)state;
	stderr_of_a_word(text, sizeof(text));
	assert_string_equal(text, "salus: something for you to read\n");
	assert_int_equal(setenv("SALUS_QUIET", "0", 1), 0);
	stderr_of_a_word(text, sizeof(text));
	assert_string_equal(text, "salus: something for you to read\n");
	assert_int_equal(setenv("SALUS_QUIET", "1", 1), 0);
	stderr_of_a_word(text, sizeof(text));
	assert_string_equal(text, "");
	assert_int_equal(unsetenv("SALUS_QUIET"), 0);
}

/* The greeting */

/* The greeting of a later version: more fields come before the facts. */
static void longer(struct greeting *g)
{
	const size_t more = 64;
	unsigned char *facts = malloc(g->fact_size + more);

	assert_non_null(facts);
	memset(facts, 0xee, more);
	memcpy(facts + more, g->facts, g->fact_size);
	free(g->facts);
	g->facts = facts;
	g->fact_size += more;
	g->welcome.size += (uint32_t)more;
}

static void a_longer_greeting_is_understood(void **state)
{
	static const struct lie lie = { .name = "none", .greet = longer };
	struct scene s;

	(void)state;
	scene_open(&s, &lie);
	{
		ARGS(Client_PlatformName, a, .client = s.bed.client);

		ok(api->PJRT_Client_PlatformName(&a));
		assert_int_equal(a.platform_name_size, 5);
		assert_memory_equal(a.platform_name, "false", 5);
	}
	loaded_destroy(compile_text(&s.bed, "any"));
	scene_close(&s);
}

static PJRT_Device_MemoryStats_Args stats(struct scene *s)
{
	ARGS(Device_MemoryStats, a, .device = s->bed.device);

	ok(api->PJRT_Device_MemoryStats(&a));
	return a;
}

/* An older daemon does not tell the peak: then the plugin counts the most bytes in use at once. */
static void without_being_told_the_peak_is_counted(void **state)
{
	static const struct lie older = { .name = "none", .older = true };
	PJRT_Buffer *a, *b;
	struct scene s;

	(void)state;
	scene_open(&s, &older);
	a = scene_put(&s, 3000);
	b = scene_put(&s, 2000);
	assert_int_equal(stats(&s).bytes_in_use, 5000);
	assert_int_equal(stats(&s).peak_bytes_in_use, 5000);
	buffer_destroy(a);
	assert_int_equal(stats(&s).bytes_in_use, 2000);
	assert_int_equal(stats(&s).peak_bytes_in_use, 5000);
	a = scene_put(&s, 1000);
	assert_int_equal(stats(&s).peak_bytes_in_use, 5000);
	assert_int_equal(stats(&s).bytes_limit, 1 << 30);
	buffer_destroy(a);
	buffer_destroy(b);
	assert_int_equal(stats(&s).bytes_in_use, 0);
	scene_close(&s);
}

/* The arena */

#define BEYOND (FALSE_SEGMENT_BYTES + 4096) /* larger than the first segment */

struct uploader {
	struct scene *scene;
	_Atomic pid_t tid;
	PJRT_Buffer *buffer;
};

static struct uploader second; /* for once_both_want_it, which gets no argument */

static void *upload_second(void *arg)
{
	struct uploader *u = arg;

	atomic_store(&u->tid, thread_id());
	u->buffer = scene_put(u->scene, BEYOND);
	return NULL;
}

/* The answer comes when the second thread waits for its turn to ask. */
static void once_both_want_it(struct growth *g)
{
	(void)g;
	while (!thread_is_asleep(atomic_load(&second.tid)))
		(void)sched_yield();
}

/* A thread that waits to ask for a segment first tries the one that another thread got. */
static void two_threads_need_one_segment(void **state)
{
	static const struct lie lie = { .name = "none", .grow = once_both_want_it, .generous = 2 };
	pthread_t thread;
	PJRT_Buffer *first;
	struct scene s;

	(void)state;
	scene_open(&s, &lie);
	second = (struct uploader){ .scene = &s };
	assert_int_equal(pthread_create(&thread, NULL, upload_second, &second), 0);
	first = scene_put(&s, BEYOND);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&s.daemon.growths), 1);
	buffer_destroy(first);
	buffer_destroy(second.buffer);
	scene_close(&s);
}

/* Signals */

static _Atomic int signals;

static void on_signal(int number)
{
	(void)number;
	(void)atomic_fetch_add(&signals, 1);
}

/* Signals belong to the host: if the host blocks a signal, the plugin's threads do not take it. */
static void the_reader_takes_no_signals(void **state)
{
	struct sigaction action = { .sa_handler = on_signal }, old;
	sigset_t one, before, pending;
	struct scene s;

	(void)state;
	scene_open(&s, &sleeper);
	assert_int_equal(sigaction(SIGUSR2, &action, &old), 0);
	(void)sigemptyset(&one);
	(void)sigaddset(&one, SIGUSR2);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
	assert_int_equal(kill(getpid(), SIGUSR2), 0);
	buffer_destroy(scene_put(&s, 100));
	loaded_destroy(compile_text(&s.bed, "any")); /* the reader had time and work */
	assert_int_equal(sigpending(&pending), 0);
	assert_int_equal(sigismember(&pending, SIGUSR2), 1);
	assert_int_equal(atomic_load(&signals), 0);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
	assert_int_equal(atomic_load(&signals), 1);
	assert_int_equal(sigaction(SIGUSR2, &old, NULL), 0);
	scene_close(&s);
}

static int run_suite(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_large_delete_wakes),
		cmocka_unit_test(small_deletes_wake_nobody),
		cmocka_unit_test(many_small_deletes_are_a_large_one),
		cmocka_unit_test(a_full_ring_wakes),
		cmocka_unit_test(any_number_of_arguments_is_donated),
		cmocka_unit_test(a_layout_that_cannot_be_is_not_believed),
		cmocka_unit_test(what_comes_after_polling_is_seen),
		cmocka_unit_test(last_words_are_heard),
		cmocka_unit_test(words_are_shown_unless_they_are_not_wanted),
		cmocka_unit_test(a_longer_greeting_is_understood),
		cmocka_unit_test(without_being_told_the_peak_is_counted),
		cmocka_unit_test(two_threads_need_one_segment),
		cmocka_unit_test(the_reader_takes_no_signals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	(void)setenv("SALUS_TEST_SUBJECT", "fake", 1); /* the false daemon has no device */
	return host_main(argc, argv, run_suite);
}
