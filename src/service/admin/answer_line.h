/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_line - the answer to a question: a line, and perhaps a descriptor. Askers of the same
 * question may share one answer.
 *
 * Threads: the main thread.
 */
#ifndef SAL_SERVICE_ANSWER_LINE_H
#define SAL_SERVICE_ANSWER_LINE_H

#include <stddef.h>
#include <stdint.h>

/* So many descriptors may be unread, because salusd cannot take them back from a socket. */
#define SVC_ANSWER_FDS_MAX 4u

struct svc_answer_line {
	uint32_t refs;
	int fd; /* owned: sent with the line; -1: none */
	size_t size;
	char text[]; /* ends with a newline and a NUL */
};

/* NULL for lack of memory; then the descriptor is closed. */
struct svc_answer_line *svc_answer_line_create(const char *text, int take_fd);
struct svc_answer_line *svc_answer_line_ref(struct svc_answer_line *a);
/* Accepts NULL. */
void svc_answer_line_unref(struct svc_answer_line *a);

#endif
