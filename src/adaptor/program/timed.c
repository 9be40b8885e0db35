/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/program/timed.h"

#include <stdlib.h>
#include <string.h>

#include "adaptor/program/program.h"
#include "adaptor/timeline.h"
#include "wire/messages.h"

struct timed {
	struct adp_listener listener;
	size_t name_size;
	char name[]; /* of the program, which may be gone before the answer comes */
};

static void on_timed(void *ctx, const struct adp_answer *answer)
{
	struct timed *t = ctx;
	struct sal_times times;

	if (answer->code == 0 && answer->tail_size >= sizeof(times)) {
		memcpy(&times, answer->tail, sizeof(times));
		adp_timeline_add((struct sal_text){ t->name, t->name_size }, &times);
	}
	t->listener.fn(t->listener.ctx, answer);
	free(t);
}

bool adp_timed_begin(const struct adp_program *program, struct adp_listener *listener)
{
	struct sal_text name = program->facts->name;
	struct timed *t = adp_timeline_is_on() ? malloc(sizeof(*t) + name.size) : NULL;

	if (!t)
		return false;
	t->listener = *listener;
	t->name_size = name.size;
	if (name.size > 0)
		memcpy(t->name, name.at, name.size);
	*listener = (struct adp_listener){ on_timed, t };
	return true;
}

void adp_timed_drop(struct adp_listener *listener)
{
	if (listener->fn == on_timed)
		free(listener->ctx);
}
