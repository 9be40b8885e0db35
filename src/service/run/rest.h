/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rest - what the worker does with nothing to do: poll or sleep.
 *
 * The worker sleeps until a bell rings. It polls if something is likely to come soon: when the next
 * iteration is due (gap.h), while something short runs, and between records that follow each other
 * closely. It does not poll while the device is at work on something long: on a small machine
 * polling would take a core from that work.
 *
 * Threads: the worker, under server->lock, if nothing else is said.
 */
#ifndef SAL_SERVICE_REST_H
#define SAL_SERVICE_REST_H

#include <stdbool.h>

#include "service/lock.h"

struct svc_server;
struct svc_worker;

/* Nothing is known about lulls and gaps yet. */
void svc_rest_init(struct svc_worker *w);
/* Nothing to do: poll for a moment, or sleep until a bell rings. */
void svc_rest(struct svc_server *server) SVC_LOCKED;
/* There was something to do: the lull is over. */
void svc_rest_end(struct svc_worker *w);
/* Let the vendor's threads have this core: one of them was just given a long iteration. */
void svc_rest_make_way(struct svc_server *server) SVC_LOCKED;
/* While the worker is awake: attend sessions whose bells rang. */
void svc_rest_hear_bells(struct svc_server *server) SVC_LOCKED;
/*
 * A gap of the device begins: set the alarm of a sleeping worker to its end. True: wake the worker
 * now. Any thread.
 */
bool svc_rest_foresee(struct svc_server *server) SVC_LOCKED;

#endif
