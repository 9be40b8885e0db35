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
#include "wire/record.h"

/* The first bytes. The last of them is the version of the format. */
#define DEVICE_MARK 0x01464453u /* "SDF" 1 */
#define PROGRAM_MARK 0x01465053u /* "SPF" 1 */

/* The least an item takes on the wire. */
#define VALUE_BYTES 12u
#define MEMORY_BYTES 20u
#define OUTPUT_BYTES 28u
#define CHIP_BYTES 32u

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

static void pack_memories(struct sal_pack *p, const struct sal_memory_facts *at, size_t count,
			  size_t by_default)
{
	sal_pack_u32(p, (uint32_t)count);
	for (size_t i = 0; i < count; i++) {
		const struct sal_memory_facts *m = &at[i];

		sal_pack_u32(p, (uint32_t)m->id);
		sal_pack_u32(p, (uint32_t)m->kind_id);
		sal_pack_text(p, m->kind);
		sal_pack_text(p, m->debug_string);
		sal_pack_text(p, m->to_string);
	}
	sal_pack_u32(p, (uint32_t)by_default);
}

static void pack_chip(struct sal_pack *p, const struct sal_chip_facts *c)
{
	sal_pack_u32(p, (uint32_t)c->device_id);
	sal_pack_u32(p, (uint32_t)c->local_hardware_id);
	sal_pack_text(p, c->kind);
	sal_pack_text(p, c->debug_string);
	sal_pack_text(p, c->to_string);
	pack_values(p, c->attributes);
	pack_memories(p, c->memories, c->memory_count, c->default_memory);
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
	pack_memories(p, f->memories, f->memory_count, f->default_memory);
	if (f->other_count == 0)
		return; /* clients before minor 6 read no further */
	sal_pack_u32(p, (uint32_t)f->other_count);
	for (size_t i = 0; i < f->other_count; i++)
		pack_chip(p, &f->others[i]);
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

static size_t unpack_default_memory(struct sal_unpack *u, size_t count)
{
	size_t index = sal_unpack_u32(u);

	if (index >= count && count > 0)
		u->failed = true;
	return index;
}

static struct sal_chip_facts unpack_chip(struct sal_unpack *u, struct shelf *shelf)
{
	struct sal_chip_facts c = { .device_id = (int32_t)sal_unpack_u32(u) };

	c.local_hardware_id = (int32_t)sal_unpack_u32(u);
	c.kind = sal_unpack_text(u);
	c.debug_string = sal_unpack_text(u);
	c.to_string = sal_unpack_text(u);
	c.attributes = unpack_values(u, shelf);
	c.memory_count = sal_unpack_count(u, MEMORY_BYTES);
	c.memories = unpack_memories(u, c.memory_count, shelf);
	c.default_memory = unpack_default_memory(u, c.memory_count);
	return c;
}

static void unpack_others(struct sal_unpack *u, struct shelf *shelf, struct sal_device_facts *f)
{
	struct sal_chip_facts *others;

	if (u->left == 0)
		return; /* one device */
	f->other_count = sal_unpack_count(u, CHIP_BYTES);
	if (f->other_count == 0 || f->other_count >= SAL_DEVICES_MAX)
		u->failed = true;
	others = shelf_take(shelf, f->other_count, sizeof(*others));
	for (size_t i = 0; i < f->other_count && !u->failed; i++) {
		struct sal_chip_facts c = unpack_chip(u, shelf);

		if (others)
			others[i] = c;
	}
	f->others = others;
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
	f->default_memory = unpack_default_memory(u, f->memory_count);
	unpack_others(u, shelf, f);
}

/* A program of the first chip alone has none, as clients before minor 6 expect it. */
static void pack_chips(struct sal_pack *p, const struct sal_program_facts *f)
{
	size_t count = f->is_portable ? 0 : f->chip_count;

	if (!f->is_portable && (count == 0 || (count == 1 && f->chips[0] == 0)))
		return;
	sal_pack_u32(p, (uint32_t)count);
	for (size_t i = 0; i < count; i++)
		sal_pack_u32(p, f->chips[i]);
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
	pack_chips(p, f);
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

static void unpack_chips(struct sal_unpack *u, struct shelf *shelf, struct sal_program_facts *f)
{
	bool is_told = u->left > 0;
	uint32_t *chips;

	f->chip_count = is_told ? sal_unpack_count(u, sizeof(uint32_t)) : 1;
	f->is_portable = f->chip_count == 0;
	if (f->is_portable)
		f->chip_count = 1; /* the one that an execution names */
	if (f->chip_count > SAL_DEVICES_MAX)
		u->failed = true;
	chips = shelf_take(shelf, f->chip_count, sizeof(*chips));
	for (size_t i = 0; i < f->chip_count && is_told && !f->is_portable && !u->failed; i++) {
		uint32_t chip = sal_unpack_u32(u);

		if (chip >= SAL_DEVICES_MAX)
			u->failed = true;
		if (f->chip_count == 1 && chip == 0) /* such a program has no list */
			u->failed = true;
		if (chips)
			chips[i] = chip;
	}
	f->chips = chips;
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
	unpack_chips(u, shelf, f);
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
