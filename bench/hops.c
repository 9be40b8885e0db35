/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hops - the cost of each hop of one small iteration.
 *
 *     salus-bench-hops PLUGIN         measures; prints lines of "name nanoseconds", medians
 *     salus-bench-hops PLUGIN wait    opens the plugin, prints "ready", and waits until stdin closes
 *
 * The link is measured between two processes, over the same rings and doorbells that a job and
 * salusd use. salusd's device layer drives the plugin. With libsalus_pjrt.so as PLUGIN the same
 * call goes through a daemon: the difference to the vendor's own plugin is the cost of the bridge,
 * without Python. bench/bridge combines the numbers.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/compiler.h"
#include "base/sys/clock.h"
#include "link/ring.h"
#include "link/socket.h"

#define ROUNDS 20000
#define WARM 2000
#define RING_BYTES (1u << 20)

/*
 * CompileOptionsProto: executable_build_options (3) with num_replicas (4) and num_partitions (5) of
 * one.
 */
static const char compile_options[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };
static const char program[] =
	"module @tiny { func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> "
	"{ %0 = stablehlo.add %a, %a : tensor<8xf32> return %0 : tensor<8xf32> } }";

static uint32_t samples[ROUNDS];

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void print_median(const char *name, size_t count, unsigned parts)
{
	size_t middle = count / 2;

	qsort(samples, count, sizeof(*samples), by_value);
	(void)printf("%s %.0f\n", name, (double)samples[middle] / parts);
}

/* The link */

/* One end of two rings. */
struct end {
	struct sal_ring out, in;
	int out_bell, in_bell;
	bool sleeps; /* waits for its bell instead of polling */
	struct sal_header *record; /* owned */
};

static void put(struct end *e)
{
	struct sal_msg_execute *m =
		sal_ring_reserve(&e->out, sal_record_size(sizeof(*m), sizeof(uint64_t)));

	memset(m, 0, sizeof(*m) + sizeof(uint64_t));
	m->header.size = sal_record_size(sizeof(*m), sizeof(uint64_t));
	m->header.type = SAL_MSG_EXECUTE;
	if (sal_ring_publish(&e->out, true))
		sal_doorbell_ring(e->out_bell);
}

static void get(struct end *e)
{
	bool wake;

	for (;;) {
		struct pollfd bell = { .fd = e->in_bell, .events = POLLIN };

		if (sal_ring_take(&e->in, e->record, &wake) == SAL_RING_RECORD)
			return;
		if (!e->sleeps) {
			(void)sched_yield(); /* as a job and salusd do */
			continue;
		}
		if (!sal_ring_sleep(&e->in))
			continue;
		(void)poll(&bell, 1, -1);
		sal_doorbell_quiet(e->in_bell);
	}
}

static int open_ends(struct end *a, struct end *b)
{
	size_t span = sal_ring_span(RING_BYTES);
	char *memory =
		mmap(NULL, 2 * span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	a->record = aligned_alloc(64, SAL_RECORD_MAX);
	b->record = aligned_alloc(64, SAL_RECORD_MAX);
	if (memory == MAP_FAILED || !a->record || !b->record ||
	    sal_doorbell_create(&a->out_bell, &b->in_bell, NULL) < 0 ||
	    sal_doorbell_create(&b->out_bell, &a->in_bell, NULL) < 0)
		return -1;
	sal_ring_init(&a->out, memory, RING_BYTES);
	sal_ring_init(&b->in, memory, RING_BYTES);
	sal_ring_init(&b->out, memory + span, RING_BYTES);
	sal_ring_init(&a->in, memory + span, RING_BYTES);
	return 0;
}

static void close_ends(struct end *a, struct end *b)
{
	(void)munmap(a->out.shared, 2 * sal_ring_span(RING_BYTES));
	(void)close(a->out_bell);
	(void)close(a->in_bell);
	(void)close(b->out_bell);
	(void)close(b->in_bell);
	free(a->record);
	free(b->record);
}

/* Both ends in this thread: the cost without the transport. */
static int measure_records(void)
{
	struct end a, b;
	size_t i, k;

	if (open_ends(&a, &b) < 0)
		return -1;
	for (k = 0; k < 2; k++) {
		for (i = 0; i < ROUNDS; i++) {
			uint64_t t0 = sal_now_ns(), t1, t2;

			put(&a);
			t1 = sal_now_ns();
			get(&b);
			t2 = sal_now_ns();
			samples[i] = (uint32_t)(k ? t2 - t1 : t1 - t0);
		}
		print_median(k ? "read" : "write", ROUNDS, 1);
	}
	close_ends(&a, &b);
	return 0;
}

/* To another process and back; a hop is half of that. */
static int measure_hop(const char *name, bool sleeps)
{
	size_t i, rounds = sleeps ? ROUNDS / 4 : ROUNDS;
	struct end here, there;
	pid_t pid;

	if (open_ends(&here, &there) < 0)
		return -1;
	here.sleeps = there.sleeps = sleeps;
	(void)fflush(stdout);
	pid = fork();
	if (pid < 0)
		return -1;
	for (i = 0; i < WARM + rounds; i++) {
		uint64_t t0 = sal_now_ns();

		if (pid == 0) {
			get(&there);
			put(&there);
			continue;
		}
		put(&here);
		get(&here);
		if (i >= WARM)
			samples[i - WARM] = (uint32_t)(sal_now_ns() - t0);
	}
	if (pid == 0)
		_exit(0);
	(void)waitpid(pid, NULL, 0);
	print_median(name, rounds, 2);
	close_ends(&here, &there);
	return 0;
}

/* From thread to thread, as from the job's reader to whoever waits */

struct relay {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned turn; /* even: this thread's turn */
	_Atomic bool ends;
};

static void pass_on(struct relay *r, unsigned parity)
{
	(void)pthread_mutex_lock(&r->lock);
	while (r->turn % 2 != parity && !r->ends)
		(void)pthread_cond_wait(&r->changed, &r->lock);
	r->turn++;
	(void)pthread_cond_broadcast(&r->changed);
	(void)pthread_mutex_unlock(&r->lock);
}

static void *run_relay(void *arg)
{
	struct relay *r = arg;

	while (!r->ends)
		pass_on(r, 1);
	return NULL;
}

static int measure_threads(void)
{
	struct relay r = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
	size_t i, rounds = ROUNDS / 4;
	pthread_t thread;

	if (pthread_create(&thread, NULL, run_relay, &r) != 0)
		return -1;
	for (i = 0; i < rounds; i++) {
		uint64_t t0 = sal_now_ns();

		pass_on(&r, 0);
		samples[i] = (uint32_t)(sal_now_ns() - t0);
	}
	(void)pthread_mutex_lock(&r.lock);
	r.ends = true;
	(void)pthread_cond_broadcast(&r.changed);
	(void)pthread_mutex_unlock(&r.lock);
	(void)pthread_join(thread, NULL);
	print_median("thread-hop", rounds, 2);
	return 0;
}

/* The plugin */

struct plugin {
	const struct sal_device_ops *ops;
	struct sal_device *device;
	struct sal_stream *stream;
	struct sal_loaded *loaded;
	struct sal_buffer *arg;
};

struct outcome {
	_Atomic bool done;
	_Atomic int uses; /* references of the plugin to this struct */
	uint64_t at_ns;
};

static void on_done(void *ctx, int code, const char *message)
{
	struct outcome *o = ctx;

	(void)code;
	(void)message;
	o->at_ns = sal_now_ns();
	atomic_store_explicit(&o->done, true, memory_order_release);
	(void)atomic_fetch_sub(&o->uses, 1);
}

static void on_end(void *ctx, int code, const char *message)
{
	struct outcome *o = ctx;

	(void)code;
	(void)message;
	(void)atomic_fetch_sub(&o->uses, 1);
}

static int open_plugin(struct plugin *p, const char *path, struct sal_err *err)
{
	struct sal_device_config cfg = { .plugin_path = path };
	int rc;

	p->ops = &sal_device_pjrt;
	rc = p->ops->open(&cfg, &p->device, err);
	return rc < 0 ? rc : p->ops->open_stream(p->device, 0, &p->stream, err);
}

static void close_plugin(struct plugin *p)
{
	if (p->arg)
		p->ops->free_buffer(p->arg);
	if (p->loaded)
		p->ops->unload(p->loaded);
	if (p->stream)
		p->ops->close_stream(p->stream);
	if (p->device)
		p->ops->close(p->device);
}

static int load(struct plugin *p, struct sal_err *err)
{
	static const float data[8];
	static const int64_t dims[1] = { 8 };
	const struct sal_array array = { .type = 11 /* F32 */, .rank = 1, .dims = dims };
	struct sal_compiled *compiled;
	int rc = sal_compiler_pjrt.compile(
		p->stream, (struct sal_text){ "mlir", 4 },
		(struct sal_text){ program, sizeof(program) - 1 },
		(struct sal_text){ compile_options, sizeof(compile_options) }, &compiled, err);

	if (rc < 0)
		return rc;
	rc = p->ops->load(p->stream, sal_compiler_pjrt.image(compiled), &p->loaded, err);
	sal_compiler_pjrt.free_compiled(compiled);
	if (rc < 0)
		return rc;
	return p->ops->upload(p->stream, &array, data, SAL_UPLOAD_COPY, NULL, NULL, &p->arg, err);
}

static void wait_for(_Atomic bool *flag)
{
	while (!atomic_load_explicit(flag, memory_order_acquire))
		(void)sched_yield();
}

/*
 * The times of one iteration: until the call returned, the result was ready, and the result was
 * downloaded.
 */
struct times {
	uint64_t call_ns, ready_ns, fetch_ns;
	bool fetches;
};

static int fetch(struct plugin *p, struct sal_buffer *b, uint64_t *out_ns, struct sal_err *err)
{
	struct outcome o = { .done = false, .uses = 1 };
	float data[8];
	uint64_t t0 = sal_now_ns();
	int rc = p->ops->download(b, data, sizeof(data), on_done, &o, err);

	if (rc < 0)
		return rc;
	wait_for(&o.done);
	*out_ns = o.at_ns - t0;
	while (atomic_load(&o.uses) > 0)
		(void)sched_yield();
	return SAL_OK;
}

static int run_once(struct plugin *p, struct times *out, struct sal_err *err)
{
	struct sal_buffer *output = NULL;
	struct outcome o = { .done = false, .uses = 2 };
	struct sal_execution x = {
		.args = &p->arg,
		.arg_count = 1,
		.outputs = &output,
		.output_count = 1,
		.done = on_end,
		.done_ctx = &o,
	};
	uint64_t t0 = sal_now_ns();
	int rc = p->ops->execute(p->loaded, &x, err);

	if (rc < 0)
		return rc;
	out->call_ns = sal_now_ns() - t0;
	rc = p->ops->when_ready(output, on_done, &o, err);
	if (rc < 0)
		return rc;
	wait_for(&o.done);
	out->ready_ns = o.at_ns - t0;
	while (atomic_load(&o.uses) > 0)
		(void)sched_yield();
	rc = out->fetches ? fetch(p, output, &out->fetch_ns, err) : SAL_OK;
	p->ops->free_buffer(output);
	return rc;
}

/*
 * First iterations without a download, then with one: a download changes the timing of the others.
 */
static int measure_plugin(struct plugin *p, struct sal_err *err)
{
	static struct times all[ROUNDS];
	size_t i, count = ROUNDS / 4;
	int rc = load(p, err);

	for (i = 0; rc >= 0 && i < 2 * count; i++) {
		all[i].fetches = i >= count;
		rc = run_once(p, &all[i], err);
	}
	if (rc < 0)
		return rc;
	for (i = 0; i < count; i++)
		samples[i] = (uint32_t)all[i].call_ns;
	print_median("call", count, 1);
	for (i = 0; i < count; i++)
		samples[i] = (uint32_t)all[i].ready_ns;
	print_median("ready", count, 1);
	for (i = 0; i < count; i++)
		samples[i] = (uint32_t)all[count + i].fetch_ns;
	print_median("fetch", count, 1);
	return SAL_OK;
}

int main(int argc, char **argv)
{
	bool waits = argc == 3 && strcmp(argv[2], "wait") == 0;
	struct plugin p = { 0 };
	struct sal_err err = { 0 };
	int rc = 0;

	if (argc != 2 && !waits) {
		(void)fprintf(stderr, "usage: salus-bench-hops PLUGIN [wait]\n");
		return 64;
	}
	if (!waits) /* forks, so it must run before any thread starts */
		rc = measure_records() < 0 || measure_hop("poll-hop", false) < 0 ||
				     measure_hop("sleep-hop", true) < 0 || measure_threads() < 0
			     ? -1
			     : 0;
	if (rc >= 0)
		rc = open_plugin(&p, argv[1], &err);
	if (rc >= 0 && waits) {
		(void)printf("ready\n");
		(void)fflush(stdout);
		while (getchar() != EOF)
			;
	} else if (rc >= 0) {
		rc = measure_plugin(&p, &err);
	}
	close_plugin(&p);
	if (rc < 0)
		(void)fprintf(stderr, "salus-bench-hops: %s\n", err.text);
	return rc < 0;
}
