/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory - how much a session holds on the device, and asking the engine for more.
 *
 * A session holds the bytes of its buffers, on the device or paged out, and the bytes promised to
 * it: outputs of an iteration that was granted and has not started, uploads and copies that are
 * under way. The engine is told in whole grains. It is told of less only when the difference is
 * more than a grain, so that a small result that comes and goes costs nothing. At any time:
 *
 *     charged + promised  <=  what the engine has tracked  <=  what the session may hold
 *
 * Each live buffer is charged at least SVC_BUFFER_BYTES_MIN. Buffers that are being freed count: a
 * request that would fit without them waits until they are gone.
 *
 * The client reads its own numbers in shared memory. It could write there, so salusd reads nothing
 * back.
 *
 * Threads: under server->lock.
 */
#ifndef SAL_SERVICE_MEMORY_H
#define SAL_SERVICE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/lock.h"

struct sal_record;
struct svc_server;
struct svc_session;

enum svc_answer {
	SVC_YES,
	SVC_LATER, /* session->retry is set when the engine admits it, or own buffers are freed */
	SVC_NO /* never: session->refusal says why */
};

/* May the session hold so many bytes more? */
enum svc_answer svc_memory_ask(struct svc_session *s, uint64_t more_bytes) SVC_LOCKED;
/* There is no room for more now, and buffers of the session are being freed: wait for them. */
bool svc_memory_is_settling(const struct svc_session *s, uint64_t more_bytes);
/* What the session holds has changed: tell the engine. */
void svc_memory_settle(struct svc_session *s) SVC_LOCKED;
/* What the session holds or may hold has changed: show it to the client. Never waits. */
void svc_memory_publish(struct svc_session *s) SVC_LOCKED;
/* Round up to whole grains, as the engine counts. */
uint64_t svc_memory_round(const struct svc_server *server, uint64_t bytes);
/* Say for people why that was refused. */
void svc_memory_explain(struct svc_session *s, const struct sal_record *refusal, char *text,
			size_t size);

#endif
