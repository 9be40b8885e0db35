/* SPDX-License-Identifier: Apache-2.0 */
/*
 * field - a value of an object of the daemon as a column of a table.
 *
 * A field that the daemon does not send, or that makes no sense, shows as "-".
 */
#ifndef SAL_CLI_FIELD_H
#define SAL_CLI_FIELD_H

#include <jansson.h>

#include "base/units.h"
#include "cli/table.h"

enum cli_unit {
	CLI_TEXT,
	CLI_COUNT, /* negative: none */
	CLI_REAL,
	CLI_SECONDS,
	CLI_BYTES
};

struct cli_field {
	struct cli_column column;
	const char *key;
	enum cli_unit unit;
};

/* A number in its unit, or "-"; returns buf or a constant. buf: at least SAL_UNITS_TEXT. */
const char *cli_number_text(double value, enum cli_unit unit, char *buf, size_t size);

/*
 * What the lanes of a device gain, for example "2.0 lanes side by side: 1.7x of one"; "": unknown.
 * Returns buf, of at least CLI_GAIN_TEXT.
 */
#define CLI_GAIN_TEXT 80
const char *cli_gain_text(const json_t *device, char *buf, size_t size);

/* One row for each object, as wide as the terminal at most; returns an exit code. */
int cli_print_fields(const struct cli_field *fields, size_t count, const json_t *objects);

#endif
