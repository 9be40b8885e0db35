/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer - the log's thread: it writes the queued lines, and reads what this process prints.
 *
 *     sal_log_write ──> queue ──> thread ──> file, pipe, terminal
 *                         ^         │
 *                         └─────────┘<── pipe <── stdout, stderr
 *
 * A slow sink blocks at most this thread, and only if it is a disk. Printing never blocks: the
 * thread drains the pipe and drops lines beyond the limit. If the thread itself is blocked and the
 * pipe is full, printing fails.
 *
 * Owns: the sink, the pipe, the thread. Threads: one thread starts and stops it; any thread may
 * flush.
 */
#ifndef SAL_BASE_LOG_WRITER_H
#define SAL_BASE_LOG_WRITER_H

#include "base/log/log.h"
#include "base/log/file.h"
#include "base/log/queue.h"

/* Most bytes of one write: a write of this size does not block if the pipe has room. */
#define SAL_LOG_WRITE_BYTES ((size_t)4096)

struct sal_log_writer {
	struct sal_log_queue queue;
	pthread_t thread;
	_Atomic bool stop, flush, ended;
	_Atomic bool owes; /* lines were left out, and the log does not say so yet */
	void (*report)(void); /* called a second after owes was set */

	/* only the log's thread uses these */
	struct sal_log_file file;
	int printed; /* owned: read end of the pipe behind stdout and stderr; -1: none */
	int print_end; /* owned: write end of that pipe; -1: none */
	int was[2]; /* owned: the former stdout and stderr; -1: none */
	struct sal_log_budget print_budget;
	char partial[SAL_LOG_LINE_BYTES]; /* a printed line without its newline yet */
	size_t partial_size;
	char out[SAL_LOG_LINE_BYTES + SAL_LOG_WRITE_BYTES]; /* the bytes being written */
	size_t out_size, out_at;
	uint64_t out_lost; /* the number of lost lines that the first line of out reports */
	bool is_torn; /* the last written line has no newline */
};

/* Use one writer for a process: it takes over stdout and stderr. */
int sal_log_writer_create(const struct sal_log_config *cfg, void (*report)(void),
			  struct sal_log_writer **out_writer, struct sal_err *err);
/* Like sal_log_flush. */
bool sal_log_writer_flush(struct sal_log_writer *w, unsigned wait_ms);
/*
 * Ends the thread and restores stdout and stderr. If the thread does not end in time, its memory is
 * not freed.
 */
void sal_log_writer_destroy(struct sal_log_writer *w, unsigned wait_ms);

#endif
