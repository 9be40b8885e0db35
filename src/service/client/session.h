/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session - one client: its rings, its arena, and everything it owns on the device.
 *
 * Every room of the service may include this header: the session is the object that they all work
 * on. It embeds the part that each module keeps of it; the module's header says what that part is.
 *
 * Owns: its buffers, programs, executions and tasks. Closing a session (run/closing.h) closes all
 * of them. What the vendor uses beyond that is kept by a reference until the vendor reports.
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
#include "service/run/attend.h"
#include "service/run/carrier.h"
#include "service/run/dispatch.h"
#include "service/run/tasks.h"
#include "wire/messages.h"

struct sal_session;
struct svc_server;
struct ucred;

/* The least size of a segment. */
#define SVC_SEGMENT_BYTES (UINT64_C(64) << 20)

/* A part of the arena. */
struct svc_segment {
	unsigned char *base; /* owned mapping */
	uint64_t bytes;
};

/* See run/closing.h. */
enum svc_session_state {
	SVC_OPEN,
	SVC_CLOSING,
	SVC_CLOSED
};

struct svc_session {
	TAILQ_ENTRY(svc_session) link; /* in server->sessions */
	_Atomic int refs; /* the server, its connection, errands, the vendor */
	struct svc_server *server; /* borrowed */
	enum svc_session_state state;
	uint64_t id;
	pid_t pid;
	uid_t uid;
	struct svc_account account; /* how much it has of limited resources */
	char name[SAL_NAME_BYTES];
	uint64_t open_ns;

	/* the client */
	int bell, client_bell; /* owned: ours to wait for, the client's to ring */
	int socket; /* borrowed: its connection; -1: gone */
	void *ring_memory; /* owned mapping */
	size_t ring_bytes; /* of that mapping */
	struct sal_holding *holding; /* borrowed: ring_memory; NULL: the client knows of none */
	struct sal_ring submit;
	struct svc_outbox outbox;
	struct svc_segment segments[SAL_SEGMENTS_MAX]; /* the arena */
	uint32_t segment_count;
	uint64_t segment_bytes;
	struct svc_attention attention;
	/* Owned; a record that waits for memory: none behind it is read. */
	struct sal_header *parked;
	bool retry; /* the parked record may be tried again */
	bool is_taken_from; /* the worker takes one of its records, and may release the lock */
	/* Records whose iteration was not granted or whose errand is not done. */
	uint32_t waiting_count;
	struct svc_patience patience;

	/* on the device */
	struct svc_idmap buffers, programs; /* by the client's ids */
	struct svc_buffer_list all; /* every buffer, also those that only executions refer to */
	struct svc_buffer_list trash; /* buffers to be freed: nobody refers to them */
	struct svc_program_list trash_programs;
	struct svc_freeing freeing;
	uint64_t freeing_bytes; /* charged for the trash */
	uint64_t live_bytes; /* of buffers that have memory, on the device or paged out */
	uint64_t charged_bytes; /* the same, as the engine counts them: see svc_buffer_charge */
	uint64_t promised_bytes; /* granted or admitted, without memory yet */
	uint64_t peak_bytes; /* the largest live_bytes so far */
	uint64_t temp_bytes; /* the largest scratch of its programs */
	uint64_t paged_bytes; /* taken from its limit of paged bytes */
	uint32_t beyond_count; /* buffers that failed because it has too many */
	struct svc_transit transit;
	_Atomic uint32_t reads; /* downloads and copies that the vendor has under way */

	/* what runs */
	struct sal_session *core; /* borrowed: engine */
	TAILQ_HEAD(, svc_execution) executions; /* submitted and not yet ended */
	uint32_t queued_count; /* executions that were not granted */
	uint64_t queued_bytes; /* salusd's memory for executions that have not ended */
	struct svc_decision decision;
	bool need_refused; /* the engine refused its last request for memory */
	struct sal_record refusal; /* why */
	struct svc_errand_list errands;
	bool is_carried; /* a thread does its errands, or was handed them */
	bool is_posted; /* it has errands and nobody carries it */
	TAILQ_ENTRY(svc_session) posted_link; /* in server->posted, if is_posted */
	TAILQ_ENTRY(svc_session) handed_link; /* in carriers->handed */
	struct svc_task_list tasks; /* main thread; at the compile pool */

	struct svc_recollection recollection;
	bool remembered; /* a profile fills in what the user did not declare */
};

/*
 * fds: memory of the rings, our bell, the client's bell, the first segment; the caller sends and
 * closes them.
 */
int svc_session_create(struct svc_server *server, const struct sal_hello *hello,
		       const struct ucred *peer, struct svc_session **out_session, int fds[4],
		       struct sal_err *err);
struct svc_session *svc_session_ref(struct svc_session *s);
/* The last reference hands the session to a carrier, which destroys it: that may take a while. */
void svc_session_unref(struct svc_session *s);
bool svc_session_is_forgotten(const struct svc_session *s);
void svc_session_destroy(struct svc_session *s) SVC_UNLOCKED;
/*
 * Add a segment to the arena. Returns its descriptor, which the caller sends and closes. Main
 * thread.
 */
int svc_session_grow(struct svc_session *s, uint64_t bytes, uint32_t *out_segment,
		     uint64_t *out_bytes, struct sal_err *err) SVC_UNLOCKED;
/* Where those bytes of the arena are mapped; NULL if they are outside of it. */
void *svc_session_place(struct svc_session *s, const struct sal_place_in_arena *place);

#endif
