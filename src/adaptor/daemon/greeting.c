/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/daemon/greeting.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/sys/fd.h"
#include "link/socket.h"

#define TIMEOUT_MS 30000
#define FACTS_MAX (16u << 20)
#define RING_MAX (1u << 30)

static bool is_possible(const struct sal_welcome *w)
{
	return w->fact_bytes <= FACTS_MAX && (w->ring_bytes & (w->ring_bytes - 1)) == 0 &&
	       w->ring_bytes >= UINT64_C(2) * SAL_RECORD_MAX && w->ring_bytes <= RING_MAX;
}

/* A newer daemon's welcome is longer than ours. */
static int skip_tail(int socket, uint32_t size, struct sal_err *err)
{
	char tail[4096];

	if (size <= sizeof(struct sal_welcome))
		return SAL_OK;
	if (size - sizeof(struct sal_welcome) > sizeof(tail))
		return sal_err_set(err, SAL_DATA_LOSS, "salusd sent nonsense");
	return sal_socket_receive(socket, tail, size - sizeof(struct sal_welcome), NULL, 0,
				  TIMEOUT_MS, err);
}

static int receive_welcome(int socket, struct adp_greeting *g, struct sal_err *err)
{
	struct sal_welcome *w = &g->welcome;
	int fds[4];
	int rc = sal_socket_receive(socket, w, sizeof(*w), fds, 4, TIMEOUT_MS, err);

	if (rc < 0)
		return rc;
	g->rings = fds[0];
	g->daemon_bell = fds[1];
	g->bell = fds[2];
	g->segment = fds[3];
	w->reason[SAL_REASON_BYTES - 1] = '\0';
	if (w->magic != SAL_WIRE_MAGIC || w->major != SAL_WIRE_MAJOR)
		return sal_err_set(
			err, SAL_FAILED_PRECONDITION,
			"salusd speaks another protocol (%u.%u, ours is %d.%d): restart it, so that both are of the same version",
			w->major, w->minor, SAL_WIRE_MAJOR, SAL_WIRE_MINOR);
	if (w->code != 0)
		return sal_err_set(err, (enum sal_code)w->code, "salusd: %s", w->reason);
	if (g->segment < 0 || !is_possible(w))
		return sal_err_set(err, SAL_DATA_LOSS, "salusd sent nonsense");
	return skip_tail(socket, w->size, err);
}

static int receive_facts(int socket, struct adp_greeting *g, struct sal_err *err)
{
	size_t size = (size_t)g->welcome.fact_bytes;

	g->facts = malloc(size + 1);
	if (!g->facts)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	return sal_socket_receive(socket, g->facts, size, NULL, 0, TIMEOUT_MS, err);
}

/* An older daemon would give one device, and say nothing. */
static int check_devices(const struct sal_welcome *w, const struct sal_hello *hello,
			 struct sal_err *err)
{
	if (w->minor >= SAL_MINOR_DEVICES || (hello->devices <= 1 && hello->host_devices <= 1))
		return SAL_OK;
	return sal_err_set(err, SAL_FAILED_PRECONDITION,
			   "the job asks for several devices, and this salusd is too old for that: "
			   "restart it, so that both are of the same version");
}

int adp_greet(int socket, const struct sal_hello *hello, struct adp_greeting *out,
	      struct sal_err *err)
{
	int rc;

	*out = (struct adp_greeting){ .rings = -1, .daemon_bell = -1, .bell = -1, .segment = -1 };
	rc = sal_socket_send(socket, hello, sizeof(*hello), NULL, 0, err);
	if (rc >= 0)
		rc = receive_welcome(socket, out, err);
	if (rc >= 0)
		rc = check_devices(&out->welcome, hello, err);
	if (rc >= 0)
		rc = receive_facts(socket, out, err);
	return rc;
}

void adp_greeting_fini(struct adp_greeting *g)
{
	sal_close(&g->rings);
	sal_close(&g->daemon_bell);
	sal_close(&g->bell);
	sal_close(&g->segment);
	free(g->facts);
}
