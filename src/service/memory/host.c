/* SPDX-License-Identifier: Apache-2.0 */
#include "service/memory/host.h"

#include <string.h>

#include "device/device.h"
#include "service/client/session.h"
#include "service/ledger.h"
#include "service/memory/buffer.h"
#include "service/server.h"

static const struct sal_device_facts *facts_of(const struct svc_server *server)
{
	return server->ops->facts(server->device);
}

bool svc_host_knows(const struct svc_server *server, uint32_t memory)
{
	return memory <= facts_of(server)->memory_count;
}

bool svc_host_is(const struct svc_server *server, uint32_t memory)
{
	const struct sal_device_facts *f = facts_of(server);

	return memory > 0 && memory <= f->memory_count && memory - 1 != f->default_memory &&
	       sal_kind_is_host(f->memories[memory - 1].kind);
}

bool svc_host_is_kind(const struct svc_server *server, struct sal_text kind)
{
	const struct sal_device_facts *f = facts_of(server);
	struct sal_text usual;

	if (!sal_kind_is_host(kind) || f->memory_count == 0)
		return false;
	usual = f->memories[f->default_memory].kind;
	return kind.size != usual.size || memcmp(kind.at, usual.at, kind.size) != 0;
}

void svc_host_enter(struct svc_buffer *b)
{
	uint64_t bytes = svc_buffer_charge(b);
	struct sal_err err = { 0 };

	b->is_on_host = true;
	if (b->code)
		return;
	if (svc_limit_take(b->session, SVC_HOST_BYTES, bytes, &err) < 0)
		svc_buffer_fail(b, err.code, err.text);
	else
		b->host_bytes = bytes;
}

void svc_host_leave(struct svc_buffer *b)
{
	if (b->host_bytes > 0)
		svc_limit_give(b->session, SVC_HOST_BYTES, b->host_bytes);
	b->host_bytes = 0;
}
