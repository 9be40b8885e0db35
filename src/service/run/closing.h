/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closing - the end of a session.
 *
 *     open ---- kill ---> closing ---- nothing is under way ---> closed
 *
 * An iteration cannot be interrupted, and a vendor call cannot be taken back. So a session whose
 * client is gone, or that was killed, is closing until its last iteration has ended and its last
 * errand is done. Until then `salus ps` shows it, and the engine counts the memory that it holds.
 * The engine grants it nothing more.
 *
 * Threads: under server->lock.
 */
#ifndef SAL_SERVICE_CLOSING_H
#define SAL_SERVICE_CLOSING_H

#include <stdbool.h>

#include "service/lock.h"

struct svc_execution;
struct svc_session;

/* The client is gone or has to go: the session is closing. `why` is for its user. */
void svc_session_kill(struct svc_session *s, const char *why) SVC_LOCKED;
/* End a closing session that has nothing under way any more. */
void svc_session_try_end(struct svc_session *s) SVC_LOCKED;
/*
 * Release the references of a closing session's queued iterations, which will never be granted. The
 * engine has the iterations until the session ends. Some at a time; true if there are more.
 */
bool svc_session_release_queued(struct svc_session *s) SVC_LOCKED;
/* The iteration that the vendor has; NULL: none. */
const struct svc_execution *svc_session_running(const struct svc_session *s);

#endif
