/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "compile/comparator.h"

/* Limit of instructions evaluated in one proof: some seconds. */
#define WORK_MAX (UINT64_C(1) << 30)

enum truth {
	NO,
	YES,
	MAYBE,
};

enum sign {
	LESS,
	EQUAL,
	GREATER,
	ANY,
};

/* Facts about a node. */
struct fact {
	enum truth truth;
	uint32_t own_key; /* of this node's value, if a comparison uses it; else SAL_NODE_NONE */
	uint32_t key; /* the key by which this comparison decides; else SAL_NODE_NONE */
	enum truth answers[3]; /* the answers of this comparison, by sign */
};

struct proof {
	struct sal_comparator graph; /* owned */
	struct fact *facts; /* owned; by place */
	uint32_t *logic; /* owned: places of boolean nodes that depend on both sides */
	enum sign *signs; /* owned; indexed by key */
	uint32_t logic_count, key_count;
	uint64_t work;
};

/* Comparisons of keys */

static bool is_total(const struct sal_node *compare, const struct sal_node *operand)
{
	switch (sal_class_of(operand->type)) {
	case SAL_CLASS_SIGNED:
		return compare->comparison.size == 0 || sal_text_is(compare->comparison, "SIGNED");
	case SAL_CLASS_UNSIGNED:
		return compare->comparison.size == 0 ||
		       sal_text_is(compare->comparison, "UNSIGNED");
	case SAL_CLASS_REAL:
		return sal_text_is(compare->comparison, "TOTALORDER");
	default:
		return false;
	}
}

/* The answers of a comparison if its left side is less, equal, greater. */
static bool answers_of(struct sal_text direction, enum truth out_answers[3])
{
	static const struct {
		const char *name;
		enum truth answers[3];
	} all[] = {
		{ "LT", { YES, NO, NO } },  { "LE", { YES, YES, NO } }, { "EQ", { NO, YES, NO } },
		{ "GE", { NO, YES, YES } }, { "GT", { NO, NO, YES } },	{ "NE", { YES, NO, YES } },
	};

	for (size_t i = 0; i < SAL_COUNT(all); i++) {
		if (!sal_text_is(direction, all[i].name))
			continue;
		memcpy(out_answers, all[i].answers, sizeof(all[i].answers));
		return true;
	}
	return false;
}

/* True if both sides compute the same key. *out_swapped then says that b is on the left. */
static bool is_mirrored(const struct proof *p, const struct sal_node *compare, bool *out_swapped)
{
	const struct sal_node *left = &p->graph.nodes[compare->operands[0]];
	const struct sal_node *right = &p->graph.nodes[compare->operands[1]];

	*out_swapped = left->sides == SAL_SIDE_B;
	return left->value == right->value &&
	       ((left->sides == SAL_SIDE_A && right->sides == SAL_SIDE_B) ||
		(left->sides == SAL_SIDE_B && right->sides == SAL_SIDE_A));
}

static uint32_t key_of(struct proof *p, uint32_t value)
{
	struct fact *fact = &p->facts[value];

	if (fact->own_key == SAL_NODE_NONE) {
		p->signs[p->key_count] = ANY;
		fact->own_key = p->key_count++;
	}
	return fact->own_key;
}

static void read_comparison(struct proof *p, const struct sal_node *node, struct fact *fact)
{
	const struct sal_node *left = &p->graph.nodes[node->operands[0]];
	enum truth first;
	bool swapped;

	if (!is_mirrored(p, node, &swapped) || !is_total(node, left) ||
	    !answers_of(node->direction, fact->answers))
		return;
	fact->key = key_of(p, left->value);
	if (!swapped)
		return;
	first = fact->answers[LESS];
	fact->answers[LESS] = fact->answers[GREATER];
	fact->answers[GREATER] = first;
}

static void read_fact(struct proof *p, uint32_t place)
{
	const struct sal_node *node = &p->graph.nodes[place];
	struct fact *fact = &p->facts[place];

	*fact = (struct fact){ .truth = MAYBE, .own_key = SAL_NODE_NONE, .key = SAL_NODE_NONE };
	if (node->type != SAL_HLO_PRED)
		return;
	if (node->op == SAL_OP_CONSTANT && sal_hlo_pred(node->literal) >= 0)
		fact->truth = sal_hlo_pred(node->literal) ? YES : NO;
	if (node->op == SAL_OP_COMPARE)
		read_comparison(p, node, fact);
	if (node->op >= SAL_OP_COMPARE && node->sides == SAL_SIDE_BOTH)
		p->logic[p->logic_count++] = place;
}

static int proof_open(struct proof *p, const struct sal_hlo_module *module,
		      const struct sal_hlo_computation *comparator)
{
	int rc = sal_comparator_build(module, comparator, &p->graph);
	uint32_t count = p->graph.count;

	if (rc < 0)
		return rc;
	p->facts = calloc(count, sizeof(*p->facts));
	p->logic = calloc(count, sizeof(*p->logic));
	p->signs = calloc(count, sizeof(*p->signs));
	if (!p->facts || !p->logic || !p->signs)
		return -SAL_RESOURCE_EXHAUSTED;
	for (uint32_t i = 0; i < count; i++)
		read_fact(p, i);
	return SAL_OK;
}

static void proof_close(struct proof *p)
{
	free(p->facts);
	free(p->logic);
	free(p->signs);
	sal_comparator_free(&p->graph);
}

/* The proof */

static enum truth not_of(enum truth a)
{
	return a == MAYBE ? MAYBE : a == YES ? NO : YES;
}

static enum truth and_of(enum truth a, enum truth b)
{
	if (a == NO || b == NO)
		return NO;
	return a == YES && b == YES ? YES : MAYBE;
}

static enum truth xor_of(enum truth a, enum truth b)
{
	if (a == MAYBE || b == MAYBE)
		return MAYBE;
	return a != b ? YES : NO;
}

static enum truth select_of(enum truth which, enum truth a, enum truth b)
{
	if (which == MAYBE)
		return a == b ? a : MAYBE;
	return which == YES ? a : b;
}

static enum truth compare_truth(const struct proof *p, uint32_t place, enum truth a, enum truth b)
{
	const struct sal_node *node = &p->graph.nodes[place];
	const struct fact *fact = &p->facts[place];

	if (fact->key != SAL_NODE_NONE)
		return p->signs[fact->key] == ANY ? MAYBE : fact->answers[p->signs[fact->key]];
	if (p->graph.nodes[node->operands[0]].type != SAL_HLO_PRED)
		return MAYBE;
	if (sal_text_is(node->direction, "NE"))
		return xor_of(a, b);
	return sal_text_is(node->direction, "EQ") ? not_of(xor_of(a, b)) : MAYBE;
}

static enum truth truth_of(const struct proof *p, uint32_t place)
{
	const struct sal_node *node = &p->graph.nodes[place];
	enum truth in[SAL_HLO_OPERANDS_MAX] = { MAYBE, MAYBE, MAYBE };

	for (size_t i = 0; i < node->operand_count; i++)
		in[i] = p->facts[node->operands[i]].truth;
	switch (node->op) {
	case SAL_OP_COMPARE:
		return compare_truth(p, place, in[0], in[1]);
	case SAL_OP_SELECT:
		return select_of(in[0], in[1], in[2]);
	case SAL_OP_AND:
		return and_of(in[0], in[1]);
	case SAL_OP_OR:
		return not_of(and_of(not_of(in[0]), not_of(in[1])));
	case SAL_OP_XOR:
		return xor_of(in[0], in[1]);
	case SAL_OP_NOT:
		return not_of(in[0]);
	default:
		return MAYBE;
	}
}

/* Evaluates the comparator, given the known signs. */
static enum truth evaluate(struct proof *p)
{
	for (uint32_t i = 0; i < p->logic_count; i++)
		p->facts[p->logic[i]].truth = truth_of(p, p->logic[i]);
	p->work += p->logic_count + 1;
	return p->facts[p->graph.root].truth;
}

/* True if this key alone decides, now that all earlier keys are equal. */
static bool decides(struct proof *p, uint32_t key)
{
	enum truth less;
	enum truth greater;

	p->signs[key] = LESS;
	less = evaluate(p);
	p->signs[key] = GREATER;
	greater = less == MAYBE ? MAYBE : evaluate(p);
	p->signs[key] = ANY;
	return less != MAYBE && greater == not_of(less);
}

static bool settle_next(struct proof *p)
{
	for (uint32_t key = 0; key < p->key_count && p->work < WORK_MAX; key++) {
		if (p->signs[key] != ANY || !decides(p, key))
			continue;
		p->signs[key] = EQUAL;
		return true;
	}
	return false;
}

static bool is_order(struct proof *p)
{
	enum truth answer;

	while ((answer = evaluate(p)) == MAYBE)
		if (!settle_next(p))
			return false;
	return answer == NO;
}

/* One key of floating-point numbers, in which NaN is unordered. */
static bool is_partial(const struct proof *p)
{
	const struct sal_node *root = &p->graph.nodes[p->graph.root];
	bool swapped;

	return root->op == SAL_OP_COMPARE && is_mirrored(p, root, &swapped) &&
	       sal_class_of(p->graph.nodes[root->operands[0]].type) == SAL_CLASS_REAL &&
	       !sal_text_is(root->comparison, "TOTALORDER") &&
	       (sal_text_is(root->direction, "LT") || sal_text_is(root->direction, "GT"));
}

static int judge(struct proof *p, bool is_stable, struct sal_err *err)
{
	if (is_order(p) || (is_stable && is_partial(p)))
		return SAL_OK;
	if (is_partial(p))
		return sal_err_set(
			err, SAL_INVALID_ARGUMENT,
			"compares floating-point numbers without a total order, and that "
			"is no order with NaN; compare with TOTALORDER, as jnp.sort and "
			"lax.top_k do, or ask for a stable sort");
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "cannot be proven to be a strict order: a < b or a > b, on one key "
			   "or on several");
}

int sal_order_check(const struct sal_hlo_module *module,
		    const struct sal_hlo_computation *comparator, bool is_stable,
		    struct sal_err *err)
{
	struct proof p = { 0 };
	int rc = proof_open(&p, module, comparator);

	if (rc >= 0)
		rc = judge(&p, is_stable, err);
	else if (rc == -SAL_RESOURCE_EXHAUSTED)
		(void)sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "is too large to be checked");
	else
		(void)sal_err_set(err, SAL_DATA_LOSS, "is not well-formed");
	proof_close(&p);
	return rc;
}
