package configs

import (
	"fmt"
	"strings"
)

// expand replaces ${NAME} with the variable's value and ${NAME:-word} with
// word where the variable is unset or empty. $$ is a dollar sign, and so is a
// $ before anything else, so that expressions and patterns need no escape.
// What a variable holds is taken as it is and not expanded again.
func expand(s string, env Env) (string, error) {
	if !strings.Contains(s, "$") {
		return s, nil
	}
	var b strings.Builder
	for {
		text, rest, found := strings.Cut(s, "$")
		b.WriteString(text)
		if !found {
			return b.String(), nil
		}
		switch {
		case strings.HasPrefix(rest, "$"):
			b.WriteByte('$')
			s = rest[1:]
		case strings.HasPrefix(rest, "{"):
			inner, after, closed := strings.Cut(rest[1:], "}")
			if !closed {
				return "", fmt.Errorf("must close ${ with }")
			}
			value, err := variable(inner, env)
			if err != nil {
				return "", err
			}
			b.WriteString(value)
			s = after
		default:
			b.WriteByte('$')
			s = rest
		}
	}
}

// variable is the value of what stands between the braces.
func variable(inner string, env Env) (string, error) {
	name, word, hasDefault := strings.Cut(inner, ":-")
	if !validVariable(name) {
		return "", fmt.Errorf("must name a variable as ${NAME} or ${NAME:-default} (write $${ for a plain ${), got ${%s}", short(inner))
	}
	var value string
	var ok bool
	if env != nil {
		value, ok = env(name)
	}
	if hasDefault && value == "" {
		return word, nil
	}
	if !ok {
		return "", fmt.Errorf("environment variable %s must be set", name)
	}
	return value, nil
}

func validVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
