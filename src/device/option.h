/* SPDX-License-Identifier: Apache-2.0 */
/*
 * option - an option for a vendor's clients, as text: NAME=VALUE or NAME:TYPE=VALUE.
 *
 * Plugins refuse an option of the wrong type. Without a type, the value decides: true and false are
 * a bool, digits an int, digits with a point or an exponent a float, everything else a text. The
 * types have the names bool, int, float, text, and ints for a list of integers with commas.
 */
#ifndef SAL_DEVICE_OPTION_H
#define SAL_DEVICE_OPTION_H

#include "base/err.h"
#include "base/facts.h"

/* How many options a device takes, and how long the text of one may be. */
#define SAL_PLUGIN_OPTIONS_MAX 16
#define SAL_PLUGIN_OPTION_BYTES 256
#define SAL_PLUGIN_NUMBERS_MAX 16

struct sal_plugin_option {
	struct sal_value value; /* points into this struct */
	char text[SAL_PLUGIN_OPTION_BYTES];
	int64_t numbers[SAL_PLUGIN_NUMBERS_MAX];
};

/* Fails with the reason if the text is no option. Do not copy the option. */
int sal_plugin_option_parse(const char *text, struct sal_plugin_option *out_option,
			    struct sal_err *err);

#endif
