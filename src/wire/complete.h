/* SPDX-License-Identifier: Apache-2.0 */
/* complete - records from the daemon to a client. Include wire/messages.h. */
#ifndef SAL_WIRE_COMPLETE_H
#define SAL_WIRE_COMPLETE_H

#include <stdint.h>

#include "wire/record.h"

/* Answer to compile, load and fetch; a sentence follows if code is not 0. */
struct sal_msg_reply {
	struct sal_header header;
	uint64_t request;
	int32_t code;
	uint32_t text_size;
	uint64_t value; /* compile, load: size of the facts; fetch: size of the part */
};

/*
 * An execution, a download or an await ended; tail_size bytes follow: a sentence if code is not 0,
 * else data.
 */
struct sal_msg_done {
	struct sal_header header;
	uint64_t request;
	int32_t code;
	uint32_t tail_size;
};

/*
 * The tail of an execution's done, if the client asked for it and the code is 0. Moments are
 * CLOCK_MONOTONIC, in nanoseconds. The session was last paged out and in then; 0: never.
 */
struct sal_times {
	uint64_t submit_ns, grant_ns, start_ns, end_ns;
	uint64_t out_from_ns, out_until_ns;
	uint64_t in_from_ns, in_until_ns;
	uint32_t lane;
	uint32_t reserved;
};

/*
 * SAL_MSG_REFUSED has the layout of a done, with a code: an execution ended before it started. The
 * client has its donated arguments back.
 */

/* The daemon no longer uses these bytes of the arena. */
struct sal_msg_released {
	struct sal_header header;
	struct sal_place_in_arena place;
};

/*
 * A running program calls function `index` of its client, and waits for sal_msg_answer. A
 * sal_call_shape for each operand, then for each result follows. Then the operands follow, if they
 * have SAL_INLINE_MAX bytes or less; else the client asks for them with sal_msg_operands. Each
 * array starts at a multiple of SAL_CALL_ALIGN bytes: see sal_call_span.
 */
struct sal_msg_call {
	struct sal_header header;
	uint64_t call; /* the daemon's number for it */
	uint64_t request; /* of the execution */
	uint64_t index;
	uint64_t operand_bytes, result_bytes; /* with the gaps between arrays */
	uint32_t operand_count, result_count;
};

/* `rank` dimensions (int64) follow. */
struct sal_call_shape {
	int32_t type; /* number of XLA's element type */
	uint32_t rank;
	uint64_t bytes;
};

#define SAL_CALL_ALIGN 64u
/* The type of a token, which only orders calls and has no bytes. */
#define SAL_TYPE_TOKEN 17

/* Bytes from the start of an array to the start of the next one. */
static inline uint64_t sal_call_span(uint64_t bytes)
{
	return (bytes + SAL_CALL_ALIGN - 1) / SAL_CALL_ALIGN * SAL_CALL_ALIGN;
}

static inline const struct sal_call_shape *sal_call_next(const struct sal_call_shape *shape)
{
	return (const struct sal_call_shape *)((const int64_t *)(shape + 1) + shape->rank);
}

/* The tail of the answer to sal_msg_expose: the buffer is all of this block, from its start. */
struct sal_exposed_place {
	uint64_t block; /* its number; 0: the client must download the buffer */
	uint64_t bytes; /* of the block, at least those of the buffer */
};

/*
 * The daemon does not use this block any more. If no buffer of the client is in it, the client
 * unmaps it; else when the last of them is destroyed.
 */
struct sal_msg_withdrawn {
	struct sal_header header;
	uint64_t block;
};

_Static_assert(sizeof(struct sal_exposed_place) == 16, "exposed place");
_Static_assert(sizeof(struct sal_msg_withdrawn) == 16, "withdrawn");
_Static_assert(sizeof(struct sal_msg_call) == 56, "call");
_Static_assert(sizeof(struct sal_call_shape) == 16, "shape");
_Static_assert(sizeof(struct sal_msg_reply) == 32, "reply");
_Static_assert(sizeof(struct sal_times) == 72, "times");
_Static_assert(sizeof(struct sal_msg_done) == 24, "done");
_Static_assert(sizeof(struct sal_msg_released) == 32, "released");

#endif
