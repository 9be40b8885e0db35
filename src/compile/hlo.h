/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo - reads the parts of XLA's HloModuleProto that check.c and order.c need.
 *
 * A module is an array of computations. A computation is a sequence of encoded instructions, which
 * are decoded one at a time into the caller's struct. Nothing is copied: all texts point into the
 * module's bytes.
 *
 * A field that must occur at most once and occurs twice is refused: other readers of protocol
 * buffers would merge the two.
 */
#ifndef SAL_COMPILE_HLO_H
#define SAL_COMPILE_HLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/facts.h"

/* Operands of select, the widest instruction that order.c reads in detail. */
#define SAL_HLO_OPERANDS_MAX 3
#define SAL_HLO_DIMS_MAX 64

/* PrimitiveType of xla/xla_data.proto. */
enum sal_hlo_type {
	SAL_HLO_PRED = 1,
	SAL_HLO_S8 = 2,
	SAL_HLO_S64 = 5,
	SAL_HLO_U8 = 6,
	SAL_HLO_U64 = 9,
	SAL_HLO_S32 = 4,
	SAL_HLO_F32 = 11,
	SAL_HLO_TUPLE = 13,
	SAL_HLO_OPAQUE = 14,
	SAL_HLO_C64 = 15,
	SAL_HLO_TOKEN = 17,
	SAL_HLO_C128 = 18,
	SAL_HLO_S4 = 21,
	SAL_HLO_U4 = 22,
	SAL_HLO_S2 = 26,
	SAL_HLO_U2 = 27,
	SAL_HLO_S1 = 30,
	SAL_HLO_U1 = 31,
};

struct sal_hlo_computation {
	int64_t id, root;
	struct sal_text name;
	struct sal_text body; /* the encoded computation */
};

struct sal_hlo_module {
	struct sal_hlo_computation *computations; /* owned; sorted by id */
	size_t count;
};

struct sal_hlo_shape {
	uint64_t type;
	bool is_dynamic; /* some dimension's size is known only at run time */
	size_t rank;
	int64_t dims[SAL_HLO_DIMS_MAX]; /* the first dimensions, if there are more */
	struct sal_text whole;
};

/* A count may exceed the size of its array. The array then holds the first elements. */
struct sal_hlo_instruction {
	struct sal_text whole; /* the encoded instruction, for sal_hlo_operands */
	struct sal_text name, opcode, target, direction, comparison, fusion, shape, literal;
	int64_t id;
	uint64_t parameter;
	bool is_stable;
	size_t operand_count, called_count;
	int64_t operands[SAL_HLO_OPERANDS_MAX];
	int64_t called;
};

/*
 * program is a HloModuleProtoWithConfig (has_config) or a HloModuleProto. Fails with
 * -SAL_DATA_LOSS.
 */
int sal_hlo_open(struct sal_text program, bool has_config, struct sal_hlo_module *out_module,
		 struct sal_err *err);
void sal_hlo_close(struct sal_hlo_module *module);

/* NULL: no computation has this id. */
const struct sal_hlo_computation *sal_hlo_find(const struct sal_hlo_module *module, int64_t id);

/* Reads the next instruction from the rest of a body: 1, 0 at the end, or -SAL_DATA_LOSS. */
int sal_hlo_next(struct sal_text *rest, struct sal_hlo_instruction *out_instruction);
/* Reads all operands: operand_count ids. */
int sal_hlo_operands(const struct sal_hlo_instruction *instruction, int64_t *out_ids);
int sal_hlo_shape(struct sal_text shape, struct sal_hlo_shape *out_shape);
/*
 * Reads the next element of a tuple's shape from the rest of shape->whole: 1, 0 at the end, or
 * -SAL_DATA_LOSS.
 */
int sal_hlo_next_part(struct sal_text *rest, struct sal_hlo_shape *out_shape);
/* The value of a constant of one pred: 0 or 1, or -SAL_DATA_LOSS. */
int sal_hlo_pred(struct sal_text literal);

bool sal_text_is(struct sal_text text, const char *name);

#endif
