/* SPDX-License-Identifier: Apache-2.0 */
/*
 * function - how the functions of PJRT's table are declared, and how they give out text.
 *
 * libsalus_pjrt.so is a guest in somebody else's process: libc only, no signal handlers, no output
 * except the daemon's messages for the job's user, quiet at fork and exit. It never aborts. JAX
 * aborts the process when a metadata or lifetime call fails. So these calls use only local
 * knowledge and cannot fail. A dead daemon shows only in Execute, transfers and events, as
 * UNAVAILABLE.
 *
 *     api.c        the table of functions
 *     error.c      PJRT_Error
 *     promise.c    a result that arrives later
 *     event.c      PJRT_Event: a view of a promise
 *     profiler.c   the job's part of a profile: empty
 *     client/      PJRT_Client, its device, memories, topology and attributes
 *     program/     compiled programs: compile, describe, execute
 *     buffer/      PJRT_Buffer: upload, download, prefetch, layouts
 *     daemon/      the connection: greeting, rings, requests, shared memory
 *     python/      programs call Python functions of this process
 */
#ifndef SAL_ADAPTOR_FUNCTION_H
#define SAL_ADAPTOR_FUNCTION_H

#include "pjrt_c_api.h"

/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define ADP_FUNCTION(name) PJRT_Error *adp_##name(PJRT_##name##_Args *args)

/* The end of a function that gives out a struct sal_text: args->field and args->field_size. */
#define ADP_GIVE_TEXT(args, field, text)            \
	do {                                        \
		(args)->field = (text).at;          \
		(args)->field##_size = (text).size; \
		return NULL;                        \
	} while (0)

#endif
