/* SPDX-License-Identifier: Apache-2.0 */
/* message - builds a protocol buffer, field by field. Include cmocka first. */
#ifndef SAL_TESTS_MESSAGE_H
#define SAL_TESTS_MESSAGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compile/proto.h"

/* A message under construction. */
struct message {
	char at[1 << 14];
	size_t size;
};

static inline void put_raw(struct message *m, const void *at, size_t size)
{
	assert_true(m->size + size <= sizeof(m->at));
	memcpy(m->at + m->size, at, size);
	m->size += size;
}

static inline void put_varint(struct message *m, uint64_t value)
{
	char bytes[10];

	put_raw(m, bytes, sal_proto_varint(value, bytes));
}

static inline void put_number(struct message *m, uint32_t field, uint64_t value)
{
	put_varint(m, (uint64_t)field << 3 | SAL_PROTO_VARINT);
	put_varint(m, value);
}

static inline void put_bytes(struct message *m, uint32_t field, const void *at, size_t size)
{
	put_varint(m, (uint64_t)field << 3 | SAL_PROTO_BYTES);
	put_varint(m, size);
	put_raw(m, at, size);
}

static inline void put_text(struct message *m, uint32_t field, const char *text)
{
	put_bytes(m, field, text, strlen(text));
}

static inline void put_message(struct message *m, uint32_t field, const struct message *inner)
{
	put_bytes(m, field, inner->at, inner->size);
}

#endif
