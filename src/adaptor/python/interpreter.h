/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interpreter - calls a Python function of this process, without linking against Python.
 *
 * The symbols of CPython are looked up in the process. If there are none, every call fails. A call
 * takes the interpreter's lock, makes numpy arrays of the operands, calls the function, and copies
 * its results. The function may keep its arguments: they are copies.
 *
 * Threads: any that does not hold the interpreter's lock.
 */
#ifndef SAL_ADAPTOR_PYTHON_INTERPRETER_H
#define SAL_ADAPTOR_PYTHON_INTERPRETER_H

#include "wire/messages.h"

struct adp_python_call {
	const struct sal_msg_call *record; /* shapes; valid */
	char *operands, *results; /* the bytes of all arrays, as the record lays them out */
	/* The function, or NULL. Called with the interpreter's lock, which keeps it alive. */
	void *(*find)(void *ctx);
	void *ctx;
};

/* NULL: done, the results are written. Else the text of the failure, which the caller frees. */
char *adp_python_call(const struct adp_python_call *call);

#endif
