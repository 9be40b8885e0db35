/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rest - how the worker waits for work: it polls or sleeps.
 *
 * The worker sleeps until a bell rings. The worker polls if work is likely to come soon: when the
 * next iteration is due (gap.h), while a short iteration runs, and between records that follow each
 * other closely. The worker does not poll while the device runs a long iteration: on a small
 * machine polling would take a core from this iteration.
 *
 * Threads: the worker, under server->lock, if nothing else is said.
 */
#ifndef SAL_SERVICE_REST_H
#define SAL_SERVICE_REST_H

#include <stdbool.h>

#include "service/lock.h"

struct svc_server;
struct svc_worker;

/* Start without knowledge of lulls and gaps. */
void svc_rest_init(struct svc_worker *w);
/* There is nothing to do: poll for a moment, or sleep until a bell rings. */
void svc_rest(struct svc_server *server) SVC_LOCKED;
/* There was something to do: the lull is over. */
void svc_rest_end(struct svc_worker *w);
/* Yield this core to the vendor's threads: one of them has just got a long iteration. */
void svc_rest_make_way(struct svc_server *server) SVC_LOCKED;
/* While the worker is awake: attend sessions whose bells rang. */
void svc_rest_hear_bells(struct svc_server *server) SVC_LOCKED;
/*
 * A gap of the device begins: set the alarm of a sleeping worker to the moment when polling begins.
 * True: this moment is now, so wake the worker. Any thread.
 */
bool svc_rest_foresee(struct svc_server *server) SVC_LOCKED;

#endif
