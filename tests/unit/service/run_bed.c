/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/service/run_bed.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compile/pool/pool.h"
#include "compile/store/image.h"
#include "core/engine.h"
#include "device/compiler.h"
#include "link/socket.h"
#include "service/client/outbox.h"
#include "service/client/session.h"
#include "service/idmap.h"
#include "service/ledger.h"
#include "service/memory/program.h"
#include "service/options.h"
#include "service/run/closing.h"
#include "service/run/worker.h"
#include "service/server.h"
#include "service/trace.h"
#include "wire/facts.h"

#define PATIENCE_NS UINT64_C(20000000000)
#define U8 6

/* The linker requires these names. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);
/* NOLINTEND(bugprone-reserved-identifier) */

/*
 * svc_server_close calls _exit if a thread does not end. The test would pass then: abort instead.
 */
_Noreturn void __wrap__exit(int status)
{
	(void)fprintf(stderr, "salusd leaves by _exit(%d): some thread does not end\n", status);
	abort();
}

bool bed_aborts(void (*act)(void *arg), void *arg)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		(void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
		(void)close(STDERR_FILENO);
		act(arg);
		__real__exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

void bed_nap(void)
{
	struct timespec t = { .tv_nsec = 200000 };

	(void)nanosleep(&t, NULL);
}

uint64_t bed_deadline_ns(void)
{
	return svc_now_ns() + PATIENCE_NS;
}

/* The daemon */

static unsigned open_beds;

/* A test that failed leaves its daemon and its threads behind. */
static void expect_no_other_bed(void)
{
	if (open_beds++ == 0)
		return;
	(void)fprintf(stderr, "a test that failed has left its daemon running: no more tests\n");
	(void)fflush(NULL);
	__real__exit(1);
}

void bed_open(struct run_bed *bed, const struct run_config *cfg)
{
	struct svc_options options = {
		.trace_records = SVC_TRACE_ENTRIES,
		.plugin_path = cfg->plugin ? cfg->plugin : "fake",
		.helper_path = getenv("SAL_COMPILE"),
		.memory_bytes = cfg->memory_bytes ? cfg->memory_bytes : 64u << 20,
		.limits = cfg->limits,
		.lanes = cfg->lanes ? cfg->lanes : 1,
		.policy = cfg->policy ? cfg->policy : &sal_policy_fair,
		.no_profiles = true,
	};
	struct sal_err err = { 0 };

	expect_no_other_bed();
	(void)signal(SIGPIPE, SIG_IGN);
	(void)snprintf(bed->folder, sizeof(bed->folder), "/tmp/salus-bed-XXXXXX");
	assert_non_null(options.helper_path);
	assert_non_null(mkdtemp(bed->folder));
	(void)snprintf(bed->path, sizeof(bed->path), "%s/s", bed->folder);
	options.socket_path = bed->path;
	if (svc_server_open(&bed->server, &options, &err) < 0)
		fail_msg("no daemon: %s", err.text);
}

static bool nothing_is_used(struct svc_server *server)
{
	struct svc_usage usage;
	int i;

	for (i = 0; i < SVC_RESOURCES; i++) {
		svc_ledger_usage(&server->ledger, i, svc_now_ns(), &usage);
		if (svc_limit_unit(i) != SVC_UNIT_PER_S && usage.all != 0)
			return false;
	}
	return true;
}

void bed_check(struct run_bed *bed)
{
	struct sal_err err = { 0 };
	bool is_well;

	svc_lock(&bed->server);
	is_well = sal_engine_check(bed->server.engine, &err);
	svc_unlock(&bed->server);
	if (!is_well)
		fail_msg("the engine: %s", err.text);
}

void bed_close(struct run_bed *bed)
{
	struct svc_server *server = &bed->server;

	BED_WAIT(bed, TAILQ_EMPTY(&server->sessions));
	BED_WAIT(bed, nothing_is_used(server));
	BED_WAIT(bed, server->queued == 0 && server->running == 0);
	BED_WAIT(bed, TAILQ_EMPTY(&server->posted) && TAILQ_EMPTY(&server->untold));
	BED_ASSERT(bed, server->by_id.count == 0 && server->programs.count == 0);
	BED_ASSERT(bed, TAILQ_EMPTY(&server->worker.attended) &&
				TAILQ_EMPTY(&server->worker.resting) &&
				server->worker.attended_count == 0);
	bed_check(bed);
	assert_int_equal(bed_device_bytes(bed), 0);
	svc_server_close(server);
	(void)snprintf(bed->path, sizeof(bed->path), "%s/s.lock", bed->folder);
	(void)unlink(bed->path);
	assert_return_code(rmdir(bed->folder), 0);
	open_beds--;
}

void bed_let_go(struct run_bed *bed)
{
	uint32_t i;

	for (i = 0; i < SVC_STREAMS_MAX; i++) {
		struct sal_stream *stream = atomic_load(&bed->server.streams[i].device);

		if (stream)
			sal_fake_cancel_calls(stream);
	}
}

uint32_t bed_held_up(struct run_bed *bed)
{
	struct sal_device *d = bed->server.device;
	struct sal_stream *s;
	uint32_t n;

	(void)pthread_mutex_lock(&d->lock);
	n = d->calls_inside;
	LIST_FOREACH(s, &d->streams, device_link)
		n += s->calls_inside;
	(void)pthread_mutex_unlock(&d->lock);
	return n;
}

uint64_t bed_calls(struct run_bed *bed, enum fake_call call)
{
	struct sal_device *d = bed->server.device;
	uint64_t n;

	(void)pthread_mutex_lock(&d->lock);
	n = d->calls[call];
	(void)pthread_mutex_unlock(&d->lock);
	return n;
}

uint64_t bed_device_bytes(struct run_bed *bed)
{
	struct sal_device *d = bed->server.device;
	uint64_t bytes;

	(void)pthread_mutex_lock(&d->lock);
	bytes = d->used;
	(void)pthread_mutex_unlock(&d->lock);
	return bytes;
}

/* A client */

void client_open(struct run_client *c, struct run_bed *bed, const char *name)
{
	client_open_kind(c, bed, name, SAL_HELLO_TRAINING);
}

static void open_session(struct run_client *c, struct run_bed *bed, const char *name,
			 struct sal_hello hello)
{
	struct ucred me = { .pid = getpid(), .uid = getuid(), .gid = getgid() };
	struct sal_err err = { 0 };
	int fds[4];

	memset(c, 0, sizeof(*c));
	c->bed = bed;
	hello.magic = SAL_WIRE_MAGIC;
	hello.major = SAL_WIRE_MAJOR;
	hello.size = sizeof(hello);
	(void)snprintf(hello.name, sizeof(hello.name), "%s", name);
	if (svc_session_create(&bed->server, &hello, &me, &c->session, fds, &err) < 0)
		fail_msg("no session: %s", err.text);
	(void)svc_session_ref(c->session);
	c->ring_bytes = 2 * sal_ring_span(SVC_RING_BYTES);
	c->ring_memory = sal_shared_map(fds[0], c->ring_bytes);
	c->arena_bytes = SVC_SEGMENT_BYTES;
	c->arena = sal_shared_map(fds[3], c->arena_bytes);
	c->record = aligned_alloc(64, SAL_RECORD_MAX);
	assert_true(c->ring_memory && c->arena && c->record);
	c->ring_bell = fds[1];
	c->wait_bell = fds[2];
	(void)close(fds[0]);
	(void)close(fds[3]);
	sal_ring_init(&c->submit, c->ring_memory, SVC_RING_BYTES);
	sal_ring_init(&c->complete, (char *)c->ring_memory + sal_ring_span(SVC_RING_BYTES),
		      SVC_RING_BYTES);
}

void client_open_kind(struct run_client *c, struct run_bed *bed, const char *name, uint32_t kind)
{
	open_session(c, bed, name, (struct sal_hello){ .kind = kind });
}

static struct run_client *opening; /* of client_open_devices */

static void on_kind_opened(struct svc_server *server, uint32_t kind, const struct sal_err *err)
{
	if (err->code)
		fail_msg("%s", err->text);
	open_session(opening, opening->bed, "wide",
		     (struct sal_hello){ .devices = server->kinds[kind].devices });
}

/* The test's thread is the main thread: the kind opens while its loop runs. */
void client_open_devices(struct run_client *c, struct run_bed *bed, const char *name,
			 uint32_t devices)
{
	struct sal_err err = { 0 };
	uint32_t kind;
	int rc = svc_kind_find(&bed->server, devices, on_kind_opened, &kind, &err);

	if (rc < 0)
		fail_msg("%s", err.text);
	if (rc == 0) {
		open_session(c, bed, name, (struct sal_hello){ .devices = devices });
		svc_kind_leave_soon(&bed->server, kind);
		return;
	}
	memset(c, 0, sizeof(*c));
	c->bed = bed;
	opening = c;
	while (!c->session)
		(void)uv_run(&bed->server.loop, UV_RUN_ONCE);
}

void client_kill(struct run_client *c)
{
	struct svc_server *server = &c->bed->server;

	svc_lock(server);
	svc_session_kill(c->session, "salus: the session has ended");
	svc_unlock(server);
	svc_worker_wake(server);
}

bool client_has_ended(const struct run_client *c)
{
	return c->session->state == SVC_CLOSED && atomic_load(&c->session->refs) == 1;
}

void client_close(struct run_client *c)
{
	client_kill(c);
	BED_WAIT(c->bed, client_has_ended(c));
	svc_session_unref(c->session);
	c->session = NULL;
	(void)munmap(c->ring_memory, c->ring_bytes);
	(void)munmap(c->arena, (size_t)c->arena_bytes);
	(void)close(c->ring_bell);
	(void)close(c->wait_bell);
	free(c->record);
}

/* Programs */

static struct sal_image *make_image(struct run_bed *bed, uint32_t stream, const char *text)
{
	const struct sal_compiler_ops *compiler = &sal_compiler_fake;
	struct sal_compiled *compiled = NULL;
	struct sal_err err = { 0 };
	struct sal_image *image;
	struct sal_text code;
	uint64_t sizes[SAL_FRAME_PARTS] = { 0 };
	size_t fact_size = 0, i;
	void *facts;

	if (compiler->compile(bed->server.streams[stream].device, (struct sal_text){ "mlir", 4 },
			      (struct sal_text){ text, strlen(text) }, (struct sal_text){ "", 0 },
			      &compiled, &err) < 0)
		fail_msg("%s", err.text);
	facts = sal_program_facts_pack(compiler->facts(compiled), &fact_size);
	code = compiler->image(compiled);
	sizes[0] = fact_size;
	sizes[1] = code.size;
	image = sal_image_create(sizes);
	assert_true(facts && image);
	memcpy(sal_image_room(image), facts, fact_size);
	memcpy(sal_image_room(image) + fact_size, code.at, code.size);
	for (i = 0; text[i]; i++) /* any number that differs if the texts differ */
		image->key[i % SAL_PROGRAM_KEY_BYTES] =
			(uint8_t)(image->key[i % SAL_PROGRAM_KEY_BYTES] * 31 + text[i] + i);
	free(facts);
	compiler->free_compiled(compiled);
	return image;
}

void client_program(struct run_client *c, uint64_t id, const char *text)
{
	struct svc_shared_program *described =
		svc_program_describe(make_image(c->bed, svc_stream_first(c->session), text));
	struct sal_err err = { 0 };
	struct svc_program *p;

	assert_non_null(described);
	svc_lock(&c->bed->server);
	assert_return_code(svc_limit_take(c->session, SVC_PROGRAMS, 1, &err), 0);
	p = svc_program_create(c->session, described);
	assert_non_null(p);
	assert_true(svc_idmap_add(&c->session->programs, id, p));
	svc_unlock(&c->bed->server);
}

/* Records */

void client_write(struct run_client *c, const void *record, uint32_t size)
{
	uint64_t until_ns = bed_deadline_ns();
	void *at;

	while (!(at = sal_ring_reserve(&c->submit, size))) {
		client_show(c);
		if (svc_now_ns() > until_ns)
			fail_msg("the ring stays full");
		bed_nap();
	}
	memcpy(at, record, size);
}

void client_ring(struct run_client *c)
{
	sal_doorbell_ring(c->ring_bell);
}

void client_show(struct run_client *c)
{
	if (sal_ring_publish(&c->submit, true))
		client_ring(c);
}

void client_send(struct run_client *c, const void *record, uint32_t size)
{
	client_write(c, record, size);
	client_show(c);
}

void client_upload(struct run_client *c, uint64_t id, uint64_t bytes, unsigned char value)
{
	struct {
		struct sal_msg_upload m;
		int64_t dims[1];
		unsigned char bytes[SAL_INLINE_MAX];
	} all = {
		.m = { .header = { .type = SAL_MSG_UPLOAD },
		       .id = id,
		       .type = U8,
		       .rank = 1,
		       .size = bytes },
		.dims = { (int64_t)bytes },
	};
	size_t tail = sizeof(all.dims);

	if (bytes > SAL_INLINE_MAX) {
		assert_true(c->arena_used + bytes <= c->arena_bytes);
		all.m.from = (struct sal_place_in_arena){ .offset = c->arena_used, .size = bytes };
		memset(c->arena + c->arena_used, value, bytes);
		c->arena_used += bytes;
	} else {
		memset(all.bytes, value, bytes);
		tail += bytes;
	}
	all.m.header.size = sal_record_size(sizeof(all.m), tail);
	client_send(c, &all, all.m.header.size);
}

uint64_t client_execute(struct run_client *c, uint64_t program, uint64_t first_output,
			uint32_t outputs, const uint64_t *args, uint32_t arg_count)
{
	uint32_t size = sal_record_size(sizeof(struct sal_msg_execute), 8 * (size_t)arg_count);
	struct sal_msg_execute *m = calloc(1, size);
	uint64_t request = ++c->requests;

	assert_non_null(m);
	*m = (struct sal_msg_execute){ .header = { .size = size, .type = SAL_MSG_EXECUTE },
				       .request = request,
				       .program = program,
				       .first_output = first_output,
				       .output_count = outputs,
				       .arg_count = arg_count };
	if (arg_count > 0)
		memcpy(m + 1, args, 8 * (size_t)arg_count);
	client_send(c, m, size);
	free(m);
	return request;
}

uint64_t client_download(struct run_client *c, uint64_t id, uint64_t bytes)
{
	struct sal_msg_download m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_DOWNLOAD },
		.request = ++c->requests,
		.id = id,
		.size = bytes,
	};

	if (bytes > SAL_INLINE_MAX)
		m.into = (struct sal_place_in_arena){ .offset = c->arena_bytes - bytes,
						      .size = bytes };
	client_send(c, &m, sizeof(m));
	return m.request;
}

uint64_t client_await(struct run_client *c, uint64_t id)
{
	struct sal_msg_await m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_AWAIT },
		.request = ++c->requests,
		.id = id,
	};

	client_send(c, &m, sizeof(m));
	return m.request;
}

void client_delete(struct run_client *c, uint64_t id)
{
	struct {
		struct sal_msg_delete m;
		uint64_t ids[1];
	} all = { .m = { .header = { .size = sizeof(all), .type = SAL_MSG_DELETE }, .count = 1 },
		  .ids = { id } };

	client_send(c, &all, sizeof(all));
}

void client_copy(struct run_client *c, uint64_t from, uint64_t to)
{
	struct sal_msg_copy m = { .header = { .size = sizeof(m), .type = SAL_MSG_COPY },
				  .from = from,
				  .to = to };

	client_send(c, &m, sizeof(m));
}

/* Answers */

static void keep_answer(struct run_client *c)
{
	const struct sal_msg_done *done = (const struct sal_msg_done *)c->record;
	const struct sal_msg_reply *reply = (const struct sal_msg_reply *)c->record;
	bool is_refused = c->record->type == SAL_MSG_REFUSED;
	bool is_done = is_refused || c->record->type == SAL_MSG_DONE;
	struct run_answer *a = &c->answers[c->answer_count];

	if (c->record->type == SAL_MSG_RELEASED) {
		c->released_bytes += ((const struct sal_msg_released *)c->record)->place.size;
		return;
	}
	if (is_done && done->request == 0)
		return; /* news */
	assert_in_range(c->answer_count, 0, RUN_ANSWERS - 1);
	c->answer_count++;
	a->request = is_done ? done->request : reply->request;
	a->code = is_done ? done->code : reply->code;
	a->is_refused = is_refused;
	a->size = is_done ? done->tail_size : reply->text_size;
	assert_in_range(a->size, 0, sizeof(a->tail));
	memcpy(a->tail, is_done ? (const void *)(done + 1) : (const void *)(reply + 1), a->size);
}

static void take_answers(struct run_client *c)
{
	bool wake;

	for (;;) {
		enum sal_ring_take got = sal_ring_take(&c->complete, c->record, &wake);

		if (wake)
			client_ring(c);
		assert_int_not_equal(got, SAL_RING_BROKEN);
		if (got == SAL_RING_EMPTY)
			return;
		assert_true(sal_complete_is_valid(c->record));
		keep_answer(c);
	}
}

static bool find_answer(struct run_client *c, uint64_t request)
{
	uint32_t i;

	for (i = 0; i < c->answer_count; i++) {
		if (c->answers[i].request != request)
			continue;
		c->answer = c->answers[i];
		c->answers[i] = c->answers[--c->answer_count];
		return true;
	}
	return false;
}

bool client_is_answered(struct run_client *c, uint64_t request)
{
	uint32_t i;

	take_answers(c);
	for (i = 0; i < c->answer_count; i++)
		if (c->answers[i].request == request)
			return true;
	return false;
}

int client_answer(struct run_client *c, uint64_t request)
{
	uint64_t until_ns = bed_deadline_ns();

	for (;;) {
		take_answers(c);
		if (find_answer(c, request))
			return c->answer.code;
		if (svc_now_ns() > until_ns)
			fail_msg("no answer to request %lu of %s", (unsigned long)request,
				 c->session->name);
		bed_nap();
	}
}

void client_expect(struct run_client *c, uint64_t id, uint64_t bytes, unsigned char value)
{
	const unsigned char *at = bytes > SAL_INLINE_MAX ? c->arena + c->arena_bytes - bytes
							 : c->answer.tail;
	size_t i;

	assert_int_equal(client_answer(c, client_download(c, id, bytes)), 0);
	for (i = 0; i < bytes && at[i] == value; i++)
		;
	assert_int_equal(i, bytes);
}
