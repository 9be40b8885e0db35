/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory - how much a session holds on the device, and asking the engine for more.
 *
 * A session holds the bytes of its buffers, on the device or paged out, the promised bytes, and the
 * bytes that the vendor keeps for it (real.h).
 * Bytes are promised to the outputs of a granted iteration that has not started, and to uploads and
 * copies that are under way. The engine counts in whole grains. The session tells the engine about
 * a decrease only if it is more than a grain, so a small result that comes and goes costs nothing.
 * At any time:
 *
 *     charged + promised  <=  what the engine has tracked  <=  what the session may hold
 *
 * Each live buffer is charged at least SVC_BUFFER_BYTES_MIN. Buffers that are being freed still
 * count. A request that does not fit because of them waits until they are freed.
 *
 * The client reads its own numbers in shared memory. The client could also write there, so salusd
 * never reads them.
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
	SVC_LATER, /* svc_unpark follows: the engine has decided, or own buffers are freed */
	SVC_NO /* there is never room: session->refusal says why */
};

/* May the session hold more_bytes more? */
enum svc_answer svc_memory_ask(struct svc_session *s, uint64_t more_bytes) SVC_LOCKED;
/* There is no room for more_bytes now, but buffers of the session are being freed. */
bool svc_memory_is_settling(const struct svc_session *s, uint64_t more_bytes);
/* Tell the engine that the session holds more or less now. */
void svc_memory_settle(struct svc_session *s) SVC_LOCKED;
/* Show the client how much it holds and may hold. Never waits. */
void svc_memory_publish(struct svc_session *s) SVC_LOCKED;
/* Round up to whole grains, as the engine counts. */
uint64_t svc_memory_round(const struct svc_server *server, uint64_t bytes);
/* Write a text for people: why the engine refused the memory. */
void svc_memory_explain(struct svc_session *s, const struct sal_record *refusal, char *text,
			size_t size);

#endif
