package configs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Env looks up a variable, as os.LookupEnv does.
type Env func(name string) (value string, ok bool)

// maxFile bounds a configuration file: no real one is near it, and the YAML
// parser takes seconds for more.
const maxFile = 512 << 10

// Load reads the file at path; see Read.
func Load(path string, env Env) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	return Read(f, path, env)
}

// Read decodes one YAML document over the defaults and expands environment
// variables in its values. name is what errors call the file. It checks
// everything that needs no other setting; rules are for Validate. The error is
// a Problems, with line and column, for all that is wrong with the text; only
// where the reading itself went wrong it is something else. With Problems the
// Config is returned too, holding what could be read; it is nil only if the
// text is not YAML at all.
func Read(r io.Reader, name string, env Env) (*Config, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read configuration %s: larger than %d bytes", name, maxFile)
	}
	c, problems := decode(data, env)
	for i := range problems {
		problems[i].File = name
	}
	return c, problems.err()
}

// LoadValid loads the file at path and validates it, so that all that is wrong
// with it is reported at once: problems of the text first, then broken rules,
// without those that only follow from a value that could not be read.
func LoadValid(path string, env Env, fns Fns) (*Config, error) {
	c, err := Load(path, env)
	var problems Problems
	if errors.As(err, &problems); c == nil || err != nil && problems == nil {
		return nil, err
	}
	var broken Problems
	if !errors.As(c.Validate(fns), &broken) {
		return c, problems.err()
	}
	unread := problems
	for _, p := range broken {
		if !slices.ContainsFunc(unread, func(u Problem) bool { return p.Path == u.Path || strings.HasPrefix(p.Path, u.Path+".") }) {
			problems = append(problems, p)
		}
	}
	return c, problems.err()
}
