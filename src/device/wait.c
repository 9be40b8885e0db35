/* SPDX-License-Identifier: Apache-2.0 */
#include "device/wait.h"

#include <semaphore.h>

struct waiting {
	sem_t done;
	int code;
	struct sal_err *err; /* borrowed */
};

static void on_done(void *ctx, int code, const char *message)
{
	struct waiting *w = ctx;

	if (code)
		(void)sal_err_set(w->err, code, "%s", message ? message : "");
	w->code = code;
	(void)sem_post(&w->done);
}

int sal_download_and_wait(const struct sal_device_ops *ops, struct sal_buffer *b, void *dst,
			  size_t size, struct sal_err *err)
{
	struct waiting w = { .err = err };
	int rc;

	(void)sem_init(&w.done, 0, 0);
	rc = ops->download(b, dst, size, on_done, &w, err);
	if (rc >= 0) {
		while (sem_wait(&w.done) < 0)
			; /* interrupted by a signal */
		rc = -w.code;
	}
	(void)sem_destroy(&w.done);
	return rc;
}
