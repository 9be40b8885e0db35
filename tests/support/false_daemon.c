/* SPDX-License-Identifier: Apache-2.0 */
#include "support/false_daemon.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "link/holding.h"
#include "link/ring.h"
#include "link/socket.h"
#include "wire/facts.h"

#define TEXT(literal) ((struct sal_text){ literal, sizeof(literal) - 1 })
#define SEGMENTS SAL_SEGMENTS_MAX

/* The daemon's side of one client's connection. */
struct talk {
	struct false_daemon *daemon; /* borrowed */
	const struct lie *lie;
	int socket, bell, own_bell; /* owned: socket, the client's bell, our bell */
	void *memory; /* owned: the rings */
	struct sal_ring submit, complete;
	unsigned char *segments[SEGMENTS]; /* owned mappings */
	uint64_t segment_bytes[SEGMENTS];
	uint32_t segment_count;
	unsigned int answers[ANSWER_COUNT]; /* number of answers so far */
	void *program; /* owned: its facts, packed */
	size_t program_size;
	struct sal_header *record; /* owned */
};

/* A daemon that fails at its part makes the test meaningless. */
static _Noreturn void give_up(const char *why)
{
	(void)fprintf(stderr, "the false daemon: %s\n", why);
	abort();
}

#define must(holds, why)              \
	do {                          \
		if (!(holds))         \
			give_up(why); \
	} while (0)

static int new_segment(struct talk *t, uint64_t bytes)
{
	int fd = sal_shared_create("false", bytes, NULL);

	must(fd >= 0 && t->segment_count < SEGMENTS, "no shared memory");
	t->segments[t->segment_count] = sal_shared_map(fd, bytes);
	must(t->segments[t->segment_count] != NULL, "cannot map");
	t->segment_bytes[t->segment_count++] = bytes;
	return fd;
}

/* Hello */

static void *device_facts(const struct lie *lie, size_t *out_size)
{
	static const struct sal_memory_facts memory = { .kind = TEXT("device"),
							.debug_string = TEXT("memory"),
							.to_string = TEXT("memory") };
	struct sal_device_facts facts = {
		.platform_name = TEXT("false"),
		.platform_version = TEXT("1"),
		.kind = TEXT("false"),
		.debug_string = TEXT("false"),
		.to_string = TEXT("false"),
		.memories = &memory,
		.memory_count = 1,
	};

	if (lie->of_device)
		lie->of_device(&facts);
	return sal_device_facts_pack(&facts, out_size);
}

static void *program_facts(const struct lie *lie, size_t *out_size)
{
	static const int64_t dims[] = { 4 };
	const struct sal_output_facts output = {
		.type = 11, .rank = 1, .dims = dims, .memory_kind = TEXT("device"), .bytes = 16
	};
	struct sal_program_facts facts = {
		.name = TEXT("false"),
		.fingerprint = TEXT("false"),
		.replicas = 1,
		.partitions = 1,
		.outputs = &output,
		.output_count = 1,
	};

	if (lie->of_program)
		lie->of_program(&facts);
	return sal_program_facts_pack(&facts, out_size);
}

static void send_greeting(struct talk *t, struct greeting *g)
{
	size_t fds = 0, size = sizeof(g->welcome) + g->fact_size;
	unsigned char *bytes = malloc(size);

	must(bytes != NULL && g->cut <= size, "no greeting");
	while (fds < 4 && g->fds[fds] >= 0)
		fds++;
	memcpy(bytes, &g->welcome, sizeof(g->welcome));
	memcpy(bytes + sizeof(g->welcome), g->facts, g->fact_size);
	(void)sal_socket_send(t->socket, bytes, size - g->cut, g->fds, fds, NULL);
	if (g->cut)
		(void)shutdown(t->socket, SHUT_RDWR);
	free(bytes);
}

/* The protocol version of this daemon. */
static uint32_t minor_of(const struct lie *lie)
{
	return lie->older ? SAL_MINOR_HOLDING - 1 : SAL_WIRE_MINOR;
}

static void greet(struct talk *t)
{
	uint64_t rings = sal_holding_span(FALSE_RING_BYTES, minor_of(t->lie));
	struct greeting g = {
		.welcome = { .magic = SAL_WIRE_MAGIC,
			     .major = SAL_WIRE_MAJOR,
			     .minor = minor_of(t->lie),
			     .size = sizeof(g.welcome),
			     .session = 1,
			     .ring_bytes = FALSE_RING_BYTES,
			     .segment_bytes = FALSE_SEGMENT_BYTES,
			     .memory_bytes = 1u << 30 },
	};
	struct sal_hello hello;
	int i;

	must(sal_socket_receive(t->socket, &hello, sizeof(hello), NULL, 0, 5000, NULL) >= 0,
	     "no hello");
	(void)pthread_mutex_lock(&t->daemon->lock);
	t->daemon->hello = hello;
	(void)pthread_mutex_unlock(&t->daemon->lock);
	g.fds[0] = sal_shared_create("false", rings, NULL);
	must(g.fds[0] >= 0, "no shared memory");
	t->memory = sal_shared_map(g.fds[0], rings);
	must(t->memory != NULL, "cannot map");
	sal_ring_init(&t->submit, t->memory, FALSE_RING_BYTES);
	sal_ring_init(&t->complete, (char *)t->memory + sal_ring_span(FALSE_RING_BYTES),
		      FALSE_RING_BYTES);
	must(sal_doorbell_create(&g.fds[1], &t->own_bell, NULL) >= 0 &&
		     sal_doorbell_create(&t->bell, &g.fds[2], NULL) >= 0,
	     "no doorbells");
	g.fds[3] = new_segment(t, FALSE_SEGMENT_BYTES);
	g.facts = device_facts(t->lie, &g.fact_size);
	must(g.facts != NULL, "no facts");
	g.welcome.fact_bytes = g.fact_size;
	if (t->lie->greet)
		t->lie->greet(&g);
	send_greeting(t, &g);
	for (i = 0; i < 4; i++)
		if (g.fds[i] >= 0)
			(void)close(g.fds[i]);
	free(g.facts);
}

/* Records */

/* Waits until the client rings, because it has made room. */
static void await_room(struct talk *t, uint32_t size)
{
	struct pollfd p = { .fd = t->own_bell, .events = POLLIN };

	if (!sal_ring_wait_for_room(&t->complete, size))
		return;
	(void)sal_ring_publish(&t->complete, false);
	sal_doorbell_ring(t->bell);
	atomic_store(&t->daemon->is_full, true);
	while (poll(&p, 1, 1) == 0 && !atomic_load(&t->daemon->stop))
		;
	sal_doorbell_quiet(t->own_bell);
}

static void say(struct talk *t, const void *record, uint32_t size, const struct spoken *s)
{
	void *at;

	while (!(at = sal_ring_reserve(&t->complete, size))) {
		if (atomic_load(&t->daemon->stop))
			return;
		await_room(t, size);
	}
	memcpy(at, record, size);
	t->complete.head += s->leap;
	if (sal_ring_publish(&t->complete, !s->last) || s->leap)
		sal_doorbell_ring(t->bell);
}

/* Sends a message for the job's user, or the reason why the session ends. */
static void say_word(struct talk *t, int code, const char *word)
{
	uint32_t length = (uint32_t)strlen(word);
	struct spoken s = {
		.record.done = { .header = { .size = sal_record_size(sizeof(s.record.done), length),
					     .type = SAL_MSG_DONE },
				 .code = code,
				 .tail_size = length }
	};

	must(s.record.header.size <= sizeof(s.record), "the message is too long");
	memcpy(&s.record.done + 1, word, length);
	say(t, s.record.bytes, s.record.header.size, &s);
}

/* Sends an answer; s holds the true one. */
static void speak(struct talk *t, enum answer to, struct spoken *s)
{
	s->times = 1;
	s->room = s->record.header.size;
	if (t->lie->speak && t->lie->to == to && t->answers[to] >= t->lie->honest &&
	    !(t->lie->once && t->answers[to] > t->lie->honest))
		t->lie->speak(s);
	t->answers[to]++;
	if (s->word)
		say_word(t, 0, s->word);
	for (; s->times > 0; s->times--)
		say(t, s->record.bytes, s->room, s);
	if (s->last)
		(void)shutdown(t->socket, SHUT_RDWR);
}

static void reply(struct talk *t, enum answer to, uint64_t request, uint64_t value)
{
	struct spoken s = { .record.reply = { .header = { .size = sizeof(s.record.reply),
							  .type = SAL_MSG_REPLY },
					      .request = request,
					      .value = value } };

	speak(t, to, &s);
}

static void done(struct talk *t, enum answer to, uint64_t request, uint32_t tail)
{
	uint32_t size = sal_record_size(sizeof(struct sal_msg_done), tail);
	struct spoken s = { .record.done = { .header = { .size = size, .type = SAL_MSG_DONE },
					     .request = request,
					     .tail_size = tail } };

	speak(t, to, &s);
}

static void released(struct talk *t, struct sal_place_in_arena place)
{
	struct spoken s = { .record.released = { .header = { .size = sizeof(s.record.released),
							     .type = SAL_MSG_RELEASED },
						 .place = place } };

	speak(t, ANSWER_UPLOAD_PLACED, &s);
}

static unsigned char *bytes_at(struct talk *t, const struct sal_place_in_arena *place)
{
	must(place->segment < t->segment_count &&
		     place->offset + place->size <= t->segment_bytes[place->segment],
	     "the plugin left its arena");
	return t->segments[place->segment] + place->offset;
}

static void fetch(struct talk *t, const struct sal_msg_fetch *m)
{
	if (m->into.size >= t->program_size)
		memcpy(bytes_at(t, &m->into), t->program, t->program_size);
	reply(t, ANSWER_FETCH, m->request, t->program_size);
}

static void download(struct talk *t, const struct sal_msg_download *m)
{
	if (m->into.size) {
		memset(bytes_at(t, &m->into), 0, m->into.size);
		done(t, ANSWER_DOWNLOAD_PLACED, m->request, 0);
	} else {
		done(t, ANSWER_DOWNLOAD, m->request, (uint32_t)m->size);
	}
}

static void execute(struct talk *t, const struct sal_msg_execute *m)
{
	struct executed e = { .arg_count = m->arg_count, .retained_count = m->retained_count };
	const uint32_t *retained = (const uint32_t *)((const uint64_t *)(m + 1) + m->arg_count);
	uint32_t i;

	for (i = 0; i < m->retained_count && i < sizeof(e.retained) / sizeof(e.retained[0]); i++)
		e.retained[i] = retained[i];
	(void)pthread_mutex_lock(&t->daemon->lock);
	t->daemon->executed = e;
	(void)pthread_mutex_unlock(&t->daemon->lock);
	done(t, ANSWER_EXECUTE, m->request, 0);
}

static void answer(struct talk *t, const struct sal_header *h)
{
	const struct sal_msg_upload *upload = (const struct sal_msg_upload *)h;

	must(sal_submit_is_valid(h), "the plugin sent an invalid record");
	if (h->type == SAL_MSG_UNLOAD)
		(void)atomic_fetch_add(&t->daemon->unloads, 1);
	if (h->type == SAL_MSG_LOAD)
		reply(t, ANSWER_COMPILE, ((const struct sal_msg_load *)h)->request,
		      t->program_size);
	else if (h->type == SAL_MSG_COMPILE)
		reply(t, ANSWER_COMPILE, ((const struct sal_msg_compile *)h)->request,
		      t->program_size);
	else if (h->type == SAL_MSG_FETCH)
		fetch(t, (const struct sal_msg_fetch *)h);
	else if (h->type == SAL_MSG_EXECUTE)
		execute(t, (const struct sal_msg_execute *)h);
	else if (h->type == SAL_MSG_DOWNLOAD)
		download(t, (const struct sal_msg_download *)h);
	else if (h->type == SAL_MSG_UPLOAD && upload->from.size)
		released(t, upload->from);
}

static void grow(struct talk *t)
{
	struct sal_grow ask;
	struct growth g = { .grown = { .segment = t->segment_count } };

	if (sal_socket_receive(t->socket, &ask, sizeof(ask), NULL, 0, 5000, NULL) < 0)
		return;
	g.grown.bytes =
		(ask.bytes + 4095) / 4096 * 4096 * (t->lie->generous ? t->lie->generous : 1);
	g.fd = new_segment(t, g.grown.bytes);
	if (t->lie->grow)
		t->lie->grow(&g);
	(void)atomic_fetch_add(&t->daemon->growths, 1);
	if (g.last) {
		say_word(t, SAL_UNAVAILABLE, g.last);
		(void)shutdown(t->socket, SHUT_RDWR);
	} else {
		(void)sal_socket_send(t->socket, &g.grown, sizeof(g.grown), &g.fd, g.fd >= 0, NULL);
	}
	if (g.fd >= 0)
		(void)close(g.fd);
}

/* The thread */

static void take_all(struct false_daemon *d, struct talk *t)
{
	enum sal_ring_take got = SAL_RING_EMPTY;
	bool wake;

	while (!atomic_load(&d->deaf) &&
	       (got = sal_ring_take(&t->submit, t->record, &wake)) == SAL_RING_RECORD) {
		(void)atomic_fetch_add(&d->records, 1);
		answer(t, t->record);
	}
	must(got == SAL_RING_EMPTY || atomic_load(&d->deaf), "the plugin corrupted the ring");
}

/*
 * Waits until the client sends something; false at the end. A daemon that sleeps reads the ring
 * only after its bell rang.
 */
static bool await_client(struct false_daemon *d, struct talk *t)
{
	struct pollfd ends[2] = {
		{ .fd = t->socket, .events = POLLIN | POLLRDHUP },
		{ .fd = t->own_bell, .events = POLLIN },
	};
	int n;

	if (t->lie->sleeps && !sal_ring_sleep(&t->submit))
		return true;
	do {
		atomic_store(&d->asleep, true);
		n = poll(ends, t->lie->sleeps ? 2 : 1, 1);
	} while (n == 0 && t->lie->sleeps && !atomic_load(&d->stop));
	atomic_store(&d->asleep, false);
	if (ends[1].revents) {
		sal_doorbell_quiet(t->own_bell);
		(void)atomic_fetch_add(&d->rings, 1);
	}
	if (ends[0].revents & (POLLRDHUP | POLLHUP))
		return false;
	if (ends[0].revents)
		grow(t);
	return true;
}

static void converse(struct false_daemon *d, struct talk *t)
{
	greet(t);
	do
		take_all(d, t);
	while (!atomic_load(&d->stop) && await_client(d, t));
}

static void *play(void *arg)
{
	struct false_daemon *d = arg;
	struct talk t = { .daemon = d, .lie = d->lie, .bell = -1, .own_bell = -1 };
	sigset_t all;
	uint32_t i;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, NULL); /* signals are for the test */
	t.socket = accept(d->listener, NULL, NULL);
	if (t.socket < 0)
		return NULL; /* no client connected */
	t.record = aligned_alloc(64, SAL_RECORD_MAX);
	t.program = program_facts(d->lie, &t.program_size);
	must(t.record && t.program, "no memory");
	converse(d, &t);
	(void)close(t.socket);
	(void)close(t.bell);
	(void)close(t.own_bell);
	(void)munmap(t.memory, sal_holding_span(FALSE_RING_BYTES, minor_of(d->lie)));
	for (i = 0; i < t.segment_count; i++)
		(void)munmap(t.segments[i], t.segment_bytes[i]);
	free(t.program);
	free(t.record);
	return NULL;
}

void false_daemon_start(struct false_daemon *d, const struct lie *lie)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	*d = (struct false_daemon){ .dir = "/tmp/salus-false-XXXXXX",
				    .lie = lie,
				    .lock = PTHREAD_MUTEX_INITIALIZER };
	must(mkdtemp(d->dir) != NULL, "no folder");
	(void)snprintf(d->path, sizeof(d->path), "%s/s.sock", d->dir);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", d->path);
	d->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(d->listener >= 0 &&
		     bind(d->listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		     listen(d->listener, 4) == 0,
	     "cannot listen");
	must(pthread_create(&d->thread, NULL, play, d) == 0, "no thread");
	(void)setenv("SALUS_SOCKET", d->path, 1);
}

void false_daemon_stop(struct false_daemon *d)
{
	atomic_store(&d->stop, true);
	(void)shutdown(d->listener, SHUT_RDWR);
	(void)pthread_join(d->thread, NULL);
	(void)close(d->listener);
	(void)unlink(d->path);
	(void)rmdir(d->dir);
}

void false_daemon_expect_asleep(struct false_daemon *d, unsigned int records)
{
	while (!atomic_load(&d->asleep) || atomic_load(&d->records) != records)
		(void)sched_yield(); /* or until the test's deadline */
}

struct sal_hello false_daemon_hello(struct false_daemon *d)
{
	struct sal_hello hello;

	(void)pthread_mutex_lock(&d->lock);
	hello = d->hello;
	(void)pthread_mutex_unlock(&d->lock);
	return hello;
}

struct executed false_daemon_executed(struct false_daemon *d)
{
	struct executed e;

	(void)pthread_mutex_lock(&d->lock);
	e = d->executed;
	(void)pthread_mutex_unlock(&d->lock);
	return e;
}

void false_daemon_hear(struct false_daemon *d, bool hears)
{
	atomic_store(&d->deaf, !hears);
}
