/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attend - what worker.c and attend.c share: which rings are looked at. Under server->lock.
 */
#ifndef SAL_SERVICE_ATTEND_H
#define SAL_SERVICE_ATTEND_H

#include <sys/epoll.h>

#include "service/service.h"

/* Tags of the worker's own descriptors in epoll. No session has these ids. */
#define SVC_OWN_BELL 0
#define SVC_ALARM UINT64_MAX

/* May records be taken from the session now? */
bool svc_attend_is_read(const struct svc_session *s);
/* Is there a record, and may it be taken now? If not for the limit of records, the session rests. */
bool svc_attend_may_take(struct svc_session *s, uint64_t now_ns) SVC_LOCKED;
/* Those whose rest is over are attended again; when the next one's is, or 0. */
uint64_t svc_attend_rested(struct svc_server *server, uint64_t now_ns) SVC_LOCKED;
/* Bells rang: one read of each, and their sessions are attended. */
void svc_attend_bells(struct svc_server *server, const struct epoll_event *rung,
		      int count) SVC_LOCKED;
/* Rings that have been empty for a while go to sleep. */
void svc_attend_forget_quiet(struct svc_server *server, uint64_t now_ns) SVC_LOCKED;
/* All attended rings say that the worker sleeps; false: something has come meanwhile. */
bool svc_attend_sleep(struct svc_server *server) SVC_LOCKED;
void svc_attend_awake(struct svc_server *server) SVC_LOCKED;

#endif
