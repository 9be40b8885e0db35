/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session - one client: its rings, its arena, and its objects on the device.
 *
 * Every folder of the service may include this header, because they all work on sessions. A session
 * embeds one part for each module. The module's header describes this part.
 *
 * Owns: its buffers, programs, executions and tasks. Closing a session (run/closing.h) closes all
 * of them. While the vendor uses an object, a reference keeps the object until the vendor reports.
 *
 * Threads: under server->lock, if nothing else is said.
 */
#ifndef SAL_SERVICE_SESSION_H
#define SAL_SERVICE_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/err.h"
#include "core/record.h"
#include "link/holding.h"
#include "link/ring.h"
#include "service/client/news.h"
#include "service/client/outbox.h"
#include "service/idmap.h"
#include "service/ledger.h"
#include "service/lock.h"
#include "service/memory/buffer.h"
#include "service/memory/freeing.h"
#include "service/memory/paging.h"
#include "service/memory/program.h"
#include "service/profile/recall.h"
#include "service/real/real.h"
#include "service/run/attend.h"
#include "service/run/carrier.h"
#include "service/run/dispatch.h"
#include "service/run/tasks.h"
#include "wire/messages.h"

struct sal_session;
struct svc_server;
struct ucred;

/* The smallest size of a segment. */
#define SVC_SEGMENT_BYTES (UINT64_C(64) << 20)

/* A part of the arena. */
struct svc_segment {
	unsigned char *base; /* owned mapping */
	uint64_t bytes;
};

/*
 * The exposed blocks of the heap (heap/exposed.h) whose descriptors the client got. The client itself
 * makes sure that such a block does not change while it reads it: it deletes or donates the buffer
 * afterwards. If it does not, it alone sees the change.
 */
struct svc_exposed {
	uint64_t *numbers; /* owned; room for SAL_EXPOSED_MAX; NULL: none yet */
	uint32_t count;
};

/* See run/closing.h. */
enum svc_session_state {
	SVC_OPEN,
	SVC_CLOSING,
	SVC_CLOSED
};

struct svc_session {
	TAILQ_ENTRY(svc_session) link; /* in server->sessions */
	_Atomic int refs; /* of the server, the connection, errands, the vendor */
	struct svc_server *server; /* borrowed */
	enum svc_session_state state;
	uint64_t id;
	pid_t pid;
	uid_t uid;
	struct svc_account account; /* its use of limited resources */
	char name[SAL_NAME_BYTES];
	uint64_t open_ns;
	uint32_t devices; /* does not change */
	uint32_t kind; /* of its streams: see memory/kind.h; does not change */

	/* the client */
	int bell, client_bell; /* owned: the worker waits for bell, and rings client_bell */
	int socket; /* borrowed: its connection; -1: gone */
	void *ring_memory; /* owned mapping */
	size_t ring_bytes; /* size of ring_memory */
	struct sal_holding *holding; /* borrowed: ring_memory; NULL: the client is too old for it */
	struct sal_ring submit;
	struct svc_outbox outbox;
	struct svc_segment segments[SAL_SEGMENTS_MAX]; /* the arena */
	uint32_t segment_count;
	uint64_t segment_bytes;
	struct svc_exposed exposed; /* main thread */
	struct svc_attention attention;
	/* Owned; a record that waits for memory. The worker reads no later record meanwhile. */
	struct sal_header *parked;
	bool retry; /* the parked record may be tried again */
	bool is_taken_from; /* the worker takes a record of it, and may release the lock */
	/* Records whose iteration is not granted, or whose errand is not done. */
	uint32_t waiting_count;
	struct svc_patience patience;
	bool names_memories; /* the client's uploads and copies name a memory of the device */
	bool takes_back; /* the client knows SAL_MSG_REFUSED: it gets donated arguments back */

	/* on the device */
	struct svc_idmap buffers, programs; /* by the client's ids */
	struct svc_buffer_list all; /* all buffers with references, also without the client's id */
	struct svc_buffer_list trash; /* buffers without references, to be freed */
	struct svc_program_list trash_programs;
	struct svc_freeing freeing;
	uint64_t freeing_bytes; /* charged for buffers that are to be freed */
	uint64_t live_bytes; /* of buffers that have memory, on the device or paged out */
	uint64_t charged_bytes; /* the same, as the engine counts them: see svc_buffer_charge */
	uint64_t promised_bytes; /* granted or admitted, for buffers without memory yet */
	uint64_t peak_bytes; /* the largest live_bytes so far */
	uint64_t temp_bytes; /* the largest scratch of its programs */
	struct svc_real real;
	uint64_t paged_bytes; /* taken from its limit of paged bytes */
	_Atomic uint64_t given_up_until_ns; /* until then the vendor is not asked again: again.h */
	uint32_t beyond_count; /* buffers that failed because of the limit of buffers */
	struct svc_transit transit;
	struct svc_paged paged_out, paged_in; /* the last ones */
	_Atomic uint32_t reads; /* downloads and copies that the vendor has under way */

	/* execution */
	struct sal_session *core; /* borrowed: engine */
	uint32_t tier; /* of its last grant */
	struct svc_row *row; /* borrowed; NULL: none yet, or another session has it now */
	TAILQ_HEAD(, svc_execution) executions; /* submitted and not yet ended */
	LIST_HEAD(, svc_call) calls; /* calls of its programs that it has not answered */
	uint64_t call_count; /* calls so far */
	uint32_t nested_waits; /* nested executions that wait for an argument */
	uint64_t call_ns; /* learned: how long its client is silent in a call */
	uint32_t queued_count; /* executions that were not granted */
	uint64_t queued_ns; /* how long they will take, as far as it is known */
	uint64_t queued_bytes; /* salusd's memory for executions that have not ended */
	struct svc_decision decision;
	bool need_refused; /* the engine refused its last request for memory */
	struct sal_record refusal; /* the reason */
	struct svc_errand_list errands;
	bool is_carried; /* a thread does its errands, or will: see carriers->handed */
	bool is_posted; /* it has errands, and no thread carries it */
	TAILQ_ENTRY(svc_session) posted_link; /* in server->posted, if is_posted */
	TAILQ_ENTRY(svc_session) handed_link; /* in carriers->handed */
	struct svc_task_list tasks; /* main thread; tasks that the compile pool has */
	struct svc_task_list unprepared; /* main thread; long tasks that wait for their turn */
	bool is_preparing; /* main thread; a thread of libuv's prepares one of its long tasks */

	struct svc_recollection recollection;
	bool remembered; /* a profile provides the needs that the user did not declare */
};

/*
 * Create a session. fds gets the client's descriptors: memory of the rings, the end that rings the
 * worker, the client's bell, the first segment. The caller sends and closes them.
 */
int svc_session_create(struct svc_server *server, const struct sal_hello *hello,
		       const struct ucred *peer, struct svc_session **out_session, int fds[4],
		       struct sal_err *err);
struct svc_session *svc_session_ref(struct svc_session *s);
/* The last reference makes a carrier destroy the session, because that may take a while. */
void svc_session_unref(struct svc_session *s);
bool svc_session_is_forgotten(const struct svc_session *s);
void svc_session_destroy(struct svc_session *s) SVC_UNLOCKED;
/*
 * Add a segment to the arena. Returns its descriptor, which the caller sends and closes. Main
 * thread.
 */
int svc_session_grow(struct svc_session *s, uint64_t bytes, uint32_t *out_segment,
		     uint64_t *out_bytes, struct sal_err *err) SVC_UNLOCKED;
/* Where salusd has mapped this place of the arena; NULL: the place is outside the arena. */
void *svc_session_place(struct svc_session *s, const struct sal_place_in_arena *place);

#endif
