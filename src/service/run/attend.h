/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attend - which rings the worker reads, and when.
 *
 *     asleep ---- its bell rings ----> attended ---- empty for a while ----> asleep
 *                                          |
 *                  too many rings or records: resting until a moment later
 *
 * The worker reads each attended ring once a round. If a ring is asleep, its client rings the bell
 * with the next record. So a round costs time for busy sessions only, not for idle ones. A session
 * that waits for memory, or has too much queued, is not attended. The code that ends this wait
 * calls svc_attend.
 *
 * The work for one client in one round is bounded: records, bytes, and one read of its bell. The
 * worker ignores a client for a while if the client rings without sending, or sends faster than its
 * limit.
 *
 * Threads: under server->lock.
 */
#ifndef SAL_SERVICE_ATTEND_H
#define SAL_SERVICE_ATTEND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/queue.h>

#include "service/lock.h"

struct sal_err;
struct svc_server;
struct svc_session;

/* Tags of the worker's own descriptors in epoll. No session has these ids. */
#define SVC_OWN_BELL 0
#define SVC_ALARM UINT64_MAX

/* Part of a session. */
struct svc_attention {
	TAILQ_ENTRY(svc_session) link; /* in worker->attended, if is_attended */
	TAILQ_ENTRY(svc_session) rest_link; /* in worker->resting, if is_resting */
	bool is_attended; /* the worker reads the ring without being rung for */
	uint32_t pollers; /* threads that poll the ring for an answer: its client need not ring */
	bool is_deaf; /* the worker does not listen to its bell any more */
	bool is_resting; /* the client rang or sent too much: not read until rest_until_ns */
	uint64_t heard_ns; /* when the last record came */
	uint64_t silence_ns; /* the longest time between two records since silence_begin */
	uint32_t rings; /* of the bell, since the last record */
	uint64_t rest_until_ns;
};

/* Read the session's ring from now on: its client has rung, or the ring may be read again. */
void svc_attend(struct svc_session *s) SVC_LOCKED;
/* Stop reading the session's ring: the session is closing. */
void svc_attend_end(struct svc_session *s) SVC_LOCKED;
/* Measure the longest time in which the client sends nothing, from begin to end. */
void svc_attend_silence_begin(struct svc_session *s) SVC_LOCKED;
uint64_t svc_attend_silence_end(struct svc_session *s) SVC_LOCKED;
/* Let the worker try the session's parked record again. */
void svc_unpark(struct svc_session *s) SVC_LOCKED;

/*
 * Do so many records wait for their turn that the worker stops reading the ring? Then the ring
 * fills up, and the client waits. While a program calls the client, the limits of the queue refuse
 * iterations instead.
 */
bool svc_session_is_ahead(const struct svc_session *s);
/* Call this before the number of waiting records falls: the ring may be read again then. */
void svc_attend_if_ahead(struct svc_session *s) SVC_LOCKED;
/* One more record waits for its turn or its errand; one fewer. */
void svc_waiting_begin(struct svc_session *s) SVC_LOCKED;
void svc_waiting_end(struct svc_session *s) SVC_LOCKED;

/* Wake the worker when this bell rings. */
int svc_attend_listen(struct svc_server *server, int bell, uint64_t session_id,
		      struct sal_err *err);

/* May records be taken from the session now? */
bool svc_attend_is_read(const struct svc_session *s);
/*
 * Is there a record, and may the worker take it now? If the limit of records forbids taking it, the
 * session starts to rest.
 */
bool svc_attend_may_take(struct svc_session *s, uint64_t now_ns) SVC_LOCKED;
/* Attend the sessions whose rest is over. Returns when the next rest ends, or 0. */
uint64_t svc_attend_rested(struct svc_server *server, uint64_t now_ns) SVC_LOCKED;
/* Bells rang: read each once, and attend their sessions. */
void svc_attend_bells(struct svc_server *server, const struct epoll_event *rung,
		      int count) SVC_LOCKED;
/* Put to sleep the rings that have been empty for a while, or must not be read now. */
void svc_attend_forget_quiet(struct svc_server *server, uint64_t now_ns) SVC_LOCKED;
/* Tell all attended clients that the worker sleeps. False: a record has come meanwhile. */
bool svc_attend_sleep(struct svc_server *server) SVC_LOCKED;
void svc_attend_awake(struct svc_server *server) SVC_LOCKED;

/*
 * A thread polls the session's ring for the answer to a call, instead of the worker. At the end the
 * worker hears of the records that are left. True: wake the worker.
 */
void svc_attend_poll_begin(struct svc_session *s) SVC_LOCKED;
bool svc_attend_poll_end(struct svc_session *s) SVC_LOCKED;

#endif
