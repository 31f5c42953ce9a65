package configs

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// scalar is one value of the file as text, its variables expanded. quoted
// tells "5" from 5 where both could be meant.
type scalar struct {
	text   string
	quoted bool
}

// scalar reads the text of a value. ok is false, and the reason reported,
// where the value is no scalar or a variable is missing.
func (d *decoder) scalar(e entry, depth int) (s scalar, n ast.Node, ok bool) {
	n = d.resolve(e.value, e.path, depth)
	switch v := n.(type) {
	case nil:
		return s, e.node, false
	case *ast.StringNode:
		s.text = v.Value
		s.quoted = v.Token.Type == token.SingleQuoteType || v.Token.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		s.text, s.quoted = v.Value.Value, true
	case *ast.NullNode:
		// A null that was written stands at its token, an omitted value at its
		// key.
		d.problem(e.node, e.path, "must have a value", "nothing")
		return s, n, false
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		d.problem(n, e.path, "must be a single value", shown(n))
		return s, n, false
	default:
		s.text = n.GetToken().Value
	}
	text, err := expand(s.text, d.env)
	if err != nil {
		d.problem(n, e.path, err.Error(), "")
		return s, n, false
	}
	s.text = text
	return s, n, true
}

// text reads a value as it stands, whatever YAML would take it for.
func (d *decoder) text(e entry, depth int) (string, bool) {
	s, n, ok := d.scalar(e, depth)
	if ok && !validText(s.text) {
		d.problem(n, e.path, "must be UTF-8 text without control characters", "")
		return "", false
	}
	return s.text, ok
}

// validText refuses what no setting can mean and what garbles logs.
func validText(s string) bool {
	return strings.ToValidUTF8(s, "\x00") == s && !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	})
}

// scalarValue decodes a setting that is a single value, by the type it has in
// the struct and not by the type YAML would give it.
func (d *decoder) scalarValue(e entry, v reflect.Value, word string, depth int) {
	s, n, ok := d.scalar(e, depth)
	if !ok {
		return
	}
	if word != "" && s.text == word {
		v.SetZero()
		return
	}
	if err := setScalar(v, s.text); err != nil {
		rule := err.Error()
		if word != "" {
			rule += " or " + word
		}
		d.problem(n, e.path, rule, shown(n))
	} else if word != "" && v.IsZero() {
		d.problem(n, e.path, "must be positive or "+word, shown(n)) // nothing else may mean what the word does
	}
}

// setScalar parses text into v; its error is the rule that was broken.
func setScalar(v reflect.Value, text string) error {
	switch t := v.Addr().Interface().(type) {
	case *time.Duration:
		return set(t, text, ParseDuration)
	case **time.Duration:
		*t = new(time.Duration)
		if err := set(*t, text, ParseDuration); err != nil {
			*t = nil
			return err
		}
		return nil
	case *time.Time:
		return set(t, text, parseTime)
	case *Size:
		return set(t, text, ParseSize)
	case *Share:
		return set(t, text, ParseShare)
	case *bool:
		return set(t, text, parseBool)
	case *int:
		return set(t, text, func(s string) (int, error) { n, err := parseInt(s, 32); return int(n), err })
	case *int64:
		return set(t, text, func(s string) (int64, error) { return parseInt(s, 64) })
	case *string:
		if !validText(text) {
			return fmt.Errorf("must be UTF-8 text without control characters")
		}
		*t = text
		return nil
	}
	return fmt.Errorf("has the type %s, which no file can set", v.Type())
}

func set[T any](to *T, text string, parse func(string) (T, error)) error {
	v, err := parse(text)
	if err == nil {
		*to = v
	}
	return err
}

func parseBool(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, fmt.Errorf("must be true or false")
	}
	return s == "true", nil
}

func parseInt(s string, bits int) (int64, error) {
	n, err := strconv.ParseInt(s, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("must be a whole number")
	}
	return n, nil
}

func parseTime(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("must be a time such as 2026-01-01T00:00:00Z")
}

// parseFinite reads a decimal number; NaN, infinities and hexadecimal are
// text to us.
func parseFinite(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "0123456789+-.eE") != "" {
		return 0, false
	}
	x, err := strconv.ParseFloat(s, 64)
	return x, err == nil
}
