/* SPDX-License-Identifier: Apache-2.0 */
#include "service/admin/answer_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys/fd.h"

struct svc_answer_line *svc_answer_line_create(const char *text, int take_fd)
{
	size_t size = text ? strlen(text) : 0;
	struct svc_answer_line *a = text ? malloc(sizeof(*a) + size + 2) : NULL;

	if (!a) {
		sal_close(&take_fd);
		return NULL;
	}
	a->refs = 1;
	a->fd = take_fd;
	a->size = size + 1;
	(void)snprintf(a->text, size + 2, "%s\n", text);
	return a;
}

struct svc_answer_line *svc_answer_line_ref(struct svc_answer_line *a)
{
	a->refs++;
	return a;
}

void svc_answer_line_unref(struct svc_answer_line *a)
{
	if (!a || --a->refs > 0)
		return;
	sal_close(&a->fd);
	free(a);
}
