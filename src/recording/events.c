/* SPDX-License-Identifier: Apache-2.0 */
#include "recording/events.h"

#include <inttypes.h>

void rec_json_text(FILE *out, const char *text)
{
	(void)fputc('"', out);
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20) {
			(void)fprintf(out, "\\u%04x", (unsigned)*text);
			continue;
		}
		if (*text == '"' || *text == '\\')
			(void)fputc('\\', out);
		(void)fputc(*text, out);
	}
	(void)fputc('"', out);
}

void rec_json_number(FILE *out, uint64_t number)
{
	(void)fprintf(out, number > INT64_MAX ? "\"%" PRIu64 "\"" : "%" PRIu64, number);
}

void rec_event_process(const struct rec_events *e, const char *name)
{
	(void)fprintf(e->out,
		      "%s\n{\"ph\":\"M\",\"pid\":%u,\"tid\":0,\"name\":\"process_name\","
		      "\"args\":{\"name\":",
		      e->pid > 1 ? "," : "", e->pid);
	rec_json_text(e->out, name);
	(void)fputs("}}", e->out);
}

static void start(const struct rec_events *e, const char *phase, unsigned track)
{
	(void)fprintf(e->out, ",\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u", phase, e->pid, track);
}

void rec_event_track(const struct rec_events *e, unsigned track, const char *name)
{
	start(e, "M", track);
	(void)fputs(",\"name\":\"thread_name\",\"args\":{\"name\":", e->out);
	rec_json_text(e->out, name);
	(void)fputs("}}", e->out);
	start(e, "M", track);
	(void)fprintf(e->out, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}",
		      track);
}

/* Microseconds, exact. */
static void put_time(const struct rec_events *e, const char *key, uint64_t ns)
{
	(void)fprintf(e->out, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

void rec_event_open(const struct rec_events *e, const char *phase, unsigned track, uint64_t at_ns)
{
	start(e, phase, track);
	put_time(e, "ts", at_ns > e->origin_ns ? at_ns - e->origin_ns : 0);
}

void rec_event_interval(const struct rec_events *e, unsigned track, uint64_t from_ns,
			uint64_t to_ns)
{
	rec_event_open(e, "X", track, from_ns);
	put_time(e, "dur", to_ns > from_ns ? to_ns - from_ns : 0);
}

void rec_event_name(const struct rec_events *e, const char *name)
{
	(void)fputs(",\"name\":", e->out);
	rec_json_text(e->out, name);
}
