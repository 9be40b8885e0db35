/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program - the compiled programs of a session.
 *
 * Sessions that compiled the same text share one description: svc_shared_program. Each session has
 * its own copy of the program on the device: svc_program. The copy is loaded in the stream where the
 * session runs. A session has one copy at a time, because a vendor's library may keep state between
 * runs (XLA:CPU keeps packed weights, by their address). This state belongs to one session. The
 * state becomes stale when the session runs in another stream.
 *
 * Owns: images, facts, loaded programs. Threads: under server->lock. The thread that carries the
 * session loads and unloads, without the lock.
 */
#ifndef SAL_SERVICE_PROGRAM_H
#define SAL_SERVICE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "core/job.h"
#include "service/lock.h"
#include "service/run/carrier.h"
#include "service/timing/lengths.h"

struct sal_err;
struct sal_image;
struct sal_loaded;
struct sal_program_facts;
struct svc_server;
struct svc_session;

/* The description of a program, shared by all sessions that compiled the same text. */
struct svc_shared_program {
	uint64_t id; /* in server->programs; 0: not there */
	uint64_t number; /* programs count from 1, in the order in which they came */
	uint32_t refs; /* of programs and executions */
	struct sal_image *image; /* owned reference */
	struct sal_program_facts *facts; /* owned */
	uint64_t mean_ns; /* mean time of a run, over all sessions; 0: no run yet */
	struct sal_pace pace; /* the engine's; queued iterations point to it */
	uint32_t kinds; /* of operations: see margin.h */
	uint64_t told_bytes; /* scratch that a run took, in the device's words: see told.h */
	bool is_asynchronous; /* the vendor's call returns long before the iteration ends */
	/* Grows when the call that starts the program takes long: the vendor computes inside. */
	uint32_t slowness;
};

/* One session's copy of a program. */
struct svc_program {
	STAILQ_ENTRY(svc_program) trash_link; /* in session->trash_programs or freeing->programs */
	uint32_t refs; /* of the session's map, executions, the errand that loads it */
	struct svc_session *session; /* borrowed */
	struct svc_shared_program *shared; /* owned reference */
	/* owned; NULL: not loaded. Changed only by the thread that carries the session. */
	struct sal_loaded *loaded;
	uint32_t stream; /* where the program is loaded, or will be */
	_Atomic uint32_t pins; /* started executions that may call Python run it */
	struct svc_errand ahead; /* loads the program before its first run */
	uint64_t mean_ns; /* mean time of a run; at first that of all sessions; 0: unknown */
	struct svc_lengths lengths; /* of runs, if the worker may have to poll for their ends */
};

STAILQ_HEAD(svc_program_list, svc_program);

/*
 * Describe a program: read the facts of its image. Reading takes time, so the caller does not hold
 * the lock. NULL for lack of memory, or if the facts are invalid.
 */
struct svc_shared_program *svc_program_describe(struct sal_image *take_image) SVC_UNLOCKED;
/* Free a description. Accepts NULL. */
void svc_program_forget(struct svc_shared_program *take_described);
/* The description that has this key; NULL: no session has the program. */
struct svc_shared_program *svc_shared_program_find(const struct svc_server *server,
						   const uint8_t *key) SVC_LOCKED;
struct svc_shared_program *svc_shared_program_ref(struct svc_shared_program *p);
/* Accepts NULL. */
void svc_shared_program_unref(struct svc_server *server, struct svc_shared_program *p) SVC_LOCKED;
/*
 * Create the session's program from a description. If another session has the same description,
 * the new program shares that one. NULL for lack of memory.
 */
struct svc_program *svc_program_create(struct svc_session *s,
				       struct svc_shared_program *take_described) SVC_LOCKED;
struct svc_program *svc_program_ref(struct svc_program *p);
/* The last reference posts an errand that unloads the program. Accepts NULL. */
void svc_program_unref(struct svc_program *p) SVC_LOCKED;
/* Load the program into this stream if necessary. For the thread that carries the session. */
int svc_program_load(struct svc_program *p, uint32_t stream, struct sal_err *err) SVC_UNLOCKED;
/*
 * Post an errand that loads a new program into the session's stream, while the client prepares the
 * first run. For an inference session, the errand opens the stream, too.
 */
void svc_program_load_ahead(struct svc_program *p) SVC_LOCKED;
/* Free a program that is not loaded. */
void svc_program_destroy(struct svc_program *p) SVC_LOCKED;

#endif
