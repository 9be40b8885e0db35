/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/hlo.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "compile/proto.h"

/* Field numbers of xla/service/hlo.proto and xla/xla_data.proto. */
enum {
	CONFIGURED_MODULE = 1,
	MODULE_COMPUTATIONS = 3,
	COMPUTATION_NAME = 1,
	COMPUTATION_INSTRUCTIONS = 2,
	COMPUTATION_ID = 5,
	COMPUTATION_ROOT = 6,
	INSTRUCTION_NAME = 1,
	INSTRUCTION_OPCODE = 2,
	INSTRUCTION_SHAPE = 3,
	INSTRUCTION_LITERAL = 8,
	INSTRUCTION_PARAMETER = 9,
	INSTRUCTION_FUSION = 11,
	INSTRUCTION_TARGET = 28,
	INSTRUCTION_ID = 35,
	INSTRUCTION_OPERANDS = 36,
	INSTRUCTION_CALLED = 38,
	INSTRUCTION_STABLE = 60,
	INSTRUCTION_DIRECTION = 63,
	INSTRUCTION_COMPARISON = 72,
	SHAPE_TYPE = 2,
	SHAPE_DIMS = 3,
	SHAPE_PARTS = 4,
	SHAPE_DYNAMIC = 6,
	LITERAL_PREDS = 2,
};

/* The destination of a field that occurs at most once: a text or a number. */
struct slot {
	uint32_t number;
	struct sal_text *text;
	uint64_t *value;
};

/* The destination of a repeated number. */
struct list {
	int64_t *at;
	size_t room, *count;
};

bool sal_text_is(struct sal_text text, const char *name)
{
	return text.size == strlen(name) && memcmp(text.at, name, text.size) == 0;
}

static int damaged(struct sal_err *err)
{
	return sal_err_set(err, SAL_DATA_LOSS, "the program is not a well-formed HloModuleProto");
}

/* Stores a field in its slot. *seen has one bit for each slot. */
static int fill(const struct slot *slots, size_t count, const struct sal_proto_field *f,
		uint32_t *seen)
{
	for (size_t i = 0; i < count; i++) {
		enum sal_proto_type type = slots[i].text ? SAL_PROTO_BYTES : SAL_PROTO_VARINT;

		if (slots[i].number != f->number)
			continue;
		if (f->type != type || (*seen & 1u << i))
			return -SAL_DATA_LOSS;
		*seen |= 1u << i;
		if (slots[i].text)
			*slots[i].text = f->bytes;
		else
			*slots[i].value = f->value;
	}
	return SAL_OK;
}

static void list_add(const struct list *list, uint64_t value)
{
	if (*list->count < list->room)
		list->at[*list->count] = (int64_t)value;
	++*list->count;
}

/* Repeated numbers arrive one by one or packed. */
static int list_fill(const struct list *list, const struct sal_proto_field *f)
{
	struct sal_text rest = f->bytes;
	uint64_t value;

	if (f->type == SAL_PROTO_VARINT) {
		list_add(list, f->value);
		return SAL_OK;
	}
	if (f->type != SAL_PROTO_BYTES)
		return -SAL_DATA_LOSS;
	while (rest.size > 0) {
		if (sal_proto_take_varint(&rest, &value) < 0)
			return -SAL_DATA_LOSS;
		list_add(list, value);
	}
	return SAL_OK;
}

/* Modules */

static int read_computation(struct sal_text body, struct sal_hlo_computation *out)
{
	uint64_t id = 0;
	uint64_t root = 0;
	const struct slot slots[] = {
		{ COMPUTATION_NAME, &out->name, NULL },
		{ COMPUTATION_ID, NULL, &id },
		{ COMPUTATION_ROOT, NULL, &root },
	};
	struct sal_text rest = body;
	struct sal_proto_field f;
	uint32_t seen = 0;
	int rc;

	*out = (struct sal_hlo_computation){ .body = body };
	while ((rc = sal_proto_next(&rest, &f)) > 0)
		if (fill(slots, SAL_COUNT(slots), &f, &seen) < 0)
			return -SAL_DATA_LOSS;
	out->id = (int64_t)id;
	out->root = (int64_t)root;
	return rc < 0 ? -SAL_DATA_LOSS : SAL_OK;
}

static int add_computation(struct sal_hlo_module *m, size_t *room, struct sal_text body)
{
	if (m->count == *room) {
		size_t more = *room ? 2 * *room : 16;
		void *at = realloc(m->computations, more * sizeof(*m->computations));

		if (!at)
			return -SAL_RESOURCE_EXHAUSTED;
		m->computations = at;
		*room = more;
	}
	return read_computation(body, &m->computations[m->count++]);
}

static int compare_ids(const void *left, const void *right)
{
	const struct sal_hlo_computation *a = left;
	const struct sal_hlo_computation *b = right;

	return (a->id > b->id) - (a->id < b->id);
}

static int read_module(struct sal_text rest, struct sal_hlo_module *m)
{
	struct sal_proto_field f;
	size_t room = 0;
	int rc;

	while ((rc = sal_proto_next(&rest, &f)) > 0) {
		if (f.number != MODULE_COMPUTATIONS)
			continue;
		rc = f.type == SAL_PROTO_BYTES ? add_computation(m, &room, f.bytes)
					       : -SAL_DATA_LOSS;
		if (rc < 0)
			return rc;
	}
	if (rc < 0 || m->count == 0)
		return -SAL_DATA_LOSS;
	qsort(m->computations, m->count, sizeof(*m->computations), compare_ids);
	for (size_t i = 1; i < m->count; i++)
		if (m->computations[i].id == m->computations[i - 1].id)
			return -SAL_DATA_LOSS;
	return SAL_OK;
}

int sal_hlo_open(struct sal_text program, bool has_config, struct sal_hlo_module *out_module,
		 struct sal_err *err)
{
	struct sal_text module = { 0 };
	const struct slot slots[] = { { CONFIGURED_MODULE, &module, NULL } };
	struct sal_proto_field f;
	uint32_t seen = 0;
	int rc = SAL_OK;

	*out_module = (struct sal_hlo_module){ 0 };
	while (has_config && (rc = sal_proto_next(&program, &f)) > 0)
		if (fill(slots, 1, &f, &seen) < 0)
			return damaged(err);
	if (rc >= 0)
		rc = read_module(has_config ? module : program, out_module);
	if (rc >= 0)
		return SAL_OK;
	sal_hlo_close(out_module);
	if (rc == -SAL_RESOURCE_EXHAUSTED)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory to check a program");
	return damaged(err);
}

void sal_hlo_close(struct sal_hlo_module *module)
{
	free(module->computations);
	*module = (struct sal_hlo_module){ 0 };
}

const struct sal_hlo_computation *sal_hlo_find(const struct sal_hlo_module *module, int64_t id)
{
	const struct sal_hlo_computation key = { .id = id };

	if (module->count == 0)
		return NULL;
	return bsearch(&key, module->computations, module->count, sizeof(*module->computations),
		       compare_ids);
}

/* Instructions */

static int read_instruction(struct sal_text rest, struct sal_hlo_instruction *out)
{
	uint64_t id = 0;
	uint64_t stable = 0;
	const struct slot slots[] = {
		{ INSTRUCTION_NAME, &out->name, NULL },
		{ INSTRUCTION_OPCODE, &out->opcode, NULL },
		{ INSTRUCTION_SHAPE, &out->shape, NULL },
		{ INSTRUCTION_LITERAL, &out->literal, NULL },
		{ INSTRUCTION_PARAMETER, NULL, &out->parameter },
		{ INSTRUCTION_FUSION, &out->fusion, NULL },
		{ INSTRUCTION_TARGET, &out->target, NULL },
		{ INSTRUCTION_ID, NULL, &id },
		{ INSTRUCTION_STABLE, NULL, &stable },
		{ INSTRUCTION_DIRECTION, &out->direction, NULL },
		{ INSTRUCTION_COMPARISON, &out->comparison, NULL },
	};
	const struct list operands = { out->operands, SAL_HLO_OPERANDS_MAX, &out->operand_count };
	const struct list called = { &out->called, 1, &out->called_count };
	struct sal_proto_field f;
	uint32_t seen = 0;
	int rc;

	*out = (struct sal_hlo_instruction){ .whole = rest };
	while ((rc = sal_proto_next(&rest, &f)) > 0) {
		if (f.number == INSTRUCTION_OPERANDS)
			rc = list_fill(&operands, &f);
		else if (f.number == INSTRUCTION_CALLED)
			rc = list_fill(&called, &f);
		else
			rc = fill(slots, SAL_COUNT(slots), &f, &seen);
		if (rc < 0)
			return rc;
	}
	out->id = (int64_t)id;
	out->is_stable = stable != 0;
	return rc < 0 ? -SAL_DATA_LOSS : SAL_OK;
}

int sal_hlo_next(struct sal_text *rest, struct sal_hlo_instruction *out_instruction)
{
	struct sal_proto_field f;
	int rc;

	while ((rc = sal_proto_next(rest, &f)) > 0) {
		if (f.number != COMPUTATION_INSTRUCTIONS)
			continue;
		if (f.type != SAL_PROTO_BYTES || read_instruction(f.bytes, out_instruction) < 0)
			return -SAL_DATA_LOSS;
		return 1;
	}
	return rc < 0 ? -SAL_DATA_LOSS : 0;
}

int sal_hlo_operands(const struct sal_hlo_instruction *instruction, int64_t *out_ids)
{
	struct sal_text rest = instruction->whole;
	size_t count = 0;
	const struct list operands = { out_ids, instruction->operand_count, &count };
	struct sal_proto_field f;
	int rc;

	while ((rc = sal_proto_next(&rest, &f)) > 0)
		if (f.number == INSTRUCTION_OPERANDS && list_fill(&operands, &f) < 0)
			return -SAL_DATA_LOSS;
	return rc < 0 || count != instruction->operand_count ? -SAL_DATA_LOSS : SAL_OK;
}

/* Shapes and constants */

int sal_hlo_shape(struct sal_text shape, struct sal_hlo_shape *out_shape)
{
	const struct slot slots[] = { { SHAPE_TYPE, NULL, &out_shape->type } };
	const struct list dims = { out_shape->dims, SAL_HLO_DIMS_MAX, &out_shape->rank };
	int64_t flags[SAL_HLO_DIMS_MAX] = { 0 };
	size_t flag_count = 0;
	const struct list dynamic = { flags, SAL_HLO_DIMS_MAX, &flag_count };
	struct sal_text rest = shape;
	struct sal_proto_field f;
	uint32_t seen = 0;
	int rc;

	*out_shape = (struct sal_hlo_shape){ .whole = shape };
	while ((rc = sal_proto_next(&rest, &f)) > 0) {
		if (f.number == SHAPE_DIMS)
			rc = list_fill(&dims, &f);
		else if (f.number == SHAPE_DYNAMIC)
			rc = list_fill(&dynamic, &f);
		else
			rc = fill(slots, 1, &f, &seen);
		if (rc < 0)
			return rc;
	}
	for (size_t i = 0; i < SAL_HLO_DIMS_MAX; i++)
		out_shape->is_dynamic |= flags[i] != 0;
	return rc < 0 ? -SAL_DATA_LOSS : SAL_OK;
}

int sal_hlo_next_part(struct sal_text *rest, struct sal_hlo_shape *out_shape)
{
	struct sal_proto_field f;
	int rc;

	while ((rc = sal_proto_next(rest, &f)) > 0) {
		if (f.number != SHAPE_PARTS)
			continue;
		if (f.type != SAL_PROTO_BYTES || sal_hlo_shape(f.bytes, out_shape) < 0)
			return -SAL_DATA_LOSS;
		return 1;
	}
	return rc < 0 ? -SAL_DATA_LOSS : 0;
}

int sal_hlo_pred(struct sal_text literal)
{
	int64_t value = 0;
	size_t count = 0;
	const struct list preds = { &value, 1, &count };
	struct sal_proto_field f;
	int rc;

	while ((rc = sal_proto_next(&literal, &f)) > 0)
		if (f.number == LITERAL_PREDS && list_fill(&preds, &f) < 0)
			return -SAL_DATA_LOSS;
	if (rc < 0 || count > 1)
		return -SAL_DATA_LOSS;
	return value != 0;
}
