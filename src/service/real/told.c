/* SPDX-License-Identifier: Apache-2.0 */
#include "service/real/told.h"

#include "service/client/session.h"
#include "service/memory/program.h"
#include "service/run/dispatch.h"
#include "service/server.h"

/* Of the iteration before: 0 if the device never used so much for it. */
static uint64_t took_bytes(const struct svc_told *before, const struct sal_stream_memory *now,
			   int64_t came_bytes)
{
	int64_t other = (int64_t)before->used_bytes + (came_bytes - before->came_bytes);
	int64_t took = (int64_t)now->peak_bytes - other;

	return now->peak_bytes > before->peak_bytes && took > 0 ? (uint64_t)took : 0;
}

void svc_told_count(struct svc_server *server, int64_t bytes)
{
	(void)atomic_fetch_add(&server->came_bytes, bytes);
}

void svc_told_await(struct svc_server *server, uint64_t bytes)
{
	(void)atomic_fetch_add(&server->coming_bytes, (int64_t)bytes);
}

void svc_told_arrived(struct svc_server *server, uint64_t bytes)
{
	(void)atomic_fetch_sub(&server->coming_bytes, (int64_t)bytes);
}

void svc_told_read(struct svc_execution *x)
{
	struct svc_server *server = x->session->server;
	struct svc_told *told = &server->streams[x->stream].told;
	int64_t had_come = atomic_load(&server->came_bytes), may_have_come;
	struct sal_stream_memory now;

	x->told.bytes = 0;
	if (!server->tells_memory || x->is_nested ||
	    svc_vendor(server)->memory(server->streams[x->stream].device, &now) < 0)
		return;
	/* What is on its way may be in the vendor's numbers already. */
	may_have_come = atomic_load(&server->coming_bytes);
	may_have_come += atomic_load(&server->came_bytes);
	x->told = (struct svc_told_run){ .program = told->program,
					 .number = told->number,
					 .bytes = took_bytes(told, &now, may_have_come) };
	told->program = x->shared->id;
	told->number = x->shared->number;
	told->came_bytes = had_come;
	told->used_bytes = now.used_bytes;
	told->peak_bytes = now.peak_bytes;
}

void svc_told_learn(const struct svc_execution *x)
{
	struct svc_shared_program *p;

	if (x->told.bytes == 0 || x->told.program == 0)
		return;
	p = svc_idmap_find(&x->session->server->programs, x->told.program);
	if (p && p->number == x->told.number && p->told_bytes < x->told.bytes)
		p->told_bytes = x->told.bytes;
}
