/* SPDX-License-Identifier: Apache-2.0 */
#include "support/scene.h"

#include <stdlib.h>
#include <string.h>

#define DEADLINE_S 30

void scene_open(struct scene *s, const struct lie *lie)
{
	memset(s, 0, sizeof(*s));
	s->fds = host_fd_count();
	s->threads = host_thread_count();
	s->bytes = calloc(4, 1 << 20);
	assert_non_null(s->bytes);
	host_deadline(DEADLINE_S);
	false_daemon_start(&s->daemon, lie);
	s->bed.subject = host_subject;
	s->bed.client = client_create();
	{
		ARGS(Client_AddressableDevices, d, .client = s->bed.client);

		ok(api->PJRT_Client_AddressableDevices(&d));
		s->bed.device = d.addressable_devices[0];
	}
}

void scene_close(struct scene *s)
{
	client_destroy(s->bed.client);
	false_daemon_stop(&s->daemon);
	host_deadline(0);
	free(s->bytes);
	host_expect_counts(s->fds, s->threads);
}

PJRT_Buffer *scene_put(struct scene *s, size_t size)
{
	const int64_t dims[] = { (int64_t)size };

	return put(&s->bed, &(struct array){ .type = PJRT_Buffer_Type_U8,
					     .dims = dims,
					     .rank = 1,
					     .data = s->bytes });
}
