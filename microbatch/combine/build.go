package combine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
)

// Params are the settings of a field beside its column.
type Params struct {
	// Options are scalar settings by name, such as nulls: keep or cap: 100.
	// Integers may come as int, int64 or uint64. A name that the fn does not
	// know is an error.
	Options map[string]any
	// By and Fields are collect's: the name that the sub-key gets in the
	// output, and the fields of a sub-entity in output order.
	By     string
	Fields []Sub
	// Deletes: records may delete their sub-entity. The argument after the
	// sub-key, a boolean, says which; null says nothing.
	Deletes bool
}

// Sub is a field of a sub-entity.
type Sub struct {
	Name string
	Fn   Fn
	// Filtered: the argument before those of Fn, a boolean, says which records
	// the field takes; null takes none.
	Filtered bool
}

// Builder makes Fns of one name.
type Builder struct {
	Name string
	// MinArgs and MaxArgs bound the number of arguments; MaxArgs < 0 is no
	// bound.
	MinArgs, MaxArgs int
	// Options are the names that Params.Options may have.
	Options []string
	// NeedsOrder says that Add reads Input.Order.
	NeedsOrder bool
	// Build makes the Fn for arguments of the types. Errors say which
	// parameter or type does not serve, and why.
	Build func(p Params, args []column.Type) (Fn, error)
}

// Accepts checks what can be checked before the types are known: the number
// of arguments and the names of options.
func (b Builder) Accepts(p Params, args int) error {
	if args < b.MinArgs || b.MaxArgs >= 0 && args > b.MaxArgs {
		return fmt.Errorf("%s: %d arguments given, %s", b.Name, args, b.takes())
	}
	for _, name := range sortedKeys(p.Options) {
		if !slices.Contains(b.Options, name) {
			return fmt.Errorf("%s: unknown option %s, it takes %s", b.Name, name, orNone(b.Options))
		}
	}
	return nil
}

// New asks Accepts, then builds.
func (b Builder) New(p Params, args []column.Type) (Fn, error) {
	if err := b.Accepts(p, len(args)); err != nil {
		return nil, err
	}
	if b.Name != "collect" && (p.By != "" || len(p.Fields) > 0 || p.Deletes) {
		return nil, fmt.Errorf("%s: by, fields and deletes belong to collect", b.Name)
	}
	fn, err := b.Build(p, args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name, err)
	}
	return fn, nil
}

func (b Builder) takes() string {
	switch {
	case b.MaxArgs < 0:
		return fmt.Sprintf("it takes at least %d", b.MinArgs)
	case b.MinArgs == b.MaxArgs:
		return fmt.Sprintf("it takes %d", b.MinArgs)
	}
	return fmt.Sprintf("it takes %d to %d", b.MinArgs, b.MaxArgs)
}

// Builtins returns the fns that deltad brings, by name.
func Builtins() map[string]Builder {
	list := []Builder{
		{Name: "count", MinArgs: 0, MaxArgs: 1, Build: buildCount},
		{Name: "sum", MinArgs: 1, MaxArgs: 1, Build: buildSum},
		{Name: "mean", MinArgs: 1, MaxArgs: 1, Build: buildMean},
		{Name: "variance", MinArgs: 1, MaxArgs: 1, Options: []string{"population"}, Build: buildMoments("variance", false)},
		{Name: "stddev", MinArgs: 1, MaxArgs: 1, Options: []string{"population"}, Build: buildMoments("stddev", true)},
		{Name: "covariance", MinArgs: 2, MaxArgs: 2, Options: []string{"population"}, Build: buildMoments("covariance", false)},
		{Name: "all_of", MinArgs: 1, MaxArgs: 1, Build: buildBool("all_of", false)},
		{Name: "any_of", MinArgs: 1, MaxArgs: 1, Build: buildBool("any_of", true)},
		{Name: "min", MinArgs: 1, MaxArgs: 1, Build: buildExtreme("min", false)},
		{Name: "max", MinArgs: 1, MaxArgs: 1, Build: buildExtreme("max", true)},
		{Name: "any", MinArgs: 1, MaxArgs: 1, Build: buildExtreme("any", false)},
		{Name: "latest", MinArgs: 1, MaxArgs: 1, Options: []string{"nulls"}, NeedsOrder: true, Build: buildRanked("latest", true)},
		{Name: "earliest", MinArgs: 1, MaxArgs: 1, Options: []string{"nulls"}, NeedsOrder: true, Build: buildRanked("earliest", false)},
		{Name: "arg_min", MinArgs: 2, MaxArgs: 2, Options: []string{"nulls"}, NeedsOrder: true, Build: buildArg("arg_min", false)},
		{Name: "arg_max", MinArgs: 2, MaxArgs: 2, Options: []string{"nulls"}, NeedsOrder: true, Build: buildArg("arg_max", true)},
		{Name: "newest", MinArgs: 1, MaxArgs: 1, Options: []string{"n", "nulls"}, NeedsOrder: true, Build: buildNewestN},
		{Name: "top", MinArgs: 1, MaxArgs: 2, Options: []string{"n"}, Build: buildTop},
		{Name: "counts", MinArgs: 1, MaxArgs: 1, Options: []string{"cap", "limit"}, Build: buildCounts},
		{Name: "mode", MinArgs: 1, MaxArgs: 1, Options: []string{"cap"}, Build: buildMode},
		{Name: "median_exact", MinArgs: 1, MaxArgs: 1, Options: []string{"cap"}, Build: buildMedianExact},
		{Name: "set", MinArgs: 1, MaxArgs: 1, Options: []string{"cap"}, Build: buildSet},
		{Name: "distinct_exact", MinArgs: 1, MaxArgs: 1, Build: buildDistinct},
		{Name: "collect", MinArgs: 1, MaxArgs: -1, NeedsOrder: true, Build: buildCollect},
		{Name: "distinct", MinArgs: 1, MaxArgs: 1, Options: []string{"output", "precision"}, Build: buildHLL},
		{Name: "theta", MinArgs: 1, MaxArgs: 1, Options: []string{"nominal", "output"}, Build: buildTheta},
		{Name: "quantile", MinArgs: 1, MaxArgs: 1, Options: []string{"q", "relative_error"}, Build: buildQuantile},
		{Name: "median", MinArgs: 1, MaxArgs: 1, Options: []string{"relative_error"}, Build: buildMedian},
		{Name: "histogram", MinArgs: 1, MaxArgs: 1, Options: []string{"boundaries", "relative_error"}, Build: buildHistogram},
		{Name: "bloom", MinArgs: 1, MaxArgs: 1, Options: []string{"expected", "fpp"}, Build: buildBloom},
		{Name: "bitmap", MinArgs: 1, MaxArgs: 1, Options: []string{"bits"}, Build: buildBitmap},
	}
	out := make(map[string]Builder, len(list))
	for _, b := range list {
		out[b.Name] = b
	}
	return out
}

// Refused says why a well-known aggregate is not offered and what serves
// instead; ok is false for any other name.
func Refused(name string) (reason string, ok bool) {
	const approx = "its result depends on the order and the tree of merges, so a retry or another split changes it; "
	switch strings.NewReplacer("-", "_", "–", "_", " ", "_").Replace(strings.ToLower(name)) {
	case "tdigest", "t_digest", "tdigest_agg", "quantile_tdigest", "approx_percentile", "percentile_approx", "approx_quantile", "approx_quantiles":
		return "t-digest: " + approx + "use quantile, whose relative error is stated, or median_exact", true
	case "kll", "kll_sketch", "kll_quantile", "kll_quantiles", "kll_floats", "kll_doubles", "req", "req_sketch":
		return "KLL and REQ draw random numbers: the same input twice gives different bytes; use quantile, whose relative error is stated, or median_exact", true
	case "misra_gries", "misragries", "frequent_items", "heavy_hitters", "space_saving", "spacesaving", "topk", "top_k", "approx_top_k", "approx_top_count", "approx_most_frequent":
		return "Misra–Gries and SpaceSaving: " + approx + "use counts, which keeps every item up to its cap", true
	case "top_by_sum", "top_sum", "topk_by_sum", "top_k_by_sum", "top_n_by_sum", "approx_top_sum", "top_k_weighted", "topk_weighted", "topkweighted":
		return "top by sum: a truncated list loses items whose sum would have grown; use counts with a limit for numbers of records, or collect with a sum and cut the list where it is read", true
	case "concat", "concatenate", "concat_ws", "concat_agg", "string_agg", "string_concat", "group_concat", "array_agg", "array_concat", "array_concat_agg", "list_agg", "listagg", "collect_list", "append":
		return "concatenation depends on the order of records; use set or collect", true
	case "first", "last", "first_value", "last_value":
		return "first and last seen depend on files and arrival; use earliest or latest, which go by event time and content", true
	case "float_sum", "fsum", "sum_float", "double_sum", "sum_double", "plain_sum", "naive_sum", "approx_sum", "kahan_sum", "sum_kahan", "neumaier_sum", "compensated_sum":
		return "adding floats one by one depends on their order; use sum, which is exact and rounds once", true
	case "welford", "var_welford", "welford_variance", "running_mean", "running_variance", "m2":
		return "running mean and M2 are not associative; use mean, variance or stddev, which come from exact sums", true
	case "reservoir", "sample", "reservoir_sample":
		return "a reservoir is random and depends on the order of records; use any or set", true
	case "ema", "ewma", "exponential_moving_average":
		return "a moving average with float weights depends on the order of records; use sum or mean with over", true
	}
	return "", false
}

// repr is the part of a type that accumulator bytes depend on: two types have
// one repr exactly if column.Type.SameRepr holds, Null apart.
func repr(t column.Type) string {
	switch {
	case t.IsInt():
		return "int"
	case t.IsFloat():
		return "float"
	case t.Kind == column.Decimal:
		return "decimal/" + strconv.Itoa(int(t.Scale))
	case t.Kind == column.List:
		return "list<" + repr(*t.Elem) + ">"
	case t.Kind == column.Struct:
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = strconv.Quote(f.Name) + ":" + repr(f.Type)
		}
		return "struct<" + strings.Join(parts, ",") + ">"
	}
	return t.Kind.String()
}

// typeID joins a name, arguments and parameters into a type id.
func typeID(name string, parts ...string) string {
	return name + "(" + strings.Join(parts, ",") + ")/" + strconv.Itoa(Version)
}

// base is what every Fn of this package is made of.
type base struct {
	id    string
	class Class
	args  []column.Type
	out   column.Type
}

func (b *base) TypeID() string      { return b.id }
func (b *base) Class() Class        { return b.class }
func (b *base) Args() []column.Type { return b.args }
func (b *base) Output() column.Type { return b.out }

// checkArgs says whether the input's columns serve the fn.
func (b *base) checkArgs(in *Input) error {
	if len(in.Args) != len(b.args) {
		return fmt.Errorf("%s: %d columns given for %d arguments", b.id, len(in.Args), len(b.args))
	}
	for i, v := range in.Args {
		if !v.Type.SameRepr(b.args[i]) {
			return fmt.Errorf("%s: argument %d is %s, not %s", b.id, i+1, v.Type, b.args[i])
		}
		if v.Len() < len(in.Groups) {
			return fmt.Errorf("%s: argument %d has %d rows for %d records", b.id, i+1, v.Len(), len(in.Groups))
		}
	}
	return nil
}

func (b *base) checkOrder(in *Input) error {
	if in.Order == nil {
		return fmt.Errorf("%s: records have no order", b.id)
	}
	return b.checkArgs(in)
}

func sortedKeys(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// intOption reads an integer option within [lo, hi].
func intOption(p Params, name string, def, lo, hi int64) (int64, error) {
	v, ok := p.Options[name]
	if !ok {
		return def, nil
	}
	n := int64(0)
	switch x := v.(type) {
	case int:
		n = int64(x)
	case int64:
		n = x
	case uint64:
		n = int64(min(x, 1<<62))
	default:
		return 0, fmt.Errorf("option %s: want an integer, got %v", name, v)
	}
	if n < lo || n > hi {
		return 0, fmt.Errorf("option %s: want %d to %d, got %d", name, lo, hi, n)
	}
	return n, nil
}
