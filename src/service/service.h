/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service - what the files of salusd share.
 *
 *     main.c      start, stop; options.c: the command line and the configuration file
 *     server.c    main thread: everything started, and stopped
 *     listen.c    main thread: the socket, its folder and its lock
 *     connections.c  main thread: accept, hello, death of clients
 *     jobs.c      main thread: programs to be compiled, loaded, sealed
 *     admin*.c    main thread: answers to `salus ps` and its kind
 *     worker.c    worker thread: drains rings, sleeps
 *     turn.c      decisions of the engine carried out: accounts for what ended, starts what was granted
 *     carrier.c   carrier thread: what takes long and must hold nobody up (paging, moving, loading)
 *     intake.c    what each record of a client means; transfer.c: those about arrays
 *     execution.c one iteration from its record to its end
 *     memory.c    what a session holds, and asking the engine for more
 *     buffer.c    device memory of a session
 *     program.c   programs, shared by content
 *     session.c   the session: ownership of all of the above
 *     limits.c    how much of each resource a job, a user and all jobs may have
 *     recall.c    what a job needed last time; profile.c, profile_file.c: remembering it
 *     outbox.c    completions to a client
 *     news.c      main thread: what waiting jobs are told
 *     trace.c     the last events and decisions of the engine, for `salus trace`
 *
 * Threads: the main thread (libuv), the worker, the carrier, and threads of the vendor that report completions.
 * One lock, server->lock, guards sessions and the engine. A report of the vendor puts the completion into the
 * client's ring and the execution onto a list; if the lock is free, it takes its turn right there and starts
 * the next iteration without waking anybody; it never waits for the lock.
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
#include "compile/pool.h"
#include "core/engine.h"
#include "device/device.h"
#include "link/holding.h"
#include "link/ring.h"
#include "service/idmap.h"
#include "service/limits.h"
#include "service/listen.h"
#include "service/news.h"
#include "service/pause.h"
#include "service/recall.h"
#include "service/trace.h"

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
	uint64_t memory_bytes, cache_bytes, idle_exit_ns;
	uint32_t lanes, trace_records;
	bool no_profiles; /* jobs are not remembered */
	struct svc_limits limits;
	const struct sal_policy *policy;
};

/* --- programs --------------------------------------------------------------------------------------- */

/* What is known about a program, shared by all sessions that compiled the same. Under server->lock. */
struct svc_shared_program {
	TAILQ_ENTRY(svc_shared_program) link; /* in server->programs */
	uint32_t refs;
	struct sal_image *image; /* owned reference */
	struct sal_program_facts *facts; /* owned */
	uint64_t mean_ns; /* of all sessions' runs; 0: none yet */
};

/*
 * A session's own copy of one, loaded in the lane where it runs. Copies are not shared, and there is one at a
 * time: a vendor's library may keep things between runs of one (XLA:CPU keeps packed weights, by their
 * address), and these are nobody else's, and stale when the session has run elsewhere meanwhile.
 */
struct svc_program {
	uint32_t refs; /* the session's map, executions */
	struct svc_shared_program *shared; /* owned reference */
	struct sal_loaded *loaded; /* owned; NULL until its first run */
	uint32_t lane; /* where it is loaded */
	uint64_t mean_ns; /* learned; before its first run, what others have learned; 0: unknown */
};

/* Takes the image. NULL for lack of memory or facts that cannot be read. */
struct svc_program *svc_program_create(struct svc_server *server, struct sal_image *take_image);
struct svc_program *svc_program_ref(struct svc_program *p);
/* Accepts NULL. */
void svc_program_unref(struct svc_server *server, struct svc_program *p);
/* Ready to run in that lane. On the carrier only, without the lock: it takes long. */
int svc_program_load(struct svc_server *server, struct svc_program *p, uint32_t lane,
		     struct sal_err *err);

/* --- buffers ------------------------------------------------------------------------------------------ */

/* Something that waits for a buffer's iteration to be started, or to end. */
struct svc_waiter {
	STAILQ_ENTRY(svc_waiter) link; /* in buffer->waiters, or execution->readers */
	void (*go)(struct svc_waiter *w); /* the buffer has its device memory, or failed; frees w */
	const struct svc_buffer *reads; /* borrowed; in execution->readers: which output */
};

/* Under server->lock. */
struct svc_buffer {
	TAILQ_ENTRY(svc_buffer) link; /* in session->all */
	uint32_t refs; /* the session's map; executions and waiters that use it */
	struct svc_session *session; /* borrowed */
	struct sal_buffer *device; /* owned; NULL: pending, paged out or failed */
	uint32_t lane; /* where `device` is */
	struct svc_execution *producer; /* borrowed; while it is being computed */
	/* owned; paged out: what it held. With `device`, that is empty. Changed by the carrier only. */
	struct sal_saved *saved;
	int code; /* not 0: it failed */
	char *text; /* owned; why */
	uint64_t bytes;
	bool counted; /* in session->live_bytes */
	STAILQ_HEAD(, svc_waiter) waiters;
};

struct svc_buffer *svc_buffer_create(struct svc_session *s, uint64_t bytes);
struct svc_buffer *svc_buffer_ref(struct svc_buffer *b);
void svc_buffer_unref(struct svc_buffer *b);
/* Settle it: it has device memory in that lane, or it failed. */
void svc_buffer_set(struct svc_buffer *b, struct sal_buffer *take_device, uint32_t lane);
void svc_buffer_fail(struct svc_buffer *b, int code, const char *text);
/* An iteration takes its memory over. */
void svc_buffer_donate(struct svc_buffer *b);
/* On the device, with its contents. */
static inline bool svc_buffer_is_there(const struct svc_buffer *b)
{
	return b->device && !b->saved;
}
static inline bool svc_buffer_is_pending(const struct svc_buffer *b)
{
	return !b->device && !b->saved && b->code == 0;
}

/* --- memory ------------------------------------------------------------------------------------------- */

enum svc_answer {
	SVC_YES,
	SVC_LATER, /* when the engine admits it: session->retry is set then */
	SVC_NO /* never: session->refusal says why */
};

/* May the session hold so many bytes more? */
enum svc_answer svc_memory_ask(struct svc_session *s, uint64_t more_bytes);
/* What it holds has changed: the engine should know. */
void svc_memory_settle(struct svc_session *s);
/* What it holds or may hold has changed: its client can see. Never waits. Under server->lock. */
void svc_memory_publish(struct svc_session *s);
/* What an iteration adds, as the engine counts it. */
uint64_t svc_memory_round(const struct svc_server *server, uint64_t bytes);
/* Why that was refused, for people. */
void svc_memory_explain(struct svc_session *s, const struct sal_record *refusal, char *text,
			size_t size);

/* --- errands ------------------------------------------------------------------------------------------ */

/* Something for the carrier. */
struct svc_errand {
	STAILQ_ENTRY(svc_errand) link; /* in carrier->errands */
	void (*run)(struct svc_errand *errand); /* on the carrier, without the lock */
};

struct svc_carrier {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool started, stop;
	STAILQ_HEAD(, svc_errand) errands;
	struct svc_errand tidying; /* see svc_carrier_tidy */
	_Atomic bool tidies; /* it is among the errands */
};

int svc_carrier_start(struct svc_server *server, struct sal_err *err);
/* Does what is left to do first. */
void svc_carrier_stop(struct svc_server *server);
void svc_carrier_post(struct svc_server *server, struct svc_errand *errand);
/* Everything the iteration uses goes where it will run. On the carrier, without the lock. */
int svc_carrier_fetch(struct svc_execution *x, struct sal_err *err);
/* The engine said so: copy the session's buffers, then report to it. */
void svc_carrier_page_out(struct svc_session *s);
void svc_carrier_page_in(struct svc_session *s);
/* A session's memory is free: where the device's is the host's, the system gets it back. Any thread. */
void svc_carrier_tidy(struct svc_server *server);

/* --- executions --------------------------------------------------------------------------------------- */

struct svc_execution {
	struct sal_iteration iteration; /* the engine hands it back; see svc_execution_of */
	struct svc_session *session; /* owned reference */
	struct svc_program *program; /* owned reference */
	uint64_t request;
	struct svc_buffer **args, **outputs; /* owned arrays of owned references */
	int64_t *keep; /* owned */
	uint32_t *donated; /* owned; arguments whose memory the outputs take over */
	size_t arg_count, output_count, keep_count, donated_count;
	STAILQ_HEAD(, svc_waiter) readers; /* those that read its outputs when it has ended */
	struct svc_errand errand; /* to be made ready to run in its lane */
	uint32_t lane; /* once granted */
	TAILQ_ENTRY(svc_execution) link; /* in session->executions */
	TAILQ_ENTRY(svc_execution) granted; /* in server->granted, or server->refused, if is_... */
	struct svc_execution *next_done; /* in server->done */
	bool is_granted, is_refused, started;
	bool is_told; /* the client knows of its end */
	_Atomic bool launching; /* within the call that starts it, which may also end it */
	struct sal_record refusal; /* if refused */
	uint64_t start_ns, end_ns;
};

/* Takes the references in x; submits it to the engine. */
void svc_execution_submit(struct svc_execution *x);
/* The engine granted it: hand it to the device, or to the carrier if it is not all there. */
void svc_execution_start(struct svc_execution *x);
/* The engine refused it. Frees it. */
void svc_execution_refuse(struct svc_execution *x);
/* It ended well, and the client shall know. */
void svc_execution_tell(struct svc_execution *x);
/* Those that wait for its outputs go on. Under server->lock. */
void svc_execution_serve(struct svc_execution *x);
/* It has ended: let go of its buffers. */
void svc_execution_release(struct svc_execution *x);
void svc_execution_free(struct svc_execution *x);
static inline struct svc_execution *svc_execution_of(struct sal_iteration *it)
{
	return (struct svc_execution *)((char *)it - offsetof(struct svc_execution, iteration));
}

/* --- the outbox --------------------------------------------------------------------------------------- */

/* Completions to one client, from any thread. A client that does not take them fills its backlog. */
struct svc_outbox {
	pthread_mutex_t lock;
	struct sal_ring ring;
	int bell; /* borrowed: session */
	bool closed;
	bool still; /* nothing is shown: more is about to come */
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
/* The last there is to say: why the session ends. */
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
enum svc_job_kind {
	SVC_JOB_COMPILE,
	SVC_JOB_LOAD,
	SVC_JOB_SEAL
};

struct svc_job {
	TAILQ_ENTRY(svc_job) link; /* in server->jobs, then session->jobs */
	enum svc_job_kind kind;
	struct svc_session *session; /* owned reference */
	uint64_t request, id;
	char format[16];
	void *program, *options; /* owned; load: the blob is `program` */
	size_t program_size, option_size;
	struct sal_place_in_arena into; /* seal */
	struct sal_image *image; /* owned reference; seal */
	struct sal_compile_request *pending; /* compile, while it goes on */
};

struct svc_session {
	TAILQ_ENTRY(svc_session) link; /* in server->sessions */
	_Atomic int refs; /* the server's, and what the vendor or the main thread still has */
	struct svc_server *server; /* borrowed */
	bool dead;
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
	TAILQ_HEAD(, svc_buffer) all; /* every buffer, also those only executions still know */
	TAILQ_HEAD(, svc_execution) executions; /* submitted and not yet ended */
	TAILQ_HEAD(, svc_job) jobs; /* at the compile pool */
	struct sal_session *core; /* borrowed: engine */
	uint64_t live_bytes; /* of buffers that have memory, on the device or paged out */
	uint64_t promised_bytes; /* of what was granted or admitted and has no memory yet */
	uint64_t peak_bytes; /* the most live_bytes was */
	uint64_t temp_bytes; /* scratch of its hungriest program */
	struct svc_errand paging;
	bool leaving; /* being paged out: nothing of it is read on the device any more */
	_Atomic uint32_t readers; /* downloads and copies that the vendor has under way */
	struct sal_header *held; /* owned; a record that waits for memory; nothing after it is read */
	bool retry; /* it may go on now */
	bool need_refused;
	struct sal_record refusal; /* then: why */
	struct svc_patience patience;
	struct svc_recollection recollection;
	bool remembered; /* a run of this job is: what the user did not declare comes from there */
	uint64_t job_bytes; /* of programs that wait to be compiled or loaded */
	uint32_t job_count;
	uint32_t waiting_count; /* executions, downloads and copies that have not started */
};

/* fds: memory of the rings, our bell, the client's bell, the first segment; to be sent and closed. */
int svc_session_create(struct svc_server *server, const struct sal_hello *hello,
		       const struct ucred *peer, struct svc_session **out_session, int fds[4],
		       struct sal_err *err);
/* The client is gone or has to go: everything of it ends. `why` is for its user. Under server->lock. */
void svc_session_kill(struct svc_session *s, const char *why);
struct svc_session *svc_session_ref(struct svc_session *s);
void svc_session_unref(struct svc_session *s);
/* One more segment of the arena; returns its descriptor, to be sent and closed. */
int svc_session_grow(struct svc_session *s, uint64_t bytes, uint32_t *out_segment,
		     uint64_t *out_bytes, struct sal_err *err);
/* Where those bytes of the arena are; NULL if they are not the client's to name. */
void *svc_session_place(struct svc_session *s, const struct sal_place_in_arena *place);
enum svc_taken {
	SVC_TAKEN,
	SVC_TAKE_LATER, /* there is no memory for it now */
	SVC_BROKEN /* it broke the rules */
};

/* One record of the client. */
enum svc_taken svc_intake(struct svc_session *s, const struct sal_header *record);

/* --- the worker --------------------------------------------------------------------------------------- */

struct svc_worker {
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	int epoll, bell, ring_fd, alarm; /* owned */
	_Atomic bool sleeps;
	uint64_t wake_ns; /* the engine asked for a tick then; 0: no */
	bool look; /* somebody else's turn left something for it to do */
	bool makes_way; /* it started something long: others first */
	uint64_t idle_from_ns; /* nothing to do since; 0: there is */
	bool is_lull; /* and no iteration runs or is foreseen */
	uint64_t lull_ns; /* learned: how long lulls last */
	struct svc_pause pause; /* of the device */
	bool has_alarm;
	struct sal_header *record; /* owned; SAL_RECORD_MAX bytes */
};

int svc_worker_start(struct svc_server *server, struct sal_err *err);
void svc_worker_stop(struct svc_server *server);
/* Something changed that it should look at. Any thread. */
void svc_worker_wake(struct svc_server *server);
/* The device pauses: see to it that a worker that sleeps wakes to poll; true if that is now. Under server->lock. */
bool svc_worker_foresee(struct svc_server *server);
/* So much waits for its turn that the client is not read from: its ring fills, and it waits. */
bool svc_session_is_ahead(const struct svc_session *s);
/* Wake when that bell rings; 0 is the worker's own. */
int svc_worker_watch(struct svc_server *server, int bell, uint64_t session_id, struct sal_err *err);

/* --- turns -------------------------------------------------------------------------------------------- */

/* Decisions of the engine: what is to be done about them is noted. Under server->lock. */
void svc_on_decision(void *ctx, const struct sal_record *r, struct sal_session *core,
		     struct sal_iteration *it);
/* Account for what ended, start what was granted, until nothing is left. Under server->lock. */
bool svc_turn(struct svc_server *server);
/* An execution ended: any thread, with or without the lock. */
void svc_turn_done(struct svc_execution *x);

/* --- lanes -------------------------------------------------------------------------------------------- */

struct svc_lane {
	struct sal_stream *stream; /* owned; NULL until something runs there */
	uint64_t iterations;
	uint64_t busy_ns; /* device time of what ended there */
};

/* --- the server --------------------------------------------------------------------------------------- */

struct svc_server {
	struct svc_options options;
	const struct sal_device_ops *ops;
	struct sal_device *device; /* owned */
	struct svc_lane lanes[SAL_LANES_MAX];
	struct svc_ledger ledger; /* who has what; has its own lock */
	void *facts; /* owned: packed */
	size_t fact_size;

	pthread_mutex_t lock;
	struct sal_engine *engine; /* owned */
	struct svc_trace trace;
	struct sal_tuning tuning; /* the engine's */
	TAILQ_HEAD(, svc_session) sessions; /* owned */
	TAILQ_HEAD(, svc_shared_program) programs;
	TAILQ_HEAD(, svc_job) jobs; /* for the main thread */
	STAILQ_HEAD(, svc_waiter) ready; /* waiters that may go on; see buffer.c */
	bool releasing;
	_Atomic(struct svc_execution *) done; /* ended, not yet accounted; pushed by any thread */
	TAILQ_HEAD(, svc_execution) granted, refused;
	uint64_t grain_bytes; /* memory is asked for in multiples of this */
	struct svc_recall recall;
	struct svc_news news;
	struct svc_worker worker;
	struct svc_carrier carrier;
	uint32_t queued; /* executions that have not started */
	uint32_t running; /* executions that started and are not accounted for */
	_Atomic uint32_t reporters; /* threads within svc_turn_done */
	uint64_t start_ns;

	/* main thread only */
	uv_loop_t loop;
	uv_poll_t listener;
	uv_async_t job_bell;
	uv_signal_t on_term, on_int;
	uv_timer_t idle_timer, hello_timer;
	struct svc_listen listen;
	struct sal_compile_pool *pool; /* owned */
	LIST_HEAD(, svc_client) clients; /* owned: connections */
	uint64_t idle_since_ns;
	bool closing;
};

int svc_server_open(struct svc_server *server, const struct svc_options *options,
		    struct sal_err *err);
void svc_server_run(struct svc_server *server);
void svc_server_close(struct svc_server *server);
/* Main thread: the socket is there, and connections come and go. */
void svc_connections_open(struct svc_server *server);
void svc_connections_close(struct svc_server *server);
/* Hand a job to the main thread. Under server->lock. */
void svc_server_post(struct svc_server *server, struct svc_job *take_job);
/* Main thread: do what was posted; forget what the pool still has of a session's. */
void svc_on_jobs(uv_async_t *bell);
void svc_jobs_cancel(struct svc_session *s);
/* One line of JSON for one line of JSON; to be freed. fd: the connection of who asks, for the log. */
char *svc_admin_answer(struct svc_server *server, int fd, const char *line);

uint64_t svc_now_ns(void);

#endif
