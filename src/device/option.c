/* SPDX-License-Identifier: Apache-2.0 */
#include "device/option.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* By sal_value_kind. */
static const char *const type_names[] = { "text", "int", "ints", "float", "bool" };

static bool parse_int(const char *text, int64_t *out_number)
{
	char *end;

	errno = 0;
	*out_number = strtoll(text, &end, 10);
	return errno == 0 && end != text && *end == '\0';
}

static bool parse_float(const char *text, float *out_real)
{
	char *end;

	errno = 0;
	*out_real = strtof(text, &end);
	return errno == 0 && end != text && *end == '\0';
}

static bool parse_bool(const char *text, int64_t *out_number)
{
	*out_number = strcmp(text, "true") == 0;
	return *out_number == 1 || strcmp(text, "false") == 0;
}

static bool parse_ints(const char *text, struct sal_plugin_option *o)
{
	size_t count = 0;
	char *end;

	while (*text && count < SAL_PLUGIN_NUMBERS_MAX) {
		errno = 0;
		o->numbers[count++] = strtoll(text, &end, 10);
		if (errno != 0 || end == text || (*end != ',' && *end != '\0'))
			return false;
		text = *end == ',' ? end + 1 : end;
	}
	o->value.numbers = o->numbers;
	o->value.number_count = count;
	return *text == '\0';
}

/* Words such as "inf" and "nan" are texts. */
static bool looks_like_number(const char *text)
{
	return text[strcspn(text, "0123456789")] != '\0' &&
	       text[strspn(text, "+-.0123456789eE")] == '\0';
}

static enum sal_value_kind guess(const char *text)
{
	int64_t number;
	float real;

	if (parse_bool(text, &number))
		return SAL_VALUE_BOOL;
	if (parse_int(text, &number))
		return SAL_VALUE_INT;
	return looks_like_number(text) && parse_float(text, &real) ? SAL_VALUE_FLOAT
								   : SAL_VALUE_TEXT;
}

/* Takes the type off the end of the name. False: there is no such type. */
static bool split_type(char *name, const char *text, enum sal_value_kind *out_kind)
{
	char *type = strchr(name, ':');

	*out_kind = guess(text);
	if (!type)
		return true;
	*type++ = '\0';
	for (size_t i = 0; i < SAL_COUNT(type_names); i++) {
		if (strcmp(type, type_names[i]) == 0) {
			*out_kind = (enum sal_value_kind)i;
			return true;
		}
	}
	return false;
}

static bool parse_value(const char *text, struct sal_plugin_option *o)
{
	switch (o->value.kind) {
	case SAL_VALUE_INT:
		return parse_int(text, &o->value.number);
	case SAL_VALUE_INTS:
		return parse_ints(text, o);
	case SAL_VALUE_FLOAT:
		return parse_float(text, &o->value.real);
	case SAL_VALUE_BOOL:
		return parse_bool(text, &o->value.number);
	default:
		o->value.text = (struct sal_text){ text, strlen(text) };
		return true;
	}
}

int sal_plugin_option_parse(const char *text, struct sal_plugin_option *out_option,
			    struct sal_err *err)
{
	struct sal_plugin_option *o = out_option;
	char *value;

	memset(o, 0, sizeof(*o));
	if (strlen(text) >= sizeof(o->text))
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "an option of the plugin is longer than %zu bytes",
				   sizeof(o->text) - 1);
	(void)snprintf(o->text, sizeof(o->text), "%s", text);
	value = strchr(o->text, '=');
	if (!value || value == o->text)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "\"%.100s\" is not NAME=VALUE", text);
	*value++ = '\0';
	if (!split_type(o->text, value, &o->value.kind))
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "\"%.100s\": a type is text, int, ints, float or bool", text);
	o->value.name = (struct sal_text){ o->text, strlen(o->text) };
	if (!parse_value(value, o))
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "\"%.100s\": the value does not have the type %s", text,
				   type_names[o->value.kind]);
	return SAL_OK;
}
