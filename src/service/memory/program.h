/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program - the compiled programs of a session.
 *
 * Sessions that compiled the same text share what is known about it: svc_shared_program. Each
 * session has a copy of its own on the device: svc_program. The copy is loaded in the lane where it
 * runs. There is one copy at a time: a vendor's library may keep state between runs (XLA:CPU keeps
 * packed weights, by their address). That state belongs to one session, and is stale when the
 * session has run in another lane meanwhile.
 *
 * Owns: images, facts, loaded programs. Threads: under server->lock. The thread that carries the
 * session loads and unloads, without the lock.
 */
#ifndef SAL_SERVICE_PROGRAM_H
#define SAL_SERVICE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "service/lock.h"
#include "service/run/carrier.h"

struct sal_err;
struct sal_image;
struct sal_loaded;
struct sal_program_facts;
struct svc_session;

/* What is known about a program, shared by all sessions that compiled the same text. */
struct svc_shared_program {
	uint64_t id; /* in server->programs */
	uint32_t refs;
	struct sal_image *image; /* owned reference */
	struct sal_program_facts *facts; /* owned */
	uint64_t mean_ns; /* over the runs of all sessions; 0: none yet */
	bool is_asynchronous; /* the vendor's call returns long before the iteration ends */
	/* Grows when the call that starts it takes long: the vendor computes inside. */
	uint32_t slowness;
};

/* The copy of one session. */
struct svc_program {
	STAILQ_ENTRY(svc_program) trash_link; /* in session->trash_programs or freeing->programs */
	uint32_t refs; /* the session's map, executions, the errand that loads it */
	struct svc_session *session; /* borrowed */
	struct svc_shared_program *shared; /* owned reference */
	/* owned; NULL: not loaded. Changed only by the thread that carries the session. */
	struct sal_loaded *loaded;
	uint32_t lane; /* where it is loaded, or will be */
	struct svc_errand ahead; /* loads it before its first run */
	uint64_t mean_ns; /* learned; before its first run: of all sessions; 0: unknown */
};

STAILQ_HEAD(svc_program_list, svc_program);

/*
 * Read the facts of an image. That takes time: call it before the lock is taken. NULL for lack of
 * memory.
 */
struct svc_shared_program *svc_program_describe(struct sal_image *take_image) SVC_UNLOCKED;
/* Free a description. Accepts NULL. */
void svc_program_forget(struct svc_shared_program *take_described);
/*
 * A program of the session, from a description. Shares what another session has. NULL for lack of
 * memory.
 */
struct svc_program *svc_program_create(struct svc_session *s,
				       struct svc_shared_program *take_described) SVC_LOCKED;
struct svc_program *svc_program_ref(struct svc_program *p);
/* The last reference posts an errand that unloads the program. Accepts NULL. */
void svc_program_unref(struct svc_program *p) SVC_LOCKED;
/* Load the program into that lane, unless it is there. By the thread that carries the session. */
int svc_program_load(struct svc_program *p, uint32_t lane, struct sal_err *err) SVC_UNLOCKED;
/*
 * Post an errand that loads a new program into the session's lane, while the client prepares its
 * first call.
 */
void svc_program_load_ahead(struct svc_program *p) SVC_LOCKED;
/* Free the rest of a program that is unloaded. */
void svc_program_destroy(struct svc_program *p) SVC_LOCKED;

#endif
