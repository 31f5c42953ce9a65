package main_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"math"
	"slices"
	"testing"
)

// hazard is what may make bytes differ.
type hazard int

const (
	arithmetic hazard = iota
	fusible
	inexact
	mapOrder
)

func (h hazard) String() string {
	return [...]string{"float arithmetic", "a product that may be fused", "a function that is not exact", "the order of a map"}[h]
}

// excusable says whether there can be an exception for it.
func (h hazard) excusable() bool { return h == arithmetic || h == mapOrder }

// finding is a place that has a hazard.
type finding struct {
	hazard
	fn   string // where: package.function, package.type.method or package.variable
	at   token.Position
	what string
}

// exactMath are the functions of package math that read or set bits. NaN is not
// among them: it is not the one NaN that tuples and values have.
func exactMath() []string {
	return []string{"Float64bits", "Float64frombits", "Float32bits", "Float32frombits", "IsNaN", "IsInf", "Inf", "Signbit", "Copysign", "Abs"}
}

// roundedMath are those whose result is rounded once, as IEEE 754 says, on
// every architecture. They are arithmetic.
func roundedMath() []string { return []string{"Sqrt", "Ldexp", "FMA"} }

// checkSource type-checks a package and returns its hazards, in order of
// place.
func checkSource(pkg string, src map[string]string, imp types.Importer) ([]finding, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range slices.Sorted(maps.Keys(src)) {
		f, err := parser.ParseFile(fset, name, src[name], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	c := &checker{pkg: pkg, fset: fset, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Instances: map[*ast.Ident]types.Instance{},
	}}
	conf := types.Config{Importer: imp}
	if _, err := conf.Check(pkg, fset, files, c.info); err != nil {
		return nil, fmt.Errorf("type-check %s: %w", pkg, err)
	}
	for _, f := range files {
		for _, d := range f.Decls {
			c.declaration(d)
		}
	}
	slices.SortFunc(c.found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.Filename, b.at.Filename), cmp.Compare(a.at.Offset, b.at.Offset), cmp.Compare(a.hazard, b.hazard))
	})
	return c.found, nil
}

type checker struct {
	pkg   string
	fset  *token.FileSet
	info  *types.Info
	fn    string
	found []finding

	// What stands where it is harmless, filled in by the nodes around it.
	rounded map[ast.Expr]bool       // products that a conversion rounds
	sorted  map[ast.Expr]bool       // calls of maps.Keys that are sorted at once
	keys    map[*ast.RangeStmt]bool // loops that collect keys, sorted at once
}

func (c *checker) report(h hazard, at ast.Node, what string) {
	c.found = append(c.found, finding{hazard: h, fn: c.pkg + "." + c.fn, at: c.fset.Position(at.Pos()), what: what})
}

// declaration reads one declaration; a variable's is named after its first name.
func (c *checker) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		c.fn = d.Name.Name
		if d.Recv != nil {
			c.fn = receiver(d.Recv.List[0].Type) + "." + c.fn
		}
		c.walk(d)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				c.fn = s.Names[0].Name
				c.walk(s)
			case *ast.TypeSpec:
				c.fn = s.Name.Name
				c.walk(s)
			}
		}
	}
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.ParenExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

func (c *checker) walk(n ast.Node) {
	c.rounded, c.sorted, c.keys = map[ast.Expr]bool{}, map[ast.Expr]bool{}, map[*ast.RangeStmt]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			c.binary(n)
		case *ast.AssignStmt:
			c.assign(n)
		case *ast.IncDecStmt:
			if c.float(n.X) {
				c.report(arithmetic, n, n.Tok.String())
			}
		case *ast.CallExpr:
			c.call(n)
		case *ast.SelectorExpr:
			c.selector(n)
		case *ast.Ident:
			c.ident(n)
		case *ast.RangeStmt:
			c.loop(n)
		case *ast.BlockStmt:
			c.block(n.List)
		case *ast.CaseClause:
			c.block(n.Body)
		case *ast.CommClause:
			c.block(n.Body)
		}
		return true
	})
}

// binary finds arithmetic on floats. What the compiler computes is exact.
func (c *checker) binary(n *ast.BinaryExpr) {
	switch n.Op {
	case token.ADD, token.SUB, token.MUL, token.QUO:
	default:
		return
	}
	if c.info.Types[n].Value != nil || !c.float(n.X) && !c.float(n.Y) {
		return
	}
	c.report(arithmetic, n, n.Op.String())
	if c.multiplies(n.Op, n.Y) && !c.rounded[n] {
		c.report(fusible, n, "write float64(x"+n.Op.String()+"y)")
	}
}

func (c *checker) assign(n *ast.AssignStmt) {
	switch n.Tok {
	case token.ADD_ASSIGN, token.SUB_ASSIGN, token.MUL_ASSIGN, token.QUO_ASSIGN:
	default:
		return
	}
	if !c.float(n.Lhs[0]) {
		return
	}
	c.report(arithmetic, n, n.Tok.String())
	if op := map[token.Token]token.Token{token.MUL_ASSIGN: token.MUL, token.QUO_ASSIGN: token.QUO}[n.Tok]; c.multiplies(op, n.Rhs[0]) {
		c.report(fusible, n, "write x = float64(x"+op.String()+"y)")
	}
}

// multiplies says whether the compiler may make a multiplication of it, which
// an addition can be fused with: it does so of a division by a power of two.
func (c *checker) multiplies(op token.Token, y ast.Expr) bool {
	v := c.info.Types[y].Value
	if op != token.QUO || v == nil {
		return op == token.MUL
	}
	f, _ := constant.Float64Val(constant.ToFloat(v))
	m, _ := math.Frexp(f)
	return math.Abs(m) == 0.5
}

// call notes products that are converted, and calls of maps.Keys that are
// sorted; it finds conversions of floats to integers.
func (c *checker) call(n *ast.CallExpr) {
	if len(n.Args) == 0 {
		return
	}
	if c.info.Types[n.Fun].IsType() && len(n.Args) == 1 {
		from, to := ast.Unparen(n.Args[0]), c.info.Types[n].Type
		switch {
		case holdsFloat(to):
			c.rounded[from] = true
		case c.float(from) && c.info.Types[n].Value == nil && holdsInteger(to):
			c.report(arithmetic, n, "conversion of a float to an integer")
		}
		return
	}
	switch c.function(n.Fun) {
	case "slices.Sorted", "slices.SortedFunc":
		if inner, ok := ast.Unparen(n.Args[0]).(*ast.CallExpr); ok && c.function(inner.Fun) == "maps.Keys" {
			c.sorted[ast.Unparen(inner.Fun)] = true
		}
	}
}

// function names the function that an expression is, as package.name, or "".
func (c *checker) function(e ast.Expr) string {
	e = ast.Unparen(e)
	switch x := e.(type) {
	case *ast.IndexExpr:
		e = x.X
	case *ast.IndexListExpr:
		e = x.X
	}
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	f, ok := c.info.Uses[sel.Sel].(*types.Func)
	if !ok || f.Pkg() == nil || f.Signature().Recv() != nil {
		return ""
	}
	return f.Pkg().Path() + "." + f.Name()
}

// selector finds iterators over maps: functions of package maps and methods.
func (c *checker) selector(n *ast.SelectorExpr) {
	switch name := c.function(n); name {
	case "maps.Keys", "maps.Values", "maps.All":
		if !c.sorted[n] {
			c.report(mapOrder, n, name+" is not sorted at once: slices.Sorted(maps.Keys(m))")
		}
	}
	f, ok := c.info.Uses[n.Sel].(*types.Func)
	if !ok || f.Pkg() == nil || f.Signature().Recv() == nil {
		return
	}
	switch f.FullName() {
	case "(*sync.Map).Range", "(reflect.Value).MapRange", "(reflect.Value).MapKeys", "(reflect.Value).Seq", "(reflect.Value).Seq2":
		c.report(mapOrder, n, f.FullName())
	}
}

// ident finds uses of packages that compute with floats, called or not.
func (c *checker) ident(n *ast.Ident) {
	obj := c.info.Uses[n]
	if obj == nil || obj.Pkg() == nil {
		return
	}
	name := obj.Pkg().Path() + "." + obj.Name()
	switch f, isFunc := obj.(*types.Func); obj.Pkg().Path() {
	case "math":
		switch {
		case !isFunc || slices.Contains(exactMath(), obj.Name()):
		case slices.Contains(roundedMath(), obj.Name()):
			c.report(arithmetic, n, name)
		default:
			c.report(inexact, n, name)
		}
	case "math/cmplx":
		c.report(inexact, n, name)
	case "math/big":
		_, isType := obj.(*types.TypeName)
		if isType && obj.Name() == "Float" || isFunc && returnsBigFloat(f) {
			c.report(arithmetic, n, name)
		}
	}
}

func returnsBigFloat(f *types.Func) bool {
	for v := range f.Signature().Results().Variables() {
		if v.Type().String() == "*math/big.Float" {
			return true
		}
	}
	return false
}

// loop finds loops over maps, but for those that only collect keys and those
// that do not see what they go through.
func (c *checker) loop(n *ast.RangeStmt) {
	_, isMap := types.Unalias(c.info.Types[n.X].Type).Underlying().(*types.Map)
	if p, ok := types.Unalias(c.info.Types[n.X].Type).(*types.TypeParam); ok {
		isMap = anyTerm(p, func(t types.Type) bool { _, is := t.Underlying().(*types.Map); return is })
	}
	if isMap && !c.keys[n] && (named(n.Key) || named(n.Value)) {
		c.report(mapOrder, n, "range over a map whose keys are not sorted at once")
	}
}

func named(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return e != nil && !(ok && id.Name == "_")
}

// block notes loops that do nothing but append keys to a slice, which the next
// statement sorts.
func (c *checker) block(list []ast.Stmt) {
	for i, s := range list {
		loop, ok := s.(*ast.RangeStmt)
		if !ok || i+1 == len(list) || len(loop.Body.List) != 1 || named(loop.Value) {
			continue
		}
		to := collects(loop)
		if to == "" {
			continue
		}
		sort, ok := list[i+1].(*ast.ExprStmt)
		if !ok {
			continue
		}
		call, ok := sort.X.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			continue
		}
		switch c.function(call.Fun) {
		case "slices.Sort", "slices.SortFunc", "sort.Strings", "sort.Ints":
			c.keys[loop] = types.ExprString(call.Args[0]) == to
		}
	}
}

// collects returns x if the loop's body is x = append(x, key), else "".
func collects(loop *ast.RangeStmt) string {
	as, ok := loop.Body.List[0].(*ast.AssignStmt)
	if !ok || as.Tok != token.ASSIGN || len(as.Lhs) != 1 {
		return ""
	}
	call, ok := as.Rhs[0].(*ast.CallExpr)
	if !ok || types.ExprString(call.Fun) != "append" || len(call.Args) != 2 {
		return ""
	}
	to := types.ExprString(as.Lhs[0])
	if loop.Key == nil || types.ExprString(call.Args[0]) != to || types.ExprString(call.Args[1]) != types.ExprString(loop.Key) {
		return ""
	}
	return to
}

func (c *checker) float(e ast.Expr) bool {
	t := c.info.Types[e].Type
	return t != nil && holdsFloat(t)
}

func holdsFloat(t types.Type) bool { return holds(t, types.IsFloat|types.IsComplex) }

func holdsInteger(t types.Type) bool { return holds(t, types.IsInteger) }

// holds says whether a value of type t, or of a type that the parameter t
// stands for, is a basic one of such a kind.
func holds(t types.Type, kind types.BasicInfo) bool {
	is := func(t types.Type) bool {
		b, ok := t.Underlying().(*types.Basic)
		return ok && b.Info()&kind != 0
	}
	if p, ok := types.Unalias(t).(*types.TypeParam); ok {
		return anyTerm(p, is)
	}
	return is(t)
}

// anyTerm says whether any type of a type parameter's constraint is one.
func anyTerm(p *types.TypeParam, is func(types.Type) bool) bool {
	var has func(t types.Type) bool
	has = func(t types.Type) bool {
		switch u := t.(type) {
		case *types.Union:
			for term := range u.Terms() {
				if has(term.Type()) {
					return true
				}
			}
			return false
		}
		if in, ok := t.Underlying().(*types.Interface); ok {
			for e := range in.EmbeddedTypes() {
				if has(e) {
					return true
				}
			}
			return false
		}
		return is(t)
	}
	return has(p.Constraint())
}

// TestPurityCheckFinds shows the check what it must find, and what it must not.
func TestPurityCheckFinds(t *testing.T) {
	imp := loadExports(t).importer()
	tests := []struct {
		name string
		body string // of a file that begins with package p
		want []hazard
	}{
		{"sum", `func f(a, b float64) float64 { return a + b }`, []hazard{arithmetic}},
		{"named float", `type celsius float32; func f(a, b celsius) celsius { return a - b }`, []hazard{arithmetic}},
		{"accumulating", `func f(a *float64, b float64) { *a += b }`, []hazard{arithmetic}},
		{"counting", `func f(a float64) float64 { a++; return a }`, []hazard{arithmetic}},
		{"complex", `func f(a complex128) complex128 { return a + 1 }`, []hazard{arithmetic}},
		{"type parameter", `func f[T int | float64](a, b T) T { return a + b }`, []hazard{arithmetic}},
		{"constraint of a package", `import "cmp"; func f[T cmp.Ordered](a, b T) T { return a + b }`, []hazard{arithmetic}},
		{"literal in a variable", `var f = func(a float64) float64 { return a + 1 }`, []hazard{arithmetic}},
		{"field of a struct", `type s struct{ x float64 }; func (v *s) f() { v.x -= 1 }`, []hazard{arithmetic}},
		{"to an integer", `func f(a float64) int64 { return int64(a) }`, []hazard{arithmetic}},
		{"square root", `import "math"; func f(a float64) float64 { return math.Sqrt(a) }`, []hazard{arithmetic}},
		{"fused by hand", `import "math"; var f = math.FMA`, []hazard{arithmetic}},
		{"big float", `import "math/big"; func f(a, b *big.Float) { a.Add(a, b) }`, []hazard{arithmetic, arithmetic}},
		{"new big float", `import "math/big"; var f = big.NewFloat(1)`, []hazard{arithmetic}},

		{"product", `func f(a, b, c float64) float64 { return a*b + c }`, []hazard{arithmetic, arithmetic, fusible}},
		{"product of before", `func f(a, b, c float64) float64 { d := a * b; return d + c }`, []hazard{arithmetic, fusible, arithmetic}},
		{"product assigned", `func f(a, b float64) float64 { a *= b; return a }`, []hazard{arithmetic, fusible}},
		{"half", `func f(a float64) float64 { return a / 2 }`, []hazard{arithmetic, fusible}},
		{"third", `func f(a float64) float64 { return a / 3 }`, []hazard{arithmetic}},
		{"product rounded", `func f(a, b, c float64) float64 { return float64(a*b) + c }`, []hazard{arithmetic, arithmetic}},
		{"sum of products rounded", `func f(a, b, c float64) float64 { return float64(a*b + c) }`, []hazard{arithmetic, arithmetic, fusible}},

		{"logarithm", `import "math"; func f(a float64) float64 { return math.Log(a) }`, []hazard{inexact}},
		{"logarithm by another name", `import m "math"; var f = m.Log2`, []hazard{inexact}},
		{"logarithm without a name", `import . "math"; var f = Exp`, []hazard{inexact}},
		{"a NaN that is not ours", `import "math"; func f() float64 { return math.NaN() }`, []hazard{inexact}},
		{"complex function", `import "math/cmplx"; var f = cmplx.Exp`, []hazard{inexact}},

		{"map", `func f(m map[string]int, g func(int)) { for _, v := range m { g(v) } }`, []hazard{mapOrder}},
		{"named map", `type m map[string]int; func (m m) f(g func(string)) { for k := range m { g(k) } }`, []hazard{mapOrder}},
		{"map as type parameter", `func f[M ~map[int]int](m M, g func(int)) { for k := range m { g(k) } }`, []hazard{mapOrder}},
		{"keys never sorted", `func f(m map[string]int) (s []string) { for k := range m { s = append(s, k) }; return s }`, []hazard{mapOrder}},
		{"keys sorted too late", `import "slices"; func f(m map[string]int, g func([]string)) (s []string) {
			for k := range m { s = append(s, k) }; g(s); slices.Sort(s); return s }`, []hazard{mapOrder}},
		{"another slice sorted", `import "slices"; func f(m map[string]int, o []string) (s []string) {
			for k := range m { s = append(s, k) }; slices.Sort(o); return s }`, []hazard{mapOrder}},
		{"values sorted", `import "slices"; func f(m map[string]float64) (s []float64) {
			for _, v := range m { s = append(s, v) }; slices.Sort(s); return s }`, []hazard{mapOrder}},
		{"iterator", `import "maps"; func f(m map[string]int, g func(string)) { for k := range maps.Keys(m) { g(k) } }`, []hazard{mapOrder}},
		{"collected", `import ("maps"; "slices"); func f(m map[string]int) []int { return slices.Collect(maps.Values(m)) }`, []hazard{mapOrder}},
		{"synchronized", `import "sync"; func f(m *sync.Map, g func(a, b any) bool) { m.Range(g) }`, []hazard{mapOrder}},
		{"reflected", `import "reflect"; func f(v reflect.Value) []reflect.Value { return v.MapKeys() }`, []hazard{mapOrder}},

		{"keys sorted", `import "slices"; func f(m map[string]int) (s []string) { for k := range m { s = append(s, k) }; slices.Sort(s); return s }`, nil},
		{"keys sorted at once", `import ("maps"; "slices"); func f(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }`, nil},
		{"map without looking", `func f(m map[string]int) (n int) { for range m { n++ }; return n }`, nil},
		{"integers", `func f(a, b int) int { return a*b + a/b }`, nil},
		{"constants", `const half = 1.0 / 2; func f() float64 { return half * 3 }`, nil},
		{"text", `func f(a, b string) string { return a + b }`, nil},
		{"comparison", `func f(a, b float64) bool { return a < b }`, nil},
		{"bits", `import "math"; func f(a float64) uint64 { return math.Float64bits(-a) + 1 }`, nil},
		{"from an integer", `func f(a int64) float64 { return float64(a) }`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, err := checkSource("p", map[string]string{"p.go": "package p; " + tt.body}, imp)
			if err != nil {
				t.Fatal(err)
			}
			var got []hazard
			for _, f := range found {
				got = append(got, f.hazard)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %v, want %v", found, tt.want)
			}
		})
	}
}

// TestPurityCheckNames: an exception is for one function, so names tell methods
// of one name apart.
func TestPurityCheckNames(t *testing.T) {
	src := map[string]string{
		"a.go": "package p; type s[T any] struct{ x float64 }; func (v *s[T]) f() { v.x++ }; func f(x float64) { g := func() { x++ }; g() }",
		"b.go": "package p; var x, y = g(1), 2.5; func g(x float64) float64 { return x }; var z = func() float64 { return x + y }()",
	}
	found, err := checkSource("dir/p", src, loadExports(t).importer())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, fmt.Sprint(f.at.Filename, " ", f.fn))
	}
	if want := []string{"a.go dir/p.s.f", "a.go dir/p.f", "b.go dir/p.z"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
