/* SPDX-License-Identifier: Apache-2.0 */
/* scene - a client of the plugin next to a false daemon, for one test. */
#ifndef SAL_TESTS_SCENE_H
#define SAL_TESTS_SCENE_H

#include "support/false_daemon.h"
#include "support/plugin_host.h"

struct scene {
	struct false_daemon daemon;
	struct bed bed;
	char *bytes; /* owned: zeros, 4 MiB */
	size_t fds, threads;
};

void scene_open(struct scene *s, const struct lie *lie);
/* Checks that the test has freed everything. */
void scene_close(struct scene *s);
/* Uploads this many zeros. */
PJRT_Buffer *scene_put(struct scene *s, size_t size);

#endif
