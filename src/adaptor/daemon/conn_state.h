/* SPDX-License-Identifier: Apache-2.0 */
/* conn_state - what a connection consists of. Private to daemon/. */
#ifndef SAL_ADAPTOR_DAEMON_CONN_STATE_H
#define SAL_ADAPTOR_DAEMON_CONN_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "adaptor/daemon/arena.h"
#include "adaptor/daemon/blocks.h"
#include "adaptor/daemon/pace.h"
#include "adaptor/daemon/requests.h"
#include "adaptor/daemon/rings.h"
#include "link/holding.h"
#include "link/ring.h"
#include "wire/messages.h"

struct adp_conn {
	_Atomic int refs;
	_Atomic bool dead;
	bool forked; /* in a child: no thread, no descriptors */
	bool quiet; /* nothing is written to stderr */
	int socket, daemon_bell, bell; /* owned */
	void *ring_memory; /* owned mapping */
	uint64_t ring_bytes;
	const struct sal_holding *holding; /* borrowed: ring_memory; NULL: an older daemon */
	void *facts; /* owned */
	size_t fact_size;
	uint64_t memory_bytes;
	uint32_t minor; /* of the daemon's protocol */
	pthread_t reader;
	bool has_reader;
	char reason[256]; /* why it is dead; written before `dead` */

	pthread_mutex_t submit_lock;
	struct sal_ring submit;
	_Atomic uint64_t next_id;

	pthread_mutex_t take_lock;
	struct sal_ring complete;
	struct sal_header *record; /* owned; SAL_RECORD_MAX bytes */
	bool broken; /* the daemon wrote nonsense: nothing more is taken; under the take lock */
	_Atomic(pthread_t) taker; /* who holds the take lock; 0: nobody */
	bool has_napped, naps_pay; /* the reader; and records came while it last did */
	_Atomic int pollers;
	_Atomic uint32_t wait_ns[ADP_WAITERS]; /* learned: how long waits take */
	struct adp_requests requests;
	struct adp_pace pace;

	_Atomic(struct adp_call_server *) call_server; /* owned; NULL: none */

	pthread_mutex_t grow_lock; /* one question on the socket at a time */
	struct adp_arena *arena; /* owned */
	struct adp_blocks *blocks; /* owned */
	LIST_ENTRY(adp_conn) all; /* in the list of conn.c */
};

#endif
