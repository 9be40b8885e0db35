/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of daemons, clients and processes. All waiters are told, no call hangs or aborts, and
 * nothing is left behind. Each test has its own daemon, which the test may freeze and kill.
 */
#include "support/plugin_host.h"
#include "support/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"

#define MB (UINT64_C(1) << 20)
#define PROMPT_NS 1e9 /* a waiter must know within this time */

/* A client with something of everything */

struct things {
	PJRT_LoadedExecutable *add;
	PJRT_Executable *executable;
	PJRT_Buffer *args[2], *sum;
	PJRT_Event *ready;
};

/* The device of the client before is gone with it. */
static void use_client(struct bed *t, PJRT_Client *client)
{
	ARGS(Client_Devices, a, .client = client);

	ok(api->PJRT_Client_Devices(&a));
	t->client = client;
	t->device = a.devices[0];
}

static void things_create(struct bed *t, struct things *x)
{
	x->add = compile(t, PROGRAM_ADD);
	x->executable = executable_of(x->add);
	x->args[0] = put_vector(t, 1);
	x->args[1] = put_vector(t, 10);
	x->sum = NULL;
	ok(try_execute(&(struct run){
		.loaded = x->add, .args = x->args, .arg_count = 2, .outputs = &x->sum }));
	expect_vector(x->sum, 11, 2);
	x->ready = ready_event(x->sum);
}

/*
 * JAX aborts if a lifetime call fails: this function counts the failures. Any thread or process may
 * call it.
 */
static int things_destroy(struct things *x)
{
	int bad = 0;

	bad += code_of(CALL(Event_Destroy, .event = x->ready)) != 0;
	bad += code_of(CALL(Buffer_Delete, .buffer = x->sum)) != 0;
	bad += code_of(CALL(Buffer_Destroy, .buffer = x->sum)) != 0;
	bad += code_of(CALL(Buffer_Destroy, .buffer = x->args[0])) != 0;
	bad += code_of(CALL(Buffer_Destroy, .buffer = x->args[1])) != 0;
	bad += code_of(CALL(LoadedExecutable_Delete, .executable = x->add)) != 0;
	bad += code_of(CALL(LoadedExecutable_Destroy, .executable = x->add)) != 0;
	bad += code_of(CALL(Executable_Destroy, .executable = x->executable)) != 0;
	return bad;
}

/* Counts the calls that do not fail with UNAVAILABLE, although the daemon is gone. */
static int count_available(struct bed *t, struct things *x, char *text, size_t room)
{
	const char *program = t->subject->program(PROGRAM_SWAP);
	size_t bytes = 3 * MB;
	const int64_t dims[] = { LANES }, big_dims[] = { (int64_t)bytes };
	char *big = calloc(1, bytes);
	float data[LANES] = { 0 };
	struct array small_array = { .type = F32, .dims = dims, .rank = 1, .data = data };
	struct array big_array = {
		.type = PJRT_Buffer_Type_U8, .dims = big_dims, .rank = 1, .data = big
	};
	ARGS(Buffer_CopyToMemory, copy, .buffer = x->args[0], .dst_memory = t->memory);
	ARGS(Executable_Serialize, serialize, .executable = x->executable);
	ARGS(Executable_DeserializeAndLoad, load, .client = t->client,
	     .serialized_executable = "nonsense", .serialized_executable_size = 8);
	PJRT_LoadedExecutable *p = NULL;
	PJRT_Buffer *b = NULL;
	int n = 0;

	n += explain(try_put(t, &small_array, &b, NULL), text, room) != SAL_UNAVAILABLE;
	n += code_of(try_put(t, &big_array, &b, NULL)) != SAL_UNAVAILABLE;
	n += code_of(try_get(x->args[0], data, sizeof(data))) != SAL_UNAVAILABLE;
	n += code_of(try_execute(&(struct run){
		     .loaded = x->add, .args = x->args, .arg_count = 2, .outputs = &b })) !=
	     SAL_UNAVAILABLE;
	n += code_of(try_compile(t, program, strlen(program), &p)) != SAL_UNAVAILABLE;
	n += code_of(api->PJRT_Buffer_CopyToMemory(&copy)) != SAL_UNAVAILABLE;
	n += code_of(api->PJRT_Executable_Serialize(&serialize)) != SAL_UNAVAILABLE;
	n += code_of(api->PJRT_Executable_DeserializeAndLoad(&load)) != SAL_UNAVAILABLE;
	free(big);
	return n;
}

/* Counts the questions about known facts that fail or get a wrong answer. */
static int count_forgotten(struct bed *t, struct things *x)
{
	ARGS(Client_Devices, devices, .client = t->client);
	ARGS(Client_PlatformName, platform, .client = t->client);
	ARGS(Client_AddressableMemories, memories, .client = t->client);
	ARGS(Device_MemoryStats, stats, .device = t->device);
	ARGS(Executable_NumOutputs, outputs, .executable = x->executable);
	ARGS(Executable_Name, name, .executable = x->executable);
	ARGS(Buffer_Dimensions, dims, .buffer = x->sum);
	ARGS(Buffer_IsDeleted, deleted, .buffer = x->sum);
	ARGS(Event_IsReady, ready, .event = x->ready);
	ARGS(Plugin_Attributes, attributes);
	int n = 0;

	n += code_of(api->PJRT_Client_Devices(&devices)) != 0;
	n += devices.num_devices != 1 || devices.devices[0] != t->device;
	n += code_of(api->PJRT_Client_PlatformName(&platform)) != 0;
	n += platform.platform_name_size == 0 || platform.platform_name[0] == '\0';
	n += code_of(api->PJRT_Client_AddressableMemories(&memories)) != 0;
	n += code_of(api->PJRT_Device_MemoryStats(&stats)) != 0;
	n += code_of(api->PJRT_Executable_NumOutputs(&outputs)) != 0 || outputs.num_outputs != 1;
	n += code_of(api->PJRT_Executable_Name(&name)) != 0 || name.executable_name_size == 0;
	n += code_of(api->PJRT_Buffer_Dimensions(&dims)) != 0 || dims.dims[0] != LANES;
	n += code_of(api->PJRT_Buffer_IsDeleted(&deleted)) != 0 || deleted.is_deleted;
	n += code_of(api->PJRT_Event_IsReady(&ready)) != 0 || !ready.is_ready;
	n += code_of(api->PJRT_Plugin_Attributes(&attributes)) != 0;
	return n;
}

static uint64_t killed_at;

static void strike(struct bed *t)
{
	killed_at = host_now_ns();
	daemon_kill(&t->daemon);
}

static void assert_prompt(uint64_t when)
{
	double took = (double)when - (double)killed_at;

	if (took > PROMPT_NS * host_patience())
		fail_msg("it took %.1f s", took / 1e9);
}

/* One call soon notices the death. From then on all calls fail. */
static void life_after_death(struct bed *t, struct things *x)
{
	char text[512];
	float data[LANES];

	while (code_of(try_get(x->args[0], data, sizeof(data))) != SAL_UNAVAILABLE)
		assert_prompt(host_now_ns());
	assert_int_equal(count_available(t, x, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "salus"));
	assert_int_equal(count_forgotten(t, x), 0);
	assert_int_equal(things_destroy(x), 0);
}

/* Waiting threads */

struct waiter {
	struct bed *bed;
	struct things *things;
	PJRT_Event *event;
	int (*wait)(struct waiter *w); /* returns the error code */
	pthread_t thread;
	_Atomic int state; /* 1: about to wait, 2: told */
	int code;
	uint64_t end_ns;
	_Atomic unsigned long done; /* calls completed before the end */
	_Atomic pid_t tid;
};

static void *wait_in_thread(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->tid, thread_id());
	atomic_store(&w->state, 1);
	w->code = w->wait(w);
	w->end_ns = host_now_ns();
	atomic_store(&w->state, 2);
	return NULL;
}

static void waiter_start(struct waiter *w)
{
	assert_int_equal(pthread_create(&w->thread, NULL, wait_in_thread, w), 0);
	while (!thread_is_asleep(atomic_load(&w->tid)))
		(void)sched_yield(); /* or the deadline */
	assert_int_equal(atomic_load(&w->state), 1);
}

static void waiter_join(struct waiter *w)
{
	assert_int_equal(pthread_join(w->thread, NULL), 0);
	assert_int_equal(w->code, SAL_UNAVAILABLE);
	assert_prompt(w->end_ns);
}

static int wait_for_event(struct waiter *w)
{
	return code_of(CALL(Event_Await, .event = w->event));
}

static int wait_for_compile(struct waiter *w)
{
	const char *text = w->bed->subject->program(PROGRAM_SWAP);
	PJRT_LoadedExecutable *p = NULL;

	return code_of(try_compile(w->bed, text, strlen(text), &p));
}

/* An upload larger than the arena, which has to grow. */
static int wait_for_big_upload(struct waiter *w)
{
	size_t bytes = 150 * MB;
	const int64_t dims[] = { (int64_t)bytes };
	char *data = calloc(1, bytes);
	PJRT_Buffer *b = NULL;
	int code = code_of(try_put(
		w->bed,
		&(struct array){
			.type = PJRT_Buffer_Type_U8, .dims = dims, .rank = 1, .data = data },
		&b, NULL));

	free(data);
	return code;
}

static int wait_for_download(struct waiter *w)
{
	float data[LANES];

	return code_of(try_get(w->things->sum, data, sizeof(data)));
}

static int wait_for_create(struct waiter *w)
{
	ARGS(Client_Create, a);

	(void)w;
	return code_of(api->PJRT_Client_Create(&a));
}

static int wait_for_serialize(struct waiter *w)
{
	ARGS(Executable_Serialize, a, .executable = w->things->executable);

	return code_of(api->PJRT_Executable_Serialize(&a));
}

/* The daemon is frozen, a thread waits for it, and the daemon is killed. */
static void death_while(struct bed *t, int (*wait)(struct waiter *w))
{
	struct things x;
	struct waiter w = { .bed = t, .things = &x, .wait = wait };

	things_create(t, &x);
	daemon_freeze(&t->daemon);
	waiter_start(&w);
	strike(t);
	waiter_join(&w);
	life_after_death(t, &x);
}

static void death_during_compile(void **state)
{
	death_while(*state, wait_for_compile);
}

static void death_during_a_big_upload(void **state)
{
	death_while(*state, wait_for_big_upload);
}

static void death_during_a_download(void **state)
{
	death_while(*state, wait_for_download);
}

static void death_during_create(void **state)
{
	death_while(*state, wait_for_create);
}

static void death_during_serialize(void **state)
{
	death_while(*state, wait_for_serialize);
}

static void death_while_idle(void **state)
{
	struct bed *t = *state;
	struct things x;

	things_create(t, &x);
	strike(t);
	life_after_death(t, &x);
}

struct callback {
	_Atomic int count;
	_Atomic int code;
	_Atomic uint64_t when;
};

static void on_ready(PJRT_Error *error, void *arg)
{
	struct callback *c = arg;

	atomic_store(&c->code, code_of(error));
	atomic_store(&c->when, host_now_ns());
	(void)atomic_fetch_add(&c->count, 1);
}

/*
 * An iteration never ends. One thread waits in Await, a callback in OnReady, and a download behind
 * the iteration.
 */
static void death_during_an_iteration(void **state)
{
	struct bed *t = *state;
	struct things x;
	struct waiter w = { .bed = t, .things = &x, .wait = wait_for_event };
	struct callback c = { 0 }, unseen = { 0 };
	PJRT_LoadedExecutable *p;
	PJRT_Buffer *b = NULL;
	PJRT_Event *done = NULL, *ready;
	float data[LANES];

	if (!t->subject->is_fake)
		skip();
	things_create(t, &x);
	p = compile_text(t, "fake 1\noutput f32 4 = fill 0\nhang\n");
	ok(try_execute(&(struct run){ .loaded = p, .outputs = &b, .done = &done }));
	ready = ready_event(b);
	w.event = done;
	ok(CALL(Event_OnReady, .event = ready, .callback = on_ready, .user_arg = &c));
	{
		ARGS(Buffer_ToHostBuffer, a, .src = b, .dst = data, .dst_size = sizeof(data));

		ok(api->PJRT_Buffer_ToHostBuffer(&a));
		ok(CALL(Event_OnReady, .event = a.event, .callback = on_ready,
			.user_arg = &unseen));
		ok(CALL(Event_Destroy, .event = a.event));
	}
	waiter_start(&w);
	strike(t);
	waiter_join(&w);
	while (atomic_load(&c.count) == 0 || atomic_load(&unseen.count) == 0)
		(void)usleep(1000);
	assert_int_equal(atomic_load(&c.code), SAL_UNAVAILABLE);
	assert_prompt(atomic_load(&c.when));
	assert_int_equal(atomic_load(&unseen.code), SAL_UNAVAILABLE);
	assert_int_equal(ready_code(b), SAL_UNAVAILABLE);
	assert_int_equal(await(ready), SAL_UNAVAILABLE);
	assert_int_equal(await(done), SAL_UNAVAILABLE);
	buffer_destroy(b);
	loaded_destroy(p);
	life_after_death(t, &x);
	assert_int_equal(atomic_load(&c.count), 1);
	assert_int_equal(atomic_load(&unseen.count), 1);
}

/* The daemon stops in order while a client is at work. */
static void a_stop_is_a_death_too(void **state)
{
	struct bed *t = *state;
	struct things x;
	PJRT_LoadedExecutable *p;
	PJRT_Buffer *b = NULL;
	PJRT_Event *ready;
	int code;

	if (!t->subject->is_fake)
		skip();
	things_create(t, &x);
	p = compile_text(t, "fake 1\noutput f32 4 = fill 0\nhang\n");
	ok(try_execute(&(struct run){ .loaded = p, .outputs = &b }));
	ready = ready_event(b);
	daemon_stop(&t->daemon); /* asserts that the daemon exits with success */
	killed_at = host_now_ns();
	code = await(ready);
	assert_true(code == SAL_UNAVAILABLE || code == SAL_CANCELLED);
	buffer_destroy(b);
	loaded_destroy(p);
	life_after_death(t, &x);
}

/* In the middle of everything */

static int upload_until_it_ends(struct waiter *w)
{
	const int64_t dims[] = { 1000 };
	float data[1000] = { 0 };
	int code = 0;

	while (code == 0) {
		PJRT_Buffer *b = NULL;

		code = code_of(try_put(
			w->bed,
			&(struct array){ .type = F32, .dims = dims, .rank = 1, .data = data }, &b,
			NULL));
		w->done++;
		(void)CALL(Buffer_Destroy, .buffer = b);
	}
	return code;
}

static int upload_big_until_it_ends(struct waiter *w)
{
	size_t bytes = 20 * MB;
	const int64_t dims[] = { (int64_t)bytes };
	char *data = calloc(1, bytes);
	int code = 0;

	while (code == 0) {
		PJRT_Buffer *b = NULL;

		code = code_of(try_put(w->bed,
				       &(struct array){ .type = PJRT_Buffer_Type_U8,
							.dims = dims,
							.rank = 1,
							.data = data },
				       &b, NULL));
		w->done++;
		(void)CALL(Buffer_Destroy, .buffer = b);
	}
	free(data);
	return code;
}

static int run_until_it_ends(struct waiter *w)
{
	int code = 0;

	while (code == 0) {
		PJRT_Buffer *b = NULL;

		code = code_of(try_execute(&(struct run){ .loaded = w->things->add,
							  .args = w->things->args,
							  .arg_count = 2,
							  .outputs = &b }));
		if (code == 0)
			code = code_of(await_error(ready_event(b)));
		w->done++;
		(void)CALL(Buffer_Destroy, .buffer = b);
	}
	return code;
}

static int download_until_it_ends(struct waiter *w)
{
	int code = 0;

	while (code == 0) {
		code = wait_for_download(w);
		w->done++;
	}
	return code;
}

static int compile_until_it_ends(struct waiter *w)
{
	int code = 0;

	while (code == 0) {
		const char *text = w->bed->subject->program(PROGRAM_ADD);
		PJRT_LoadedExecutable *p = NULL;

		code = code_of(try_compile(w->bed, text, strlen(text), &p));
		w->done++;
		(void)CALL(LoadedExecutable_Destroy, .executable = p);
	}
	return code;
}

static int (*const everything[])(struct waiter *w) = {
	upload_until_it_ends,  upload_until_it_ends,	 run_until_it_ends,
	run_until_it_ends,     download_until_it_ends,	 download_until_it_ends,
	compile_until_it_ends, upload_big_until_it_ends,
};
#define EVERYTHING (sizeof(everything) / sizeof(everything[0]))

static unsigned long done_by_all(struct waiter *w)
{
	unsigned long sum = 0;
	size_t i;

	for (i = 0; i < EVERYTHING; i++)
		sum += atomic_load(&w[i].done);
	return sum;
}

static void expect_full_swing(struct waiter *w)
{
	size_t i;

	for (i = 0; i < EVERYTHING; i++)
		while (atomic_load(&w[i].state) == 0 || atomic_load(&w[i].done) < 2)
			(void)sched_yield(); /* or the deadline */
}

/* Waits until no thread makes progress any more. All threads have begun. */
static void expect_standstill(struct waiter *w)
{
	unsigned long before = 0;
	unsigned int looks = 0;
	size_t i;

	for (i = 0; i < EVERYTHING; i++)
		while (!thread_is_asleep(atomic_load(&w[i].tid)))
			(void)sched_yield();
	while (looks++ < 100) {
		unsigned long now = done_by_all(w);

		if (now != before)
			looks = 0;
		before = now;
		(void)usleep(1000); /* between two counts */
	}
}

static void everybody_ends(struct bed *t, bool frozen)
{
	struct things x;
	struct waiter w[EVERYTHING] = { 0 };
	size_t i;

	things_create(t, &x);
	if (frozen)
		daemon_freeze(&t->daemon);
	for (i = 0; i < EVERYTHING; i++) {
		w[i].bed = t;
		w[i].things = &x;
		w[i].wait = everything[i];
		assert_int_equal(pthread_create(&w[i].thread, NULL, wait_in_thread, &w[i]), 0);
	}
	if (frozen)
		expect_standstill(w);
	else
		expect_full_swing(w);
	strike(t);
	for (i = 0; i < EVERYTHING; i++)
		waiter_join(&w[i]);
	life_after_death(t, &x);
}

static void death_in_full_swing(void **state)
{
	everybody_ends(*state, false);
}

/* The submission ring is full, and all threads wait for room. */
static void death_with_a_full_ring(void **state)
{
	everybody_ends(*state, true);
}

/* The process connects to another daemon while the old client still exists. */
static void a_new_daemon_takes_over(void **state)
{
	struct bed *t = *state;
	struct things x, y;
	struct bed next = { .subject = t->subject };

	things_create(t, &x);
	strike(t);
	daemon_start(&next.daemon, t->subject->plugin, NULL);
	next.client = client_create();
	{
		ARGS(Client_Devices, a, .client = next.client);

		ok(api->PJRT_Client_Devices(&a));
		next.device = a.devices[0];
	}
	things_create(&next, &y);
	assert_int_equal(ready_code(x.sum), 0); /* the sum was ready before */
	life_after_death(t, &x);
	expect_vector(y.sum, 11, 2);
	assert_int_equal(things_destroy(&y), 0);
	client_destroy(next.client);
	daemon_stop(&next.daemon);
}

/* The client is destroyed first, with work under way. */
static void clients_may_go_first(void **state)
{
	struct bed *t = *state;
	struct things x;
	PJRT_Event *done[20];
	PJRT_Buffer *sums[20];
	int i;

	things_create(t, &x);
	for (i = 0; i < 20; i++)
		ok(try_execute(&(struct run){ .loaded = x.add,
					      .args = x.args,
					      .arg_count = 2,
					      .outputs = &sums[i],
					      .done = &done[i] }));
	for (i = 0; i < 20; i++)
		buffer_destroy(sums[i]);
	assert_int_equal(things_destroy(&x), 0);
	client_destroy(t->client);
	t->client = NULL;
	for (i = 0; i < 20; i++) {
		int code = await(done[i]); /* done or UNAVAILABLE, but no hang */

		assert_true(code == 0 || code == SAL_UNAVAILABLE);
	}
	daemon_expect_sessions(&t->daemon, 0);
}

/* Fork */

/* A child uses its inherited objects. The exit status counts the failures. */
static void child_life(struct bed *t, struct things *x)
{
	char text[512] = "";
	int bad = 0;

	bad += 1 * (count_available(t, x, text, sizeof(text)) != 0);
	bad += 2 * (strstr(text, "fork") == NULL);
	bad += 4 * (count_forgotten(t, x) != 0);
	bad += 8 * (things_destroy(x) != 0);
	bad += 16 * (code_of(CALL(Client_Destroy, .client = t->client)) != 0);
	_exit(bad);
}

static void a_forked_child_can_let_go(void **state)
{
	struct bed *t = *state;
	struct things x;
	int i;

	things_create(t, &x);
	for (i = 0; i < 5; i++) {
		pid_t pid = fork();

		if (pid == 0)
			child_life(t, &x);
		assert_int_equal(host_wait_child(pid, 10), 0);
		expect_vector(x.args[0], 1, 1); /* the parent goes on working */
	}
	daemon_expect_sessions(&t->daemon, 1);
	assert_int_equal(things_destroy(&x), 0);
}

/* In the child, an event that is pending at the fork never becomes ready. */
static void a_forked_child_does_not_wait(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p;
	PJRT_Buffer *b = NULL;
	PJRT_Event *ready;
	pid_t pid;

	if (!t->subject->is_fake)
		skip();
	p = compile_text(t, "fake 1\noutput f32 4 = fill 1\ntime 1000000000\n");
	ok(try_execute(&(struct run){ .loaded = p, .outputs = &b }));
	ready = ready_event(b);
	pid = fork();
	if (pid == 0) {
		float data[LANES];
		int bad = code_of(CALL(Event_Await, .event = ready)) != SAL_UNAVAILABLE;

		bad += 2 * (code_of(try_get(b, data, sizeof(data))) != SAL_UNAVAILABLE);
		bad += 4 * (code_of(CALL(Event_Destroy, .event = ready)) != 0);
		bad += 8 * (code_of(CALL(Buffer_Destroy, .buffer = b)) != 0);
		bad += 16 * (code_of(CALL(LoadedExecutable_Destroy, .executable = p)) != 0);
		bad += 32 * (code_of(CALL(Client_Destroy, .client = t->client)) != 0);
		_exit(bad);
	}
	assert_int_equal(host_wait_child(pid, 10), 0);
	assert_int_equal(await(ready), 0);
	buffer_destroy(b);
	loaded_destroy(p);
}

/* A child may create its own client, which is a separate job. */
static void a_forked_child_can_start_over(void **state)
{
	struct bed *t = *state;
	pid_t pid;

	client_destroy(t->client); /* the thread sanitizer then lets the child have threads */
	t->client = NULL;
	pid = fork();
	if (pid == 0) {
		ARGS(Client_Create, a);
		int bad = code_of(api->PJRT_Client_Create(&a)) != 0;

		if (!bad) {
			struct things x;

			use_client(t, a.client);
			things_create(t, &x);
			bad += things_destroy(&x) != 0;
			bad += code_of(CALL(Client_Destroy, .client = a.client)) != 0;
		}
		_exit(bad);
	}
	assert_int_equal(host_wait_child(pid, 30), 0);
	daemon_expect_sessions(&t->daemon, 0);
}

/* The daemon notices the death of a job while the job's forked child lives on. */
static void a_child_does_not_keep_the_job_alive(void **state)
{
	struct bed *t = *state;
	int ends[2];
	pid_t job, child = 0;
	char answer[65536];

	client_destroy(t->client);
	t->client = NULL;
	assert_int_equal(pipe(ends), 0);
	job = fork();
	if (job == 0) {
		ARGS(Client_Create, a);

		if (code_of(api->PJRT_Client_Create(&a)))
			_exit(1);
		child = fork();
		if (child == 0) {
			(void)prctl(PR_SET_PDEATHSIG, 0);
			(void)alarm(60);
			for (;;)
				(void)pause();
		}
		if (write(ends[1], &child, sizeof(child)) != sizeof(child))
			_exit(1);
		for (;;)
			(void)pause();
	}
	assert_int_equal(read(ends[0], &child, sizeof(child)), sizeof(child));
	daemon_ask(&t->daemon, "{\"op\":\"ps\"}\n", answer, sizeof(answer));
	daemon_expect_sessions(&t->daemon, 1);
	assert_int_equal(kill(job, SIGKILL), 0);
	assert_int_equal(waitpid(job, NULL, 0), job);
	daemon_expect_sessions(&t->daemon, 0);
	assert_int_equal(kill(child, 0), 0); /* the child is alive */
	(void)kill(child, SIGKILL);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

/* The parent forks while other threads hold locks. The child must not inherit a locked lock. */
static void forks_in_full_swing(void **state)
{
	struct bed *t = *state;
	struct things x, own;
	struct waiter w[4] = { 0 };
	int i;

	if (host_is_sanitized())
		skip(); /* the sanitizers' own locks do not survive this */
	things_create(t, &x);
	things_create(t, &own);
	for (i = 0; i < 4; i++) {
		w[i].bed = t;
		w[i].things = &x;
		w[i].wait = everything[i * 2 % 6 + i / 3];
		assert_int_equal(pthread_create(&w[i].thread, NULL, wait_in_thread, &w[i]), 0);
	}
	for (i = 0; i < 60; i++) {
		pid_t pid = fork();

		if (pid == 0)
			child_life(t, &own);
		assert_int_equal(host_wait_child(pid, 20), 0);
	}
	expect_vector(x.args[0], 1, 1);
	strike(t);
	for (i = 0; i < 4; i++)
		waiter_join(&w[i]);
	assert_int_equal(things_destroy(&own), 0);
	life_after_death(t, &x);
}

/* Leaks */

static size_t fds_of(pid_t pid)
{
	char command[64], line[64] = "";
	FILE *f;

	(void)snprintf(command, sizeof(command), "ls /proc/%d/fd | wc -l", (int)pid);
	f = popen(command, "r"); /* NOLINT(cert-env33-c): a fixed command */
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	(void)pclose(f);
	return strtoul(line, NULL, 10);
}

static void clients_leave_nothing(void **state)
{
	struct bed *t = *state;
	size_t fds, threads, daemon_fds;
	uint64_t before, mapped;
	int i;

	host_deadline(120);
	for (i = 0; i < 50; i++)
		client_destroy(client_create());
	daemon_expect_sessions(&t->daemon, 1);
	fds = host_fd_count();
	threads = host_thread_count();
	daemon_fds = fds_of(t->daemon.pid);
	before = host_rss_bytes();
	mapped = host_mapped_bytes("memfd:", NULL);
	for (i = 0; i < 1000; i++) {
		PJRT_Client *client = client_create();

		if (i % 10 == 0) {
			struct bed own = { .subject = t->subject, .client = client };
			PJRT_Buffer *b = put_vector(&own, 1);

			expect_vector(b, 1, 1);
			buffer_destroy(b);
		}
		client_destroy(client);
	}
	host_expect_counts(fds, threads);
	assert_int_equal(host_mapped_bytes("memfd:", NULL), mapped);
	if (!host_is_sanitized() && host_rss_bytes() > before + 24 * MB)
		fail_msg("grew by %zu kB", (size_t)(host_rss_bytes() - before) / 1024);
	daemon_expect_sessions(&t->daemon, 1);
	assert_true(fds_of(t->daemon.pid) <= daemon_fds + 2);
}

/* A client exits without destroying anything: the daemon ends its session. */
static void sessions_are_tidied_up(void **state)
{
	struct bed *t = *state;
	int i;

	for (i = 0; i < 10; i++) {
		pid_t pid;

		client_destroy(t->client ? t->client : client_create());
		t->client = NULL;
		pid = fork();
		if (pid == 0) {
			ARGS(Client_Create, a);
			struct things x;

			if (code_of(api->PJRT_Client_Create(&a)))
				_exit(1);
			use_client(t, a.client);
			things_create(t, &x);
			if (i % 2)
				_exit(0);
			(void)kill(getpid(), SIGKILL);
		}
		(void)host_wait_child(pid, 30);
		daemon_expect_sessions(&t->daemon, 0);
	}
}

#define T(test) cmocka_unit_test_setup_teardown(test, bed_setup_own, bed_teardown_own)

static int run_suite(void)
{
	const struct CMUnitTest tests[] = {
		T(death_during_compile),	  T(death_during_a_big_upload),
		T(death_during_a_download),	  T(death_during_create),
		T(death_during_serialize),	  T(death_while_idle),
		T(death_during_an_iteration),	  T(a_stop_is_a_death_too),
		T(death_in_full_swing),		  T(death_with_a_full_ring),
		T(a_new_daemon_takes_over),	  T(clients_may_go_first),
		T(a_forked_child_can_let_go),	  T(a_forked_child_does_not_wait),
		T(a_forked_child_can_start_over), T(a_child_does_not_keep_the_job_alive),
		T(forks_in_full_swing),		  T(clients_leave_nothing),
		T(sessions_are_tidied_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return host_main(argc, argv, run_suite);
}
