/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lengths - the last lengths of something that repeats, and what the next one will be. The few
 * shortest and longest do not count, because now and then something else happens.
 *
 * Threads: none. All lengths of salusd are under server->lock.
 */
#ifndef SAL_SERVICE_LENGTHS_H
#define SAL_SERVICE_LENGTHS_H

#include <stdint.h>

#define SVC_LENGTHS 16

struct svc_lengths {
	uint64_t last_ns[SVC_LENGTHS]; /* in no order */
	uint32_t next; /* index of the oldest in last_ns */
	/* The next length is between these. Too few are known: high_ns is UINT64_MAX. */
	uint64_t low_ns, high_ns;
};

/* No length is known yet: assume that they are long. */
void svc_lengths_init(struct svc_lengths *l);
void svc_lengths_add(struct svc_lengths *l, uint64_t length_ns);

#endif
