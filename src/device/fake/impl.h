/* SPDX-License-Identifier: Apache-2.0 */
/*
 * impl - what the files of this folder share.
 *
 * A buffer is a handle on a cell. Cells are counted: jobs in a stream's queue hold theirs, so freeing a
 * handle early is fine. A cell's bytes and outcome are only touched by the stream's thread once a job that
 * produces it is queued; since jobs run in order, whatever a job reads is settled by then.
 *
 * Locks: device->lock guards `used`, the counters of calls and who is held up; stream->lock the queue; a
 * cell's count is atomic. No lock is held while a call is held up by a fault, nor while a done function
 * runs.
 */
#ifndef SAL_DEVICE_FAKE_IMPL_H
#define SAL_DEVICE_FAKE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <time.h>

#include "device/fake/fake.h"

#define FAKE_MAX_RANK 8
#define FAKE_MAX_OUTPUTS 128
#define FAKE_MAX_FAULTS 8
#define FAKE_TEXT 96

/* --- programs --- */

enum fake_op {
	FAKE_COPY,
	FAKE_ADD,
	FAKE_FILL,
};

struct fake_output {
	enum fake_op op;
	uint32_t a, b; /* arguments, or the byte to fill with */
	int64_t dims[FAKE_MAX_RANK];
	int32_t type;
	uint32_t rank;
	uint64_t bytes;
	int64_t takes; /* the argument it takes over; -1: none */
};

struct fake_failure {
	int code; /* 0: none */
	char text[FAKE_TEXT];
};

struct fake_program {
	char name[FAKE_TEXT];
	struct fake_output outputs[FAKE_MAX_OUTPUTS];
	size_t output_count;
	size_t arg_count; /* one more than the highest argument it names */
	uint64_t temp_bytes;
	uint64_t run_ns;
	bool has_run_ns, hangs;
	bool crashes, spins, gorges, gulps; /* when compiled */
	uint64_t shouts, burn_ms; /* when compiled */
	struct fake_failure fail, refuse, reject;
};

int sal_fake_parse(struct sal_text text, struct fake_program *out_program, struct sal_err *err);
/* The type with this name or number, or 0. */
int32_t sal_fake_type(struct sal_text name);

struct sal_loaded {
	struct sal_stream *stream; /* borrowed */
	struct fake_program program;
};

/* --- devices --- */

enum fake_call {
	FAKE_CALL_OPEN_STREAM,
	FAKE_CALL_LOAD,
	FAKE_CALL_UNLOAD,
	FAKE_CALL_UPLOAD,
	FAKE_CALL_DOWNLOAD,
	FAKE_CALL_COPY,
	FAKE_CALL_WHEN_READY,
	FAKE_CALL_FREE_BUFFER,
	FAKE_CALL_SAVE,
	FAKE_CALL_RESTORE,
	FAKE_CALL_EMPTY,
	FAKE_CALL_REFILL,
	FAKE_CALL_EXECUTE,
	FAKE_CALL_COUNT,
};
#define FAKE_CALL_ANY FAKE_CALL_COUNT

enum fake_effect {
	FAKE_FAILS, /* the call whose number is `at` */
	FAKE_HOLDS_UP, /* every call whose number is a multiple of `at` */
};

struct fake_fault {
	enum fake_effect effect;
	enum fake_call call; /* or FAKE_CALL_ANY */
	uint64_t at; /* counted from 1 */
	int code;
	uint64_t hold_up_ns;
};

struct sal_device {
	pthread_mutex_t lock;
	pthread_cond_t change; /* closing, or nobody is held up any more */
	uint64_t capacity; /* 0: no limit */
	uint64_t used;
	uint64_t run_ns;
	uint64_t calls[FAKE_CALL_COUNT];
	uint64_t all_calls;
	struct fake_fault faults[FAKE_MAX_FAULTS]; /* set by open */
	size_t fault_count;
	bool runs_inline, chained, strict; /* set by open */
	uint32_t held_up; /* calls without a stream that a fault holds up */
	bool closing;
	LIST_HEAD(, sal_stream) streams;
};

/* Reads "fake:" and faults. */
int sal_fake_read_faults(struct sal_device *d, const char *path, struct sal_err *err);
/*
 * Every call of the table passes here, without a lock; s may be NULL. Counts the call, holds it up and lets
 * it fail as the faults say. A call that was held up when its stream or device is closed is CANCELLED.
 */
int sal_fake_begin_call(struct sal_device *d, struct sal_stream *s, enum fake_call call,
			struct sal_err *err);
/* The stream is not closed before as many calls have left as entered. */
void sal_fake_enter(struct sal_stream *s);
void sal_fake_leave(struct sal_stream *s);
void sal_fake_let_go(struct sal_stream *s); /* and waits until all calls have left */

void sal_fake_cond_init(pthread_cond_t *cond); /* of the monotonic clock */
struct timespec sal_fake_later(uint64_t ns);

/* Room on the device, taken and given back. */
int sal_fake_reserve(struct sal_device *d, uint64_t bytes, struct sal_err *err);
void sal_fake_release(struct sal_device *d, uint64_t bytes);

/* --- buffers --- */

struct fake_cell {
	atomic_uint refs;
	struct sal_stream *stream; /* borrowed */
	int32_t type;
	unsigned char *bytes; /* owned, unless released is set */
	uint64_t size;
	uint64_t charged; /* of the device's memory */
	struct fake_failure failure;
	sal_done_fn *released; /* bytes are the caller's until this is called */
	void *released_ctx;
};

struct sal_buffer {
	struct fake_cell *cell; /* a reference; NULL: an iteration took it over */
};

/* The cell's device memory must have been reserved; the cell takes charge of it. NULL: no memory. */
struct fake_cell *sal_fake_cell_create(struct sal_stream *s, int32_t type, uint64_t size,
				       uint64_t charged);
struct fake_cell *sal_fake_cell_ref(struct fake_cell *cell);
void sal_fake_cell_unref(struct fake_cell *cell); /* accepts NULL */

/* --- streams --- */

/* Something for the stream's thread to do. */
struct fake_job {
	STAILQ_ENTRY(fake_job) link; /* stream->jobs */
	/* Runs on the thread; cancelled: the stream is closing, end without doing. Frees the job. */
	void (*run)(struct fake_job *job, bool cancelled);
	sal_done_fn *done; /* may be NULL */
	void *done_ctx;
};

STAILQ_HEAD(fake_jobs, fake_job);

struct sal_stream {
	struct sal_device *device; /* borrowed */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct fake_jobs jobs; /* owned */
	bool busy; /* the thread is doing a job */
	bool closing;
	/* under device->lock */
	LIST_ENTRY(sal_stream) device_link; /* device->streams */
	uint32_t held_up; /* calls that a fault holds up, or that compute inside */
	bool let_go; /* nobody is held up any more */
};

int sal_fake_stream_open(struct sal_device *d, struct sal_stream **out_stream, struct sal_err *err);
void sal_fake_stream_close(struct sal_stream *s);
void sal_fake_push(struct sal_stream *s, struct fake_job *take_job);
/* Queues a mere call of done; calls it right away for lack of memory. */
void sal_fake_push_done(struct sal_stream *s, sal_done_fn *done, void *ctx);
/* Nothing is queued or being done: whatever was asked for so far is over. */
bool sal_fake_is_idle(struct sal_stream *s);
/* Lets the time of an iteration pass; false if the stream is being closed meanwhile. */
bool sal_fake_pass(struct sal_stream *s, uint64_t ns);
#define FAKE_FOREVER UINT64_MAX

/* --- operations: what the table does once the faults have had their say --- */

int sal_fake_open(const struct sal_device_config *cfg, struct sal_device **out_device,
		  struct sal_err *err);
void sal_fake_close(struct sal_device *d);
const struct sal_device_facts *sal_fake_facts(struct sal_device *d);

int sal_fake_load(struct sal_stream *s, struct sal_text image, struct sal_loaded **out_loaded,
		  struct sal_err *err);
void sal_fake_unload(struct sal_loaded *p);
int sal_fake_upload(struct sal_stream *s, const struct sal_array *array, const void *data,
		    enum sal_upload_mode mode, sal_done_fn *released, void *ctx,
		    struct sal_buffer **out_buffer, struct sal_err *err);
int sal_fake_download(struct sal_buffer *b, void *dst, size_t size, sal_done_fn *done, void *ctx,
		      struct sal_err *err);
int sal_fake_copy(struct sal_buffer *b, struct sal_buffer **out_buffer, struct sal_err *err);
int sal_fake_when_ready(struct sal_buffer *b, sal_done_fn *done, void *ctx, struct sal_err *err);
void sal_fake_free_buffer(struct sal_buffer *b);
int sal_fake_save(struct sal_buffer *b, struct sal_saved **out_saved, struct sal_err *err);
int sal_fake_restore(struct sal_stream *s, struct sal_saved *take_saved,
		     struct sal_buffer **out_buffer, struct sal_err *err);
int sal_fake_empty(struct sal_buffer *b);
int sal_fake_refill(struct sal_buffer *b, struct sal_saved *take_saved, struct sal_err *err);
struct sal_text sal_fake_saved_bytes(const struct sal_saved *saved);
void sal_fake_free_saved(struct sal_saved *saved);
int sal_fake_execute(struct sal_loaded *p, const struct sal_execution *x, struct sal_err *err);

#endif
