/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer - the log's thread: it writes what is queued, and reads what this process prints.
 *
 *     sal_log_write ──> queue ──> thread ──> file, pipe, terminal
 *                         ^         │
 *                         └─────────┘<── pipe <── stdout, stderr
 *
 * A sink that takes nothing holds up this thread at most, and only if it is a disk. Whoever prints never waits:
 * the thread empties the pipe and drops what is too much; if the thread itself is held up, the pipe refuses.
 *
 * Owns: the sink, the pipe, the thread. Threads: start and stop from one; the rest as it says.
 */
#ifndef SAL_BASE_LOG_WRITER_H
#define SAL_BASE_LOG_WRITER_H

#include "base/log/log.h"
#include "base/log/file.h"
#include "base/log/queue.h"

/* Of each: one write to a pipe that has room does not wait if it is no longer than this. */
#define SAL_LOG_WRITE_BYTES ((size_t)4096)

struct sal_log_writer {
	struct sal_log_queue queue;
	pthread_t thread;
	_Atomic bool stop, flush, ended;
	_Atomic bool owes; /* lines were left out, and nobody has said so */
	void (*report)(void); /* then: called a second later */

	/* the log's thread only */
	struct sal_log_file file;
	int printed; /* owned: read end of the pipe that stdout and stderr are; -1: none */
	int print_end; /* owned: its other end; -1: none */
	int was[2]; /* owned: stdout and stderr before; -1: none */
	struct sal_log_budget print_budget;
	char partial[SAL_LOG_LINE_BYTES]; /* a printed line that has not ended */
	size_t partial_size;
	char out[SAL_LOG_LINE_BYTES + SAL_LOG_WRITE_BYTES]; /* being written */
	size_t out_size, out_at;
	uint64_t out_lost; /* that many lines are lost, says the first line of out */
	bool is_torn; /* the last line that was written has no end */
};

/* One writer for a process: it takes over stdout and stderr. */
int sal_log_writer_create(const struct sal_log_config *cfg, void (*report)(void),
			  struct sal_log_writer **out_writer, struct sal_err *err);
/* As sal_log_flush. */
bool sal_log_writer_flush(struct sal_log_writer *w, unsigned wait_ms);
/* Ends the thread and gives back stdout and stderr. A thread that does not end in time keeps its memory. */
void sal_log_writer_destroy(struct sal_log_writer *w, unsigned wait_ms);

#endif
