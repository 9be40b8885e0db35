/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_bed - all of salusd but its main loop, in the test's process, on the fake device with the
 * faults that a test names.
 *
 * A client is a session without a socket: the test writes records into its ring, as the plugin
 * does, and reads what comes back. Programs are compiled by the fake device itself, without a
 * helper.
 *
 * The worker and the carriers run. The test waits for what they do with BED_WAIT, which has a
 * deadline.
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

/* An answer that was read from the ring. */
struct run_answer {
	uint64_t request;
	int code;
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
	uint64_t released_bytes; /* of the arena, given back by salusd */
	struct sal_ring submit, complete;
	struct sal_header *record; /* owned */
	uint64_t requests; /* made so far */
	uint32_t answer_count;
	struct run_answer answers[RUN_ANSWERS]; /* not yet asked for */
	struct run_answer answer; /* the last one asked for */
};

void bed_open(struct run_bed *bed, const struct run_config *cfg);
/* All sessions must have ended; everything must have been given back. */
void bed_close(struct run_bed *bed);
/* Calls that a fault keeps for ever return, with CANCELLED; so do all others that it would keep. */
void bed_let_go(struct run_bed *bed);
/* Calls that a fault keeps now. */
uint32_t bed_held_up(struct run_bed *bed);
/* How often that was called. */
uint64_t bed_calls(struct run_bed *bed, enum fake_call call);
/* Bytes that the device has given out. */
uint64_t bed_device_bytes(struct run_bed *bed);
/* The engine's invariants hold. */
void bed_check(struct run_bed *bed);
/* Does that abort, in a process of its own? */
bool bed_aborts(void (*act)(void *arg), void *arg);
void bed_nap(void);
uint64_t bed_deadline_ns(void);

/* Until that is so, under the lock; the test fails if it takes too long. */
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

/* What is so at this moment, under the lock. */
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
/* As after a disconnect: everything of it ends, sooner or later. */
void client_kill(struct run_client *c);
/* Kill it, and wait until salusd has forgotten it. */
void client_close(struct run_client *c);
/* The session has ended, but for our reference. */
bool client_has_ended(const struct run_client *c);

/* A program of that text, as the session's `id`. */
void client_program(struct run_client *c, uint64_t id, const char *text);

void client_send(struct run_client *c, const void *record, uint32_t size);
/* Without showing it yet. */
void client_write(struct run_client *c, const void *record, uint32_t size);
void client_show(struct run_client *c);
void client_ring(struct run_client *c);

/* Bytes of that value: in the record if they fit, else in the arena. */
void client_upload(struct run_client *c, uint64_t id, uint64_t bytes, unsigned char value);
uint64_t client_execute(struct run_client *c, uint64_t program, uint64_t first_output,
			uint32_t outputs, const uint64_t *args, uint32_t arg_count);
/* The bytes come in the answer if they fit, else at the end of the arena. */
uint64_t client_download(struct run_client *c, uint64_t id, uint64_t bytes);
uint64_t client_await(struct run_client *c, uint64_t id);
void client_delete(struct run_client *c, uint64_t id);
void client_copy(struct run_client *c, uint64_t from, uint64_t to);

/* The code of the answer to that request, which is then in c->answer. */
int client_answer(struct run_client *c, uint64_t request);
/* Has it been answered? */
bool client_is_answered(struct run_client *c, uint64_t request);
/* Download a buffer: every byte must be that. */
void client_expect(struct run_client *c, uint64_t id, uint64_t bytes, unsigned char value);

#endif
