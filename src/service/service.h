/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service - what the files of salusd share.
 *
 *     main.c         start, stop; options.c: the command line and the configuration file
 *     server.c       main thread: everything started, and stopped
 *     listen.c       main thread: the socket, its folder and its lock
 *     connections.c  main thread: accept, hello, death of clients
 *     tasks.c         main thread: programs to be compiled, loaded, sealed
 *     admin*.c       main thread: answers to `salus ps` and its kind
 *     news.c         main thread: what waiting jobs are told
 *     lock.c         the one lock, and the rule about it
 *     worker.c       the worker: drains rings, sleeps; attend.c: which rings; watch.c: the worker is replaced if a call keeps it
 *     intake.c       what each record of a client means; transfer.c: those about arrays
 *     dispatch.c     one iteration from its record to its end; everything the engine decides is carried out here
 *     launch.c       the call that starts an iteration
 *     carrier.c      errands: every vendor call of a session, in order, by one thread at a time
 *     paging.c       errands that move a session's memory; lane.c: streams of lanes
 *     memory.c       what a session holds, and asking the engine for more
 *     buffer.c       device memory of a session; program.c: its programs
 *     session.c      the session: ownership of all of the above; closing.c: its end
 *     limits.c       how much of each resource a job, a user and all jobs may have
 *     recall.c       what a job needed last time; profile.c, profile_file.c: remembering it
 *     outbox.c       completions to a client
 *     trace.c        the last events and decisions of the engine, for `salus trace`
 *
 * One lock, server->lock, guards sessions and the engine: see lock.h for the rule. Vendor calls are errands of a session
 * (carrier.h). The threads are told in docs/ARCHITECTURE.md.
 *
 * Ownership is a tree: server, sessions, their buffers, programs and executions. Closing a session closes
 * what is below; what the vendor still uses is kept by a reference until it reports.
 */
#ifndef SAL_SERVICE_SERVICE_H
#define SAL_SERVICE_SERVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <uv.h>

#include "base/err.h"
#include "compile/pool/pool.h"
#include "core/engine.h"
#include "device/device.h"
#include "link/holding.h"
#include "link/ring.h"
#include "service/run/carrier.h"
#include "service/run/dispatch.h"
#include "service/client/connections.h"
#include "service/client/idmap.h"
#include "service/limits.h"
#include "service/client/listen.h"
#include "service/lock.h"
#include "service/admin/news.h"
#include "service/run/pause.h"
#include "service/profile/recall.h"
#include "service/admin/trace.h"

#define SVC_RING_BYTES (UINT64_C(4) << 20)
#define SVC_SEGMENT_BYTES (UINT64_C(64) << 20)

struct svc_server;
struct svc_session;
struct svc_execution;

/* --- options ---------------------------------------------------------------------------------------- */

struct svc_options {
	const char *socket_path;
	const char *plugin_path; /* or "fake" */
	const char *helper_path;
	const char *cache_dir; /* NULL: none */
	const char *log_path; /* NULL: stderr */
	uint64_t memory_bytes, cache_bytes, log_bytes, idle_exit_ns;
	uint64_t compile_time_ns, compile_memory_bytes; /* of one program; of one helper */
	uint64_t iteration_limit_ns; /* a session whose iteration takes longer is ended; 0: none */
	uint32_t lanes, trace_records;
	bool no_profiles; /* jobs are not remembered */
	struct svc_limits limits;
	const struct sal_policy *policy;
};

/* --- programs --------------------------------------------------------------------------------------- */

/* What is known about a program, shared by all sessions that compiled the same. Under server->lock. */
struct svc_shared_program {
	uint64_t id; /* in server->programs */
	uint32_t refs;
	struct sal_image *image; /* owned reference */
	struct sal_program_facts *facts; /* owned */
	uint64_t mean_ns; /* of all sessions' runs; 0: none yet */
	bool is_asynchronous; /* the vendor's call returns long before the iteration ends */
	uint32_t slowness; /* the calls that start it take long: the vendor computes inside */
};

/*
 * A session's own copy of one, loaded in the lane where it runs. Copies are not shared, and there is one at a
 * time: a vendor's library may keep things between runs of one (XLA:CPU keeps packed weights, by their
 * address), and these are nobody else's, and stale when the session has run elsewhere meanwhile.
 */
struct svc_program {
	STAILQ_ENTRY(svc_program) trash_link; /* in session->trash_programs */
	uint32_t refs; /* the session's map, executions, the errand that loads it */
	struct svc_session *session; /* borrowed */
	struct svc_shared_program *shared; /* owned reference */
	struct sal_loaded
		*loaded; /* owned; NULL: not yet; changed by the thread that carries the session */
	uint32_t lane; /* where it is loaded, or is about to be */
	struct svc_errand ahead; /* loads it before its first run */
	uint64_t mean_ns; /* learned; before its first run, what others have learned; 0: unknown */
};

/* Reads the facts of an image, which takes time: before the lock is taken. Takes the image; NULL: no memory. */
struct svc_shared_program *svc_program_describe(struct sal_image *take_image) SVC_UNLOCKED;
void svc_program_forget(struct svc_shared_program *take_described);
/* Takes what was described, and shares what another session has already. NULL for lack of memory. */
struct svc_program *svc_program_create(struct svc_session *s,
				       struct svc_shared_program *take_described) SVC_LOCKED;
struct svc_program *svc_program_ref(struct svc_program *p);
/* The last one is unloaded by an errand. Accepts NULL. */
void svc_program_unref(struct svc_program *p) SVC_LOCKED;
/* Ready to run in that lane. By the thread that carries the session. */
int svc_program_load(struct svc_program *p, uint32_t lane, struct sal_err *err) SVC_UNLOCKED;
/*
 * Once, for a new program: load it into the session's lane, by an errand, while the client still works on its
 * first call.
 */
void svc_program_load_ahead(struct svc_program *p) SVC_LOCKED;
/* Its copy in the device is gone: drop the rest. */
void svc_program_destroy(struct svc_program *p) SVC_LOCKED;

/* --- buffers ------------------------------------------------------------------------------------------ */

/* Something that waits for a buffer's iteration to be started, or to end. */
struct svc_waiter {
	STAILQ_ENTRY(svc_waiter) link; /* in buffer->waiters, or execution->waiters */
	void (*go)(struct svc_waiter *w); /* the buffer has its device memory, or failed; frees w */
};

STAILQ_HEAD(svc_waiter_list, svc_waiter);

/* Under server->lock. `device`, `lane` and `saved` are changed only by the thread that carries the session. */
struct svc_buffer {
	TAILQ_ENTRY(svc_buffer) link; /* in session->all, then in session->trash or freeing->batch */
	uint32_t refs; /* the session's map; executions, errands and waiters that use it */
	struct svc_session *session; /* borrowed */
	struct sal_buffer *device; /* owned; NULL: pending, paged out or failed */
	uint32_t lane; /* where `device` is */
	struct svc_execution *producer; /* borrowed; while it is being computed */
	struct sal_saved
		*saved; /* owned; its contents, paged out. With `device`: that one is empty */
	int code; /* not 0: it failed */
	char *text; /* owned; why */
	uint64_t bytes;
	bool counted; /* in session->live_bytes and charged_bytes */
	bool is_beyond; /* more than the session may have: it failed for that */
	bool is_coming; /* the errand that fills it is posted: errands posted from now on find it filled */
	struct svc_waiter_list waiters;
};

TAILQ_HEAD(svc_buffer_list, svc_buffer);

/* What every buffer counts at least: its handles take memory, too. */
#define SVC_BUFFER_LEAST 2048u
static inline uint64_t svc_buffer_charge(const struct svc_buffer *b)
{
	return b->bytes > SVC_BUFFER_LEAST ? b->bytes : SVC_BUFFER_LEAST;
}

struct svc_buffer *svc_buffer_create(struct svc_session *s, uint64_t bytes) SVC_LOCKED;
struct svc_buffer *svc_buffer_ref(struct svc_buffer *b);
/* The last one's memory is freed by an errand. Accepts NULL. */
void svc_buffer_unref(struct svc_buffer *b) SVC_LOCKED;
/* Settle it: it has device memory in that lane, or it failed. */
void svc_buffer_set(struct svc_buffer *b, struct sal_buffer *take_device, uint32_t lane) SVC_LOCKED;
void svc_buffer_fail(struct svc_buffer *b, int code, const char *text) SVC_LOCKED;
/* The errand that fills it was posted: whoever waited for it posts its own behind. */
void svc_buffer_come(struct svc_buffer *b) SVC_LOCKED;
/* An iteration takes its memory over. */
void svc_buffer_donate(struct svc_buffer *b) SVC_LOCKED;
/* On the device, with its contents. */
static inline bool svc_buffer_is_there(const struct svc_buffer *b)
{
	return b->device && !b->saved;
}
static inline bool svc_buffer_is_pending(const struct svc_buffer *b)
{
	return !b->device && !b->saved && b->code == 0 && !b->is_coming;
}

/* The errand that frees what nobody refers to any more; one of it per session, posted while there is something. */
struct svc_freeing {
	struct svc_errand errand;
	bool is_posted;
	bool has_queued; /* closing: queued iterations still have references */
	struct svc_buffer_list batch; /* being freed */
	STAILQ_HEAD(, svc_program) programs;
};

void svc_freeing_init(struct svc_session *s);
/* There is something to free, or the session is closing. */
void svc_freeing_post(struct svc_session *s) SVC_LOCKED;

/* --- memory ------------------------------------------------------------------------------------------- */

enum svc_answer {
	SVC_YES,
	SVC_LATER, /* when the engine admits it, or own buffers are freed: session->retry is set then */
	SVC_NO /* never: session->refusal says why */
};

/* May the session hold so many bytes more? */
enum svc_answer svc_memory_ask(struct svc_session *s, uint64_t more_bytes) SVC_LOCKED;
/* There is no room for more, and buffers of its own are being freed: wait for them. */
bool svc_memory_is_settling(const struct svc_session *s, uint64_t more_bytes);
/* What it holds has changed: the engine should know. */
void svc_memory_settle(struct svc_session *s) SVC_LOCKED;
/* What it holds or may hold has changed: its client can see. Never waits. */
void svc_memory_publish(struct svc_session *s) SVC_LOCKED;
/* What an iteration adds, as the engine counts it. */
uint64_t svc_memory_round(const struct svc_server *server, uint64_t bytes);
/* Why that was refused, for people. */
void svc_memory_explain(struct svc_session *s, const struct sal_record *refusal, char *text,
			size_t size);

/* --- the outbox --------------------------------------------------------------------------------------- */

/* Completions to one client, from any thread. A client that does not take them fills its backlog. */
struct svc_outbox {
	pthread_mutex_t lock;
	struct sal_ring ring;
	int bell; /* borrowed: session */
	bool closed;
	uint32_t batches; /* begun and not ended: nothing is shown, more is about to come */
	struct svc_letter *first, **last; /* owned; what did not fit */
	size_t backlog_bytes;
};

void svc_outbox_init(struct svc_outbox *box, void *ring_memory, int bell);
void svc_outbox_close(struct svc_outbox *box);
/* All that is posted between these two is seen at once, at the end. Under server->lock. */
void svc_outbox_begin(struct svc_outbox *box);
void svc_outbox_end(struct svc_outbox *box);
void svc_outbox_done(struct svc_outbox *box, uint64_t request, int code, const void *tail,
		     size_t tail_size);
void svc_outbox_reply(struct svc_outbox *box, uint64_t request, int code, const char *text,
		      uint64_t value);
void svc_outbox_released(struct svc_outbox *box, const struct sal_place_in_arena *place);
/* Something the job's user should read. */
void svc_outbox_news(struct svc_outbox *box, const char *text);
/* Post the last record: why the session ends. */
void svc_outbox_goodbye(struct svc_outbox *box, const char *text);
/* Move the backlog into the ring as far as it fits. */
void svc_outbox_flush(struct svc_outbox *box);
bool svc_outbox_is_overfull(struct svc_outbox *box);

/* --- sessions ------------------------------------------------------------------------------------------ */

struct svc_segment {
	unsigned char *base; /* owned mapping */
	uint64_t bytes;
};

/* Something for the main thread to do with the compile pool, for a session. */
enum svc_task_kind {
	SVC_TASK_COMPILE,
	SVC_TASK_LOAD,
	SVC_TASK_FETCH
};

struct svc_task {
	TAILQ_ENTRY(svc_task) link; /* in server->tasks, then session->tasks */
	enum svc_task_kind kind;
	struct svc_session *session; /* owned reference */
	uint64_t request, id;
	char format[16];
	struct sal_place_in_arena program_at,
		options_at; /* the client's bytes; load: the blob is the program */
	const void *program_from, *options_from; /* borrowed: session; where these are */
	void *program, *options; /* owned; copies of them */
	uint32_t what; /* fetch: enum sal_fetch */
	struct sal_place_in_arena into; /* fetch */
	void *into_at; /* borrowed: session */
	struct sal_image *image; /* owned reference; fetch, and load when opened */
	uint64_t size; /* fetch: of what was asked for */
	struct sal_err err; /* why it could not be prepared */
	uv_work_t work;
	struct sal_compile_request *pending; /* compile, while it goes on */
};

/* A page-out or a page-in. Only the thread that carries the session, once it is among the errands. */
struct svc_transit {
	struct svc_errand errand;
	struct svc_buffer **list; /* owned array of owned references */
	size_t count;
	uint32_t lane;
	uint64_t began_ns;
	int code; /* negative: it failed */
	struct sal_err err;
};

/* A closing session has no client any more; it ends when its last iteration and errand have. */
enum svc_session_state {
	SVC_OPEN,
	SVC_CLOSING,
	SVC_CLOSED
};

/* When the worker reads a session's ring. See attend.c. */
struct svc_attention {
	TAILQ_ENTRY(svc_session) link; /* in worker->attended, if is_attended */
	TAILQ_ENTRY(svc_session) rest_link; /* in worker->resting, if is_resting */
	bool is_attended; /* the worker looks at the ring without being rung for */
	bool is_deaf; /* its bell is not listened to any more */
	bool is_resting; /* it rang or sent too much: not looked at until rest_until_ns */
	uint64_t heard_ns; /* its last record came then */
	uint32_t rings; /* since then */
	uint64_t rest_until_ns;
};

/* Under server->lock, if nothing else is said. */
struct svc_session {
	TAILQ_ENTRY(svc_session) link; /* in server->sessions */
	_Atomic int refs; /* the server's, and what the vendor or the main thread still has */
	struct svc_server *server; /* borrowed */
	enum svc_session_state state;
	uint64_t id;
	pid_t pid;
	uid_t uid;
	struct svc_account account; /* what it has of limited resources */
	char name[SAL_NAME_BYTES];
	uint64_t open_ns;
	int bell, client_bell; /* owned: ours to wait for, the client's to ring */
	int socket; /* borrowed: its connection; -1: gone */
	void *ring_memory; /* owned mapping */
	size_t ring_bytes; /* of that mapping */
	struct sal_holding *holding; /* borrowed: ring_memory; NULL: the client knows of none */
	struct sal_ring submit;
	struct svc_outbox outbox;
	struct svc_segment segments[SAL_SEGMENTS_MAX];
	uint32_t segment_count;
	uint64_t segment_bytes;
	struct svc_idmap buffers, programs;
	struct svc_buffer_list all; /* every buffer, also those only executions still know */
	struct svc_buffer_list trash; /* buffers that nobody refers to, to be freed */
	STAILQ_HEAD(, svc_program) trash_programs;
	struct svc_freeing freeing;
	uint64_t freeing_bytes; /* charged for what is in the trash */
	TAILQ_HEAD(, svc_execution) executions; /* submitted and not yet ended */
	TAILQ_HEAD(, svc_task) tasks; /* at the compile pool */
	struct sal_session *core; /* borrowed: engine */
	uint64_t live_bytes; /* of buffers that have memory, on the device or paged out */
	uint64_t charged_bytes; /* the same, as the engine counts them: see svc_buffer_charge */
	uint64_t promised_bytes; /* of what was granted or admitted and has no memory yet */
	uint64_t peak_bytes; /* the most live_bytes was */
	uint64_t temp_bytes; /* scratch of its hungriest program */
	struct svc_errand_list errands;
	bool is_carried; /* a thread does its errands, or was handed them */
	TAILQ_ENTRY(svc_session) posted_link; /* in server->posted, if is_posted */
	TAILQ_ENTRY(svc_session) handed_link; /* in carriers->handed */
	bool is_posted; /* it has errands and nobody carries it */
	struct svc_decision decision;
	struct svc_transit transit;
	_Atomic uint32_t reads; /* downloads and copies that the vendor has under way */
	struct svc_attention attention;
	struct sal_header
		*parked; /* owned; a record that waits for memory; nothing after it is read */
	bool retry; /* it may go on now */
	bool need_refused;
	struct sal_record refusal; /* then: why */
	struct svc_patience patience;
	struct svc_recollection recollection;
	bool remembered; /* a run of this job is: what the user did not declare comes from there */
	uint32_t waiting_count; /* records whose iteration was not granted or whose errand is not done */
	bool is_taken_from; /* the worker takes one of its records, and may release the lock */
	uint32_t queued_count; /* executions that have not been granted */
	uint64_t queued_bytes; /* salusd's memory for executions that have not ended */
	uint64_t paged_bytes; /* taken from its limit of paged bytes */
	uint32_t beyond_count; /* buffers that failed because it has too many */
};

/* fds: memory of the rings, our bell, the client's bell, the first segment; to be sent and closed. */
int svc_session_create(struct svc_server *server, const struct sal_hello *hello,
		       const struct ucred *peer, struct svc_session **out_session, int fds[4],
		       struct sal_err *err);
/*
 * The client is gone or has to go: everything of it ends. `why` is for its user. An iteration that runs is not
 * interrupted: the session is closing until it ends.
 */
void svc_session_kill(struct svc_session *s, const char *why) SVC_LOCKED;
/* End a closing session that has nothing under way any more. */
void svc_session_try_end(struct svc_session *s) SVC_LOCKED;
/*
 * Iterations of a closing session that have not been granted never will be: let go of what they refer to. The engine has
 * them until the session ends. Some at a time; true if there are more.
 */
bool svc_session_release_queued(struct svc_session *s) SVC_LOCKED;
/* The iteration that the vendor has; NULL: none. */
const struct svc_execution *svc_session_running(const struct svc_session *s);
struct svc_session *svc_session_ref(struct svc_session *s);
/* The last one has the session destroyed by a carrier: that may take a while. */
void svc_session_unref(struct svc_session *s);
bool svc_session_is_forgotten(const struct svc_session *s);
void svc_session_destroy(struct svc_session *s) SVC_UNLOCKED;
/* One more segment of the arena; returns its descriptor, to be sent and closed. Main thread. */
int svc_session_grow(struct svc_session *s, uint64_t bytes, uint32_t *out_segment,
		     uint64_t *out_bytes, struct sal_err *err) SVC_UNLOCKED;
/* Where those bytes of the arena are; NULL if they are not the client's to name. */
void *svc_session_place(struct svc_session *s, const struct sal_place_in_arena *place);
enum svc_taken {
	SVC_TAKEN,
	SVC_TAKE_LATER, /* there is no memory for it now */
	SVC_BROKEN, /* it broke the rules */
	SVC_NO_MEMORY, /* salusd itself has none: nobody's fault */
	SVC_OVER /* over a limit, again and again */
};

/* One record of the client. It may let others have the lock; a session that was killed meanwhile may be gone then. */
enum svc_taken svc_intake(struct svc_session *s, const struct sal_header *record);

/* --- the worker --------------------------------------------------------------------------------------- */

/*
 * The worker is a role, not a thread: see watch.c. What is here belongs to whoever has the role, under server->lock if
 * nothing else is said.
 */
struct svc_worker {
	pthread_t holder; /* who has the role, if has_holder */
	bool has_holder;
	_Atomic bool stop;
	int epoll, bell, ring_fd, alarm; /* owned */
	_Atomic bool sleeps;
	uint64_t wake_ns; /* the engine asked for a tick then; 0: no */
	uint64_t until_ns; /* it sleeps until then at the latest; 0: until a bell rings */
	bool look; /* another thread left something for the worker to do */
	bool makes_way; /* it started something long: others first */
	uint64_t idle_from_ns; /* nothing to do since; 0: there is */
	bool is_lull; /* and no iteration runs or is foreseen */
	uint64_t lull_ns; /* learned: how long lulls last */
	struct svc_pause pause; /* of the device */
	bool has_alarm;
	struct svc_session_list attended; /* sessions whose rings are looked at */
	uint32_t attended_count;
	struct svc_session_list resting; /* sessions that are left alone for a while */
	uint64_t bells_ns; /* when it last looked for bells without sleeping */
	struct sal_header *record; /* owned; SAL_RECORD_MAX bytes */
};

int svc_worker_open(struct svc_server *server, struct sal_err *err);
/* It ends soon: whoever has the role gives it back. */
void svc_worker_stop(struct svc_server *server);
void svc_worker_close(struct svc_server *server);
/* Be the worker, until the role is lost or the daemon stops. */
void svc_worker_run(struct svc_server *server) SVC_UNLOCKED;
/* Does this thread have the role? */
bool svc_worker_is_me(const struct svc_server *server);
/* Something changed that it should look at. Any thread. */
void svc_worker_wake(struct svc_server *server);
/* Did another thread leave something for the worker to do? */
bool svc_worker_has_work(const struct svc_server *server) SVC_LOCKED;
/* The device pauses: see to it that a worker that sleeps wakes to poll; true if that is now. */
bool svc_worker_foresee(struct svc_server *server) SVC_LOCKED;

/* Wake when that bell rings. */
int svc_worker_listen(struct svc_server *server, int bell, uint64_t session_id,
		      struct sal_err *err);

/* attend.c. Look at the session's ring from now on: it has rung, or may be read from again. */
void svc_attend(struct svc_session *s) SVC_LOCKED;
/* The record that is parked may be tried again. */
void svc_unpark(struct svc_session *s) SVC_LOCKED;
/* Stop reading the session's ring: the session is closing. */
void svc_attend_end(struct svc_session *s) SVC_LOCKED;
/* So much waits for its turn that the client is not read from: its ring fills, and it waits. */
bool svc_session_is_ahead(const struct svc_session *s);
/* Before less waits: the session may be read from again. */
void svc_attend_if_ahead(struct svc_session *s) SVC_LOCKED;
/* One more record waits for its turn or its errand; one less. */
void svc_waiting_begin(struct svc_session *s) SVC_LOCKED;
void svc_waiting_end(struct svc_session *s) SVC_LOCKED;

/* watch.c: a watchman sees to it that a call which keeps the worker costs it its role. */
struct svc_watch {
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	int timer; /* owned */
	_Atomic bool is_set; /* the timer runs */
	_Atomic uint64_t call_ns; /* the worker's call began then; 0: it is in none */
};

int svc_watch_start(struct svc_server *server, struct sal_err *err);
void svc_watch_stop(struct svc_server *server);
/* Around a call that the worker makes itself; end takes what begin returned. */
uint64_t svc_watch_begin(struct svc_server *server);
void svc_watch_end(struct svc_server *server, uint64_t since_ns);
/* Look at the carriers in a moment: they lack a thread. */
void svc_watch_again(struct svc_server *server);
/* The worker goes to sleep: no timer is needed. */
void svc_watch_rest(struct svc_server *server);

/* --- lanes -------------------------------------------------------------------------------------------- */

struct svc_lane {
	pthread_mutex_t opening; /* held while the vendor opens the stream */
	_Atomic(struct sal_stream *) stream; /* owned; NULL until something runs there */
	uint64_t iterations;
	uint64_t busy_ns; /* device time of what ended there */
};

/* Its stream, opened if it is not. Waits for the vendor. */
int svc_lane_open(struct svc_server *server, uint32_t lane, struct sal_stream **out_stream,
		  struct sal_err *err) SVC_UNLOCKED;

/* --- paging ------------------------------------------------------------------------------------------- */

/* The engine said so: copy the session's buffers, then report to it. */
void svc_page_out(struct svc_session *s) SVC_LOCKED;
void svc_page_in(struct svc_session *s) SVC_LOCKED;
/* Nothing of the session is in host memory: its limit has room again. */
void svc_paging_forget(struct svc_session *s) SVC_LOCKED;
/* Everything the iteration uses goes where it will run. By the thread that carries the session. */
int svc_fetch(struct svc_execution *x, struct sal_err *err) SVC_UNLOCKED;

/* --- the server --------------------------------------------------------------------------------------- */

struct svc_server {
	struct svc_options options;
	const struct sal_device_ops *ops; /* call them through svc_vendor */
	struct sal_device *device; /* owned */
	bool carries_in_done; /* the driver allows its calls from within a report */
	struct svc_lane lanes[SAL_LANES_MAX];
	struct svc_ledger ledger; /* who has what; has its own lock */
	void *facts; /* owned: packed */
	size_t fact_size;

	struct svc_lock lock;
	/* under the lock */
	struct sal_engine *engine; /* owned */
	struct svc_trace trace;
	struct sal_tuning tuning; /* the engine's */
	struct svc_session_list sessions; /* owned; those that are closing, too */
	struct svc_idmap by_id; /* of the same */
	struct svc_session_list posted; /* with errands that nobody carries */
	struct svc_idmap programs; /* svc_shared_program by the first bytes of its key */
	TAILQ_HEAD(, svc_task) tasks; /* for the main thread */
	struct svc_waiter_list ready; /* waiters that may go on; see buffer.c */
	bool releasing;
	_Atomic(struct svc_execution *) done; /* ended, not yet accounted; pushed by any thread */
	TAILQ_HEAD(, svc_execution) untold; /* accounted, but the client cannot see the end yet */
	struct svc_decision_list decisions;
	uint64_t grain_bytes; /* memory is asked for in multiples of this */
	struct svc_recall recall;
	struct svc_news news;
	struct svc_worker worker;
	struct svc_watch watch;
	struct svc_carriers carriers;
	uint32_t queued; /* executions that have not started */
	uint32_t running; /* executions that started and are not accounted for */
	_Atomic uint32_t alive; /* sessions whose memory is not freed */
	_Atomic uint32_t reporters; /* threads within svc_dispatch_report */
	uint64_t start_ns;

	/* main thread only */
	uv_loop_t loop;
	uv_poll_t listener;
	uv_async_t task_bell;
	uint32_t preparing; /* main thread; tasks that a thread of libuv's has */
	uv_signal_t on_term, on_int;
	uv_timer_t idle_timer, hello_timer;
	struct svc_listen listen;
	struct sal_compile_pool *pool; /* owned */
	LIST_HEAD(, svc_client) clients; /* owned: connections */
	struct svc_connections connections;
	uint64_t idle_since_ns;
	bool is_started; /* all threads run */
	bool closing;
};

/* The vendor, for a thread that does not hold the lock. */
static inline const struct sal_device_ops *svc_vendor(const struct svc_server *server) SVC_UNLOCKED;
static inline const struct sal_device_ops *svc_vendor(const struct svc_server *server)
{
	svc_assert_unlocked(server);
	return server->ops;
}

int svc_server_open(struct svc_server *server, const struct svc_options *options,
		    struct sal_err *err);
void svc_server_run(struct svc_server *server);
void svc_server_close(struct svc_server *server);
/* Main thread: the socket is there, and connections come and go. */
void svc_connections_open(struct svc_server *server);
void svc_connections_close(struct svc_server *server);
/* Hand a job to the main thread. Under server->lock. */
void svc_server_post(struct svc_server *server, struct svc_task *take_task);
/* Main thread: do what was posted; forget what the pool still has of a session's. */
void svc_on_tasks(uv_async_t *bell);
void svc_tasks_cancel(struct svc_session *s);
uint64_t svc_now_ns(void);

#endif
