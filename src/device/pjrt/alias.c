/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pjrt/alias.h"

#include <stdlib.h>

/* Field numbers; see the header. */
enum {
	FIELD_MODULE = 1,
	FIELD_ALIAS = 8,
	FIELD_ENTRIES = 1,
	FIELD_PARAMETER = 2,
};

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_8_BYTES = 1,
	WIRE_LENGTH = 2,
	WIRE_4_BYTES = 5,
};

/*
 * More parameters than any program has. The limit refuses a damaged program that would need much
 * memory.
 */
#define PARAMETER_MAX (1u << 24)

/* One field of a message. */
struct field {
	uint64_t number;
	enum wire_type type;
	uint64_t value; /* WIRE_VARINT */
	struct sal_text body; /* WIRE_LENGTH */
};

struct found {
	uint32_t *at; /* owned */
	size_t count, room;
};

static bool read_varint(struct sal_text *in, uint64_t *out_value)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 64; shift += 7) {
		unsigned char byte;

		if (in->size == 0)
			return false;
		byte = (unsigned char)*in->at++;
		in->size--;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*out_value = value;
			return true;
		}
	}
	return false;
}

static bool read_body(struct sal_text *in, uint64_t size, struct sal_text *out_body)
{
	if (size > in->size)
		return false;
	*out_body = (struct sal_text){ .at = in->at, .size = (size_t)size };
	in->at += size;
	in->size -= size;
	return true;
}

/* Removes the next field from a message that is not empty. False if the field is damaged. */
static bool read_field(struct sal_text *in, struct field *out)
{
	uint64_t tag;
	uint64_t size;

	*out = (struct field){ 0 };
	if (!read_varint(in, &tag))
		return false;
	out->number = tag >> 3;
	out->type = (enum wire_type)(tag & 7);
	if (out->number == 0)
		return false;
	switch (out->type) {
	case WIRE_VARINT:
		return read_varint(in, &out->value);
	case WIRE_LENGTH:
		return read_varint(in, &size) && read_body(in, size, &out->body);
	case WIRE_8_BYTES:
		return read_body(in, 8, &out->body);
	case WIRE_4_BYTES:
		return read_body(in, 4, &out->body);
	default: /* groups are obsolete */
		return false;
	}
}

static int found_add(struct found *found, uint64_t parameter, struct sal_err *err)
{
	if (parameter > PARAMETER_MAX)
		return sal_err_set(err, SAL_DATA_LOSS,
				   "the program has an alias of an impossible parameter");
	if (found->count == found->room) {
		size_t room = found->room ? 2 * found->room : 16;
		uint32_t *at = realloc(found->at, room * sizeof(*at));

		if (!at)
			return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for aliases");
		found->at = at;
		found->room = room;
	}
	found->at[found->count++] = (uint32_t)parameter;
	return SAL_OK;
}

static int damaged(struct sal_err *err)
{
	return sal_err_set(err, SAL_DATA_LOSS, "the optimised program is damaged");
}

static int read_entry(struct sal_text in, struct found *found, struct sal_err *err)
{
	uint64_t parameter = 0;
	struct field field;

	while (in.size > 0) {
		if (!read_field(&in, &field))
			return damaged(err);
		if (field.number == FIELD_PARAMETER && field.type == WIRE_VARINT)
			parameter = field.value;
	}
	return found_add(found, parameter, err);
}

static int read_alias(struct sal_text in, struct found *found, struct sal_err *err)
{
	struct field field;
	int rc;

	while (in.size > 0) {
		if (!read_field(&in, &field))
			return damaged(err);
		if (field.number != FIELD_ENTRIES || field.type != WIRE_LENGTH)
			continue;
		rc = read_entry(field.body, found, err);
		if (rc < 0)
			return rc;
	}
	return SAL_OK;
}

static int read_module(struct sal_text in, struct found *found, struct sal_err *err)
{
	struct field field;
	int rc;

	while (in.size > 0) {
		if (!read_field(&in, &field))
			return damaged(err);
		if (field.number != FIELD_ALIAS || field.type != WIRE_LENGTH)
			continue;
		rc = read_alias(field.body, found, err);
		if (rc < 0)
			return rc;
	}
	return SAL_OK;
}

static int read_program(struct sal_text in, struct found *found, struct sal_err *err)
{
	bool has_module = false;
	struct field field;
	int rc;

	while (in.size > 0) {
		if (!read_field(&in, &field))
			return damaged(err);
		if (field.number != FIELD_MODULE || field.type != WIRE_LENGTH)
			continue;
		has_module = true;
		rc = read_module(field.body, found, err);
		if (rc < 0)
			return rc;
	}
	return has_module ? SAL_OK : damaged(err);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* A parameter that is a tuple has one entry for each of its elements. */
static void sort_unique(struct found *found)
{
	size_t kept = 0;

	if (found->count == 0)
		return;
	qsort(found->at, found->count, sizeof(*found->at), compare);
	for (size_t i = 1; i < found->count; i++) {
		if (found->at[i] != found->at[kept])
			found->at[++kept] = found->at[i];
	}
	found->count = kept + 1;
}

int sal_alias_read(struct sal_text program, uint32_t **out_parameters, size_t *out_count,
		   struct sal_err *err)
{
	struct found found = { 0 };
	int rc;

	*out_parameters = NULL;
	*out_count = 0;
	rc = read_program(program, &found, err);
	if (rc < 0) {
		free(found.at);
		return rc;
	}
	sort_unique(&found);
	*out_parameters = found.at;
	*out_count = found.count;
	return SAL_OK;
}
