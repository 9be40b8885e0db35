/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python - custom calls by which JAX's programs call Python, on a host device.
 *
 * The compiler accepts such a program only if a handler for its custom call is registered. So
 * salus-compile registers the same handlers as salusd, and never runs them. In salusd, each
 * execution that may call has a context with the function that serves its calls.
 *
 * Threads: the handler runs in the vendor's threads.
 */
#ifndef SAL_DEVICE_PJRT_FFI_PYTHON_H
#define SAL_DEVICE_PJRT_FFI_PYTHON_H

#include <stdatomic.h>
#include <stdbool.h>

#include "device/device.h"
#include "device/pjrt/ffi/ffi.h"

struct sal_device;

/* The data of one execution that may call. Lives until the execution is done. */
struct vendor_python {
	struct sal_stream *stream; /* borrowed */
	PJRT_ExecuteContext *context; /* owned */
	sal_call_fn *call;
	void *call_ctx;
	sal_done_fn *done;
	void *done_ctx;
	bool is_wide; /* runs on several chips */
	_Atomic int code; /* of a wide execution's first call that failed; 0: none */
	char *text; /* owned; of the same call */
};

/* Registers the handlers. Without the FFI extension, programs that call do not compile. */
void sal_python_register(struct sal_device *d);
/*
 * May a program with this image call? XLA crashes if a handler asks for the data of an execution
 * without a context. So the program decides who gets one, and not the client.
 */
bool sal_python_is_in(struct sal_text image);
/* Makes the context for the execution. */
int sal_python_begin(struct sal_stream *s, const struct sal_execution *x,
		     struct vendor_python **out_python, struct sal_err *err);
/* Frees the context. Accepts NULL. */
void sal_python_end(struct vendor_python *p);
/* A sal_done_fn: frees the context, then reports to the execution's own done function. */
void sal_python_done(void *ctx, int code, const char *message);

#endif
