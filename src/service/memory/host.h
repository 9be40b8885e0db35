/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host - arrays that are in the host's memory because their memory kind says so.
 *
 * JAX puts an array there to have room on the device (memory_kind="pinned_host"). Such an array is
 * the vendor's buffer in the vendor's memory of that kind. It does not count as memory of the
 * device: not for the engine, and not in what the client sees. It counts for a limit of its own,
 * and is not paged out. The default memory of a device always counts, whatever its kind is called.
 *
 * Threads: under server->lock.
 */
#ifndef SAL_SERVICE_HOST_H
#define SAL_SERVICE_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/facts.h"
#include "service/lock.h"

struct svc_buffer;
struct svc_server;

/* Does the device have a memory with this number (as in base/facts.h)? */
bool svc_host_knows(const struct svc_server *server, uint32_t memory);
/* Is the memory with this number the host's? */
bool svc_host_is(const struct svc_server *server, uint32_t memory);
/* The same for a memory kind, such as that of an output. */
bool svc_host_is_kind(const struct svc_server *server, struct sal_text kind);
/* The new buffer will be in the host's memory. Beyond the limit it fails. */
void svc_host_enter(struct svc_buffer *b) SVC_LOCKED;
/* Give back what the buffer took from the limit, if anything. */
void svc_host_leave(struct svc_buffer *b) SVC_LOCKED;

#endif
