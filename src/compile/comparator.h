/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comparator - the comparison function of a sort, as a graph that finds equal expressions.
 *
 * The graph expands fusions and calls, so that it contains plain instructions on scalars only.
 * Operands come before their users. Each instruction has a value number: two instructions with the
 * same value compute the same function, each of the elements on its own side. order.c uses the
 * graph for its proof.
 */
#ifndef SAL_COMPILE_COMPARATOR_H
#define SAL_COMPILE_COMPARATOR_H

#include "compile/hlo.h"

#define SAL_NODE_NONE UINT32_MAX

enum sal_side {
	SAL_SIDE_A = 1, /* depends on left elements: parameters 0, 2, 4, ... */
	SAL_SIDE_B = 2,
	SAL_SIDE_BOTH = 3,
};

enum sal_op {
	SAL_OP_OTHER, /* the result may differ each time: equal to no other node */
	SAL_OP_PURE, /* depends on its operands only */
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
	SAL_CLASS_UNSIGNED, /* and pred */
	SAL_CLASS_REAL,
	SAL_CLASS_OTHER,
};

struct sal_node {
	struct sal_text opcode, direction, comparison, literal;
	uint64_t type, array; /* array: for a parameter, the index of the sorted array */
	enum sal_op op;
	size_t operand_count;
	uint32_t operands[SAL_HLO_OPERANDS_MAX]; /* places in the graph */
	uint32_t values[SAL_HLO_OPERANDS_MAX]; /* of operands; sorted if commutative */
	uint32_t value; /* the place of the first node that computes the same value */
	uint32_t sides; /* enum sal_side */
};

struct sal_comparator {
	struct sal_node *nodes; /* owned */
	uint32_t count, room, root;
	uint32_t *table; /* owned: a hash table of nodes, by what they compute */
	uint32_t table_size;
	uint32_t visited; /* instructions visited; those of a fusion count each time */
};

enum sal_type_class sal_class_of(uint64_t type);

/*
 * -SAL_DATA_LOSS: malformed; -SAL_RESOURCE_EXHAUSTED: too large. The caller frees the comparator
 * also after a failure.
 */
int sal_comparator_build(const struct sal_hlo_module *module,
			 const struct sal_hlo_computation *computation,
			 struct sal_comparator *out_comparator);
void sal_comparator_free(struct sal_comparator *comparator);

#endif
