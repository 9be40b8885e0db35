/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recall - uses profiles: what a job needed last time.
 *
 * A new session gets the profile of the latest run with its name. Its programs then say whether it
 * is that job. The engine is told what the session will need. When the session ends, what it needed
 * becomes a profile.
 *
 * Threads: under server->lock. The main thread writes files without it, a moment after the last
 * change and when the daemon ends.
 */
#ifndef SAL_SERVICE_RECALL_H
#define SAL_SERVICE_RECALL_H

#include <stdbool.h>

#include <uv.h>

#include "base/err.h"
#include "service/profile/profile.h"

struct sal_hello;
struct sal_job;
struct svc_server;
struct svc_session;

/* Part of the server. */
struct svc_recall {
	struct svc_profiles *profiles; /* owned; NULL: not wanted */
	bool changed; /* since they were saved */
	bool warned; /* main thread only */
	uv_async_t bell; /* something changed */
	uv_timer_t timer; /* to save it */
};

/* Part of a session: what it is recognised by, and what must not be overruled. */
struct svc_recollection {
	struct svc_program_keys programs;
	bool persist_told, ephem_told, total_told; /* the user declared it */
};

/* After the compile pool, whose directory it shares. */
int svc_recall_open(struct svc_server *server, struct sal_err *err);
/* After the last session; the loop has been closed. */
void svc_recall_close(struct svc_server *server);
/* Main thread, without server->lock. */
void svc_recall_save(struct svc_server *server);

/*
 * The session begins, and the engine is about to be told of it: what the user did not say of the
 * job is expected to be as in the latest run of that name, until its programs say otherwise. Under
 * server->lock.
 */
void svc_recall_begin(struct svc_session *s, const struct sal_hello *hello, struct sal_job *job);
/*
 * It got a program. The engine may grant something: wake the worker afterwards. Under server->lock.
 */
void svc_recall_program(struct svc_session *s, const uint8_t key[SAL_PROGRAM_KEY_BYTES]);
/* It ends; the engine still knows it. Under server->lock. */
void svc_recall_end(struct svc_session *s);

#endif
