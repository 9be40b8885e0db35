/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/chrome.h"

int sim_chrome_write(FILE *out, const struct sim_result *results, size_t count, struct sal_err *err)
{
	(void)out;
	(void)results;
	(void)count;
	return sal_err_set(err, SAL_UNIMPLEMENTED, "no traces yet");
}
