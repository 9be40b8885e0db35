/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/proto.h"

#include <string.h>

#define TAG_BYTES 5
#define VARINT_BYTES 10

static int take_varint(struct sal_text *rest, size_t bytes_max, uint64_t *out_value)
{
	uint64_t value = 0;

	for (size_t i = 0; i < bytes_max && i < rest->size; i++) {
		uint64_t bits = (unsigned char)rest->at[i] & 0x7f;

		if (i == VARINT_BYTES - 1 && bits > 1)
			return -SAL_INVALID_ARGUMENT;
		value |= bits << (7 * i);
		if (((unsigned char)rest->at[i] & 0x80) == 0) {
			rest->at += i + 1;
			rest->size -= i + 1;
			*out_value = value;
			return SAL_OK;
		}
	}
	return -SAL_INVALID_ARGUMENT;
}

int sal_proto_take_varint(struct sal_text *rest, uint64_t *out_value)
{
	return take_varint(rest, VARINT_BYTES, out_value);
}

static int take_bytes(struct sal_text *rest, uint64_t size, struct sal_text *out_bytes)
{
	if (size > rest->size)
		return -SAL_INVALID_ARGUMENT;
	out_bytes->at = rest->at;
	out_bytes->size = (size_t)size;
	rest->at += size;
	rest->size -= (size_t)size;
	return SAL_OK;
}

static int take_content(struct sal_text *rest, struct sal_proto_field *field)
{
	uint64_t size;
	int rc;

	switch (field->type) {
	case SAL_PROTO_VARINT:
		return take_varint(rest, VARINT_BYTES, &field->value);
	case SAL_PROTO_FIXED64:
		return take_bytes(rest, 8, &field->bytes);
	case SAL_PROTO_FIXED32:
		return take_bytes(rest, 4, &field->bytes);
	case SAL_PROTO_BYTES:
		rc = take_varint(rest, VARINT_BYTES, &size);
		return rc < 0 ? rc : take_bytes(rest, size, &field->bytes);
	default:
		return -SAL_INVALID_ARGUMENT;
	}
}

int sal_proto_next(struct sal_text *rest, struct sal_proto_field *out_field)
{
	const char *start = rest->at;
	uint64_t tag;
	int rc;

	memset(out_field, 0, sizeof(*out_field));
	if (rest->size == 0)
		return 0;
	rc = take_varint(rest, TAG_BYTES, &tag);
	if (rc < 0)
		return rc;
	if (tag > UINT32_MAX || tag >> 3 == 0)
		return -SAL_INVALID_ARGUMENT;
	out_field->number = (uint32_t)(tag >> 3);
	out_field->type = (enum sal_proto_type)(tag & 7);
	rc = take_content(rest, out_field);
	if (rc < 0)
		return rc;
	out_field->whole.at = start;
	out_field->whole.size = (size_t)(rest->at - start);
	return 1;
}

size_t sal_proto_varint(uint64_t value, char *out)
{
	size_t size = 0;

	for (; value >= 0x80; value >>= 7)
		out[size++] = (char)(unsigned char)(value | 0x80);
	out[size++] = (char)(unsigned char)value;
	return size;
}
