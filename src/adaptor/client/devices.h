/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices - how many devices the job wants.
 *
 * `salus run --devices N` (SALUS_DEVICES) says it. So do the settings of JAX's own CPU backend, the
 * first that is there:
 *
 *     the create option cpu_device_count       as the vendor's plugin takes it
 *     SALUS_HOST_DEVICES                       jax_num_cpu_devices, from our Python module
 *     JAX_NUM_CPU_DEVICES                      the same setting in the environment
 *     --xla_force_host_platform_device_count   in XLA_FLAGS
 *
 * These count only if the daemon's device is the host. A job that says two different numbers is
 * refused: one of them would be ignored.
 */
#ifndef SAL_ADAPTOR_CLIENT_DEVICES_H
#define SAL_ADAPTOR_CLIENT_DEVICES_H

#include <stddef.h>

#include "adaptor/function.h"
#include "base/err.h"

struct sal_hello;

int adp_devices_read(struct sal_hello *hello, const PJRT_NamedValue *options, size_t option_count,
		     struct sal_err *err);

#endif
