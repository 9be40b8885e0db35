/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/proto.h"

#include <stdlib.h>
#include <string.h>

/* Kinds of fields. */
enum {
	VARINT = 0,
	BYTES = 2
};

static void put(struct adp_proto *p, const void *bytes, size_t size)
{
	size_t room = p->room;
	char *more;

	if (p->failed || size == 0)
		return;
	while (room - p->size < size)
		room = room ? room * 2 : 64;
	if (room != p->room) {
		more = realloc(p->at, room);
		if (!more) {
			p->failed = true;
			return;
		}
		p->at = more;
		p->room = room;
	}
	memcpy(p->at + p->size, bytes, size);
	p->size += size;
}

static void put_varint(struct adp_proto *p, uint64_t value)
{
	char bytes[10];
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[n++] = (char)(value | 0x80);
	bytes[n++] = (char)value;
	put(p, bytes, n);
}

void adp_proto_number(struct adp_proto *p, int field, uint64_t value)
{
	put_varint(p, (uint64_t)field << 3 | VARINT);
	put_varint(p, value);
}

void adp_proto_bytes(struct adp_proto *p, int field, const void *bytes, size_t size)
{
	put_varint(p, (uint64_t)field << 3 | BYTES);
	put_varint(p, size);
	put(p, bytes, size);
}

void adp_proto_text(struct adp_proto *p, int field, const char *text)
{
	adp_proto_bytes(p, field, text, strlen(text));
}

void adp_proto_message(struct adp_proto *p, int field, struct adp_proto *take_child)
{
	p->failed |= take_child->failed;
	adp_proto_bytes(p, field, take_child->at, take_child->size);
	adp_proto_free(take_child);
}

void adp_proto_append(struct adp_proto *p, struct adp_proto *take_fields)
{
	p->failed |= take_fields->failed;
	put(p, take_fields->at, take_fields->size);
	adp_proto_free(take_fields);
}

void adp_proto_free(struct adp_proto *p)
{
	free(p->at);
	*p = (struct adp_proto){ 0 };
}
