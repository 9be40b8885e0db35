/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chatter - what a helper prints to its standard error. It goes to the log, line by line.
 *
 * It is always read, so that no helper blocks on it, and bounded: a program can make the vendor print as much as it
 * likes. Beyond some lines for each task the rest is counted and dropped.
 *
 * Threads: the loop's.
 */
#ifndef SAL_COMPILE_CHATTER_H
#define SAL_COMPILE_CHATTER_H

#include <stdint.h>

#include <uv.h>

#define SAL_CHATTER_LINE 256

struct sal_chatter {
	uv_pipe_t pipe; /* closed by the owner; its data is the owner's */
	int pid;
	char room[4096];
	char line[SAL_CHATTER_LINE]; /* as far as it has come; what is longer is cut */
	size_t used;
	char last[SAL_CHATTER_LINE]; /* the last whole line of this task */
	uint32_t lines; /* of this task, in the log */
	uint32_t dropped; /* of this task, not in the log */
};

/* The pipe is open. */
void sal_chatter_start(struct sal_chatter *c, int pid);
/* A new task begins. */
void sal_chatter_reset(struct sal_chatter *c);
/* The process has ended: reads what is left. */
void sal_chatter_finish(struct sal_chatter *c);

#endif
