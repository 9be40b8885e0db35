/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a client. An option that we do not know, or of another type, is refused. */
#include "discrete/discrete.h"

#include <stdio.h>
#include <string.h>

struct option {
	const char *name;
	PJRT_NamedValue_Type type;
	size_t at; /* in disc_options; SIZE_MAX: the value changes nothing */
};

#define AT(field) offsetof(struct disc_options, field)

static const struct option known[] = {
	{ "memory_limit", PJRT_NamedValue_kInt64, AT(memory_limit) },
	{ "bandwidth", PJRT_NamedValue_kInt64, AT(bandwidth) },
	{ "hidden_scratch", PJRT_NamedValue_kInt64, AT(hidden_scratch) },
	{ "late_free", PJRT_NamedValue_kInt64, AT(late_free) },
	{ "platform", PJRT_NamedValue_kString, AT(platform) },
	{ "allocator", PJRT_NamedValue_kString, AT(allocator) },
	{ "late_errors", PJRT_NamedValue_kBool, AT(late_errors) },
	{ "preallocate", PJRT_NamedValue_kBool, AT(preallocate) },
	{ "memory_fraction", PJRT_NamedValue_kFloat, SIZE_MAX },
	{ "visible_devices", PJRT_NamedValue_kInt64List, SIZE_MAX },
};

bool disc_is_cuda(void)
{
	return getenv("SAL_DISCRETE_CUDA") != NULL;
}

static const struct option *find(const PJRT_NamedValue *value)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i].name) == value->name_size &&
		    memcmp(known[i].name, value->name, value->name_size) == 0)
			return &known[i];
	return NULL;
}

static PJRT_Error *read_option(const PJRT_NamedValue *value, struct disc_options *out)
{
	const struct option *option = find(value);
	char *field;

	if (!option)
		return disc_error(PJRT_Error_Code_INVALID_ARGUMENT, "Unexpected option name: %.*s",
				  (int)value->name_size, value->name);
	if (option->type != value->type)
		return disc_error(PJRT_Error_Code_INVALID_ARGUMENT,
				  "Option passed with the wrong type: %s, expected %d, got %d",
				  option->name, (int)option->type, (int)value->type);
	if (option->at == SIZE_MAX)
		return NULL;
	field = (char *)out + option->at;
	if (option->type == PJRT_NamedValue_kInt64)
		memcpy(field, &value->int64_value, sizeof(value->int64_value));
	else if (option->type == PJRT_NamedValue_kBool)
		memcpy(field, &value->bool_value, sizeof(value->bool_value));
	else /* both texts have the same room */
		(void)snprintf(field, sizeof(out->platform), "%.*s", (int)value->value_size,
			       value->string_value);
	return NULL;
}

static PJRT_Error *check(const struct disc_options *o)
{
	if (o->memory_limit <= 0)
		return disc_error(PJRT_Error_Code_INVALID_ARGUMENT,
				  "the option memory_limit is missing");
	if (disc_is_cuda() && (strcmp(o->allocator, "cuda_async") != 0 || o->preallocate))
		return disc_error(PJRT_Error_Code_INVALID_ARGUMENT,
				  "allocator is \"%s\" and preallocate is %s", o->allocator,
				  o->preallocate ? "true" : "false");
	return NULL;
}

PJRT_Error *disc_options_read(const PJRT_NamedValue *values, size_t count, struct disc_options *out)
{
	const char *at = (const char *)values;
	PJRT_Error *error = NULL;

	*out = (struct disc_options){ .platform = "discrete", .preallocate = true };
	for (size_t i = 0; i < count && !error; i++) {
		const PJRT_NamedValue *value = (const PJRT_NamedValue *)(const void *)at;

		error = read_option(value, out);
		/* XLA steps by the size of the struct, with its padding at the end. */
		at += sizeof(*value);
	}
	return error ? error : check(out);
}
