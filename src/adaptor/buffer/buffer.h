/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer - PJRT_Buffer: device memory as PJRT sees it. Everything except the bytes is known here.
 *
 * Threads: any.
 */
#ifndef SAL_ADAPTOR_BUFFER_BUFFER_H
#define SAL_ADAPTOR_BUFFER_BUFFER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "adaptor/daemon/arena.h"
#include "adaptor/function.h"

struct adp_habit;
struct adp_loan;
struct adp_prefetch;
struct adp_promise;

struct PJRT_Buffer {
	PJRT_Client *client; /* owned reference */
	uint64_t id;
	PJRT_Buffer_Type type;
	size_t rank;
	int64_t *dims; /* points behind the struct */
	int64_t *minor_to_major; /* likewise: the order of dimensions on the device */
	uint64_t bytes; /* on the device */
	PJRT_Memory *memory;
	struct adp_promise *ready; /* owned; NULL: nobody has asked, see buffer.c */
	LIST_ENTRY(PJRT_Buffer) bound; /* in ready's list */
	bool is_output; /* ready is the promise of its execution */
	_Atomic bool counted; /* in client->live_bytes */
	_Atomic uint64_t mark; /* of the last Execute that donates it */
	_Atomic bool deleted; /* also while it is lent */
	_Atomic bool failed; /* it will never have contents */
	_Atomic bool is_late; /* the daemon does not know it: see late.h */
	bool is_view; /* `host` is the caller's memory: see late.h */
	void (*on_view_end)(void *data, void *arg); /* NULL: nobody wants to know */
	void *on_view_end_arg;
	struct adp_loan *_Atomic loan; /* owned reference, or NULL: see loan.h */
	size_t lent_at; /* its place in the loan */
	pthread_mutex_t host_lock;
	void *host; /* owned; a copy of its bytes in this process, see host.h */
	struct adp_range range; /* where the copy is, if in the arena */
	_Atomic uint64_t block; /* of the daemon, that `host` is in; 0: none; see exposed.h */
	_Atomic bool owes_delete; /* it is deleted, and read: the daemon hears of it later */
	_Atomic int pins; /* external references to the copy */
	struct adp_habit *habit; /* owned reference; NULL: not prefetched; see prefetch.h */
	size_t output; /* its number among the program's outputs */
	struct adp_prefetch *prefetch; /* owned reference, or NULL */
};

struct adp_shape {
	PJRT_Buffer_Type type;
	size_t rank;
	const int64_t *dims;
	PJRT_Memory *memory;
	const int64_t *minor_to_major; /* NULL: row-major */
};

/*
 * Takes the promise's reference. take_ready may be NULL: then the daemon is asked when somebody
 * wants to know. NULL for lack of memory.
 */
PJRT_Buffer *adp_buffer_create(PJRT_Client *client, uint64_t id, const struct adp_shape *shape,
			       struct adp_promise *take_ready);
/*
 * Call this when the upload or copy is sent. For a large buffer it asks at once whether the daemon
 * accepts it.
 */
void adp_buffer_sent(PJRT_Buffer *buffer);
/*
 * Why it will never have contents; NULL: it has them. Waits until that is known. Not for callbacks.
 */
PJRT_Error *adp_buffer_await(PJRT_Buffer *buffer);
/* Its promise. NULL for lack of memory. */
struct adp_promise *adp_buffer_ready(PJRT_Buffer *buffer);
/* It will never have contents: takes its bytes out of the statistics. */
void adp_buffer_fail(PJRT_Buffer *buffer);
/* Marks it deleted and uncounts it; true if it was not deleted before. */
bool adp_buffer_forget(PJRT_Buffer *buffer);
/* Tells the daemon to delete it. */
void adp_buffer_send_delete(PJRT_Buffer *buffer);
/* Undoes adp_buffer_forget. */
void adp_buffer_recover(PJRT_Buffer *buffer);
/* Bytes of a dense array in host memory; UINT64_MAX: too many to count. */
uint64_t adp_host_bytes(PJRT_Buffer_Type type, const int64_t *dims, size_t rank);

ADP_FUNCTION(Buffer_Destroy);
ADP_FUNCTION(Buffer_ElementType);
ADP_FUNCTION(Buffer_Dimensions);
ADP_FUNCTION(Buffer_UnpaddedDimensions);
ADP_FUNCTION(Buffer_DynamicDimensionIndices);
ADP_FUNCTION(Buffer_GetMemoryLayout);
ADP_FUNCTION(Buffer_OnDeviceSizeInBytes);
ADP_FUNCTION(Buffer_Device);
ADP_FUNCTION(Buffer_Memory);
ADP_FUNCTION(Buffer_Delete);
ADP_FUNCTION(Buffer_IsDeleted);
ADP_FUNCTION(Buffer_IsOnCpu);
ADP_FUNCTION(Buffer_ReadyEvent);
ADP_FUNCTION(Buffer_CopyToDevice);
ADP_FUNCTION(Buffer_CopyToMemory);

#endif
