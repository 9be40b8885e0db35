/* SPDX-License-Identifier: Apache-2.0 */
/* record - the parts that all records of the rings share. Include wire/messages.h. */
#ifndef SAL_WIRE_RECORD_H
#define SAL_WIRE_RECORD_H

#include <stddef.h>
#include <stdint.h>

/* Bounds every peer may rely on and every receiver enforces. */
#define SAL_RANK_MAX 64
#define SAL_ARGS_MAX 65536
#define SAL_RECORD_MAX (1u << 20)
/* Arrays up to this many bytes ride in the record. */
#define SAL_INLINE_MAX 4096
#define SAL_SEGMENTS_MAX 64
/* Arrays from this size on may be read in the daemon's memory. */
#define SAL_EXPOSE_MIN (1u << 20)
/* The sentence of an answer or of a failed iteration: a Python traceback. */
#define SAL_TEXT_MAX 65536
/* The most operands, and the most results, of a call. */
#define SAL_CALL_ARRAYS_MAX 256
/* The most bytes of one operand or result. */
#define SAL_CALL_BYTES_MAX (UINT64_C(1) << 40)
/* Most devices of a session. */
#define SAL_DEVICES_MAX 64

enum sal_message {
	SAL_MSG_PAD = 0, /* skip to the ring's start */
	/* client to daemon */
	SAL_MSG_COMPILE = 1,
	SAL_MSG_LOAD,
	SAL_MSG_FETCH,
	SAL_MSG_UNLOAD,
	SAL_MSG_UPLOAD,
	SAL_MSG_DOWNLOAD,
	SAL_MSG_EXECUTE,
	SAL_MSG_DELETE,
	SAL_MSG_COPY,
	SAL_MSG_AWAIT,
	SAL_MSG_OPERANDS, /* since SAL_MINOR_CALLS */
	SAL_MSG_ANSWER,
	SAL_MSG_EXPOSE, /* since SAL_MINOR_EXPOSE */
	SAL_MSG_SUBMIT_END,
	/* daemon to client */
	SAL_MSG_REPLY = 64,
	SAL_MSG_DONE,
	SAL_MSG_RELEASED,
	SAL_MSG_REFUSED, /* since SAL_MINOR_REFUSED; a struct sal_msg_done */
	SAL_MSG_CALL, /* since SAL_MINOR_CALLS */
	SAL_MSG_WITHDRAWN, /* since SAL_MINOR_EXPOSE */
	SAL_MSG_COMPLETE_END,
};

struct sal_header {
	uint32_t size; /* of the whole record, header included */
	uint16_t type; /* enum sal_message */
	/* Upload, copy: the device that gets the buffer. Execute: the device of a portable program. */
	uint8_t device;
	union {
		uint8_t devices; /* execute: lists of arguments; 0 or 1: one */
		/*
		 * Upload, copy: the memory of the device that gets the buffer, a number as in
		 * base/facts.h; since SAL_MINOR_MEMORIES.
		 */
		uint8_t memory;
	};
};

/* Bytes in the arena. */
struct sal_place_in_arena {
	uint32_t segment;
	uint32_t reserved;
	uint64_t offset;
	uint64_t size;
};

_Static_assert(sizeof(struct sal_header) == 8, "header");
_Static_assert(sizeof(struct sal_place_in_arena) == 24, "place");

/* Size of a record with so many bytes behind its fixed part. */
static inline uint32_t sal_record_size(size_t fixed, size_t tail)
{
	return (uint32_t)((fixed + tail + 7) & ~(size_t)7);
}

#endif
