/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeing - the errand that frees buffers and unloads programs without references.
 *
 * Each session has one such errand. It is posted while there is something in the session's trash.
 * In a closing session the errand also empties the session's maps, some entries at a time.
 *
 * Threads: under server->lock. The thread that carries the session makes the vendor calls.
 */
#ifndef SAL_SERVICE_FREEING_H
#define SAL_SERVICE_FREEING_H

#include <stdbool.h>

#include "service/memory/buffer.h"
#include "service/memory/program.h"
#include "service/run/carrier.h"

/* Part of a session. */
struct svc_freeing {
	struct svc_errand errand;
	bool is_posted;
	bool has_queued; /* the session is closing, and queued iterations hold references */
	struct svc_buffer_list batch; /* buffers that the errand frees */
	struct svc_program_list programs; /* programs that the errand unloads */
};

void svc_freeing_init(struct svc_session *s);
/* Post the errand: there is something to free, or the session is closing. */
void svc_freeing_post(struct svc_session *s) SVC_LOCKED;

#endif
