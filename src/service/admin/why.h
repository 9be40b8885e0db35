/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why - what one job waits for, in a sentence.
 *
 *     why.c          the answer, and the short cases
 *     why_memory.c   it waits for memory, or can never have it
 *     why_turn.c     it waits for its turn
 *     why_compile.c  it waits for the compiler
 *
 * Threads: the main thread, under server->lock.
 */
#ifndef SAL_SERVICE_WHY_H
#define SAL_SERVICE_WHY_H

#include "core/view.h"
#include "service/admin/admin.h"

/* Others that are named in the sentence; "holders" has more of them. */
#define WHY_NAMED_MAX 3

struct svc_why {
	struct svc_server *server; /* borrowed */
	const struct svc_session *s; /* borrowed */
	uint64_t now_ns;
	struct sal_session_view core; /* of s */
	struct sal_explanation engine; /* what the engine says about s */
	struct sal_words words;
	const char *waits_for;
	json_t *holders; /* owned by the answer */
	double estimate_s; /* NAN: unknown */
};

/* How long this iteration, which runs, has run. */
uint64_t svc_why_run_ns(const struct svc_why *why, struct sal_iteration *running);

/* The name of a job, by the engine's session. */
const char *svc_why_name(const struct sal_session *core);

/* All there is to say of why->s, in why->words; holders is an array. Under server->lock. */
void svc_why_say(struct svc_why *why);

/* Each says its sentences. Under server->lock, on the main thread. */
void svc_why_ready(struct svc_why *why);
void svc_why_waiting(struct svc_why *why);
void svc_why_refused(struct svc_why *why);
void svc_why_compile(struct svc_why *why);

#endif
