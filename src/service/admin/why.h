/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why - explains in a sentence why one job waits.
 *
 *     why.c          the answer, and the short cases
 *     why_memory.c   the job waits for memory, or can never get the memory
 *     why_turn.c     the job waits for its turn
 *     why_compile.c  the job waits for the compiler
 *
 * Threads: the main thread, under server->lock.
 */
#ifndef SAL_SERVICE_WHY_H
#define SAL_SERVICE_WHY_H

#include "core/view.h"
#include "service/admin/admin.h"

/* The sentence names so many other jobs. "holders" has more of them. */
#define WHY_NAMED_MAX 3

struct svc_why {
	struct svc_server *server; /* borrowed */
	const struct svc_session *s; /* borrowed */
	uint64_t now_ns;
	struct sal_session_view core; /* of s */
	struct sal_explanation engine; /* the engine's explanation of s */
	struct sal_words words;
	const char *waits_for;
	json_t *holders; /* owned by the answer */
	double estimate_s; /* NAN: unknown */
};

/* How long a running iteration has run until now. */
uint64_t svc_why_run_ns(const struct svc_why *why, struct sal_iteration *running);

/* The name of a job, by the engine's session. */
const char *svc_why_name(const struct sal_session *core);

/* The word of the JSON answer for this reason; NULL for SAL_HOLD_NONE. */
const char *svc_why_hold_name(enum sal_hold hold);

/* Explain why->s in why->words. The caller sets holders to an array. Under server->lock. */
void svc_why_say(struct svc_why *why);

/* Each adds its sentences. Under server->lock, on the main thread. */
void svc_why_ready(struct svc_why *why);
void svc_why_waiting(struct svc_why *why);
void svc_why_refused(struct svc_why *why);
void svc_why_compile(struct svc_why *why);

#endif
