/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/run_impl.h"

static bool requests_before(const struct sim *sim, uint32_t a, uint32_t b)
{
	uint64_t ta = sim->live[a].next_request_ns, tb = sim->live[b].next_request_ns;

	return ta != tb ? ta < tb : a < b;
}

void sim_requests_add(struct sim *sim, uint32_t job)
{
	size_t i = sim->request_count++;

	sim->requests[i] = job;
	while (i > 0 && requests_before(sim, sim->requests[i], sim->requests[(i - 1) / 2])) {
		uint32_t t = sim->requests[i];

		sim->requests[i] = sim->requests[(i - 1) / 2];
		sim->requests[(i - 1) / 2] = t;
		i = (i - 1) / 2;
	}
}

void sim_requests_sift(struct sim *sim)
{
	size_t i = 0;

	for (;;) {
		size_t k = 2 * i + 1;
		uint32_t t;

		if (k + 1 < sim->request_count &&
		    requests_before(sim, sim->requests[k + 1], sim->requests[k]))
			k++;
		if (k >= sim->request_count ||
		    !requests_before(sim, sim->requests[k], sim->requests[i]))
			return;
		t = sim->requests[i];
		sim->requests[i] = sim->requests[k];
		sim->requests[k] = t;
		i = k;
	}
}
