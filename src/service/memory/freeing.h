/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeing - the errand that frees buffers and unloads programs that nobody refers to.
 *
 * Each session has one. It is posted while the session's trash holds something. In a closing
 * session it also empties the session's maps, some entries at a time.
 *
 * Threads: under server->lock; the vendor's calls are made by the thread that carries the session.
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
	bool has_queued; /* closing: queued iterations have references left */
	struct svc_buffer_list batch; /* being freed */
	struct svc_program_list programs; /* being unloaded */
};

void svc_freeing_init(struct svc_session *s);
/* There is something to free, or the session is closing. */
void svc_freeing_post(struct svc_session *s) SVC_LOCKED;

#endif
