/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo - reads XLA's HloModuleProto as far as check.c and order.c need it.
 *
 * A module is an array of computations; a computation is a text of instructions, which are decoded one at a time
 * into the caller's struct. Nothing is copied: everything points into the module's bytes.
 *
 * A field that may be there once and is there twice is refused: readers of protocol buffers would merge the two.
 */
#ifndef SAL_COMPILE_HLO_H
#define SAL_COMPILE_HLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/facts.h"

/* Of select, the widest instruction that is read closely. */
#define SAL_HLO_OPERANDS_MAX 3
#define SAL_HLO_DIMS_MAX 8

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
	struct sal_text body; /* the whole message */
};

struct sal_hlo_module {
	struct sal_hlo_computation *computations; /* owned; by id */
	size_t count;
};

struct sal_hlo_shape {
	uint64_t type;
	bool is_dynamic; /* has a dimension whose size is known only when it runs */
	size_t rank;
	int64_t dims[SAL_HLO_DIMS_MAX]; /* those of the first dimensions */
	struct sal_text whole;
};

/* Counts may exceed the room of their arrays, which then hold the first. */
struct sal_hlo_instruction {
	struct sal_text whole; /* for sal_hlo_operands */
	struct sal_text name, opcode, target, direction, comparison, fusion, shape, literal;
	int64_t id;
	uint64_t parameter;
	bool is_stable;
	size_t operand_count, called_count;
	int64_t operands[SAL_HLO_OPERANDS_MAX];
	int64_t called;
};

/* program: HloModuleProtoWithConfig (has_config) or HloModuleProto. Fails with -SAL_DATA_LOSS. */
int sal_hlo_open(struct sal_text program, bool has_config, struct sal_hlo_module *out_module,
		 struct sal_err *err);
void sal_hlo_close(struct sal_hlo_module *module);

/* NULL: there is none of this id. */
const struct sal_hlo_computation *sal_hlo_find(const struct sal_hlo_module *module, int64_t id);

/* The next instruction of what is left of a body: 1, 0 at the end, or -SAL_DATA_LOSS. */
int sal_hlo_next(struct sal_text *rest, struct sal_hlo_instruction *out_instruction);
/* All operands, of which there are operand_count. */
int sal_hlo_operands(const struct sal_hlo_instruction *instruction, int64_t *out_ids);
int sal_hlo_shape(struct sal_text shape, struct sal_hlo_shape *out_shape);
/* The next part of a tuple's shape, of what is left of shape->whole: 1, 0 at the end, or -SAL_DATA_LOSS. */
int sal_hlo_next_part(struct sal_text *rest, struct sal_hlo_shape *out_shape);
/* A constant of one pred: 0 or 1, or -SAL_DATA_LOSS. */
int sal_hlo_pred(struct sal_text literal);

bool sal_text_is(struct sal_text text, const char *name);

#endif
