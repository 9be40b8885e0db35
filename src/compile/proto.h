/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto - reads the wire format of protocol buffers, field by field, without knowing the message.
 *
 * This reader is stricter than the format where other readers differ, so that the vendor reads the
 * same fields that we checked: a tag has at most five bytes and 32 bits, field number 0 and groups
 * are refused.
 */
#ifndef SAL_COMPILE_PROTO_H
#define SAL_COMPILE_PROTO_H

#include "base/err.h"
#include "base/facts.h"

enum sal_proto_type {
	SAL_PROTO_VARINT = 0,
	SAL_PROTO_FIXED64 = 1,
	SAL_PROTO_BYTES = 2,
	SAL_PROTO_FIXED32 = 5,
};

/* Both texts point into the message. */
struct sal_proto_field {
	uint32_t number;
	enum sal_proto_type type;
	uint64_t value; /* SAL_PROTO_VARINT */
	struct sal_text bytes; /* SAL_PROTO_BYTES: the content */
	struct sal_text whole; /* tag, length and content */
};

/*
 * Removes the next field from *rest: 1, 0 at the end, or -SAL_INVALID_ARGUMENT if the field is
 * malformed.
 */
int sal_proto_next(struct sal_text *rest, struct sal_proto_field *out_field);

/* Removes a varint from *rest, for packed repeated fields. */
int sal_proto_take_varint(struct sal_text *rest, uint64_t *out_value);

/* Writes value as a varint of at most 10 bytes, and returns the number of bytes. */
size_t sal_proto_varint(uint64_t value, char *out);

#endif
