/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/pack.h"

#include <string.h>

void sal_pack_init(struct sal_pack *p, void *at, size_t size)
{
	*p = (struct sal_pack){ .at = at, .size = at ? size : SIZE_MAX };
}

void sal_pack_bytes(struct sal_pack *p, const void *bytes, size_t size)
{
	if (p->failed || size > p->size - p->used) {
		p->failed = true;
		return;
	}
	if (p->at && size > 0)
		memcpy(p->at + p->used, bytes, size);
	p->used += size;
}

static void pack_number(struct sal_pack *p, uint64_t value, size_t size)
{
	unsigned char bytes[8];

	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(value >> (8 * i));
	sal_pack_bytes(p, bytes, size);
}

void sal_pack_u32(struct sal_pack *p, uint32_t value)
{
	pack_number(p, value, 4);
}

void sal_pack_u64(struct sal_pack *p, uint64_t value)
{
	pack_number(p, value, 8);
}

void sal_pack_i64(struct sal_pack *p, int64_t value)
{
	pack_number(p, (uint64_t)value, 8);
}

void sal_pack_f32(struct sal_pack *p, float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	pack_number(p, bits, 4);
}

void sal_pack_text(struct sal_pack *p, struct sal_text text)
{
	if (text.size > UINT32_MAX)
		p->failed = true;
	sal_pack_u32(p, (uint32_t)text.size);
	sal_pack_bytes(p, text.at, text.size);
}

void sal_unpack_init(struct sal_unpack *u, const void *at, size_t size)
{
	*u = (struct sal_unpack){ .at = at, .left = size };
}

const void *sal_unpack_bytes(struct sal_unpack *u, size_t size)
{
	const unsigned char *at = u->at;

	if (u->failed || size > u->left) {
		u->failed = true;
		return NULL;
	}
	if (size > 0)
		u->at += size;
	u->left -= size;
	return at;
}

static uint64_t unpack_number(struct sal_unpack *u, size_t size)
{
	const unsigned char *at = sal_unpack_bytes(u, size);
	uint64_t value = 0;

	for (size_t i = 0; at && i < size; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

uint32_t sal_unpack_u32(struct sal_unpack *u)
{
	return (uint32_t)unpack_number(u, 4);
}

uint64_t sal_unpack_u64(struct sal_unpack *u)
{
	return unpack_number(u, 8);
}

int64_t sal_unpack_i64(struct sal_unpack *u)
{
	return (int64_t)unpack_number(u, 8);
}

float sal_unpack_f32(struct sal_unpack *u)
{
	uint32_t bits = (uint32_t)unpack_number(u, 4);
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

struct sal_text sal_unpack_text(struct sal_unpack *u)
{
	struct sal_text text = { .size = sal_unpack_u32(u) };

	text.at = sal_unpack_bytes(u, text.size);
	if (!text.at)
		text.size = 0;
	return text;
}

size_t sal_unpack_count(struct sal_unpack *u, size_t item_bytes)
{
	size_t count = sal_unpack_u32(u);

	if (count > u->left / item_bytes) {
		u->failed = true;
		return 0;
	}
	return count;
}
