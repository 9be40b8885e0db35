/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chatter - the standard error of a helper, which goes to the log line by line.
 *
 * The pool always reads it, so that no helper blocks on printing. The log is bounded, because a
 * program can make the vendor print any amount: each task gets some lines in the log, and further
 * lines are only counted.
 *
 * Threads: the loop's.
 */
#ifndef SAL_COMPILE_CHATTER_H
#define SAL_COMPILE_CHATTER_H

#include <stdint.h>

#include <uv.h>

#define SAL_CHATTER_LINE 256

struct sal_chatter {
	uv_pipe_t pipe; /* the owner closes the pipe and sets its data */
	int pid;
	char room[4096];
	char line[SAL_CHATTER_LINE]; /* the line so far; a longer line is cut */
	size_t used;
	char last[SAL_CHATTER_LINE]; /* the last line of this task, without stack traces */
	uint32_t lines; /* of this task, logged */
	uint32_t dropped; /* of this task, not logged */
};

/* Call this when the pipe is open. */
void sal_chatter_start(struct sal_chatter *c, int pid);
/* Call this when a new task begins. */
void sal_chatter_reset(struct sal_chatter *c);
/* Call this when the process has ended. Reads the rest of the pipe. */
void sal_chatter_finish(struct sal_chatter *c);

#endif
