/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_line - the answer to a question: a line, and perhaps a descriptor. Those who asked the
 * same share one.
 *
 * Threads: the main thread.
 */
#ifndef SAL_SERVICE_ANSWER_LINE_H
#define SAL_SERVICE_ANSWER_LINE_H

#include <stddef.h>
#include <stdint.h>

/* Answers with a descriptor that may lie unread: nobody can take back what is in a socket. */
#define SVC_ANSWER_FDS_MAX 4u

struct svc_answer_line {
	uint32_t refs;
	int fd; /* owned: goes along; -1: none */
	size_t size;
	char text[]; /* with the end of the line, and a NUL */
};

/* NULL: no memory; the descriptor is closed. */
struct svc_answer_line *svc_answer_line_create(const char *text, int take_fd);
struct svc_answer_line *svc_answer_line_ref(struct svc_answer_line *a);
/* Accepts NULL. */
void svc_answer_line_unref(struct svc_answer_line *a);

#endif
