/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greeting - messages over the socket: hello, welcome, and a larger arena. Include wire/messages.h.
 */
#ifndef SAL_WIRE_GREETING_H
#define SAL_WIRE_GREETING_H

#include <stdint.h>

#define SAL_WIRE_MAGIC UINT64_C(0x3153554c4153) /* "SALUS1" */
#define SAL_WIRE_MAJOR 1
#define SAL_WIRE_MINOR 8
/* The minor from which on the holding (link/holding.h) lies behind the rings. */
#define SAL_MINOR_HOLDING 2
/* The minor from which on a client understands news: a done of request 0 with code 0. */
#define SAL_MINOR_NEWS 2
/* The minor from which on a client understands SAL_MSG_REFUSED, and gets donated arguments back. */
#define SAL_MINOR_REFUSED 4
/* The minor from which on a client may serve calls of its programs. */
#define SAL_MINOR_CALLS 5
/* The minor from which on a session may have several devices. */
#define SAL_MINOR_DEVICES 6
/* The minor from which on uploads and copies name the memory of the device. */
#define SAL_MINOR_MEMORIES 7
/* The minor from which on a client may read large results in the daemon's memory. */
#define SAL_MINOR_EXPOSE 8

/* Size of the hello before minor 3, which adds the deadline. */
#define SAL_HELLO_BYTES_MIN 184

#define SAL_NAME_BYTES 128
#define SAL_REASON_BYTES 256

/* Client to daemon, first. An admin client sends a line of JSON instead. */
struct sal_hello {
	uint64_t magic;
	uint32_t major, minor;
	uint32_t size; /* of this struct as the sender knows it */
	uint32_t priority;
	uint32_t weight_milli;
	uint32_t kind; /* enum sal_hello_kind; others read as training */
	uint64_t persist_bytes, ephem_bytes; /* declared; 0: not declared */
	uint64_t total_ns; /* declared; 0: not declared */
	char name[SAL_NAME_BYTES]; /* ends in NUL */
	uint64_t deadline_ns; /* of each iteration; 0: none; since minor 3 */
	/*
	 * How many devices the session wants, since minor 6; 0: not declared. host_devices counts
	 * only if salusd's device is the host: such are the settings of JAX's own CPU backend.
	 */
	uint32_t devices, host_devices;
};

enum sal_hello_kind {
	SAL_HELLO_TRAINING,
	SAL_HELLO_INFERENCE,
	SAL_HELLO_UNDECLARED /* since minor 3; an older daemon reads it as training */
};

/*
 * Daemon to client, with four descriptors: the rings' memory, the daemon's doorbell, the client's
 * doorbell, the first arena segment. fact_bytes of device facts follow. code is 0, or the reason of
 * the refusal; a refusal has no descriptors.
 */
struct sal_welcome {
	uint64_t magic;
	uint32_t major, minor;
	uint32_t size;
	int32_t code;
	uint64_t session;
	uint64_t ring_bytes; /* of each ring's data */
	uint64_t segment_bytes;
	uint64_t fact_bytes;
	uint64_t memory_bytes; /* most the session may hold on the device */
	char reason[SAL_REASON_BYTES];
};

/*
 * Client to daemon, later: the arena is full. Answered by a segment with one descriptor, or a
 * refusal.
 */
struct sal_grow {
	uint64_t bytes;
};

/*
 * Since SAL_MINOR_EXPOSE: with this bit the rest of sal_grow.bytes is the number of an exposed
 * block. The answer has its size and its descriptor, or a code.
 */
#define SAL_GROW_BLOCK (UINT64_C(1) << 63)

struct sal_grown {
	int32_t code;
	uint32_t segment;
	uint64_t bytes;
};

_Static_assert(sizeof(struct sal_hello) == 200, "hello");
_Static_assert(sizeof(struct sal_welcome) == 320, "welcome");

#endif
