/* SPDX-License-Identifier: Apache-2.0 */
/*
 * impl - declarations that the files of this folder share.
 *
 * A buffer is a handle to a cell. Cells have a reference count: queued work holds references to its
 * cells, so a handle may be freed early. Once work that produces a cell is queued, only the
 * stream's thread accesses the cell's bytes and outcome. Work runs in order, so the input of each
 * piece of work is defined when it runs.
 *
 * Locks: device->lock guards `used`, the counters of calls and the counts of delayed calls;
 * stream->lock guards the queue; a cell's reference count is atomic. No lock is held while a fault
 * delays a call, nor while a done function runs.
 */
#ifndef SAL_DEVICE_FAKE_IMPL_H
#define SAL_DEVICE_FAKE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <time.h>

#include "device/fake/fake.h"
#include "device/fake/program.h"

#define FAKE_FAULTS_MAX 8

/* Devices */

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
	FAKE_CALL_ADOPT,
	FAKE_CALL_EXECUTE,
	FAKE_CALL_COUNT,
};
#define FAKE_CALL_ANY FAKE_CALL_COUNT

enum fake_effect {
	FAKE_FAILS, /* the call with number `at` */
	FAKE_DELAYS, /* every call whose number is a multiple of `at` */
};

struct fake_fault {
	enum fake_effect effect;
	enum fake_call call; /* or FAKE_CALL_ANY */
	uint64_t at; /* counted from 1 */
	int code;
	uint64_t delay_ns;
};

struct sal_device {
	pthread_mutex_t lock;
	pthread_cond_t change; /* signalled when closing, and when delayed calls return */
	uint64_t capacity; /* 0: no limit */
	uint64_t used;
	uint64_t run_ns;
	uint64_t calls[FAKE_CALL_COUNT];
	uint64_t all_calls;
	struct fake_fault faults[FAKE_FAULTS_MAX]; /* set by open */
	size_t fault_count;
	bool runs_inline, chained, strict; /* set by open */
	uint32_t calls_inside; /* delayed calls without a stream */
	bool closing;
	LIST_HEAD(, sal_stream) streams;
};

/* Reads "fake:" and faults. */
int sal_fake_read_faults(struct sal_device *d, const char *path, struct sal_err *err);
/*
 * Every operation calls this first, without a lock; s may be NULL. Counts the call, and delays it
 * or makes it fail as the faults say. A delayed call is CANCELLED when its stream or device is
 * closed.
 */
int sal_fake_begin_call(struct sal_device *d, struct sal_stream *s, enum fake_call call,
			struct sal_err *err);
/* A stream is closed only after all calls that entered it have left. */
void sal_fake_enter(struct sal_stream *s);
void sal_fake_leave(struct sal_stream *s);
void sal_fake_cancel_calls(struct sal_stream *s); /* also waits until all calls have left */

void sal_fake_cond_init(pthread_cond_t *cond); /* of the monotonic clock */
struct timespec sal_fake_later(uint64_t ns);

/* Reserves and releases device memory. */
int sal_fake_reserve(struct sal_device *d, uint64_t bytes, struct sal_err *err);
void sal_fake_release(struct sal_device *d, uint64_t bytes);

/* Buffers */

struct fake_cell {
	atomic_uint refs;
	struct sal_stream *stream; /* borrowed */
	int32_t type;
	unsigned char *bytes; /* owned, unless released is set */
	uint64_t size;
	uint64_t charged; /* bytes of device memory */
	uint32_t memory; /* FAKE_HOST: not the device's */
	struct fake_failure failure;
	sal_done_fn *released; /* the caller owns bytes until this is called */
	void *released_ctx;
};

/* Numbers of memories, as in base/facts.h; 0 is the device's, too. */
enum fake_memory {
	FAKE_DEVICE = 1,
	FAKE_HOST = 2,
};

struct sal_buffer {
	struct fake_cell *cell; /* a reference; NULL: donated to an iteration */
};

/* The caller has reserved the device memory; the cell releases it. NULL: no memory. */
struct fake_cell *sal_fake_cell_create(struct sal_stream *s, int32_t type, uint64_t size,
				       uint64_t charged);
struct fake_cell *sal_fake_cell_ref(struct fake_cell *cell);
void sal_fake_cell_unref(struct fake_cell *cell); /* accepts NULL */

/* Streams */

/* Work for the stream's thread. */
struct fake_work {
	STAILQ_ENTRY(fake_work) link; /* stream->queue */
	/*
	 * Runs on the thread and frees the work. cancelled: the stream is closing, so only report
	 * that.
	 */
	void (*run)(struct fake_work *work, bool cancelled);
	sal_done_fn *done; /* may be NULL */
	void *done_ctx;
};

STAILQ_HEAD(fake_queue, fake_work);

struct sal_stream {
	struct sal_device *device; /* borrowed */
	struct sal_stream *lead; /* borrowed; of a chip: its stream, which does all work */
	uint32_t chip_count;
	struct sal_stream *others; /* owned; chips 1, 2, ... */
	struct sal_device_facts facts; /* of a wide stream */
	struct sal_chip_facts *chip_facts; /* owned */
	uint32_t tier;
	_Atomic uint64_t busy_ns; /* the sum of the durations of iterations that ended */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct fake_queue queue; /* owned */
	bool busy; /* the thread is running a piece of work */
	bool closing;
	/* under device->lock */
	LIST_ENTRY(sal_stream) device_link; /* device->streams */
	uint32_t calls_inside; /* calls that a fault delays, or that compute inside the call */
	bool is_cancelled; /* delayed calls return at once */
};

int sal_fake_stream_open(struct sal_device *d, uint32_t tier, uint32_t chips,
			 struct sal_stream **out_stream, struct sal_err *err);
struct sal_stream *sal_fake_chip(struct sal_stream *s, uint32_t chip);
int sal_fake_describe(struct sal_stream *s, const struct sal_device_facts **out_facts,
		      struct sal_err *err);
/* The stream that does the work: of a chip, or itself. */
static inline struct sal_stream *sal_fake_lead(struct sal_stream *s)
{
	return s->lead ? s->lead : s;
}
void sal_fake_stream_close(struct sal_stream *s);
void sal_fake_push(struct sal_stream *s, struct fake_work *take_work);
/* Queues a call of done. Without memory, calls done at once. */
void sal_fake_push_done(struct sal_stream *s, sal_done_fn *done, void *ctx);
/* True if all work so far is done. */
bool sal_fake_is_idle(struct sal_stream *s);
/* Waits for the duration of an iteration. Returns false if the stream closes meanwhile. */
bool sal_fake_pass(struct sal_stream *s, uint64_t ns);
#define FAKE_FOREVER UINT64_MAX

#include "device/fake/operations.h"

#endif
