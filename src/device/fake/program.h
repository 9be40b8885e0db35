/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program - the programs of the fake device: a text of a few lines, read into a table of outputs.
 */
#ifndef SAL_DEVICE_FAKE_PROGRAM_H
#define SAL_DEVICE_FAKE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/facts.h"

#define FAKE_RANK_MAX 8
#define FAKE_OUTPUTS_MAX 128
#define FAKE_TEXT 96
#define FAKE_CHIPS_MAX 64

enum fake_op {
	FAKE_COPY,
	FAKE_ADD,
	FAKE_FILL,
};

struct fake_output {
	enum fake_op op;
	uint32_t a, b; /* arguments, or the byte of fill */
	int64_t dims[FAKE_RANK_MAX];
	int32_t type;
	uint32_t rank;
	uint64_t bytes;
	bool is_host; /* in the memory pinned_host */
	int64_t takes; /* the argument whose memory it takes over; -1: none */
};

struct fake_failure {
	int code; /* 0: none */
	char text[FAKE_TEXT];
};

struct fake_program {
	char name[FAKE_TEXT];
	struct fake_output outputs[FAKE_OUTPUTS_MAX];
	size_t output_count;
	size_t arg_count; /* one more than the highest argument number in the text */
	uint64_t temp_bytes;
	uint64_t first_chip, chip_count;
	uint64_t run_ns;
	bool has_run_ns, hangs;
	bool crashes, spins, gorges, gulps; /* in compile */
	uint64_t shouts, burn_ms; /* in compile */
	struct fake_failure fail, refuse, reject;
};

int sal_fake_parse(struct sal_text text, struct fake_program *out_program, struct sal_err *err);
/* The type with this name or number, or 0. */
int32_t sal_fake_type(struct sal_text name);

struct sal_loaded {
	struct sal_stream *stream; /* borrowed */
	struct fake_program program;
};

#endif
