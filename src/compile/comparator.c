/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/comparator.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Depth of nested fusions. */
#define DEPTH_MAX 8
#define VISITED_MAX (1u << 20)

/*
 * A computation while it is expanded: maps the ids of its instructions to their places in the
 * graph.
 */
struct scope {
	const struct sal_hlo_module *module;
	const struct scope *caller; /* NULL: the comparator itself */
	const uint32_t *args; /* of a fusion: the places of its operands */
	size_t arg_count;
	int64_t *ids; /* owned */
	uint32_t *places; /* owned; SAL_NODE_NONE: an empty slot */
	uint32_t size, depth; /* size: of both tables, a power of two */
};

/* Instructions */

enum sal_type_class sal_class_of(uint64_t type)
{
	switch (type) {
	case SAL_HLO_PRED:
	case SAL_HLO_U1:
	case SAL_HLO_U2:
	case SAL_HLO_U4:
		return SAL_CLASS_UNSIGNED;
	case SAL_HLO_S1:
	case SAL_HLO_S2:
	case SAL_HLO_S4:
		return SAL_CLASS_SIGNED;
	case SAL_HLO_TUPLE:
	case SAL_HLO_OPAQUE:
	case SAL_HLO_TOKEN:
	case SAL_HLO_C64:
	case SAL_HLO_C128:
		return SAL_CLASS_OTHER;
	default:
		break;
	}
	if (type >= SAL_HLO_S8 && type <= SAL_HLO_S64)
		return SAL_CLASS_SIGNED;
	return type >= SAL_HLO_U8 && type <= SAL_HLO_U64 ? SAL_CLASS_UNSIGNED : SAL_CLASS_REAL;
}

/*
 * Floating-point arithmetic is missing: a compiler may contract it on one side and not on the
 * other.
 */
static enum sal_op op_of(struct sal_text opcode, enum sal_type_class class)
{
	static const struct {
		const char *name;
		enum sal_op op;
		bool integers_only;
	} ops[] = {
		{ "parameter", SAL_OP_PARAMETER, false },
		{ "constant", SAL_OP_CONSTANT, false },
		{ "compare", SAL_OP_COMPARE, false },
		{ "select", SAL_OP_SELECT, false },
		{ "and", SAL_OP_AND, false },
		{ "or", SAL_OP_OR, false },
		{ "xor", SAL_OP_XOR, false },
		{ "not", SAL_OP_NOT, false },
		{ "bitcast", SAL_OP_PURE, false },
		{ "bitcast-convert", SAL_OP_PURE, false },
		{ "convert", SAL_OP_PURE, false },
		{ "copy", SAL_OP_PURE, false },
		{ "real", SAL_OP_PURE, false },
		{ "imag", SAL_OP_PURE, false },
		{ "abs", SAL_OP_PURE, false },
		{ "negate", SAL_OP_PURE, false },
		{ "add", SAL_OP_PURE, true },
		{ "subtract", SAL_OP_PURE, true },
		{ "shift-left", SAL_OP_PURE, true },
		{ "shift-right-arithmetic", SAL_OP_PURE, true },
		{ "shift-right-logical", SAL_OP_PURE, true },
	};

	for (size_t i = 0; i < SAL_COUNT(ops); i++) {
		if (!sal_text_is(opcode, ops[i].name))
			continue;
		if (ops[i].integers_only && class != SAL_CLASS_SIGNED &&
		    class != SAL_CLASS_UNSIGNED)
			return SAL_OP_OTHER;
		return ops[i].op;
	}
	return SAL_OP_OTHER;
}

static size_t operands_of(enum sal_op op, struct sal_text opcode)
{
	switch (op) {
	case SAL_OP_SELECT:
		return 3;
	case SAL_OP_COMPARE:
	case SAL_OP_AND:
	case SAL_OP_OR:
	case SAL_OP_XOR:
		return 2;
	case SAL_OP_NOT:
		return 1;
	case SAL_OP_PURE:
		return sal_text_is(opcode, "add") || sal_text_is(opcode, "subtract") ||
				       (opcode.size > 6 && memcmp(opcode.at, "shift-", 6) == 0)
			       ? 2
			       : 1;
	default:
		return 0;
	}
}

static int read_node(const struct sal_hlo_instruction *in, struct sal_node *node)
{
	struct sal_hlo_shape shape;

	if (sal_hlo_shape(in->shape, &shape) < 0)
		return -SAL_DATA_LOSS;
	*node = (struct sal_node){ .opcode = in->opcode,
				   .direction = in->direction,
				   .comparison = in->comparison,
				   .literal = in->literal,
				   .type = shape.type,
				   .array = in->parameter / 2,
				   .op = op_of(in->opcode, sal_class_of(shape.type)) };
	node->operand_count = operands_of(node->op, in->opcode);
	if (shape.rank > 0 || shape.type == SAL_HLO_TUPLE ||
	    node->operand_count != in->operand_count)
		node->op = SAL_OP_OTHER;
	if (node->op == SAL_OP_OTHER) {
		node->operand_count = 0;
		node->sides = SAL_SIDE_BOTH;
	}
	if (node->op == SAL_OP_PARAMETER)
		node->sides = in->parameter % 2 ? SAL_SIDE_B : SAL_SIDE_A;
	return SAL_OK;
}

/* Values */

static bool same_text(struct sal_text a, struct sal_text b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

static bool computes_same(const struct sal_node *a, const struct sal_node *b)
{
	return a->op == b->op && a->op != SAL_OP_OTHER && a->type == b->type &&
	       a->array == b->array && a->operand_count == b->operand_count &&
	       memcmp(a->values, b->values, sizeof(a->values)) == 0 &&
	       same_text(a->opcode, b->opcode) && same_text(a->direction, b->direction) &&
	       same_text(a->comparison, b->comparison) && same_text(a->literal, b->literal);
}

static uint32_t hash_node(const struct sal_node *node)
{
	uint64_t hash = node->op * UINT64_C(31) + node->type;

	hash = hash * 31 + node->array;
	for (size_t i = 0; i < node->operand_count; i++)
		hash = hash * UINT64_C(1099511628211) + node->values[i];
	for (size_t i = 0; i < node->literal.size && i < 64; i++)
		hash = hash * 31 + (unsigned char)node->literal.at[i];
	return (uint32_t)(hash ^ hash >> 32);
}

static void number_node(struct sal_comparator *c, uint32_t place)
{
	struct sal_node *node = &c->nodes[place];
	uint32_t slot = hash_node(node) & (c->table_size - 1);

	for (; c->table[slot] != SAL_NODE_NONE; slot = (slot + 1) & (c->table_size - 1)) {
		if (!computes_same(&c->nodes[c->table[slot]], node))
			continue;
		node->value = c->table[slot];
		return;
	}
	c->table[slot] = place;
	node->value = place;
}

/* Scopes */

static uint32_t *slot_of(const struct scope *s, int64_t id)
{
	uint32_t slot = (uint32_t)((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 32) &
			(s->size - 1);

	while (s->places[slot] != SAL_NODE_NONE && s->ids[slot] != id)
		slot = (slot + 1) & (s->size - 1);
	return &s->places[slot];
}

static int scope_put(struct scope *s, int64_t id, uint32_t place)
{
	uint32_t *slot = slot_of(s, id);

	if (*slot != SAL_NODE_NONE)
		return -SAL_DATA_LOSS; /* two instructions have the same id */
	*slot = place;
	s->ids[slot - s->places] = id;
	return SAL_OK;
}

static int scope_open(struct scope *s, uint32_t count)
{
	for (s->size = 16; s->size < 2 * count;)
		s->size *= 2;
	s->ids = calloc(s->size, sizeof(*s->ids));
	s->places = malloc(s->size * sizeof(*s->places));
	if (!s->ids || !s->places)
		return -SAL_RESOURCE_EXHAUSTED;
	memset(s->places, 0xff, s->size * sizeof(*s->places));
	return SAL_OK;
}

static void scope_close(struct scope *s)
{
	free(s->ids);
	free(s->places);
}

/* Building */

static bool is_commutative(const struct sal_node *node)
{
	return node->op == SAL_OP_AND || node->op == SAL_OP_OR || node->op == SAL_OP_XOR ||
	       (node->op == SAL_OP_PURE && sal_text_is(node->opcode, "add"));
}

static int link_node(struct sal_comparator *c, const struct scope *s, const int64_t *operands,
		     struct sal_node *node)
{
	for (size_t i = 0; i < node->operand_count; i++) {
		uint32_t operand = *slot_of(s, operands[i]);

		if (operand == SAL_NODE_NONE)
			return -SAL_DATA_LOSS;
		node->operands[i] = operand;
		node->values[i] = c->nodes[operand].value;
		node->sides |= c->nodes[operand].sides;
	}
	if (is_commutative(node) && node->values[0] > node->values[1]) {
		uint32_t first = node->values[0];

		node->values[0] = node->values[1];
		node->values[1] = first;
	}
	return SAL_OK;
}

/* Makes room for one more node in the array and in the hash table. Growing rebuilds the table. */
static int make_room(struct sal_comparator *c)
{
	uint32_t room = c->room ? 2 * c->room : 64;
	struct sal_node *nodes;
	uint32_t *table;

	if (c->count < c->room)
		return SAL_OK;
	nodes = realloc(c->nodes, room * sizeof(*nodes));
	if (nodes)
		c->nodes = nodes;
	table = realloc(c->table, 2 * (size_t)room * sizeof(*table));
	if (table)
		c->table = table;
	if (!nodes || !table)
		return -SAL_RESOURCE_EXHAUSTED;
	c->room = room;
	c->table_size = 2 * room;
	memset(c->table, 0xff, c->table_size * sizeof(*table));
	for (uint32_t i = 0; i < c->count; i++)
		number_node(c, i);
	return SAL_OK;
}

static int add_node(struct sal_comparator *c, const struct scope *s,
		    const struct sal_hlo_instruction *in, uint32_t *out_place)
{
	int rc = make_room(c);

	if (rc >= 0)
		rc = read_node(in, &c->nodes[c->count]);
	if (rc >= 0)
		rc = link_node(c, s, in->operands, &c->nodes[c->count]);
	if (rc < 0)
		return rc;
	number_node(c, c->count);
	*out_place = c->count++;
	return SAL_OK;
}

static int expand(struct sal_comparator *c, struct scope *s,
		  const struct sal_hlo_computation *computation, uint32_t *out_root);

/* Fusions of other kinds are library calls. */
static bool is_inlined(const struct sal_hlo_instruction *in)
{
	return in->called_count == 1 &&
	       (sal_text_is(in->opcode, "call") ||
		(sal_text_is(in->opcode, "fusion") && sal_text_is(in->fusion, "kLoop")));
}

static int find_args(const struct scope *s, const struct sal_hlo_instruction *in, int64_t *ids,
		     uint32_t *places)
{
	if (sal_hlo_operands(in, ids) < 0)
		return -SAL_DATA_LOSS;
	for (size_t i = 0; i < in->operand_count; i++) {
		places[i] = *slot_of(s, ids[i]);
		if (places[i] == SAL_NODE_NONE)
			return -SAL_DATA_LOSS;
	}
	return SAL_OK;
}

// NOLINTNEXTLINE(misc-no-recursion): DEPTH_MAX
static int add_call(struct sal_comparator *c, const struct scope *s,
		    const struct sal_hlo_instruction *in, uint32_t *out_place)
{
	const struct sal_hlo_computation *called = sal_hlo_find(s->module, in->called);
	int64_t *ids = calloc(in->operand_count + 1, sizeof(*ids));
	uint32_t *args = calloc(in->operand_count + 1, sizeof(*args));
	struct scope inner = { .module = s->module,
			       .caller = s,
			       .args = args,
			       .arg_count = in->operand_count,
			       .depth = s->depth + 1 };
	int rc = ids && args ? SAL_OK : -SAL_RESOURCE_EXHAUSTED;

	if (rc >= 0 && (!called || s->depth == DEPTH_MAX))
		rc = called ? -SAL_RESOURCE_EXHAUSTED : -SAL_DATA_LOSS;
	if (rc >= 0)
		rc = find_args(s, in, ids, args);
	if (rc >= 0)
		rc = expand(c, &inner, called, out_place);
	free(ids);
	free(args);
	return rc;
}

// NOLINTNEXTLINE(misc-no-recursion): DEPTH_MAX
static int add_instruction(struct sal_comparator *c, struct scope *s,
			   const struct sal_hlo_instruction *in)
{
	uint32_t place = SAL_NODE_NONE;
	int rc;

	if (s->caller && sal_text_is(in->opcode, "parameter")) {
		rc = in->parameter < s->arg_count ? SAL_OK : -SAL_DATA_LOSS;
		if (rc >= 0)
			place = s->args[in->parameter];
	} else if (is_inlined(in)) {
		rc = add_call(c, s, in, &place);
	} else {
		rc = add_node(c, s, in, &place);
	}
	return rc < 0 ? rc : scope_put(s, in->id, place);
}

static int count_instructions(struct sal_comparator *c, struct sal_text body, uint32_t *out_count)
{
	struct sal_hlo_instruction in;
	uint32_t count = 0;
	int rc;

	while ((rc = sal_hlo_next(&body, &in)) > 0)
		if (++count > VISITED_MAX - c->visited)
			return -SAL_RESOURCE_EXHAUSTED;
	c->visited += count;
	*out_count = count;
	return rc < 0 ? rc : SAL_OK;
}

// NOLINTNEXTLINE(misc-no-recursion): DEPTH_MAX
static int expand(struct sal_comparator *c, struct scope *s,
		  const struct sal_hlo_computation *computation, uint32_t *out_root)
{
	struct sal_text body = computation->body;
	struct sal_hlo_instruction in;
	uint32_t count = 0;
	int rc = count_instructions(c, body, &count);

	if (rc >= 0)
		rc = scope_open(s, count);
	while (rc >= 0 && (rc = sal_hlo_next(&body, &in)) > 0)
		rc = add_instruction(c, s, &in);
	if (rc >= 0) {
		*out_root = *slot_of(s, computation->root);
		rc = *out_root == SAL_NODE_NONE ? -SAL_DATA_LOSS : SAL_OK;
	}
	scope_close(s);
	return rc;
}

int sal_comparator_build(const struct sal_hlo_module *module,
			 const struct sal_hlo_computation *computation,
			 struct sal_comparator *out_comparator)
{
	struct scope s = { .module = module };
	int rc;

	*out_comparator = (struct sal_comparator){ 0 };
	rc = expand(out_comparator, &s, computation, &out_comparator->root);
	if (rc < 0)
		return rc;
	return out_comparator->nodes[out_comparator->root].type == SAL_HLO_PRED ? SAL_OK
										: -SAL_DATA_LOSS;
}

void sal_comparator_free(struct sal_comparator *comparator)
{
	free(comparator->nodes);
	free(comparator->table);
	*comparator = (struct sal_comparator){ 0 };
}
