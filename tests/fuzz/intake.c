/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's life: an enemy sends records, one after the other, to a whole salusd on the fake
 * device. An input is a list of records without their headers:
 *
 *     type (one byte)   length (two bytes)   body
 *
 * For types from 0x80, the low bits are the type, and the first four bytes of the body are the size
 * that the header claims. The arena starts with a copy of the input. The session has two programs,
 * 1 and 2, and two arrays, 1 and 2. For any input, an honest session goes on working, and the
 * daemon accepts or ends the enemy.
 */
#include "fuzz/fuzz.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fuzz/server.h"
#include "link/ring.h"
#include "link/socket.h"

#define PATIENCE_MS 20000
#define HONEST_EVERY 64

static const char add_text[] = "fake 1\noutput u8 4 = add 0 1\n";
static const char take_text[] = "fake 1\noutput u8 4 = copy 0\noutput s32 2 = fill 7\ndonate 0 0\n";

struct client {
	int socket, ring_bell, wait_bell; /* owned */
	void *ring_memory; /* owned mapping */
	unsigned char *arena; /* owned mapping */
	uint64_t arena_bytes;
	struct sal_ring submit, complete;
	struct sal_header *record; /* owned */
};

static void die(const char *why)
{
	(void)fprintf(stderr, "fuzz: %s\n", why);
	abort();
}

/* A client */

static void client_open(struct client *c)
{
	struct sal_hello hello = { .magic = SAL_WIRE_MAGIC,
				   .major = SAL_WIRE_MAJOR,
				   .size = sizeof(hello),
				   .name = "fuzz" };
	struct sal_welcome w;
	char facts[65536];
	int fds[4];
	uint64_t span;

	memset(c, 0, sizeof(*c));
	c->socket = sal_socket_connect(fuzz_server_path(), NULL);
	if (c->socket < 0 || sal_socket_send(c->socket, &hello, sizeof(hello), NULL, 0, NULL) < 0 ||
	    sal_socket_receive(c->socket, &w, sizeof(w), fds, 4, PATIENCE_MS, NULL) < 0 ||
	    w.code != 0 || w.fact_bytes > sizeof(facts) ||
	    sal_socket_receive(c->socket, facts, w.fact_bytes, NULL, 0, PATIENCE_MS, NULL) < 0)
		die("no welcome");
	span = sal_ring_span(w.ring_bytes);
	c->ring_memory = sal_shared_map(fds[0], 2 * span);
	c->arena = sal_shared_map(fds[3], w.segment_bytes);
	c->record = aligned_alloc(64, SAL_RECORD_MAX);
	if (!c->ring_memory || !c->arena || !c->record)
		die("no memory");
	c->arena_bytes = w.segment_bytes;
	c->ring_bell = fds[1];
	c->wait_bell = fds[2];
	(void)close(fds[0]);
	(void)close(fds[3]);
	sal_ring_init(&c->submit, c->ring_memory, w.ring_bytes);
	sal_ring_init(&c->complete, (char *)c->ring_memory + span, w.ring_bytes);
}

static void client_close(struct client *c)
{
	(void)munmap(c->ring_memory, 2 * sal_ring_span(c->submit.bytes));
	(void)munmap(c->arena, (size_t)c->arena_bytes);
	(void)close(c->socket);
	(void)close(c->ring_bell);
	(void)close(c->wait_bell);
	free(c->record);
}

static bool has_hung_up(const struct client *c)
{
	struct pollfd p = { .fd = c->socket, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

static void nap(void)
{
	struct timespec t = { .tv_nsec = 20000 };

	(void)nanosleep(&t, NULL);
}

static void publish(struct client *c)
{
	if (sal_ring_publish(&c->submit, true))
		sal_doorbell_ring(c->ring_bell);
}

static void send_record(struct client *c, const void *record, uint32_t size)
{
	void *at = sal_ring_reserve(&c->submit, size);

	if (!at)
		die("no room");
	memcpy(at, record, size);
	publish(c);
}

/* Waits until the daemon has read all records, or has closed the connection. */
static bool wait_read(struct client *c)
{
	int64_t rounds = PATIENCE_MS * INT64_C(50);

	while (!has_hung_up(c)) {
		if (atomic_load(&c->submit.shared->tail) == c->submit.head)
			return true;
		if (--rounds < 0)
			die("the daemon is stuck");
		nap();
	}
	return false;
}

/* Waits for the completion of this request and returns its code. Drops other completions. */
static int wait_answer(struct client *c, uint64_t request)
{
	int64_t rounds = PATIENCE_MS * INT64_C(50);
	bool wake;

	for (;;) {
		enum sal_ring_take got = sal_ring_take(&c->complete, c->record, &wake);

		if (got == SAL_RING_BROKEN || has_hung_up(c))
			die("an honest session was ended");
		if (got == SAL_RING_EMPTY) {
			if (--rounds < 0)
				die("no answer");
			nap();
			continue;
		}
		if (!sal_complete_is_valid(c->record))
			die("a completion that is not valid");
		if (c->record->type == SAL_MSG_REPLY &&
		    ((struct sal_msg_reply *)c->record)->request == request)
			return ((struct sal_msg_reply *)c->record)->code;
		if (c->record->type == SAL_MSG_DONE &&
		    ((struct sal_msg_done *)c->record)->request == request)
			return ((struct sal_msg_done *)c->record)->code;
	}
}

/* Honest work */

static void compile(struct client *c, uint64_t id, const char *text)
{
	struct sal_msg_compile m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_COMPILE },
		.request = UINT64_MAX - id,
		.id = id,
		.program = { .offset = 4096 * id, .size = strlen(text) },
		.format = "mlir",
	};

	memcpy(c->arena + m.program.offset, text, strlen(text));
	send_record(c, &m, sizeof(m));
	if (wait_answer(c, m.request) != 0)
		die("a program was not compiled");
}

static void upload(struct client *c, uint64_t id)
{
	struct {
		struct sal_msg_upload m;
		int64_t dims[1];
		unsigned char bytes[8];
	} all = {
		.m = { .header = { .size = sizeof(all), .type = SAL_MSG_UPLOAD },
		       .id = id,
		       .type = 6,
		       .rank = 1,
		       .size = 4 },
		.dims = { 4 },
		.bytes = { 1, 2, 3, 4 },
	};

	send_record(c, &all, sizeof(all));
}

static void set_up(struct client *c)
{
	compile(c, 1, add_text);
	compile(c, 2, take_text);
	upload(c, 1);
	upload(c, 2);
}

/* Runs one addition in a new session and checks the sum. */
static void work_honestly(void)
{
	struct {
		struct sal_msg_execute m;
		uint64_t args[2];
	} run = {
		.m = { .header = { .size = sizeof(run), .type = SAL_MSG_EXECUTE },
		       .request = 1,
		       .program = 1,
		       .first_output = 10,
		       .output_count = 1,
		       .arg_count = 2 },
		.args = { 1, 2 },
	};
	struct sal_msg_download get = {
		.header = { .size = sizeof(get), .type = SAL_MSG_DOWNLOAD },
		.request = 2,
		.id = 10,
		.size = 4,
	};
	static const unsigned char sum[] = { 2, 4, 6, 8 };
	struct client c;

	client_open(&c);
	set_up(&c);
	send_record(&c, &run, sizeof(run));
	send_record(&c, &get, sizeof(get));
	if (wait_answer(&c, 2) != 0 || memcmp((struct sal_msg_done *)c.record + 1, sum, 4) != 0)
		die("a wrong sum");
	client_close(&c);
}

/* The enemy */

/* Sends one record of the input. Returns how many bytes of the input the record took. */
static size_t tell(struct client *c, const uint8_t *data, size_t size)
{
	size_t length = size < 3 ? 0 : (size_t)(data[1] | data[2] << 8);
	size_t taken = size < 3 ? size : 3 + (length < size - 3 ? length : size - 3);
	size_t body = taken < 3 ? 0 : taken - 3;
	uint32_t room = sal_record_size(sizeof(struct sal_header), body);
	struct sal_header *h = sal_ring_reserve(&c->submit, room);

	if (!h)
		return size;
	memset(h, 0, room);
	h->size = room;
	h->type = data[0] & 0x7f;
	if (body > 0)
		memcpy(h + 1, data + 3, body);
	if (data[0] & 0x80 && body >= 4)
		memcpy(&h->size, data + 3, 4);
	return taken;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned runs;
	struct client c;

	(void)fuzz_server(true);
	if (size > 65536)
		return 0;
	client_open(&c);
	set_up(&c);
	memcpy(c.arena, data, size < 4096 ? size : 4096);
	while (size > 0) {
		size_t n = tell(&c, data, size);

		data += n;
		size -= n;
	}
	publish(&c);
	(void)wait_read(&c);
	client_close(&c);
	if (runs++ % HONEST_EVERY == 0)
		work_honestly();
	return 0;
}
