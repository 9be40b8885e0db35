/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comparator - the computation by which a sort compares, as a graph in which equal things are known to be equal.
 *
 * Fusions and calls are taken apart, so that the graph holds nothing but plain instructions on scalars, operands
 * before their users. Each instruction has a value: two with the same value compute the same function, each of the
 * elements on its side. For order.c, which has the rest of the story.
 */
#ifndef SAL_COMPILE_COMPARATOR_H
#define SAL_COMPILE_COMPARATOR_H

#include "compile/hlo.h"

#define SAL_NODE_NONE UINT32_MAX

enum sal_side {
	SAL_SIDE_A = 1, /* depends on elements of the left: parameters 0, 2, 4, ... */
	SAL_SIDE_B = 2,
	SAL_SIDE_BOTH = 3,
};

enum sal_op {
	SAL_OP_OTHER, /* may give another result each time: is like no other */
	SAL_OP_PURE, /* depends on nothing but its operands */
	SAL_OP_PARAMETER,
	SAL_OP_CONSTANT,
	SAL_OP_COMPARE,
	SAL_OP_SELECT,
	SAL_OP_AND,
	SAL_OP_OR,
	SAL_OP_XOR,
	SAL_OP_NOT,
};

enum sal_type_class {
	SAL_CLASS_SIGNED,
	SAL_CLASS_UNSIGNED, /* pred, too */
	SAL_CLASS_REAL,
	SAL_CLASS_OTHER,
};

struct sal_node {
	struct sal_text opcode, direction, comparison, literal;
	uint64_t type, array; /* array: of a parameter, which of the sorted ones */
	enum sal_op op;
	size_t operand_count;
	uint32_t operands[SAL_HLO_OPERANDS_MAX]; /* their places */
	uint32_t values
		[SAL_HLO_OPERANDS_MAX]; /* of the operands; ascending if their order means nothing */
	uint32_t value; /* the place of the first node that computes the same */
	uint32_t sides; /* enum sal_side */
};

struct sal_comparator {
	struct sal_node *nodes; /* owned */
	uint32_t count, room, root;
	uint32_t *table; /* owned: nodes by what they compute */
	uint32_t table_size;
	uint32_t visited; /* instructions, with those of fusions each time */
};

enum sal_type_class sal_class_of(uint64_t type);

/* -SAL_DATA_LOSS: malformed; -SAL_RESOURCE_EXHAUSTED: too large. To be freed in any case. */
int sal_comparator_build(const struct sal_hlo_module *module,
			 const struct sal_hlo_computation *computation,
			 struct sal_comparator *out_comparator);
void sal_comparator_free(struct sal_comparator *comparator);

#endif
