/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recall - uses profiles to predict the needs of a session.
 *
 * A new session gets the profile of the latest run with the same name. Later the session's programs
 * show whether this is the same job. The engine gets the predicted needs. When the session ends,
 * its real needs become a profile.
 *
 * Threads: under server->lock. The main thread writes the file without the lock, a moment after a
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
	struct svc_profiles *profiles; /* owned; NULL: the operator wants none */
	bool changed; /* since the profiles were saved */
	bool warned; /* main thread only */
	uv_async_t bell; /* something changed */
	uv_timer_t timer; /* saves the profiles */
};

/* Part of a session: its programs, and the needs that a profile must not change. */
struct svc_recollection {
	struct svc_program_keys programs;
	bool persist_told, ephem_told, total_told; /* the user declared this need */
};

/* Call this after opening the compile pool: both use the same directory. */
int svc_recall_open(struct svc_server *server, struct sal_err *err);
/* Call this after the last session, when the loop is closed. */
void svc_recall_close(struct svc_server *server);
/* Main thread, without server->lock. */
void svc_recall_save(struct svc_server *server);

/*
 * Call this before the engine gets the new session. Fills in the needs that the user did not
 * declare, from the latest run with the same name. Programs that do not match undo this later.
 * Under server->lock.
 */
void svc_recall_begin(struct svc_session *s, const struct sal_hello *hello, struct sal_job *job);
/*
 * The session got a program. The engine may grant iterations, so wake the worker afterwards. Under
 * server->lock.
 */
void svc_recall_program(struct svc_session *s, const uint8_t key[SAL_PROGRAM_KEY_BYTES]);
/*
 * Fill in the pace of a program of the session, if it has no runs: from an earlier copy in this
 * session, or from the profile that matches the session. Under server->lock.
 */
void svc_recall_pace(struct svc_session *s, const uint8_t key[SAL_PROGRAM_KEY_BYTES],
		     struct sal_pace *pace);
/* The session unloads a program, or ends: remember the pace. Under server->lock. */
void svc_recall_note(struct svc_session *s, const uint8_t key[SAL_PROGRAM_KEY_BYTES],
		     const struct sal_pace *pace);
/* The session ends. Call this while the engine has the session. Under server->lock. */
void svc_recall_end(struct svc_session *s);

#endif
