/* SPDX-License-Identifier: Apache-2.0 */
/*
 * units - sizes, rates and durations as people write and read them.
 *
 *     size      8GiB  512MiB  15.6GiB  2GB      B, KB MB GB TB (of 1000), KiB MiB GiB TiB (of 1024)
 *     rate      12GB/s  800MiB/s                a size and "/s"
 *     duration  20ms  1.5s  3min  50us  2h      ns us ms s min h
 *
 * A number without a unit is refused, because the user probably forgot the unit. There are two
 * exceptions: 0, and a whole number of bytes from 1 MiB on, as programs write it. The parsers are
 * strict and do not depend on the locale: no sign, no blank, no exponent, and case matters. Results
 * are rounded to the nearest whole byte or nanosecond, and are at most INT64_MAX, so that two of
 * them can be added.
 *
 * Threads: any. There is no state.
 */
#ifndef SAL_BASE_UNITS_H
#define SAL_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

struct sal_err;

/* Enough room for the output of each formatter. */
#define SAL_UNITS_TEXT 24

/*
 * Each returns SAL_OK, -SAL_INVALID_ARGUMENT (a wrong form), or -SAL_OUT_OF_RANGE (too large).
 * After a failure *out is 0, and err has a sentence that quotes the text and says what was
 * expected.
 */
int sal_bytes_parse(const char *text, uint64_t *out_bytes, struct sal_err *err);
int sal_rate_parse(const char *text, uint64_t *out_bytes_per_s, struct sal_err *err);
int sal_duration_parse(const char *text, uint64_t *out_ns, struct sal_err *err);

/*
 * Write three digits in the unit that fits ("15.6GiB", "1.25s", "20ms"). The text is cut if there
 * is less room than SAL_UNITS_TEXT. The parsers can read it. Return buf, for use as an argument of
 * printf.
 */
const char *sal_bytes_format(uint64_t bytes, char *buf, size_t size);
const char *sal_duration_format(uint64_t ns, char *buf, size_t size);

#endif
