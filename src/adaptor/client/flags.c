/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/client/flags.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/facts.h"

/* Field numbers of xla/pjrt/proto/compile_options.proto. */
enum {
	OPTIONS_BUILD = 3,
	OPTIONS_OVERRIDES = 7,
	BUILD_DEBUG = 3,
	ENTRY_KEY = 1,
	ENTRY_VALUE = 2,
	OVERRIDE_STRING = 1,
};

enum {
	VARINT = 0,
	FIXED64 = 1,
	BYTES = 2,
	FIXED32 = 5,
};

#define BLANKS " \t\r\n"
/* The most bytes that an override takes beyond its name and value: five tags and lengths. */
#define FRAME_BYTES 40

static size_t put_varint(char *out, uint64_t value)
{
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		out[n++] = (char)(value | 0x80);
	out[n++] = (char)value;
	return n;
}

static size_t varint_size(uint64_t value)
{
	char scratch[10];

	return put_varint(scratch, value);
}

/* Tag and length of a field of bytes. All our tags have one byte. */
static size_t put_head(char *out, int field, size_t size)
{
	out[0] = (char)(field << 3 | BYTES);
	return 1 + put_varint(out + 1, size);
}

static size_t put_text(char *out, int field, struct sal_text text)
{
	size_t n = put_head(out, field, text.size);

	memcpy(out + n, text.at, text.size);
	return n + text.size;
}

/* One override: { key: name, value: { string: value } } */
static size_t put_override(char *out, struct sal_text name, struct sal_text value)
{
	size_t inner = 1 + varint_size(value.size) + value.size;
	size_t entry = 1 + varint_size(name.size) + name.size + 1 + varint_size(inner) + inner;
	size_t n = put_head(out, OPTIONS_OVERRIDES, entry);

	n += put_text(out + n, ENTRY_KEY, name);
	n += put_head(out + n, ENTRY_VALUE, inner);
	return n + put_text(out + n, OVERRIDE_STRING, value);
}

/* XLA's flags say true, its option overrides say True. A flag without a value is true. */
static struct sal_text value_of(const char *equals, const char *end)
{
	struct sal_text value = { "True", 4 };

	if (equals == end)
		return value;
	value = (struct sal_text){ equals + 1, (size_t)(end - equals - 1) };
	if (value.size == 4 && strncasecmp(value.at, "true", 4) == 0)
		value.at = "True";
	else if (value.size == 5 && strncasecmp(value.at, "false", 5) == 0)
		value.at = "False";
	return value;
}

/* Appends the flag between at and end: --name, or --name=value. */
static void add_flag(struct adp_flags *flags, const char *at, const char *end)
{
	const char *equals;

	while (at < end && *at == '-')
		at++;
	equals = memchr(at, '=', (size_t)(end - at));
	if (!equals)
		equals = end;
	if (equals > at)
		flags->size += put_override(flags->bytes + flags->size,
					    (struct sal_text){ at, (size_t)(equals - at) },
					    value_of(equals, end));
}

static size_t count_words(const char *text)
{
	size_t words = 0;

	for (text += strspn(text, BLANKS); *text; text += strspn(text, BLANKS), words++)
		text += strcspn(text, BLANKS);
	return words;
}

static bool add_flags(struct adp_flags *flags, const char *text)
{
	size_t words = count_words(text);

	if (words == 0)
		return true;
	/* A value may grow from nothing to "True". */
	flags->bytes = malloc(strlen(text) + words * (FRAME_BYTES + sizeof("True")));
	if (!flags->bytes)
		return false;
	for (text += strspn(text, BLANKS); *text; text += strspn(text, BLANKS)) {
		const char *end = text + strcspn(text, BLANKS);

		add_flag(flags, text, end);
		text = end;
	}
	return true;
}

static bool add_file(struct adp_flags *flags, const char *path)
{
	char *text = calloc(1, ADP_FLAGS_MAX + 1);
	FILE *file = text ? fopen(path, "re") : NULL;
	bool ok = text != NULL;

	if (file && fread(text, 1, ADP_FLAGS_MAX, file) > 0)
		ok = add_flags(flags, text);
	if (file)
		(void)fclose(file);
	free(text);
	return ok;
}

bool adp_flags_init(struct adp_flags *flags, const char *text)
{
	*flags = (struct adp_flags){ .bytes = NULL };
	if (!text || text[strspn(text, BLANKS)] == '\0')
		return true;
	if (text[strspn(text, BLANKS)] != '-')
		return add_file(flags, text);
	return strlen(text) > ADP_FLAGS_MAX || add_flags(flags, text);
}

void adp_flags_fini(struct adp_flags *flags)
{
	free(flags->bytes);
}

/* Removes a varint from *rest. */
static bool take_varint(struct sal_text *rest, uint64_t *out)
{
	unsigned shift;

	*out = 0;
	for (shift = 0; shift < 64 && rest->size > 0; shift += 7) {
		unsigned char byte = (unsigned char)*rest->at++;

		rest->size--;
		*out |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

static bool skip(struct sal_text *rest, uint64_t size)
{
	if (size > rest->size)
		return false;
	rest->at += size;
	rest->size -= (size_t)size;
	return true;
}

/* Removes a field from *rest; *out_bytes is the content of a field of bytes. */
static bool take_field(struct sal_text *rest, uint64_t *out_tag, struct sal_text *out_bytes)
{
	uint64_t value;

	*out_bytes = (struct sal_text){ NULL, 0 };
	if (!take_varint(rest, out_tag))
		return false;
	switch (*out_tag & 7) {
	case VARINT:
		return take_varint(rest, &value);
	case FIXED64:
		return skip(rest, 8);
	case FIXED32:
		return skip(rest, 4);
	case BYTES:
		if (!take_varint(rest, &value) || value > rest->size)
			return false;
		*out_bytes = (struct sal_text){ rest->at, (size_t)value };
		return skip(rest, value);
	default:
		return false;
	}
}

/* Is there such a field, not empty? True also for a malformed message. */
static bool has_field(struct sal_text message, int number, struct sal_text *out_bytes)
{
	uint64_t tag;

	while (message.size > 0) {
		if (!take_field(&message, &tag, out_bytes))
			return true;
		if (tag == ((uint64_t)number << 3 | BYTES) && out_bytes->size > 0)
			return true;
	}
	return false;
}

bool adp_options_have_debug(const char *options, size_t size)
{
	struct sal_text build, debug;

	if (!has_field((struct sal_text){ options, size }, OPTIONS_BUILD, &build))
		return false;
	/* A malformed message has no content here: the daemon says what is wrong with it. */
	return !build.at || has_field(build, BUILD_DEBUG, &debug);
}
