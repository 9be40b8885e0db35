/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

/* Wide enough for the product of any number and any scale. */
__extension__ typedef unsigned __int128 wide;

/* No device, file or rate is smaller than this, so the user forgot the unit. */
#define BARE_BYTES_MIN (UINT64_C(1) << 20)

struct unit {
	const char *name;
	uint64_t scale;
};

/* A kind of quantity: its name, its units, and their suffix. */
struct kind {
	const char *noun;
	const char *expected;
	const char *suffix; /* follows every unit */
	const struct unit *units; /* ends with a NULL name */
	const char *usual[2]; /* units to suggest if the user wrote none */
	uint64_t bare_min; /* whole numbers of at least this need no unit; UINT64_MAX: only 0 */
};

/* A decimal number, whole + part / parts. */
struct number {
	uint64_t whole;
	uint64_t part;
	uint64_t parts; /* a power of ten */
};

static const struct unit byte_units[] = {
	{ "B", 1 },
	{ "KB", UINT64_C(1000) },
	{ "kB", UINT64_C(1000) },
	{ "MB", UINT64_C(1000000) },
	{ "GB", UINT64_C(1000000000) },
	{ "TB", UINT64_C(1000000000000) },
	{ "KiB", UINT64_C(1) << 10 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "GiB", UINT64_C(1) << 30 },
	{ "TiB", UINT64_C(1) << 40 },
	{ NULL, 0 },
};

static const struct unit time_units[] = {
	{ "ns", 1 },
	{ "us", UINT64_C(1000) },
	{ "ms", UINT64_C(1000000) },
	{ "s", UINT64_C(1000000000) },
	{ "min", UINT64_C(60) * 1000000000 },
	{ "h", UINT64_C(3600) * 1000000000 },
	{ NULL, 0 },
};

/* Sizes are shown in units of 1024 only. */
static const struct unit shown_byte_units[] = {
	{ "B", 1 },
	{ "KiB", UINT64_C(1) << 10 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "GiB", UINT64_C(1) << 30 },
	{ "TiB", UINT64_C(1) << 40 },
	{ NULL, 0 },
};

static const struct kind size_kind = {
	.noun = "size",
	.expected = "a size such as 8GiB, 512MiB or 2GB",
	.suffix = "",
	.units = byte_units,
	.usual = { "GiB", "MiB" },
	.bare_min = BARE_BYTES_MIN,
};

static const struct kind rate_kind = {
	.noun = "rate",
	.expected = "a rate such as 12GB/s or 800MiB/s",
	.suffix = "/s",
	.units = byte_units,
	.usual = { "GB/s", "MiB/s" },
	.bare_min = BARE_BYTES_MIN,
};

static const struct kind duration_kind = {
	.noun = "duration",
	.expected = "a duration such as 20ms, 1.5s, 3min or 2h",
	.suffix = "",
	.units = time_units,
	.usual = { "s", "min" },
	.bare_min = UINT64_MAX,
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads the digits at *text and skips them. False if the number exceeds INT64_MAX. */
static bool read_whole(const char **text, uint64_t *out_whole)
{
	uint64_t whole = 0;

	for (; is_digit(**text); (*text)++) {
		uint64_t digit = (uint64_t)(**text - '0');

		if (whole > ((uint64_t)INT64_MAX - digit) / 10)
			return false;
		whole = whole * 10 + digit;
	}
	*out_whole = whole;
	return true;
}

/* Reads the digits after the point. Digits after the 18th are too small for any unit. */
static void read_part(const char **text, struct number *n)
{
	n->part = 0;
	n->parts = 1;
	for (int i = 0; is_digit(**text); i++, (*text)++) {
		if (i >= 18)
			continue;
		n->part = n->part * 10 + (uint64_t)(**text - '0');
		n->parts *= 10;
	}
}

/* True if the number needs no unit. It then counts in the smallest unit. */
static bool can_be_bare(const struct kind *kind, const struct number *n)
{
	return n->part == 0 && (n->whole == 0 || n->whole >= kind->bare_min);
}

/* The scale of the unit; 0 if the unit is unknown. */
static uint64_t read_scale(const struct kind *kind, const char *text)
{
	for (const struct unit *u = kind->units; u->name; u++) {
		size_t length = strlen(u->name);

		if (strncmp(text, u->name, length) == 0 && strcmp(text + length, kind->suffix) == 0)
			return u->scale;
	}
	return 0;
}

static int refuse(const struct kind *kind, const char *text, const char *why, struct sal_err *err)
{
	return sal_err_set(err, SAL_INVALID_ARGUMENT, "\"%.60s\" %s; expected %s", text, why,
			   kind->expected);
}

static int refuse_bare(const struct kind *kind, const char *text, struct sal_err *err)
{
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "\"%.60s\" has no unit; expected a %s such as %.60s%s or %.60s%s", text,
			   kind->noun, text, kind->usual[0], text, kind->usual[1]);
}

static int refuse_large(const struct kind *kind, const char *text, struct sal_err *err)
{
	return sal_err_set(err, SAL_OUT_OF_RANGE, "\"%.60s\" is too large for a %s; expected %s",
			   text, kind->noun, kind->expected);
}

static int parse(const struct kind *kind, const char *text, uint64_t *out, struct sal_err *err)
{
	const char *p = text;
	struct number n = { .parts = 1 };
	uint64_t scale;
	wide value;

	*out = 0;
	if (!text || *text == '\0')
		return refuse(kind, "", "is empty", err);
	if (*p == '-')
		return refuse(kind, text, "is negative", err);
	if (!is_digit(*p))
		return refuse(kind, text, "does not start with a digit", err);

	if (!read_whole(&p, &n.whole))
		return refuse_large(kind, text, err);
	if (*p == '.') {
		p++;
		if (!is_digit(*p))
			return refuse(kind, text, "has no digit after the point", err);
		read_part(&p, &n);
	}

	if (*p == '\0' && !can_be_bare(kind, &n))
		return refuse_bare(kind, text, err);
	scale = *p ? read_scale(kind, p) : 1;
	if (scale == 0)
		return refuse(kind, text, "has an unknown unit", err);
	value = (wide)n.whole * scale + ((wide)n.part * scale + n.parts / 2) / n.parts;
	if (value > INT64_MAX)
		return refuse_large(kind, text, err);
	*out = (uint64_t)value;
	return SAL_OK;
}

int sal_bytes_parse(const char *text, uint64_t *out_bytes, struct sal_err *err)
{
	return parse(&size_kind, text, out_bytes, err);
}

int sal_rate_parse(const char *text, uint64_t *out_bytes_per_s, struct sal_err *err)
{
	return parse(&rate_kind, text, out_bytes_per_s, err);
}

int sal_duration_parse(const char *text, uint64_t *out_ns, struct sal_err *err)
{
	return parse(&duration_kind, text, out_ns, err);
}

/* value / scale, rounded to hundredths, with only as many decimals as make three digits. */
static uint64_t round_hundredths(uint64_t value, uint64_t scale)
{
	uint64_t step = 1;

	if (value / scale >= 100)
		step = 100;
	else if (value / scale >= 10)
		step = 10;
	return (uint64_t)(((wide)value * 100 + (wide)scale * step / 2) / ((wide)scale * step)) *
	       step;
}

static const char *format(const struct unit *u, uint64_t value, char *buf, size_t size)
{
	uint64_t hundredths;

	while (u[1].name && value >= u[1].scale)
		u++;
	hundredths = round_hundredths(value, u->scale);
	/* 999.9us rounds to 1000us, which is written as 1ms. */
	if (u[1].name && (wide)hundredths * u->scale >= (wide)u[1].scale * 100) {
		u++;
		hundredths = 100;
	}

	if (hundredths % 100 == 0)
		snprintf(buf, size, "%" PRIu64 "%s", hundredths / 100, u->name);
	else if (hundredths % 10 == 0)
		snprintf(buf, size, "%" PRIu64 ".%" PRIu64 "%s", hundredths / 100,
			 hundredths / 10 % 10, u->name);
	else
		snprintf(buf, size, "%" PRIu64 ".%02" PRIu64 "%s", hundredths / 100,
			 hundredths % 100, u->name);
	return buf;
}

const char *sal_bytes_format(uint64_t bytes, char *buf, size_t size)
{
	return format(shown_byte_units, bytes, buf, size);
}

const char *sal_duration_format(uint64_t ns, char *buf, size_t size)
{
	return format(time_units, ns, buf, size);
}
