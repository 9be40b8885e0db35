/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closing - the end of a session.
 *
 *     open ---- kill ---> closing ---- nothing is under way ---> closed
 *
 * Nobody can interrupt an iteration or cancel a vendor call. So a session whose client is gone, or
 * that was killed, is closing until its last granted iteration has ended and its last errand is
 * done. Until then `salus ps` shows the session, and the engine counts the memory that the session
 * holds. The engine grants nothing more to a closing session.
 *
 * Threads: under server->lock.
 */
#ifndef SAL_SERVICE_CLOSING_H
#define SAL_SERVICE_CLOSING_H

#include <stdbool.h>

#include "service/lock.h"

struct svc_execution;
struct svc_session;

/* Start closing the session: the client is gone or must go. The user reads `why`. */
void svc_session_kill(struct svc_session *s, const char *why) SVC_LOCKED;
/* End a closing session that has nothing under way any more. */
void svc_session_try_end(struct svc_session *s) SVC_LOCKED;
/*
 * Release the references of a closing session's queued iterations, which will never be granted. The
 * engine keeps the iterations until the session ends. Releases some at a time. True: there are
 * more.
 */
bool svc_session_release_queued(struct svc_session *s) SVC_LOCKED;
/* The iteration that has started and not ended; NULL: none. */
const struct svc_execution *svc_session_running(const struct svc_session *s);

#endif
