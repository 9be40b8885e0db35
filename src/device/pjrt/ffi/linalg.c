/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pjrt/ffi/linalg.h"

#include <string.h>

#include "device/pjrt/ffi/ffi.h"
#include "device/pjrt/vendor.h"
#include "linalg/targets.h"

/* The first version for which the layout of ffi_register_args is known. */
#define FFI_MINOR_MIN 81

/* XLA's name for the platform of handlers that run on the host. */
static const char host[] = "Host";

static int register_target(const struct sal_device *d, const struct linalg_target *target,
			   struct sal_err *err)
{
	struct {
		struct ffi_register_args args;
		unsigned char tail[VENDOR_TAIL];
	} reg = { .args = { .struct_size = sizeof(reg.args) + d->tail,
			    .target = target->name,
			    .target_size = strlen(target->name),
			    .platform = host,
			    .platform_size = sizeof(host) - 1 } };

	memcpy(&reg.args.handler, &target->handler, sizeof(reg.args.handler));
	return sal_vendor_check(d, d->ffi->register_handler(&reg.args), err);
}

/*
 * A plugin without the extension, or one that takes no handlers, can run everything but linear
 * algebra. The compiler then says which custom call it does not know.
 */
int sal_vendor_register(const struct sal_device *d, struct sal_err *err)
{
	struct linalg_target target;
	int rc = SAL_OK;

	if (!d->facts.is_host || !d->ffi || !d->ffi->register_handler ||
	    d->api->pjrt_api_version.minor_version < FFI_MINOR_MIN)
		return SAL_OK;
	for (size_t i = 0; i < sal_linalg_target_count() && rc >= 0; i++) {
		sal_linalg_target(i, &target);
		rc = register_target(d, &target, err);
	}
	return rc == -SAL_ALREADY_EXISTS || rc == -SAL_UNIMPLEMENTED ? SAL_OK : rc;
}
