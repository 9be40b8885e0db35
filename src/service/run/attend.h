/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attend - which rings the worker reads, and when.
 *
 *     asleep ---- its bell rings ----> attended ---- nothing came for a while ----> asleep
 *                                          |
 *                  too many rings or records: resting until a moment later
 *
 * An attended ring is read in each round. A client whose ring is asleep rings its bell with the
 * next record. So the work of a round depends on the sessions that do something, not on how many
 * there are. A session that waits for memory, or has too much queued, is not attended: whatever
 * ends its wait calls svc_attend.
 *
 * Everything done for a client in a round is bounded: records, bytes, and one read of its bell. A
 * client that rings without sending, or sends faster than its limit, is left alone for a while.
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
	bool is_deaf; /* nobody listens to its bell any more */
	bool is_resting; /* it rang or sent too much: not read from until rest_until_ns */
	uint64_t heard_ns; /* when its last record came */
	uint32_t rings; /* since then */
	uint64_t rest_until_ns;
};

/* Read the session's ring from now on: it has rung, or may be read from again. */
void svc_attend(struct svc_session *s) SVC_LOCKED;
/* Stop reading the session's ring: the session is closing. */
void svc_attend_end(struct svc_session *s) SVC_LOCKED;
/* The parked record may be tried again. */
void svc_unpark(struct svc_session *s) SVC_LOCKED;

/*
 * So many records wait for their turn that the client is not read from: its ring fills, and it
 * waits.
 */
bool svc_session_is_ahead(const struct svc_session *s);
/* Call this before one of these records is taken off: the session may be read from again. */
void svc_attend_if_ahead(struct svc_session *s) SVC_LOCKED;
/* One more record waits for its turn or its errand; one less. */
void svc_waiting_begin(struct svc_session *s) SVC_LOCKED;
void svc_waiting_end(struct svc_session *s) SVC_LOCKED;

/* The worker wakes when that bell rings. */
int svc_attend_listen(struct svc_server *server, int bell, uint64_t session_id,
		      struct sal_err *err);

/* May records be taken from the session now? */
bool svc_attend_is_read(const struct svc_session *s);
/*
 * Is there a record, and may it be taken now? If the limit of records forbids it, the session
 * rests.
 */
bool svc_attend_may_take(struct svc_session *s, uint64_t now_ns) SVC_LOCKED;
/* Attend the sessions whose rest is over. Returns when the next rest ends, or 0. */
uint64_t svc_attend_rested(struct svc_server *server, uint64_t now_ns) SVC_LOCKED;
/* Bells rang: read each once, and attend their sessions. */
void svc_attend_bells(struct svc_server *server, const struct epoll_event *rung,
		      int count) SVC_LOCKED;
/* Put rings to sleep that have been empty for a while. */
void svc_attend_forget_quiet(struct svc_server *server, uint64_t now_ns) SVC_LOCKED;
/* Tell all attended clients that the worker sleeps. False: something has come meanwhile. */
bool svc_attend_sleep(struct svc_server *server) SVC_LOCKED;
void svc_attend_awake(struct svc_server *server) SVC_LOCKED;

#endif
