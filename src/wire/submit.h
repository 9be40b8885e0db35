/* SPDX-License-Identifier: Apache-2.0 */
/* submit - records from a client to the daemon. Include wire/messages.h. */
#ifndef SAL_WIRE_SUBMIT_H
#define SAL_WIRE_SUBMIT_H

#include <stdint.h>

#include "wire/record.h"

/* Compile `program` with `options` as program `id`. Answer: sal_msg_reply. */
struct sal_msg_compile {
	struct sal_header header;
	uint64_t request;
	uint64_t id;
	struct sal_place_in_arena program, options;
	char format[16]; /* ends in NUL */
};

/* Load a blob that SAL_FETCH_SEALED gave. Answer: sal_msg_reply. */
struct sal_msg_load {
	struct sal_header header;
	uint64_t request;
	uint64_t id;
	struct sal_place_in_arena blob;
};

enum sal_fetch {
	SAL_FETCH_FACTS,
	SAL_FETCH_OPTIMIZED,
	SAL_FETCH_SEALED,
	SAL_FETCH_END,
};

/* Copy a part of a program into the arena. Answer: sal_msg_reply; value is the size of the part. */
struct sal_msg_fetch {
	struct sal_header header;
	uint64_t request;
	uint64_t id;
	uint32_t what; /* enum sal_fetch */
	uint32_t reserved;
	struct sal_place_in_arena into; /* size 0: only tell the size */
};

struct sal_msg_unload {
	struct sal_header header;
	uint64_t id;
};

/*
 * New buffer `id`. After rank dims (int64) come the bytes, if `from.size` is 0; else the bytes are
 * in the arena and stay there until SAL_MSG_RELEASED.
 */
struct sal_msg_upload {
	struct sal_header header;
	uint64_t id;
	int32_t type;
	uint32_t rank;
	uint64_t size;
	struct sal_place_in_arena from;
};

/* Answer: sal_msg_done, with the bytes in its tail if `into.size` is 0, else in the arena. */
struct sal_msg_download {
	struct sal_header header;
	uint64_t request;
	uint64_t id;
	uint64_t size;
	struct sal_place_in_arena into;
};

/*
 * Run; outputs become buffers first_output, first_output + 1, ... Ids of arguments (u64) follow,
 * then numbers of retained arguments (u32).
 *
 * A program of several devices has a list of arguments and a list of outputs for each device, one
 * list behind the other. arg_count and output_count are those of one list. The retained arguments
 * are the same in all lists.
 */
struct sal_msg_execute {
	struct sal_header header;
	uint64_t request;
	uint64_t program;
	uint64_t first_output;
	uint32_t output_count;
	uint32_t arg_count;
	uint32_t retained_count; /* arguments that could be donated and are not */
	uint32_t flags; /* enum sal_execute_flag; since SAL_MINOR_CALLS */
};

enum sal_execute_flag {
	SAL_EXECUTE_CALLS = 1, /* the client serves calls of the program */
	SAL_EXECUTE_NESTED = 2, /* a call that the client serves needs this iteration */
	/* The client wants a sal_times with the answer. Daemons without it ignore the flag. */
	SAL_EXECUTE_TIMED = 4,
};

/* Forget buffers; ids (u64) follow. */
struct sal_msg_delete {
	struct sal_header header;
	uint32_t count;
	uint32_t reserved;
};

/* New buffer `to`, a copy of `from`. */
struct sal_msg_copy {
	struct sal_header header;
	uint64_t from, to;
};

/* Answer: sal_msg_done, when the buffer has its contents, or with the reason why it never will. */
struct sal_msg_await {
	struct sal_header header;
	uint64_t request;
	uint64_t id;
};

/* Copy the operands of a call into the arena. Answer: sal_msg_done. */
struct sal_msg_operands {
	struct sal_header header;
	uint64_t request;
	uint64_t call;
	struct sal_place_in_arena into;
};

/*
 * The end of a call. tail_size bytes follow: a sentence if code is not 0; else the results, if
 * `results.size` is 0. Otherwise they are in the arena and stay there until SAL_MSG_RELEASED.
 */
struct sal_msg_answer {
	struct sal_header header;
	uint64_t call;
	int32_t code;
	uint32_t tail_size;
	struct sal_place_in_arena results;
};

/*
 * The client wants to read a buffer in the daemon's memory. Answer: sal_msg_done, when the buffer
 * has its contents, with a struct sal_exposed_place.
 */
struct sal_msg_expose {
	struct sal_header header;
	uint64_t request;
	uint64_t id;
};

_Static_assert(sizeof(struct sal_msg_compile) == 88, "compile");
_Static_assert(sizeof(struct sal_msg_load) == 48, "load");
_Static_assert(sizeof(struct sal_msg_fetch) == 56, "fetch");
_Static_assert(sizeof(struct sal_msg_unload) == 16, "unload");
_Static_assert(sizeof(struct sal_msg_upload) == 56, "upload");
_Static_assert(sizeof(struct sal_msg_download) == 56, "download");
_Static_assert(sizeof(struct sal_msg_execute) == 48, "execute");
_Static_assert(sizeof(struct sal_msg_delete) == 16, "delete");
_Static_assert(sizeof(struct sal_msg_copy) == 24, "copy");
_Static_assert(sizeof(struct sal_msg_await) == 24, "await");
_Static_assert(sizeof(struct sal_msg_operands) == 48, "operands");
_Static_assert(sizeof(struct sal_msg_answer) == 48, "answer");
_Static_assert(sizeof(struct sal_msg_expose) == 24, "expose");

#endif
