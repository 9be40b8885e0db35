/* SPDX-License-Identifier: Apache-2.0 */
/* error - PJRT_Error: a code and a sentence. */
#ifndef SAL_ADAPTOR_ERROR_H
#define SAL_ADAPTOR_ERROR_H

#include "adaptor/function.h"
#include "base/err.h"

/* NULL for code 0. If an allocation fails: a static error, which destroy ignores. */
PJRT_Error *adp_error(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
PJRT_Error *adp_error_from(const struct sal_err *err);
/* Code and text of an error; the text lives as long as the error. Code 0 for NULL. */
void adp_error_read(const PJRT_Error *error, int *out_code, const char **out_text);
PJRT_Error *adp_out_of_memory(void);

void adp_Error_Destroy(PJRT_Error_Destroy_Args *args);
void adp_Error_Message(PJRT_Error_Message_Args *args);
ADP_FUNCTION(Error_GetCode);

#endif
