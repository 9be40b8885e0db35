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
 * SAL_MSG_REFUSED has the layout of a done, with a code: an execution ended before it started. The
 * client has its donated arguments back.
 */

/* The daemon no longer uses these bytes of the arena. */
struct sal_msg_released {
	struct sal_header header;
	struct sal_place_in_arena place;
};

_Static_assert(sizeof(struct sal_msg_reply) == 32, "reply");
_Static_assert(sizeof(struct sal_msg_done) == 24, "done");
_Static_assert(sizeof(struct sal_msg_released) == 32, "released");

#endif
