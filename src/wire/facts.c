/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing runs twice, first to count. So does unpacking: what is read into arrays goes to a shelf,
 * which at first has no memory and only adds up what it will take. The wire form of every item is
 * at least a fixed part of its form in memory, so hostile bytes cannot ask for more than a small
 * multiple of their own size.
 */
#include "wire/facts.h"

#include <stdalign.h>
#include <stdlib.h>

#include "base/array.h"
#include "wire/pack.h"

/* The first bytes. The last of them is the version of the format. */
#define DEVICE_MARK 0x01464453u /* "SDF" 1 */
#define PROGRAM_MARK 0x01465053u /* "SPF" 1 */

/* The least an item takes on the wire. */
#define VALUE_BYTES 12u
#define MEMORY_BYTES 20u
#define OUTPUT_BYTES 28u

struct shelf {
	char *at; /* NULL: only count */
	size_t used;
};

static void *shelf_take(struct shelf *shelf, size_t count, size_t item_size)
{
	void *at = shelf->at ? shelf->at + shelf->used : NULL;
	size_t align = alignof(max_align_t);

	/* Cannot overflow: count is bounded by the bytes that are there. */
	shelf->used += (count * item_size + align - 1) / align * align;
	return at;
}

static void pack_value(struct sal_pack *p, const struct sal_value *value)
{
	sal_pack_text(p, value->name);
	sal_pack_u32(p, value->kind);
	switch (value->kind) {
	case SAL_VALUE_TEXT:
		sal_pack_text(p, value->text);
		break;
	case SAL_VALUE_INT:
	case SAL_VALUE_BOOL:
		sal_pack_i64(p, value->number);
		break;
	case SAL_VALUE_INTS:
		sal_pack_u32(p, (uint32_t)value->number_count);
		for (size_t i = 0; i < value->number_count; i++)
			sal_pack_i64(p, value->numbers[i]);
		break;
	case SAL_VALUE_FLOAT:
		sal_pack_f32(p, value->real);
		break;
	}
}

static void pack_values(struct sal_pack *p, struct sal_values values)
{
	sal_pack_u32(p, (uint32_t)values.count);
	for (size_t i = 0; i < values.count; i++)
		pack_value(p, &values.at[i]);
}

static const int64_t *unpack_numbers(struct sal_unpack *u, size_t count, struct shelf *shelf)
{
	int64_t *numbers = shelf_take(shelf, count, sizeof(*numbers));

	for (size_t i = 0; i < count; i++) {
		int64_t number = sal_unpack_i64(u);

		if (numbers)
			numbers[i] = number;
	}
	return numbers;
}

static struct sal_value unpack_value(struct sal_unpack *u, struct shelf *shelf)
{
	struct sal_value value = { .name = sal_unpack_text(u) };
	uint32_t kind = sal_unpack_u32(u);

	switch (kind) {
	case SAL_VALUE_TEXT:
		value.text = sal_unpack_text(u);
		break;
	case SAL_VALUE_INT:
	case SAL_VALUE_BOOL:
		value.number = sal_unpack_i64(u);
		break;
	case SAL_VALUE_INTS:
		value.number_count = sal_unpack_count(u, sizeof(int64_t));
		value.numbers = unpack_numbers(u, value.number_count, shelf);
		break;
	case SAL_VALUE_FLOAT:
		value.real = sal_unpack_f32(u);
		break;
	default:
		u->failed = true;
		kind = SAL_VALUE_TEXT;
		break;
	}
	value.kind = (enum sal_value_kind)kind;
	return value;
}

static struct sal_values unpack_values(struct sal_unpack *u, struct shelf *shelf)
{
	size_t count = sal_unpack_count(u, VALUE_BYTES);
	struct sal_value *at = shelf_take(shelf, count, sizeof(*at));

	for (size_t i = 0; i < count && !u->failed; i++) {
		struct sal_value value = unpack_value(u, shelf);

		if (at)
			at[i] = value;
	}
	return (struct sal_values){ .at = at, .count = count };
}

static void pack_device(struct sal_pack *p, const struct sal_device_facts *f)
{
	sal_pack_u32(p, DEVICE_MARK);
	sal_pack_text(p, f->platform_name);
	sal_pack_text(p, f->platform_version);
	pack_values(p, f->plugin_attributes);
	pack_values(p, f->topology_attributes);
	sal_pack_text(p, f->topology);
	sal_pack_u32(p, (uint32_t)f->device_id);
	sal_pack_u32(p, (uint32_t)f->process_index);
	sal_pack_u32(p, (uint32_t)f->local_hardware_id);
	sal_pack_text(p, f->kind);
	sal_pack_text(p, f->debug_string);
	sal_pack_text(p, f->to_string);
	pack_values(p, f->device_attributes);
	sal_pack_u32(p, (uint32_t)f->memory_count);
	for (size_t i = 0; i < f->memory_count; i++) {
		const struct sal_memory_facts *m = &f->memories[i];

		sal_pack_u32(p, (uint32_t)m->id);
		sal_pack_u32(p, (uint32_t)m->kind_id);
		sal_pack_text(p, m->kind);
		sal_pack_text(p, m->debug_string);
		sal_pack_text(p, m->to_string);
	}
	sal_pack_u32(p, (uint32_t)f->default_memory);
}

static const struct sal_memory_facts *unpack_memories(struct sal_unpack *u, size_t count,
						      struct shelf *shelf)
{
	struct sal_memory_facts *memories = shelf_take(shelf, count, sizeof(*memories));

	for (size_t i = 0; i < count && !u->failed; i++) {
		struct sal_memory_facts m = { .id = (int32_t)sal_unpack_u32(u) };

		m.kind_id = (int32_t)sal_unpack_u32(u);
		m.kind = sal_unpack_text(u);
		m.debug_string = sal_unpack_text(u);
		m.to_string = sal_unpack_text(u);
		if (memories)
			memories[i] = m;
	}
	return memories;
}

static void unpack_device(struct sal_unpack *u, struct shelf *shelf, struct sal_device_facts *f)
{
	if (sal_unpack_u32(u) != DEVICE_MARK)
		u->failed = true;
	f->platform_name = sal_unpack_text(u);
	f->platform_version = sal_unpack_text(u);
	f->plugin_attributes = unpack_values(u, shelf);
	f->topology_attributes = unpack_values(u, shelf);
	f->topology = sal_unpack_text(u);
	f->device_id = (int32_t)sal_unpack_u32(u);
	f->process_index = (int32_t)sal_unpack_u32(u);
	f->local_hardware_id = (int32_t)sal_unpack_u32(u);
	f->kind = sal_unpack_text(u);
	f->debug_string = sal_unpack_text(u);
	f->to_string = sal_unpack_text(u);
	f->device_attributes = unpack_values(u, shelf);
	f->memory_count = sal_unpack_count(u, MEMORY_BYTES);
	f->memories = unpack_memories(u, f->memory_count, shelf);
	f->default_memory = sal_unpack_u32(u);
	if (f->default_memory >= f->memory_count && f->memory_count > 0)
		u->failed = true;
}

static void pack_program(struct sal_pack *p, const struct sal_program_facts *f)
{
	const struct sal_program_memory *m = &f->memory;
	const int64_t sizes[] = {
		m->generated_code, m->argument,	   m->output,
		m->alias,	   m->temp,	   m->host_generated_code,
		m->host_argument,  m->host_output, m->host_alias,
		m->host_temp,	   m->peak,
	};

	sal_pack_u32(p, PROGRAM_MARK);
	sal_pack_text(p, f->name);
	sal_pack_text(p, f->fingerprint);
	sal_pack_u32(p, f->replicas);
	sal_pack_u32(p, f->partitions);
	sal_pack_i64(p, f->code_bytes);
	sal_pack_u32(p, (uint32_t)f->output_count);
	for (size_t i = 0; i < f->output_count; i++) {
		const struct sal_output_facts *o = &f->outputs[i];

		sal_pack_u32(p, (uint32_t)o->type);
		sal_pack_u32(p, o->rank);
		for (uint32_t k = 0; k < o->rank; k++)
			sal_pack_i64(p, o->dims[k]);
		sal_pack_text(p, o->memory_kind);
		sal_pack_text(p, o->layout);
		sal_pack_u64(p, o->bytes);
	}
	sal_pack_u32(p, (uint32_t)f->donated_count);
	for (size_t i = 0; i < f->donated_count; i++)
		sal_pack_u32(p, f->donated[i]);
	for (size_t i = 0; i < SAL_COUNT(sizes); i++)
		sal_pack_i64(p, sizes[i]);
	pack_values(p, f->costs);
	sal_pack_text(p, f->device_assignment);
}

static const struct sal_output_facts *unpack_outputs(struct sal_unpack *u, size_t count,
						     struct shelf *shelf)
{
	struct sal_output_facts *outputs = shelf_take(shelf, count, sizeof(*outputs));

	for (size_t i = 0; i < count && !u->failed; i++) {
		struct sal_output_facts o = { .type = (int32_t)sal_unpack_u32(u) };

		o.rank = (uint32_t)sal_unpack_count(u, sizeof(int64_t));
		o.dims = unpack_numbers(u, o.rank, shelf);
		o.memory_kind = sal_unpack_text(u);
		o.layout = sal_unpack_text(u);
		o.bytes = sal_unpack_u64(u);
		if (outputs)
			outputs[i] = o;
	}
	return outputs;
}

/* Ascending, as written: a search may rely on it. */
static const uint32_t *unpack_donated(struct sal_unpack *u, size_t count, struct shelf *shelf)
{
	uint32_t *donated = shelf_take(shelf, count, sizeof(*donated));
	uint32_t last = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t parameter = sal_unpack_u32(u);

		if (i > 0 && parameter <= last)
			u->failed = true;
		last = parameter;
		if (donated)
			donated[i] = parameter;
	}
	return donated;
}

static void unpack_program(struct sal_unpack *u, struct shelf *shelf, struct sal_program_facts *f)
{
	struct sal_program_memory *m = &f->memory;
	int64_t *const sizes[] = {
		&m->generated_code, &m->argument,    &m->output,
		&m->alias,	    &m->temp,	     &m->host_generated_code,
		&m->host_argument,  &m->host_output, &m->host_alias,
		&m->host_temp,	    &m->peak,
	};

	if (sal_unpack_u32(u) != PROGRAM_MARK)
		u->failed = true;
	f->name = sal_unpack_text(u);
	f->fingerprint = sal_unpack_text(u);
	f->replicas = sal_unpack_u32(u);
	f->partitions = sal_unpack_u32(u);
	f->code_bytes = sal_unpack_i64(u);
	f->output_count = sal_unpack_count(u, OUTPUT_BYTES - sizeof(uint32_t));
	f->outputs = unpack_outputs(u, f->output_count, shelf);
	f->donated_count = sal_unpack_count(u, sizeof(uint32_t));
	f->donated = unpack_donated(u, f->donated_count, shelf);
	for (size_t i = 0; i < SAL_COUNT(sizes); i++)
		*sizes[i] = sal_unpack_i64(u);
	f->costs = unpack_values(u, shelf);
	f->device_assignment = sal_unpack_text(u);
}

void *sal_device_facts_pack(const struct sal_device_facts *facts, size_t *out_size)
{
	struct sal_pack p;
	void *bytes;

	*out_size = 0;
	sal_pack_init(&p, NULL, 0);
	pack_device(&p, facts);
	bytes = p.failed ? NULL : malloc(p.used);
	if (!bytes)
		return NULL;
	sal_pack_init(&p, bytes, p.used);
	pack_device(&p, facts);
	*out_size = p.used;
	return bytes;
}

void *sal_program_facts_pack(const struct sal_program_facts *facts, size_t *out_size)
{
	struct sal_pack p;
	void *bytes;

	*out_size = 0;
	sal_pack_init(&p, NULL, 0);
	pack_program(&p, facts);
	bytes = p.failed ? NULL : malloc(p.used);
	if (!bytes)
		return NULL;
	sal_pack_init(&p, bytes, p.used);
	pack_program(&p, facts);
	*out_size = p.used;
	return bytes;
}

int sal_device_facts_unpack(const void *bytes, size_t size, struct sal_device_facts **out_facts,
			    struct sal_err *err)
{
	struct sal_device_facts count = { 0 };
	struct sal_unpack u;
	struct shelf shelf = { 0 };

	*out_facts = NULL;
	sal_unpack_init(&u, bytes, size);
	shelf_take(&shelf, 1, sizeof(count));
	unpack_device(&u, &shelf, &count);
	if (u.failed || u.left > 0)
		return sal_err_set(err, SAL_DATA_LOSS, "%zu bytes are no device facts", size);

	shelf.at = calloc(1, shelf.used);
	if (!shelf.at)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for device facts");
	shelf.used = 0;
	*out_facts = shelf_take(&shelf, 1, sizeof(count));
	sal_unpack_init(&u, bytes, size);
	unpack_device(&u, &shelf, *out_facts);
	return SAL_OK;
}

int sal_program_facts_unpack(const void *bytes, size_t size, struct sal_program_facts **out_facts,
			     struct sal_err *err)
{
	struct sal_program_facts count = { 0 };
	struct sal_unpack u;
	struct shelf shelf = { 0 };

	*out_facts = NULL;
	sal_unpack_init(&u, bytes, size);
	shelf_take(&shelf, 1, sizeof(count));
	unpack_program(&u, &shelf, &count);
	if (u.failed || u.left > 0)
		return sal_err_set(err, SAL_DATA_LOSS, "%zu bytes are no program facts", size);

	shelf.at = calloc(1, shelf.used);
	if (!shelf.at)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for program facts");
	shelf.used = 0;
	*out_facts = shelf_take(&shelf, 1, sizeof(count));
	sal_unpack_init(&u, bytes, size);
	unpack_program(&u, &shelf, *out_facts);
	return SAL_OK;
}
