/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pjrt/ffi/python.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "device/pjrt/vendor.h"

/* Any number that XLA does not use itself: it names the data that we attach to an execution. */
#define DATA_TYPE_ID INT64_C(0x53414c5553) /* "SALUS" */
/* The most operands and results of a call. */
#define ARRAYS_MAX 256
/* All names of such custom calls end in this. */
#define TARGET_END "python_cpu_callback"
/* The name of the host's platform in XLA's registry. */
#define HOST "Host"

static const struct ffi_extension *find_ffi(const PJRT_Api *api)
{
	const PJRT_Extension_Base *e = api->extension_start;

	while (e && e->type != PJRT_Extension_Type_FFI)
		e = e->next;
	if (!e || e->struct_size < sizeof(struct ffi_extension))
		return NULL;
	return (const struct ffi_extension *)e;
}

/* Errors that a handler returns belong to XLA. */
static struct ffi_error *fail(const struct ffi_frame *f, int code, const char *message)
{
	struct ffi_error_args args = {
		.struct_size = sizeof(args),
		.message = message,
		.code = code,
	};

	return f->api->make_error(&args);
}

/* The version that XLA asks for before it takes a handler. False: this is a real call. */
static bool tell_version(struct ffi_frame *f)
{
	const struct ffi_extension_base *e = f->extension_start;
	struct ffi_metadata *metadata;

	if (!e || e->type != FFI_EXTENSION_METADATA)
		return false;
	metadata = ((const struct ffi_metadata_extension *)e)->metadata;
	metadata->version.major = FFI_VERSION_MAJOR;
	metadata->version.minor = FFI_VERSION_MINOR;
	metadata->traits = 0;
	return true;
}

/* Bytes of one element; 0: no whole bytes, or unknown. */
static uint64_t element_bytes(int type)
{
	static const unsigned char bytes[] = {
		[FFI_PRED] = 1,	      [FFI_S8] = 1,	    [FFI_S16] = 2,
		[FFI_S32] = 4,	      [FFI_S64] = 8,	    [FFI_U8] = 1,
		[FFI_U16] = 2,	      [FFI_U32] = 4,	    [FFI_U64] = 8,
		[FFI_F16] = 2,	      [FFI_F32] = 4,	    [FFI_F64] = 8,
		[FFI_C64] = 8,	      [FFI_BF16] = 2,	    [FFI_C128] = 16,
		[FFI_F8E5M2] = 1,     [FFI_F8E4M3FN] = 1,   [FFI_F8E4M3B11FNUZ] = 1,
		[FFI_F8E5M2FNUZ] = 1, [FFI_F8E4M3FNUZ] = 1, [FFI_F8E4M3] = 1,
		[FFI_F8E3M4] = 1,     [FFI_F8E8M0FNU] = 1,
	};

	return type > 0 && (size_t)type < SAL_COUNT(bytes) ? bytes[type] : 0;
}

/* Elements of less than a byte are packed, the first one in the low bits. */
static uint64_t elements_in_byte(int type)
{
	switch (type) {
	case FFI_S4:
	case FFI_U4:
	case FFI_F4E2M1FN:
		return 2;
	case FFI_S2:
	case FFI_U2:
		return 4;
	default:
		return 1;
	}
}

static bool describe(const struct ffi_buffer *b, struct sal_call_array *out)
{
	uint64_t in_byte = elements_in_byte(b->type);
	uint64_t bytes = in_byte > 1 ? 1 : element_bytes(b->type);

	if (b->type == FFI_TOKEN) {
		*out = (struct sal_call_array){ .type = SAL_CALL_TOKEN };
		return true;
	}
	if (bytes == 0 || b->rank < 0 || b->rank > VENDOR_RANK_MAX)
		return false;
	for (int64_t i = 0; i < b->rank; i++)
		if (b->dims[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)b->dims[i], &bytes))
			return false;
	*out = (struct sal_call_array){ .type = b->type,
					.rank = (uint32_t)b->rank,
					.dims = b->dims,
					.data = b->data,
					.bytes = bytes / in_byte + (bytes % in_byte > 0) };
	return true;
}

static bool describe_all(const struct ffi_list *list, struct sal_call_array *out)
{
	for (int64_t i = 0; i < list->count; i++)
		if (!describe(list->at[i], &out[i]))
			return false;
	return true;
}

static bool find_index(const struct ffi_attrs *attrs, uint64_t *out_index)
{
	for (int64_t i = 0; i < attrs->count; i++) {
		const struct ffi_span *name = attrs->names[i];
		const struct ffi_scalar *scalar = attrs->at[i];

		if (attrs->types[i] != FFI_ATTR_SCALAR || name->size != 5 ||
		    memcmp(name->at, "index", 5) != 0 || scalar->type != FFI_U64)
			continue;
		memcpy(out_index, scalar->value, sizeof(*out_index));
		return true;
	}
	return false;
}

/* The data of this execution; NULL: it has none, because its client does not take calls. */
static struct vendor_python *find_data(const struct ffi_frame *f)
{
	const int64_t id = DATA_TYPE_ID;
	struct ffi_context_args get = {
		.struct_size = sizeof(get),
		.context = f->context,
		.type_id = &id,
	};
	struct ffi_error *error = f->api->context_get(&get);
	struct ffi_destroy_args destroy = { .struct_size = sizeof(destroy), .error = error };

	if (!error)
		return get.data;
	f->api->destroy_error(&destroy);
	return NULL;
}

static int serve(const struct ffi_frame *f, const struct vendor_python *p, struct sal_err *err)
{
	struct sal_call_array operands[ARRAYS_MAX];
	struct sal_call_array results[ARRAYS_MAX];
	struct sal_call call = { .operands = operands,
				 .results = results,
				 .operand_count = (uint32_t)f->operands.count,
				 .result_count = (uint32_t)f->results.count };

	if (!find_index(&f->attrs, &call.index))
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "a Python callback without its index");
	if (!describe_all(&f->operands, operands) || !describe_all(&f->results, results))
		return sal_err_set(
			err, SAL_UNIMPLEMENTED,
			"a Python callback with an array of a type that it does not take");
	return p->call(p->call_ctx, &call, err);
}

static int check_and_serve(const struct ffi_frame *f, const struct vendor_python *p,
			   struct sal_err *err)
{
	if (f->operands.count > ARRAYS_MAX || f->results.count > ARRAYS_MAX)
		return sal_err_set(err, SAL_UNIMPLEMENTED,
				   "a Python callback with more than 256 operands or results");
	if (!p || !p->call)
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "this client does not serve Python callbacks");
	return serve(f, p, err);
}

static void clear_results(const struct ffi_frame *f)
{
	struct sal_call_array a;

	for (int64_t i = 0; i < f->results.count; i++)
		if (describe(f->results.at[i], &a) && a.bytes > 0)
			memset(a.data, 0, a.bytes);
}

/*
 * If one chip fails, the others wait for it in their next collective, and XLA cannot end that. So
 * the calls of a wide execution never fail for XLA. After a failure their results are zeros, Python
 * is not called again, and the execution fails when all chips have ended.
 */
static void fail_later(struct vendor_python *p, const struct sal_err *err)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&p->code, &none, err->code))
		p->text = strdup(err->text);
}

/* The handler. */
static struct ffi_error *on_call(struct ffi_frame *f)
{
	struct sal_err err = { 0 };
	struct vendor_python *p;

	if (tell_version(f) || f->stage != FFI_STAGE_EXECUTE)
		return NULL;
	p = find_data(f);
	if (!p || atomic_load(&p->code) == 0) {
		if (check_and_serve(f, p, &err) >= 0)
			return NULL;
		if (!p || !p->is_wide)
			return fail(f, err.code, err.text);
		fail_later(p, &err);
	}
	clear_results(f);
	return NULL;
}

static void add(const struct sal_device *d, const struct ffi_extension *ffi, const char *target)
{
	struct ffi_register_args args = {
		.struct_size = sizeof(args),
		.target = target,
		.target_size = strlen(target),
		.platform = HOST,
		.platform_size = strlen(HOST),
	};
	struct ffi_error *(*handler)(struct ffi_frame * f) = on_call;

	memcpy(&args.handler, &handler, sizeof(handler));
	sal_vendor_drop(d, ffi->register_handler(&args));
}

void sal_python_register(struct sal_device *d)
{
	d->ffi = find_ffi(d->api);
	if (!d->ffi || !VENDOR_HAS(d, PJRT_ExecuteContext_Create))
		return;
	add(d, d->ffi, "xla_ffi_" TARGET_END);
	add(d, d->ffi, "xla_ffi_partitioned_" TARGET_END);
}

static int attach(struct vendor_python *p, struct sal_err *err)
{
	const struct sal_device *d = p->stream->device;
	struct ffi_user_data_args add = { .struct_size = sizeof(add),
					  .type_id = DATA_TYPE_ID,
					  .data = p };
	int rc;

	VENDOR_ARGS(d, PJRT_ExecuteContext_Create_Args, create, .extension_start = NULL);

	rc = sal_vendor_check(d, d->api->PJRT_ExecuteContext_Create(&create.args), err);
	if (rc < 0)
		return rc;
	p->context = create.args.context;
	add.context = p->context;
	return sal_vendor_check(d, d->ffi->user_data_add(&add), err);
}

bool sal_python_is_in(struct sal_text image)
{
	return memmem(image.at, image.size, TARGET_END, sizeof(TARGET_END) - 1) != NULL;
}

int sal_python_begin(struct sal_stream *s, const struct sal_execution *x,
		     struct vendor_python **out_python, struct sal_err *err)
{
	const struct sal_device *d = s->device;
	struct vendor_python *p;
	int rc;

	*out_python = NULL;
	if (!d->ffi || !VENDOR_HAS(d, PJRT_ExecuteContext_Create))
		return SAL_OK; /* such a program did not compile */
	p = calloc(1, sizeof(*p));
	if (!p)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for an iteration");
	p->stream = s;
	(void)atomic_fetch_add(&s->callers, 1);
	p->call = x->call;
	p->call_ctx = x->call_ctx;
	p->done = x->done;
	p->done_ctx = x->done_ctx;
	p->is_wide = x->chip_count > 1;
	rc = attach(p, err);
	if (rc < 0) {
		sal_python_end(p);
		return rc;
	}
	*out_python = p;
	return SAL_OK;
}

void sal_python_end(struct vendor_python *p)
{
	const struct sal_device *d;

	if (!p)
		return;
	d = p->stream->device;
	if (p->context) {
		VENDOR_ARGS(d, PJRT_ExecuteContext_Destroy_Args, destroy, .context = p->context);

		sal_vendor_drop(d, d->api->PJRT_ExecuteContext_Destroy(&destroy.args));
	}
	(void)atomic_fetch_sub(&p->stream->callers, 1);
	free(p->text);
	free(p);
}

void sal_python_done(void *ctx, int code, const char *message)
{
	struct vendor_python *p = ctx;
	sal_done_fn *done = p->done;
	void *done_ctx = p->done_ctx;
	int own_code = atomic_load(&p->code);
	char *own_text = p->text;

	p->text = NULL;
	sal_python_end(p);
	if (own_code)
		done(done_ctx, own_code, own_text ? own_text : "");
	else
		done(done_ctx, code, message);
	free(own_text);
}
