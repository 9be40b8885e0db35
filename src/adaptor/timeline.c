/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/timeline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adaptor/proto.h"
#include "base/sys/clock.h"
#include "wire/messages.h"

/* Later iterations of a profile are not kept, only counted. */
#define ENTRIES_MAX 200000
/* Programs beyond this number have no name. */
#define NAMES_MAX 256
#define NAME_BYTES 96
/* Shorter waits are not drawn. */
#define WAIT_MIN_NS 1000
/* Profilers draw every plane whose name begins like this. */
#define PLANE "/device:CUSTOM:Salus"

struct entry {
	struct sal_times times;
	uint32_t name;
};

static struct {
	_Atomic bool is_on;
	pthread_mutex_t lock; /* guards the rest */
	struct entry *entries; /* owned */
	uint32_t count, room;
	uint64_t lost;
	uint64_t from_ns; /* when the profile began */
	char names[NAMES_MAX][NAME_BYTES];
	uint32_t name_count;
} timeline = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool adp_timeline_is_on(void)
{
	return atomic_load_explicit(&timeline.is_on, memory_order_relaxed);
}

void adp_timeline_start(void)
{
	(void)pthread_mutex_lock(&timeline.lock);
	timeline.count = 0;
	timeline.lost = 0;
	timeline.name_count = 0;
	timeline.from_ns = sal_now_ns();
	(void)pthread_mutex_unlock(&timeline.lock);
	atomic_store(&timeline.is_on, true);
}

void adp_timeline_stop(void)
{
	atomic_store(&timeline.is_on, false);
}

/* Under the lock. */
static uint32_t find_name(struct sal_text program)
{
	size_t size = program.size < NAME_BYTES - 1 ? program.size : NAME_BYTES - 1;
	uint32_t i;

	for (i = 0; i < timeline.name_count; i++)
		if (strncmp(timeline.names[i], program.at, size) == 0 &&
		    timeline.names[i][size] == 0)
			return i;
	if (i == NAMES_MAX - 1) {
		program = (struct sal_text){ "others", 6 };
		size = 6;
	} else if (i == NAMES_MAX) {
		return NAMES_MAX - 1;
	}
	(void)snprintf(timeline.names[i], NAME_BYTES, "%.*s", (int)size, (const char *)program.at);
	timeline.name_count++;
	return i;
}

/* Under the lock. */
static bool make_room(void)
{
	uint32_t room = timeline.room ? timeline.room * 2 : 1024;
	struct entry *more;

	if (timeline.count < timeline.room)
		return true;
	if (timeline.count >= ENTRIES_MAX)
		return false;
	more = realloc(timeline.entries, room * sizeof(*more));
	if (!more)
		return false;
	timeline.entries = more;
	timeline.room = room;
	return true;
}

void adp_timeline_add(struct sal_text program, const struct sal_times *times)
{
	(void)pthread_mutex_lock(&timeline.lock);
	if (make_room())
		timeline.entries[timeline.count++] = (struct entry){ *times, find_name(program) };
	else
		timeline.lost++;
	(void)pthread_mutex_unlock(&timeline.lock);
}

/* Field numbers of tsl/profiler/protobuf/xplane.proto. */
enum {
	SPACE_PLANES = 1,
	ID = 1, /* of a plane, a line, a kind */
	NAME = 2, /* likewise */
	PLANE_LINES = 3,
	PLANE_EVENT_KINDS = 4,
	PLANE_STAT_KINDS = 5,
	LINE_FROM_NS = 3,
	LINE_EVENTS = 4,
	EVENT_KIND = 1,
	EVENT_OFFSET_PS = 2,
	EVENT_DURATION_PS = 3,
	EVENT_STATS = 4,
	STAT_KIND = 1,
	STAT_NUMBER = 3,
	ENTRY_KEY = 1,
	ENTRY_VALUE = 2
};

/* Kinds of events. Those of the programs follow. */
enum {
	WAITS = 1,
	PREPARES,
	PAGE_OUT,
	PAGE_IN,
	PROGRAMS
};

static const char *const event_names[] = {
	[WAITS] = "waits for its turn",
	[PREPARES] = "granted: program and arguments come into the lane",
	[PAGE_OUT] = "page out",
	[PAGE_IN] = "page in",
};

/* Kinds of numbers of an event. */
enum {
	LANE = 1,
	WAITED_US
};

enum {
	ITERATIONS,
	WAITING,
	PAGING,
	LINES
};

static const char *const line_names[LINES] = { "iterations", "waits", "paging" };

struct drawing {
	struct adp_proto lines[LINES];
	uint64_t from_ns;
	uint64_t ended_ns; /* when the iteration before ended */
	uint64_t out_ns, in_ns; /* the last page-out and page-in that are drawn */
};

static void put_stat(struct adp_proto *event, uint64_t kind, uint64_t value)
{
	struct adp_proto stat = { 0 };

	adp_proto_number(&stat, STAT_KIND, kind);
	adp_proto_number(&stat, STAT_NUMBER, value);
	adp_proto_message(event, EVENT_STATS, &stat);
}

/* What happened before the profile began is not drawn. */
static struct adp_proto begin_event(const struct drawing *d, uint64_t kind, uint64_t from_ns,
				    uint64_t until_ns)
{
	struct adp_proto event = { 0 };

	if (from_ns < d->from_ns)
		from_ns = d->from_ns;
	if (until_ns < from_ns)
		until_ns = from_ns;
	adp_proto_number(&event, EVENT_KIND, kind);
	adp_proto_number(&event, EVENT_OFFSET_PS, (from_ns - d->from_ns) * 1000);
	adp_proto_number(&event, EVENT_DURATION_PS, (until_ns - from_ns) * 1000);
	return event;
}

static void draw(struct drawing *d, int line, uint64_t kind, uint64_t from_ns, uint64_t until_ns)
{
	struct adp_proto event = begin_event(d, kind, from_ns, until_ns);

	adp_proto_message(&d->lines[line], LINE_EVENTS, &event);
}

static void draw_paging(struct drawing *d, const struct sal_times *t)
{
	if (t->out_until_ns > d->out_ns && t->out_until_ns > d->from_ns)
		draw(d, PAGING, PAGE_OUT, t->out_from_ns, t->out_until_ns);
	if (t->in_until_ns > d->in_ns && t->in_until_ns > d->from_ns)
		draw(d, PAGING, PAGE_IN, t->in_from_ns, t->in_until_ns);
	d->out_ns = t->out_until_ns;
	d->in_ns = t->in_until_ns;
}

/* An iteration that was sent early waits for those before it first: that is no wait for a turn. */
static void draw_entry(struct drawing *d, const struct entry *e)
{
	const struct sal_times *t = &e->times;
	uint64_t ready_ns = t->submit_ns > d->ended_ns ? t->submit_ns : d->ended_ns;
	uint64_t waited_ns = t->grant_ns > ready_ns ? t->grant_ns - ready_ns : 0;
	struct adp_proto event =
		begin_event(d, (uint64_t)PROGRAMS + e->name, t->start_ns, t->end_ns);

	put_stat(&event, LANE, t->lane);
	put_stat(&event, WAITED_US, waited_ns / 1000);
	adp_proto_message(&d->lines[ITERATIONS], LINE_EVENTS, &event);
	if (waited_ns >= WAIT_MIN_NS)
		draw(d, WAITING, WAITS, ready_ns, t->grant_ns);
	if (t->start_ns > t->grant_ns + WAIT_MIN_NS)
		draw(d, WAITING, PREPARES, t->grant_ns, t->start_ns);
	draw_paging(d, t);
	if (t->end_ns > d->ended_ns)
		d->ended_ns = t->end_ns;
}

static void put_kind(struct adp_proto *plane, int field, uint64_t id, const char *name)
{
	struct adp_proto kind = { 0 }, entry = { 0 };

	adp_proto_number(&kind, ID, id);
	adp_proto_text(&kind, NAME, name);
	adp_proto_number(&entry, ENTRY_KEY, id);
	adp_proto_message(&entry, ENTRY_VALUE, &kind);
	adp_proto_message(plane, field, &entry);
}

static void put_kinds(struct adp_proto *plane)
{
	uint32_t i;

	for (i = WAITS; i < PROGRAMS; i++)
		put_kind(plane, PLANE_EVENT_KINDS, i, event_names[i]);
	for (i = 0; i < timeline.name_count; i++)
		put_kind(plane, PLANE_EVENT_KINDS, (uint64_t)PROGRAMS + i, timeline.names[i]);
	put_kind(plane, PLANE_STAT_KINDS, LANE, "lane");
	put_kind(plane, PLANE_STAT_KINDS, WAITED_US, "waited_us");
}

/* Profilers count from the epoch, the daemon from the start of the machine. */
static uint64_t since_epoch_ns(uint64_t at_ns)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - (sal_now_ns() - at_ns);
}

static void put_line(struct adp_proto *plane, int number, uint64_t from_ns,
		     struct adp_proto *take_events)
{
	struct adp_proto line = { 0 };
	char name[128];

	(void)snprintf(name, sizeof(name), "Salus: %s", line_names[number]);
	if (number == ITERATIONS && timeline.lost > 0)
		(void)snprintf(name, sizeof(name),
			       "Salus: iterations (%llu later ones are missing)",
			       (unsigned long long)timeline.lost);
	adp_proto_number(&line, ID, (uint64_t)number + 1);
	adp_proto_text(&line, NAME, name);
	adp_proto_number(&line, LINE_FROM_NS, from_ns);
	adp_proto_append(&line, take_events);
	adp_proto_message(plane, PLANE_LINES, &line);
}

/* Under the lock. */
static void write_space(struct adp_proto *space)
{
	struct drawing d = { .from_ns = timeline.from_ns, .ended_ns = timeline.from_ns };
	uint64_t from_ns = since_epoch_ns(timeline.from_ns);
	struct adp_proto plane = { 0 };
	uint32_t i;
	int line;

	for (i = 0; i < timeline.count; i++)
		draw_entry(&d, &timeline.entries[i]);
	adp_proto_number(&plane, ID, 1);
	adp_proto_text(&plane, NAME, PLANE);
	for (line = 0; line < LINES; line++)
		put_line(&plane, line, from_ns, &d.lines[line]);
	put_kinds(&plane);
	adp_proto_message(space, SPACE_PLANES, &plane);
}

void *adp_timeline_write(size_t *out_size)
{
	struct adp_proto space = { 0 };

	*out_size = 0;
	(void)pthread_mutex_lock(&timeline.lock);
	if (timeline.count > 0)
		write_space(&space);
	free(timeline.entries);
	timeline.entries = NULL;
	timeline.count = timeline.room = 0;
	(void)pthread_mutex_unlock(&timeline.lock);
	if (space.failed)
		adp_proto_free(&space);
	*out_size = space.size;
	return space.at;
}
