/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_bed - salusd without its main loop, in the test's process, on the fake device. The test
 * chooses the faults of the device.
 *
 * A client is a session without a socket: the test writes records into the client's ring, as the
 * plugin does, and reads the answers. The fake device itself compiles programs, without a helper.
 *
 * The worker and the carriers run. BED_WAIT waits for their effects with a deadline.
 */
#ifndef SAL_TESTS_RUN_BED_H
#define SAL_TESTS_RUN_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "core/policy.h"
#include "device/fake/impl.h"
#include "service/client/session.h"
#include "service/server.h"

struct run_config {
	const char *plugin; /* NULL: "fake" */
	uint64_t memory_bytes; /* 0: 64 MiB */
	uint32_t lanes; /* 0: 1 */
	const struct sal_policy *policy; /* NULL: fair */
	struct svc_limits limits; /* 0: none */
};

struct run_bed {
	struct svc_server server;
	char folder[40], path[64];
};

/* An answer read from the ring. */
struct run_answer {
	uint64_t request;
	int code;
	bool is_refused; /* a SAL_MSG_REFUSED */
	size_t size;
	unsigned char tail[SAL_INLINE_MAX];
};

#define RUN_ANSWERS 256

struct run_client {
	struct run_bed *bed;
	struct svc_session *session; /* owned reference */
	int ring_bell, wait_bell; /* owned */
	void *ring_memory; /* owned mapping */
	size_t ring_bytes;
	unsigned char *arena; /* owned mapping */
	uint64_t arena_bytes, arena_used;
	uint64_t released_bytes; /* arena bytes that salusd gave back */
	struct sal_ring submit, complete;
	struct sal_header *record; /* owned */
	uint64_t requests; /* number of requests so far */
	uint32_t answer_count;
	struct run_answer answers[RUN_ANSWERS]; /* answers not yet asked for */
	struct run_answer answer; /* the answer last asked for */
};

void bed_open(struct run_bed *bed, const struct run_config *cfg);
/* Requires that all sessions have ended and all memory was given back. */
void bed_close(struct run_bed *bed);
/* Calls that an endless fault blocks return CANCELLED. So do later calls that it would block. */
void bed_let_go(struct run_bed *bed);
/* The number of calls that a fault blocks now. */
uint32_t bed_held_up(struct run_bed *bed);
/* The number of calls of this kind so far. */
uint64_t bed_calls(struct run_bed *bed, enum fake_call call);
/* Bytes allocated on the device. */
uint64_t bed_device_bytes(struct run_bed *bed);
/* Asserts the engine's invariants. */
void bed_check(struct run_bed *bed);
/* Runs act in a child process. Returns whether the child aborts. */
bool bed_aborts(void (*act)(void *arg), void *arg);
void bed_nap(void);
uint64_t bed_deadline_ns(void);

/* Waits until the expression is true, read under the lock. The test fails after a deadline. */
#define BED_WAIT(bed, expression)                                               \
	do {                                                                    \
		uint64_t until_ns_ = bed_deadline_ns();                         \
		bool is_so_;                                                    \
                                                                                \
		for (;;) {                                                      \
			svc_lock(&(bed)->server);                               \
			is_so_ = (expression);                                  \
			svc_unlock(&(bed)->server);                             \
			if (is_so_)                                             \
				break;                                          \
			if (svc_now_ns() > until_ns_)                           \
				fail_msg("waited in vain for %s", #expression); \
			bed_nap();                                              \
		}                                                               \
	} while (0)

/* Asserts that the expression is true now, read under the lock. */
#define BED_ASSERT(bed, expression)                                    \
	do {                                                           \
		bool is_so_;                                           \
                                                                       \
		svc_lock(&(bed)->server);                              \
		is_so_ = (expression);                                 \
		svc_unlock(&(bed)->server);                            \
		if (!is_so_)                                           \
			fail_msg("it is not so that %s", #expression); \
	} while (0)

void client_open(struct run_client *c, struct run_bed *bed, const char *name);
/* The same for a job that declares its kind: an enum sal_hello_kind. */
void client_open_kind(struct run_client *c, struct run_bed *bed, const char *name, uint32_t kind);
/* The same for a job with so many devices. */
void client_open_devices(struct run_client *c, struct run_bed *bed, const char *name,
			 uint32_t devices);
/* Ends the session, as after a disconnect. The session's calls may still be under way. */
void client_kill(struct run_client *c);
/* Kills the session and waits until salusd has removed it. */
void client_close(struct run_client *c);
/* Whether the session has ended. Only the test's reference is left. */
bool client_has_ended(const struct run_client *c);

/* Gives the session a program with this text, under `id`. */
void client_program(struct run_client *c, uint64_t id, const char *text);

void client_send(struct run_client *c, const void *record, uint32_t size);
/* Writes a record without showing it to salusd. */
void client_write(struct run_client *c, const void *record, uint32_t size);
void client_show(struct run_client *c);
void client_ring(struct run_client *c);

/* Uploads bytes of this value: in the record if they fit, else in the arena. */
void client_upload(struct run_client *c, uint64_t id, uint64_t bytes, unsigned char value);
uint64_t client_execute(struct run_client *c, uint64_t program, uint64_t first_output,
			uint32_t outputs, const uint64_t *args, uint32_t arg_count);
/* The answer contains the bytes if they fit; else they are at the end of the arena. */
uint64_t client_download(struct run_client *c, uint64_t id, uint64_t bytes);
uint64_t client_await(struct run_client *c, uint64_t id);
void client_delete(struct run_client *c, uint64_t id);
void client_copy(struct run_client *c, uint64_t from, uint64_t to);

/* Waits for the answer to this request and returns its code. c->answer is the answer. */
int client_answer(struct run_client *c, uint64_t request);
/* Whether the request has been answered. */
bool client_is_answered(struct run_client *c, uint64_t request);
/* Downloads a buffer. Every byte must have this value. */
void client_expect(struct run_client *c, uint64_t id, uint64_t bytes, unsigned char value);

#endif
