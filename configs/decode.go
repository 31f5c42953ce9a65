package configs

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of one file, far above real ones: aliases can make a small text a
// huge tree, and nesting costs stack.
const (
	maxNodes    = 200_000
	maxDepth    = 64
	maxProblems = 100
)

// decoder turns the tree of one YAML document into a Config. It goes on after
// a problem so that one pass finds them all.
type decoder struct {
	env      Env
	aliases  map[*ast.AliasNode]ast.Node // what each stands for
	nodes    int
	problems Problems
}

// decode parses one YAML document over the defaults. Everything that could be
// read is in the Config, everything else in the Problems, in file order. The
// Config is nil for what is not YAML.
func decode(data []byte, env Env) (*Config, Problems) {
	c := Default()
	d := &decoder{env: env, aliases: make(map[*ast.AliasNode]ast.Node)}
	body, problem := parse(bytes.TrimPrefix(data, []byte("\ufeff")))
	if problem != nil {
		return nil, Problems{*problem}
	}
	if body != nil {
		d.link(body, make(map[string]ast.Node))
		d.section(body, reflect.ValueOf(c).Elem(), "", 0)
	}
	for _, p := range c.Pipelines {
		p.fill()
	}
	d.problems.sortByPlace()
	return c, d.problems
}

// parse returns the body of the only document, nil if there is nothing in it.
func parse(data []byte) (body ast.Node, problem *Problem) {
	for i, row := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(row) {
			return nil, &Problem{Rule: "must be UTF-8 text", Line: i + 1, Column: 1}
		}
	}
	if line, deep := nestedTooDeep(data); deep {
		return nil, &Problem{Rule: fmt.Sprintf("must not nest deeper than %d", maxDepth), Line: line, Column: 1}
	}
	defer func() {
		// The parser is not ours and the text is anybody's: a panic in it is
		// a text that cannot be read.
		if r := recover(); r != nil {
			body, problem = nil, &Problem{Rule: fmt.Sprintf("must be YAML: %v", r), Line: 1, Column: 1}
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey()) // duplicates are ours to report, all of them
	if err != nil {
		p := &Problem{Rule: "must be YAML: " + err.Error(), Line: 1, Column: 1}
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			p.Rule = "must be YAML: " + syntax.GetMessage()
			p.Line, p.Column = place(syntax.GetToken())
			if bareVariable(data, p.Line) {
				p.Rule += " (put ${…} in quotes inside { } and [ ])"
			}
		}
		return nil, p
	}
	for _, doc := range file.Docs {
		if doc == nil || doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if body != nil {
			p := &Problem{Rule: "must be one YAML document, got a second one"}
			p.Line, p.Column = placeOf(doc.Body)
			return nil, p
		}
		body = doc.Body
	}
	return body, nil
}

// bareVariable reports whether a line has a variable without a quote before
// it, which YAML takes for a mapping where { } or [ ] stand around it.
func bareVariable(data []byte, line int) bool {
	rows := strings.Split(string(data), "\n")
	if line > len(rows) {
		return false
	}
	before, _, found := strings.Cut(rows[line-1], "${")
	return found && !strings.HasSuffix(before, `"`) && !strings.HasSuffix(before, "'") && strings.ContainsAny(before, "{[")
}

// nestedTooDeep looks at brackets and indentation alone, before the parser
// recurses into them. Brackets in text count too, which no real file notices.
func nestedTooDeep(data []byte) (line int, deep bool) {
	depth := 0
	for i, row := range strings.Split(string(data), "\n") {
		text := strings.TrimLeft(row, " ")
		// "- - - x" and "? ? ? x" nest without brackets.
		marks := len(text) - len(strings.TrimLeft(text, "-? "))
		for _, r := range text {
			switch r {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > maxDepth {
				return i + 1, true
			}
		}
		if len(row)-len(text)+marks > 8*maxDepth {
			return i + 1, true
		}
	}
	return 0, false
}

// placeOf is where a node begins; the token of a block mapping is its first
// colon, so that the key before it is asked.
func placeOf(n ast.Node) (line, column int) {
	switch v := n.(type) {
	case nil:
		return 1, 1
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return place(v.Values[0].Key.GetToken())
		}
	case *ast.MappingValueNode:
		return place(v.Key.GetToken())
	}
	return place(n.GetToken())
}

// place is the line and column of a token, from 1.
func place(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return max(1, t.Position.Line), max(1, t.Position.Column)
}

func (d *decoder) problem(n ast.Node, path, rule, got string) {
	if len(d.problems) >= maxProblems {
		return // the first ones tell enough
	}
	p := Problem{Path: path, Rule: rule, Got: got}
	p.Line, p.Column = placeOf(n)
	d.problems = append(d.problems, p)
}

// resolve follows anchors, aliases and comments to the node that holds the
// value. It returns nil, having reported why, where there is none.
func (d *decoder) resolve(n ast.Node, path string, depth int) ast.Node {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.problem(n, path, fmt.Sprintf("must not hold more than %d values", maxNodes), "")
		}
		return nil
	}
	for hops := 0; ; hops++ {
		if depth+hops > maxDepth {
			d.problem(n, path, fmt.Sprintf("must not nest deeper than %d", maxDepth), "")
			return nil
		}
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			target, ok := d.aliases[v]
			if !ok {
				d.problem(n, path, "must refer to an anchor defined above", v.String())
				return nil
			}
			n = target
		case *ast.TagNode:
			d.problem(n, path, "must not carry a YAML tag", v.Start.Value)
			return nil
		default:
			return n
		}
	}
}

// link finds what each alias stands for. An anchor is known once its value is
// complete: an alias inside of it would never end, and stays without a target.
func (d *decoder) link(n ast.Node, anchors map[string]ast.Node) {
	switch v := n.(type) {
	case *ast.AnchorNode:
		d.link(v.Value, anchors)
		anchors[anchorName(v.Name)] = v.Value
	case *ast.AliasNode:
		if target, ok := anchors[anchorName(v.Value)]; ok {
			d.aliases[v] = target
		}
	case *ast.MappingNode:
		for _, value := range v.Values {
			d.link(value.Value, anchors)
		}
	case *ast.MappingValueNode:
		d.link(v.Value, anchors)
	case *ast.SequenceNode:
		for _, value := range v.Values {
			d.link(value, anchors)
		}
	}
}

func anchorName(n ast.Node) string {
	if n == nil || n.GetToken() == nil {
		return ""
	}
	return n.GetToken().Value
}

// entry is one key of a mapping.
type entry struct {
	key   string
	path  string
	node  ast.Node // of the key, for its place
	value ast.Node
}

// entries returns the keys of a mapping in file order, each once; ok is false
// where the node is no mapping. Nothing (null) is a mapping without keys, so a
// section may have all its lines commented out.
func (d *decoder) entries(n ast.Node, path string, depth int) (list []entry, ok bool) {
	n = d.resolve(n, path, depth)
	var values []*ast.MappingValueNode
	switch v := n.(type) {
	case nil:
		return nil, false
	case *ast.NullNode:
		return nil, true
	case *ast.MappingNode:
		values = v.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{v}
	default:
		d.problem(n, path, "must be a section of keys and values", shown(n))
		return nil, false
	}
	first := make(map[string]int, len(values))
	for _, v := range values {
		key := v.Key.GetToken().Value
		e := entry{key: key, path: join(path, key), node: v.Key, value: v.Value}
		if _, merge := v.Key.(*ast.MergeKeyNode); merge {
			d.problem(v.Key, e.path, "must not merge sections", "")
			continue
		}
		if s, isText := v.Key.(*ast.StringNode); isText {
			e.key, e.path = s.Value, join(path, s.Value)
		}
		line, _ := place(v.Key.GetToken())
		if at, twice := first[e.key]; twice {
			d.problem(v.Key, e.path, fmt.Sprintf("must be written once (also on line %d)", at), "")
			continue
		}
		first[e.key] = line
		list = append(list, e)
	}
	return list, true
}

// join appends a key to a path, quoting what would make the path unclear.
func join(path, key string) string {
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == '.' || r == '"' || r == ':' || r == 0x7f }) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// shown is what a message shows of a value: short, on one line, and as the
// file has it, before any variable was expanded.
func shown(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a section"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	}
	return short(n.String())
}

func short(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return s
}

// section decodes a mapping into a struct.
func (d *decoder) section(n ast.Node, v reflect.Value, path string, depth int) {
	list, ok := d.entries(n, path, depth)
	if !ok {
		return
	}
	known := make(map[string]reflect.Value)
	options := make(map[string]string)
	settings(v, known, options)
	for _, e := range list {
		target, ok := known[e.key]
		if !ok {
			d.problem(e.node, e.path, "unknown key"+suggest(e.key, known), "")
			continue
		}
		d.value(e, target, options[e.key], depth+1)
	}
}

// settings collects the keys of a struct, those of inlined structs included.
func settings(v reflect.Value, known map[string]reflect.Value, options map[string]string) {
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			settings(v.Field(i), known, options)
		case name != "" && name != "-":
			known[name], options[name] = v.Field(i), option
		}
	}
}

// value decodes one setting. word, where not empty, is a word that stands for
// the zero value, such as auto.
func (d *decoder) value(e entry, v reflect.Value, word string, depth int) {
	switch t := v.Addr().Interface().(type) {
	case *[]*Pipeline:
		d.pipelines(e, t, depth)
		return
	case **Full:
		if n := d.resolve(e.value, e.path, depth); n != nil && n.Type() != ast.NullType {
			*t = DefaultFull()
			d.section(n, reflect.ValueOf(*t).Elem(), e.path, depth)
		}
		return
	case *EventTime:
		d.eventTime(e, t, depth)
		return
	case *[]Field:
		*t = d.fields(e, depth)
		return
	case *[]string:
		*t = d.texts(e, depth)
		return
	case *map[string]string:
		*t = d.textMap(e, depth)
		return
	}
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
		d.section(e.value, v, e.path, depth)
		return
	}
	d.scalarValue(e, v, word, depth)
}

func (d *decoder) pipelines(e entry, to *[]*Pipeline, depth int) {
	list, _ := d.entries(e.value, e.path, depth)
	for _, e := range list {
		p := DefaultPipeline(e.key)
		d.section(e.value, reflect.ValueOf(p).Elem(), e.path, depth+1)
		*to = append(*to, p)
	}
}

func (d *decoder) eventTime(e entry, to *EventTime, depth int) {
	n := d.resolve(e.value, e.path, depth)
	if n == nil {
		return
	}
	if _, isMap := n.(ast.MapNode); !isMap || n.Type() == ast.NullType {
		to.Column, _ = d.text(e, depth)
		return
	}
	var long struct {
		Column string `yaml:"column"`
		Unit   string `yaml:"unit"`
	}
	d.section(n, reflect.ValueOf(&long).Elem(), e.path, depth)
	to.Column, to.Unit = long.Column, long.Unit
	if to.Column == "" {
		d.problem(e.node, join(e.path, "column"), "is required", "nothing")
	}
}

// texts decodes a list of strings; a single one may stand without brackets.
func (d *decoder) texts(e entry, depth int) []string {
	n := d.resolve(e.value, e.path, depth)
	seq, isList := n.(*ast.SequenceNode)
	if n == nil {
		return nil
	}
	if !isList {
		if s, ok := d.text(e, depth); ok {
			return []string{s}
		}
		return nil
	}
	var list []string
	for i, item := range seq.Values {
		path := fmt.Sprintf("%s[%d]", e.path, i)
		if s, ok := d.text(entry{path: path, node: e.node, value: item}, depth+1); ok {
			list = append(list, s)
		}
	}
	return list
}

func (d *decoder) textMap(e entry, depth int) map[string]string {
	list, ok := d.entries(e.value, e.path, depth)
	if !ok {
		return nil
	}
	m := make(map[string]string, len(list))
	for _, e := range list {
		if s, ok := d.text(e, depth+1); ok {
			m[e.key] = s
		}
	}
	return m
}

// suggest names the known key that was most likely meant.
func suggest(key string, known map[string]reflect.Value) string {
	best, distance := "", 3
	for k := range known {
		if n := editDistance(key, k); n < distance || n == distance && n < 3 && k < best {
			best, distance = k, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// editDistance is that of Levenshtein, at most 3: more is no likeness.
func editDistance(a, b string) int {
	if max(len(a), len(b))-min(len(a), len(b)) > 2 {
		return 3
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return min(row[len(b)], 3)
}
