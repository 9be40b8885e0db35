/* SPDX-License-Identifier: Apache-2.0 */
/* fake: its limits, its faults and its language. cts/test_devices.c tests what all devices do. */
#include "device/compiler.h"
#include "device/fake/impl.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define U8 6 /* PJRT_Buffer_Type_U8 */

static const struct sal_device_ops *const ops = &sal_device_fake;
static const struct sal_compiler_ops *const compiler = &sal_compiler_fake;

struct outcome {
	sem_t told;
	int code;
	char text[128];
};

static void note(void *ctx, int code, const char *message)
{
	struct outcome *o = ctx;

	o->code = code;
	snprintf(o->text, sizeof(o->text), "%s", message);
	sem_post(&o->told);
}

/* The code, or -1 after the deadline. */
static int wait_for(struct outcome *o)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	return sem_timedwait(&o->told, &until) == 0 ? o->code : -1;
}

struct bench {
	struct sal_device *device;
	struct sal_stream *stream;
	struct sal_err err;
};

static void bench_open(struct bench *t, const char *path, uint64_t memory_bytes)
{
	const struct sal_device_config config = {
		.plugin_path = path,
		.memory_bytes = memory_bytes,
	};

	memset(t, 0, sizeof(*t));
	assert_int_equal(ops->open(&config, &t->device, &t->err), SAL_OK);
	assert_int_equal(ops->open_stream(t->device, 0, &t->stream, &t->err), SAL_OK);
}

static void bench_close(struct bench *t)
{
	ops->close_stream(t->stream);
	ops->close(t->device);
}

static int put(struct bench *t, int64_t size, struct sal_buffer **out_buffer)
{
	const struct sal_array array = { .type = U8, .rank = 1, .dims = &size };
	void *data = calloc(1, (size_t)size + 1);
	int rc = ops->upload(t->stream, &array, data, SAL_UPLOAD_COPY, NULL, NULL, out_buffer,
			     &t->err);

	free(data);
	return rc;
}

static struct sal_loaded *load(struct bench *t, const char *text)
{
	struct sal_loaded *p = NULL;

	if (ops->load(t->stream, (struct sal_text){ text, strlen(text) }, &p, &t->err) < 0)
		fail_msg("%s", t->err.text);
	return p;
}

static int execute(struct bench *t, struct sal_loaded *p, struct sal_buffer *arg,
		   struct sal_buffer **out_buffer, struct outcome *o)
{
	const struct sal_execution x = {
		.args = &arg,
		.arg_count = arg ? 1 : 0,
		.outputs = out_buffer,
		.output_count = 1,
		.done = note,
		.done_ctx = o,
	};

	sem_init(&o->told, 0, 0);
	o->code = 0;
	return ops->execute(p, &x, &t->err);
}

static int compile(struct bench *t, const char *text, struct sal_compiled **out_compiled)
{
	return compiler->compile(t->stream, (struct sal_text){ "fake", 4 },
				 (struct sal_text){ text, strlen(text) }, (struct sal_text){ 0 },
				 out_compiled, &t->err);
}

/* Memory */

static void memory_is_limited(void **state)
{
	struct sal_buffer *a, *b, *c;
	struct bench t;

	(void)state;
	bench_open(&t, "fake", 100);
	assert_int_equal(put(&t, 60, &a), SAL_OK);
	assert_int_equal(put(&t, 41, &b), -SAL_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(t.err.text, "60 of 100"));
	assert_null(b);
	assert_int_equal(put(&t, 40, &b), SAL_OK);
	assert_int_equal(put(&t, 1, &c), -SAL_RESOURCE_EXHAUSTED);
	assert_int_equal(ops->copy(a, 0, &c, &t.err), -SAL_RESOURCE_EXHAUSTED);
	ops->free_buffer(a);
	assert_int_equal(put(&t, 60, &a), SAL_OK);
	ops->free_buffer(a);
	ops->free_buffer(b);
	bench_close(&t);
}

static void iterations_need_memory(void **state)
{
	struct sal_loaded *plain, *temp, *donate;
	struct sal_buffer *arg, *out;
	struct outcome o;
	struct bench t;

	(void)state;
	bench_open(&t, NULL, 100);
	plain = load(&t, "fake 1\noutput u8 50 = copy 0\n");
	temp = load(&t, "fake 1\noutput u8 50 = copy 0\ntemp 1\n");
	donate = load(&t, "fake 1\noutput u8 50 = copy 0\ndonate 0 0\ntemp 50\n");
	assert_int_equal(put(&t, 50, &arg), SAL_OK);

	assert_int_equal(execute(&t, plain, arg, &out, &o), SAL_OK);
	assert_int_equal(wait_for(&o), SAL_OK);
	/* There is no room for another output. */
	ops->free_buffer(out);
	assert_int_equal(execute(&t, temp, arg, &out, &o), SAL_OK);
	assert_int_equal(wait_for(&o), SAL_RESOURCE_EXHAUSTED);
	ops->free_buffer(out);
	/* A donated argument makes room. */
	assert_int_equal(execute(&t, donate, arg, &out, &o), SAL_OK);
	assert_int_equal(wait_for(&o), SAL_OK);
	ops->free_buffer(arg);
	assert_int_equal(put(&t, 50, &arg), SAL_OK);
	assert_int_equal(execute(&t, plain, arg, &(struct sal_buffer *){ NULL }, &o),
			 -SAL_RESOURCE_EXHAUSTED);
	ops->free_buffer(arg);
	ops->free_buffer(out);
	ops->unload(plain);
	ops->unload(temp);
	ops->unload(donate);
	bench_close(&t);
}

/* Faults */

static void calls_fail_when_told_to(void **state)
{
	struct sal_buffer *a, *b, *out;
	struct sal_loaded *p, *none;
	struct outcome o;
	struct bench t;
	char bytes[1];

	(void)state;
	bench_open(&t, "fake:upload@2=14,execute@1=13,download@1=4,load@2=15", 0);
	assert_int_equal(put(&t, 1, &a), SAL_OK);
	assert_int_equal(put(&t, 1, &b), -SAL_UNAVAILABLE);
	assert_null(b);
	assert_int_equal(put(&t, 1, &b), SAL_OK);
	p = load(&t, "fake 1\noutput u8 1 = copy 0\n");
	assert_int_equal(ops->load(t.stream, (struct sal_text){ "fake 1", 6 }, &none, &t.err),
			 -SAL_DATA_LOSS);
	assert_int_equal(execute(&t, p, a, &out, &o), -SAL_INTERNAL);
	assert_null(out);
	assert_int_equal(execute(&t, p, a, &out, &o), SAL_OK);
	assert_int_equal(wait_for(&o), SAL_OK);
	assert_int_equal(ops->download(a, bytes, 1, note, &o, &t.err), -SAL_DEADLINE_EXCEEDED);
	assert_int_equal(ops->download(a, bytes, 1, note, &o, &t.err), SAL_OK);
	assert_int_equal(wait_for(&o), SAL_OK);
	ops->free_buffer(a);
	ops->free_buffer(b);
	ops->free_buffer(out);
	ops->unload(p);
	bench_close(&t);
}

/* Each kind of call fails, with the given code or INTERNAL, and works the next time. */
static void paging_fails_when_told_to(void **state)
{
	struct sal_saved *saved, *again;
	struct sal_buffer *a, *b;
	struct outcome o;
	struct bench t;
	char bytes[3] = "";

	(void)state;
	bench_open(&t, "fake:save@2,restore@1=8,copy@1=4,when_ready@1=5", 0);
	assert_int_equal(put(&t, 3, &a), SAL_OK);
	assert_int_equal(ops->save(a, &saved, &t.err), SAL_OK);
	assert_int_equal(ops->save(a, &again, &t.err), -SAL_INTERNAL);
	assert_null(again);
	assert_int_equal(ops->save(a, &again, &t.err), SAL_OK);
	ops->free_saved(again);
	/* After a failed restore, the caller still owns the saved contents. */
	assert_int_equal(ops->restore(t.stream, saved, &b, &t.err), -SAL_RESOURCE_EXHAUSTED);
	assert_null(b);
	assert_int_equal(ops->restore(t.stream, saved, &b, &t.err), SAL_OK);
	sem_init(&o.told, 0, 0);
	assert_int_equal(ops->download(b, bytes, 3, note, &o, &t.err), SAL_OK);
	assert_int_equal(wait_for(&o), SAL_OK);
	ops->free_buffer(b);
	assert_int_equal(ops->copy(a, 0, &b, &t.err), -SAL_DEADLINE_EXCEEDED);
	assert_int_equal(ops->when_ready(a, note, &o, &t.err), -SAL_NOT_FOUND);
	assert_int_equal(ops->when_ready(a, note, &o, &t.err), SAL_OK);
	assert_int_equal(wait_for(&o), SAL_OK);
	ops->free_buffer(a);
	bench_close(&t);
}

/* The download inside save and the upload inside restore do not count as calls. */
static void a_call_counts_once(void **state)
{
	struct sal_saved *saved;
	struct sal_buffer *a, *b;
	struct bench t;

	(void)state;
	bench_open(&t, "fake:upload@2=3,download@1=3", 0);
	assert_int_equal(put(&t, 3, &a), SAL_OK);
	assert_int_equal(ops->save(a, &saved, &t.err), SAL_OK);
	assert_int_equal(ops->restore(t.stream, saved, &b, &t.err), SAL_OK);
	ops->free_buffer(b);
	assert_int_equal(put(&t, 3, &b), -SAL_INVALID_ARGUMENT);
	ops->free_buffer(a);
	bench_close(&t);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Every second upload, and every sixth call of any kind; opening the stream is the first call. */
static void calls_are_slow_when_told_to(void **state)
{
	uint64_t least_ms[5] = { 0, 30, 0, 30, 60 };
	struct sal_buffer *b[5];
	struct bench t;

	(void)state;
	bench_open(&t, "fake:slow:upload@2:30,slow@6:60", 0);
	for (int i = 0; i < 5; i++) {
		uint64_t start = now_ns();

		assert_int_equal(put(&t, 1, &b[i]), SAL_OK);
		assert_true(now_ns() - start >= least_ms[i] * 1000000u);
	}
	for (int i = 0; i < 5; i++)
		ops->free_buffer(b[i]);
	bench_close(&t);
}

struct delayed {
	struct bench *bench;
	struct sal_loaded *program;
	struct sal_buffer *buffer;
	struct sal_stream *opened;
	pthread_t thread;
	sem_t begun, back;
	int rc;
};

static void *run_delayed_execute(void *arg)
{
	struct delayed *h = arg;
	struct sal_execution x = { .outputs = &h->buffer, .output_count = 1, .done = note };

	sem_post(&h->begun);
	h->rc = ops->execute(h->program, &x, NULL);
	sem_post(&h->back);
	return NULL;
}

static void free_output(void *ctx, int code, const char *message)
{
	struct delayed *h = ctx;

	(void)code;
	(void)message;
	ops->free_buffer(h->buffer);
}

/* The output must be freed before the stream closes, and the call does not return earlier. */
static void *run_delayed_hang(void *arg)
{
	struct delayed *h = arg;
	struct sal_execution x = {
		.outputs = &h->buffer,
		.output_count = 1,
		.done = free_output,
		.done_ctx = h,
	};

	sem_post(&h->begun);
	h->rc = ops->execute(h->program, &x, NULL);
	sem_post(&h->back);
	return NULL;
}

static void *run_delayed_free(void *arg)
{
	struct delayed *h = arg;

	sem_post(&h->begun);
	ops->free_buffer(h->buffer);
	sem_post(&h->back);
	return NULL;
}

static void *run_delayed_open(void *arg)
{
	struct delayed *h = arg;

	sem_post(&h->begun);
	h->rc = ops->open_stream(h->bench->device, 0, &h->opened, NULL);
	sem_post(&h->back);
	return NULL;
}

/* Waits until a fault delays a call: on the stream, or without one. */
static void wait_until_delayed(struct sal_device *d, const uint32_t *calls_inside)
{
	uint64_t until = now_ns() + UINT64_C(60000000000);
	bool delayed = false;

	while (!delayed && now_ns() < until) {
		pthread_mutex_lock(&d->lock);
		delayed = *calls_inside > 0;
		pthread_mutex_unlock(&d->lock);
		sched_yield();
	}
	assert_true(delayed);
}

static void delayed_start(struct delayed *h, struct bench *t, void *(*run)(void *))
{
	h->bench = t;
	sem_init(&h->begun, 0, 0);
	sem_init(&h->back, 0, 0);
	assert_int_equal(pthread_create(&h->thread, NULL, run, h), 0);
	sem_wait(&h->begun);
}

/*
 * The call does not return until its stream is closed. Other calls, on its stream and on another
 * one, continue.
 */
static void calls_are_endless_when_told_to(void **state)
{
	struct delayed h = { 0 };
	struct sal_stream *other;
	struct sal_buffer *a, *b;
	struct sal_loaded *p;
	struct outcome o;
	struct bench t;

	(void)state;
	bench_open(&t, "fake:endless:execute@2", 0);
	assert_int_equal(ops->open_stream(t.device, 0, &other, &t.err), SAL_OK);
	p = load(&t, "fake 1\noutput u8 1 = fill 7\n");
	assert_int_equal(execute(&t, p, NULL, &a, &o), SAL_OK);
	assert_int_equal(wait_for(&o), SAL_OK);
	h.program = p;
	delayed_start(&h, &t, run_delayed_execute);
	wait_until_delayed(t.device, &t.stream->calls_inside);
	assert_int_equal(execute(&t, p, NULL, &b, &o), SAL_OK);
	assert_int_equal(wait_for(&o), SAL_OK);
	ops->free_buffer(b);
	ops->free_buffer(a);
	assert_int_equal(put(&t, 1, &a), SAL_OK);
	ops->free_buffer(a);
	ops->close_stream(other);
	assert_int_equal(sem_trywait(&h.back), -1);
	ops->unload(p);
	ops->close_stream(t.stream);
	pthread_join(h.thread, NULL);
	assert_int_equal(h.rc, -SAL_CANCELLED);
	assert_null(h.buffer);
	ops->close(t.device);
}

static void freeing_can_be_endless(void **state)
{
	struct delayed h = { 0 };
	struct bench t;

	(void)state;
	bench_open(&t, "fake:endless:free_buffer@1", 10);
	assert_int_equal(put(&t, 10, &h.buffer), SAL_OK);
	delayed_start(&h, &t, run_delayed_free);
	wait_until_delayed(t.device, &t.stream->calls_inside);
	ops->close_stream(t.stream);
	pthread_join(h.thread, NULL);
	ops->close(t.device); /* asserts that all memory was released */
}

static void opening_can_be_endless(void **state)
{
	struct delayed h = { 0 };
	struct bench t;

	(void)state;
	bench_open(&t, "fake:endless:open_stream@2", 0);
	delayed_start(&h, &t, run_delayed_open);
	wait_until_delayed(t.device, &t.device->calls_inside);
	ops->close_stream(t.stream);
	assert_int_equal(sem_trywait(&h.back), -1);
	ops->close(t.device);
	pthread_join(h.thread, NULL);
	assert_int_equal(h.rc, -SAL_CANCELLED);
	assert_null(h.opened);
}

/* Done */

struct inside {
	struct outcome outcome;
	pthread_t thread;
	bool in_call, was_in_call;
};

static void note_thread(void *ctx, int code, const char *message)
{
	struct inside *i = ctx;

	i->thread = pthread_self();
	i->was_in_call = i->in_call;
	note(&i->outcome, code, message);
}

static int execute_inside(struct bench *t, struct sal_loaded *p, struct sal_buffer **out_buffer,
			  struct inside *i)
{
	const struct sal_execution x = {
		.outputs = out_buffer,
		.output_count = 1,
		.done = note_thread,
		.done_ctx = i,
	};
	int rc;

	sem_init(&i->outcome.told, 0, 0);
	i->in_call = true;
	rc = ops->execute(p, &x, &t->err);
	i->in_call = false;
	return rc;
}

static void iterations_run_inside_the_call(void **state)
{
	struct sal_buffer *out;
	struct sal_loaded *p;
	struct inside i = { 0 };
	struct bench t;
	char byte = 0;

	(void)state;
	bench_open(&t, "fake:inline", 0);
	p = load(&t, "fake 1\noutput u8 1 = fill 9\n");
	assert_int_equal(execute_inside(&t, p, &out, &i), SAL_OK);
	assert_int_equal(sem_trywait(&i.outcome.told), 0);
	assert_true(i.was_in_call);
	assert_true(pthread_equal(i.thread, pthread_self()));
	assert_int_equal(ops->download(out, &byte, 1, note, &i.outcome, &t.err), SAL_OK);
	assert_int_equal(wait_for(&i.outcome), SAL_OK);
	assert_int_equal(byte, 9);
	ops->free_buffer(out);
	ops->unload(p);
	bench_close(&t);
}

/*
 * A program that hangs inside the call: the call returns when its stream is closed. Other calls
 * continue.
 */
static void an_iteration_inside_the_call_can_hang(void **state)
{
	struct delayed h = { 0 };
	struct sal_buffer *a;
	struct bench t;

	(void)state;
	bench_open(&t, "fake:inline", 0);
	h.program = load(&t, "fake 1\noutput u8 1 = fill 9\nhang\n");
	delayed_start(&h, &t, run_delayed_hang);
	wait_until_delayed(t.device, &t.stream->calls_inside);
	assert_int_equal(put(&t, 1, &a), SAL_OK);
	ops->free_buffer(a);
	assert_int_equal(sem_trywait(&h.back), -1);
	ops->unload(h.program);
	ops->close_stream(t.stream);
	pthread_join(h.thread, NULL);
	assert_int_equal(h.rc, SAL_OK);
	ops->close(t.device);
}

static void it_declares_what_the_path_says(void **state)
{
	static const struct {
		const char *path;
		bool can;
	} cases[] = { { "fake", false },
		      { "fake:chained", true },
		      { "fake:inline", false },
		      { "fake:inline,chained", true },
		      { "fake:strict", false } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bench t;

		bench_open(&t, cases[i].path, 0);
		assert_int_equal(ops->can_execute_in_done(t.device), cases[i].can);
		bench_close(&t);
	}
}

static void free_in_done(void *ctx, int code, const char *message)
{
	(void)code;
	(void)message;
	ops->free_buffer(ctx);
}

/* A call from a done function aborts on the strict device. Everything else works. */
static void strict_forbids_calls_from_done(void **state)
{
	struct sal_buffer *a;
	struct bench t;
	pid_t child;
	int status;

	(void)state;
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		const struct rlimit none = { 0, 0 };

		signal(SIGABRT, SIG_DFL);
		setrlimit(RLIMIT_CORE, &none);
		bench_open(&t, "fake:strict", 0);
		put(&t, 1, &a);
		ops->when_ready(a, free_in_done, a, &t.err);
		ops->close_stream(t.stream);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	bench_open(&t, "fake:strict", 0);
	assert_int_equal(put(&t, 1, &a), SAL_OK);
	ops->free_buffer(a);
	bench_close(&t);
}

static void other_faults_are_refused(void **state)
{
	static const char *const paths[] = {
		"",
		"real",
		"fake:",
		"fake:upload",
		"fake:upload@0=1",
		"fake:upload@",
		"fake:unload@1",
		"fake:free_buffer@1=3",
		"fake:slow@3",
		"fake:slow@3:0",
		"fake:slow@0:5",
		"fake:slow:dance@3:5",
		"fake:slowly@3:5",
		"fake:endless@3:5",
		"fake:endless@0",
		"fake:endless:@1",
		"fake:loud",
		"fake:strict,chained",
		"fake:up@1=1",
		"fake:load@1=",
		"fake:load@1=0",
		"fake:load@1=17",
		"fake:load@1=1,",
		"fake:load@1=1 ",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		const struct sal_device_config config = { .plugin_path = paths[i] };
		struct sal_device *d;
		struct sal_err err = { 0 };

		assert_int_equal(ops->open(&config, &d, &err), -SAL_INVALID_ARGUMENT);
		assert_null(d);
	}
}

static void iterations_fail_when_told_to(void **state)
{
	struct sal_loaded *fail, *refuse, *after;
	struct sal_buffer *bad, *worse, *none;
	struct outcome o;
	struct bench t;

	(void)state;
	bench_open(&t, NULL, 0);
	fail = load(&t, "fake 1\noutput u8 1 = fill 0\nfail 10 all is lost\n");
	refuse = load(&t, "fake 1\noutput u8 1 = fill 0\nrefuse 9 not now\n");
	after = load(&t, "fake 1\noutput u8 1 = copy 0\n");
	assert_int_equal(execute(&t, refuse, NULL, &none, &o), -SAL_FAILED_PRECONDITION);
	assert_string_equal(t.err.text, "not now");
	assert_int_equal(execute(&t, fail, NULL, &bad, &o), SAL_OK);
	assert_int_equal(wait_for(&o), SAL_ABORTED);
	assert_string_equal(o.text, "all is lost");
	assert_int_equal(execute(&t, after, bad, &worse, &o), SAL_OK);
	assert_int_equal(wait_for(&o), SAL_ABORTED);
	assert_string_equal(o.text, "all is lost");
	ops->free_buffer(bad);
	ops->free_buffer(worse);
	ops->unload(fail);
	ops->unload(refuse);
	ops->unload(after);
	bench_close(&t);
}

/* All later work waits, too. Closing the stream ends all of it. */
static void iterations_hang_until_closed(void **state)
{
	struct sal_loaded *hang, *long_one;
	struct sal_buffer *first, *second;
	struct outcome a, b;
	struct bench t;

	(void)state;
	for (int round = 0; round < 20; round++) {
		bench_open(&t, NULL, 0);
		hang = load(&t, "fake 1\noutput u8 1 = fill 0\nhang\n");
		long_one = load(&t, "fake 1\noutput u8 1 = fill 0\ntime 3600000000000\n");
		assert_int_equal(execute(&t, round % 2 ? hang : long_one, NULL, &first, &a),
				 SAL_OK);
		assert_int_equal(execute(&t, round % 2 ? long_one : hang, NULL, &second, &b),
				 SAL_OK);
		ops->free_buffer(first);
		ops->free_buffer(second);
		ops->unload(hang);
		ops->unload(long_one);
		assert_int_equal(sem_trywait(&a.told), -1);
		bench_close(&t);
		assert_int_equal(wait_for(&a), SAL_CANCELLED);
		assert_int_equal(wait_for(&b), SAL_CANCELLED);
	}
}

static void iterations_take_their_time(void **state)
{
	const struct sal_device_config config = { .fake_ns = 3000000 };
	struct sal_loaded *p;
	struct sal_buffer *out;
	struct outcome o;
	struct bench t = { 0 };
	uint64_t start;

	(void)state;
	assert_int_equal(ops->open(&config, &t.device, &t.err), SAL_OK);
	assert_int_equal(ops->open_stream(t.device, 0, &t.stream, &t.err), SAL_OK);
	p = load(&t, "fake 1\noutput u8 1 = fill 0\n");
	start = now_ns();
	assert_int_equal(execute(&t, p, NULL, &out, &o), SAL_OK);
	assert_int_equal(wait_for(&o), SAL_OK);
	assert_true(now_ns() - start >= config.fake_ns);
	ops->free_buffer(out);
	ops->unload(p);
	bench_close(&t);
}

static void compilations_crash_when_told_to(void **state)
{
	struct sal_compiled *c;
	struct bench t;
	pid_t child;
	int status;

	(void)state;
	bench_open(&t, NULL, 0);
	assert_int_equal(compile(&t, "fake 1\nreject 12 never heard of it\n", &c),
			 -SAL_UNIMPLEMENTED);
	assert_string_equal(t.err.text, "never heard of it");
	assert_null(c);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		const struct rlimit none = { 0, 0 };

		/* cmocka would catch the signal and continue. */
		signal(SIGABRT, SIG_DFL);
		setrlimit(RLIMIT_CORE, &none);
		compile(&t, "fake 1\ncrash\n", &c);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	bench_close(&t);
}

/* The language */

static void programs_are_read(void **state)
{
	const struct sal_program_facts *f;
	struct sal_compiled *c;
	struct bench t;

	(void)state;
	bench_open(&t, NULL, 0);
	assert_int_equal(compile(&t,
				 "fake 1 # ours\n"
				 "\n"
				 "name two words\n"
				 "output f32 2 3 = add 1 4\n"
				 "output 29 = fill 255 # a scalar\n"
				 "output s64 0 = copy 0\n"
				 "donate 4 0\n"
				 "donate 0 2\n"
				 "temp 4096",
				 &c),
			 SAL_OK);
	f = compiler->facts(c);
	assert_int_equal(f->name.size, 9);
	assert_memory_equal(f->name.at, "two words", 9);
	assert_int_equal(f->output_count, 3);
	assert_int_equal(f->outputs[0].bytes, 24);
	assert_int_equal(f->outputs[0].dims[1], 3);
	assert_int_equal(f->outputs[1].type, 29);
	assert_int_equal(f->outputs[1].rank, 0);
	assert_int_equal(f->outputs[1].bytes, 1);
	assert_int_equal(f->outputs[2].bytes, 0);
	assert_int_equal(f->donated_count, 2);
	assert_int_equal(f->donated[0], 0);
	assert_int_equal(f->donated[1], 4);
	assert_int_equal(f->memory.temp, 4096);
	assert_int_equal(f->memory.output, 25);
	assert_int_equal(f->memory.alias, 24);
	compiler->free_compiled(c);
	bench_close(&t);
}

static void other_texts_are_refused(void **state)
{
	static const char *const lines[] = {
		"output",
		"output f32",
		"output f32 = ",
		"output f33 1 = fill 0",
		"output 23 = fill 0",
		"output f32 -1 = fill 0",
		"output f32 1  = fill 0",
		"output f32 1 = fill",
		"output f32 1 = fill 256",
		"output f32 1 = copy 0 0",
		"output f32 1 = add 0",
		"output f32 1 = copy 99999",
		"output f32 9223372036854775807 4 = fill 0",
		"output f32 1 1 1 1 1 1 1 1 1 = fill 0",
		"donate 0 0",
		"temp",
		"temp many",
		"time 1 2",
		"fail 0 x",
		"fail 17 x",
		"fail 3",
		"hang on",
		"name",
		"dance",
	};
	struct sal_compiled *c;
	struct bench t;
	char text[512];

	(void)state;
	bench_open(&t, NULL, 0);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		snprintf(text, sizeof(text), "fake 1\n%s\n", lines[i]);
		if (compile(&t, text, &c) != -SAL_INVALID_ARGUMENT)
			fail_msg("\"%s\" was understood", lines[i]);
		assert_non_null(strstr(t.err.text, "line 2"));
		assert_null(c);
	}
	memset(text, ' ', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text, "fake 1\n", 7);
	assert_int_equal(compile(&t, text, &c), -SAL_INVALID_ARGUMENT);
	assert_int_equal(compile(&t, "fake 2\n", &c), -SAL_INVALID_ARGUMENT);
	bench_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_limited),
		cmocka_unit_test(iterations_need_memory),
		cmocka_unit_test(calls_fail_when_told_to),
		cmocka_unit_test(paging_fails_when_told_to),
		cmocka_unit_test(a_call_counts_once),
		cmocka_unit_test(calls_are_slow_when_told_to),
		cmocka_unit_test(calls_are_endless_when_told_to),
		cmocka_unit_test(freeing_can_be_endless),
		cmocka_unit_test(opening_can_be_endless),
		cmocka_unit_test(iterations_run_inside_the_call),
		cmocka_unit_test(an_iteration_inside_the_call_can_hang),
		cmocka_unit_test(it_declares_what_the_path_says),
		cmocka_unit_test(strict_forbids_calls_from_done),
		cmocka_unit_test(other_faults_are_refused),
		cmocka_unit_test(iterations_fail_when_told_to),
		cmocka_unit_test(iterations_hang_until_closed),
		cmocka_unit_test(iterations_take_their_time),
		cmocka_unit_test(compilations_crash_when_told_to),
		cmocka_unit_test(programs_are_read),
		cmocka_unit_test(other_texts_are_refused),
	};

	return cmocka_run_group_tests_name("fake", tests, NULL, NULL);
}
