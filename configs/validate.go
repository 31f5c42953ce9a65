package configs

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Fns says which combine fns there are, so that this package need not know.
type Fns struct {
	// Names are those that exist; "expr" need not be among them. With nil the
	// names in a configuration are not checked.
	Names []string
	// Refused, which may be nil, says why a well-known fn is not offered.
	Refused func(name string) (reason string, ok bool)
}

// problem is the rule that a name breaks, if it does.
func (fns Fns) problem(name string) (rule string, broken bool) {
	if fns.Names == nil || name == FnExpr || slices.Contains(fns.Names, name) {
		return "", false
	}
	if fns.Refused != nil {
		if reason, ok := fns.Refused(name); ok {
			return "must have a combine fn that is a monoid (" + reason + ")", true
		}
	}
	names := slices.DeleteFunc(slices.Sorted(slices.Values(fns.Names)), func(s string) bool { return s == FnExpr })
	return "must have a combine fn that exists (" + strings.Join(names, ", ") + " or expr)", true
}

// Validate returns everything that is wrong as Problems, or nil: in the order
// of the file's sections and, within pipelines, in the order of the file.
func (c *Config) Validate(fns Fns) error {
	var ps Problems
	c.validateProcess(&ps)
	if len(c.Pipelines) == 0 {
		ps.add("pipelines", "must hold at least one pipeline", "none")
	}
	for _, p := range c.Pipelines {
		p.validate(&ps, fns)
	}
	c.validatePlaces(&ps)
	return ps.err()
}

// validateProcess checks what is set once for the whole process.
func (c *Config) validateProcess(ps *Problems) {
	validateState(ps, c.State)
	if m := c.Limits.Memory; m != 0 && m < 64<<20 {
		ps.add("limits.memory", "must be auto or at least 64MiB", m.String())
	}
	if w := c.Limits.Workers; w < 0 || w > 4096 {
		ps.add("limits.workers", "must be auto or from 1 to 4096", fmt.Sprint(w))
	}
	if d := c.Cache.Dir; d != "" && !filepath.IsAbs(d) {
		ps.add("cache.dir", "must be an absolute path", d)
	}
	if s := c.Cache.Size; s < 1<<20 {
		ps.add("cache.size", "must be at least 1MiB", s.String())
	}
	validateAdmin(ps, c.Admin)
	r := c.Restart
	if r.Every != 0 && r.Every < time.Minute {
		ps.add("restart.every", "must be 0 (never) or at least 1m", FormatDuration(r.Every))
	}
	if r.Jitter < 0 || r.Every >= time.Minute && r.Jitter > r.Every {
		ps.add("restart.jitter", "must be from 0 to restart.every", FormatDuration(r.Jitter))
	}
	oneOf(ps, "restart.mode", r.Mode, RestartAuto, RestartExec, RestartExit)
}

func validateState(ps *Problems, s State) {
	const rule = "must be postgres://user@host/database or sqlite:///path"
	scheme, rest, isURL := strings.Cut(s.URL, "://")
	switch {
	case s.URL == "":
		required(ps, "state.url", s.URL)
	case !isURL:
		ps.add("state.url", rule, "no such URL") // not shown: it may hold a password
	case scheme == "postgres" || scheme == "postgresql":
		// Errors of url.Parse show the URL, which may hold a password.
		if _, err := url.Parse(s.URL); err != nil {
			ps.add("state.url", rule, "an invalid URL")
		}
	case scheme == "sqlite":
		if !strings.HasPrefix(rest, "/") || strings.Trim(rest, "/") == "" {
			ps.add("state.url", "must be an absolute path, sqlite:///path", s.URL)
		}
	default:
		ps.add("state.url", rule, "the scheme "+short(scheme))
	}
}

func validateAdmin(ps *Problems, a Admin) {
	if a.Listen == "" {
		return
	}
	host, port, err := net.SplitHostPort(a.Listen)
	if err != nil || port == "" {
		ps.add("admin.listen", "must be host:port", a.Listen)
		return
	}
	if !loopback(host) && a.TokenFile == "" {
		ps.add("admin.listen", "must be a loopback address unless admin.token_file is set", a.Listen)
	}
}

// loopback reports whether only this machine can reach the host. Nothing
// before the colon means every address.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func required(ps *Problems, path, got string) bool {
	if got == "" {
		ps.add(path, "is required", "nothing")
	}
	return got != ""
}

func oneOf(ps *Problems, path, got string, allowed ...string) {
	if slices.Contains(allowed, got) {
		return
	}
	rule := "must be " + strings.Join(allowed[:len(allowed)-1], ", ") + " or " + allowed[len(allowed)-1]
	if len(allowed) == 1 {
		rule = "must be " + allowed[0]
	}
	if got == "" {
		got = `""`
	}
	ps.add(path, rule, got)
}

func notNegative(ps *Problems, path string, d time.Duration) {
	if d < 0 {
		ps.add(path, "must not be negative", FormatDuration(d))
	}
}

func validZone(ps *Problems, path, name string) bool {
	_, err := location(name)
	if err != nil {
		ps.add(path, err.Error(), name)
	}
	return err == nil
}

// validName is a name that can stand in paths, labels, URLs and commands.
func validName(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || r != '-' && r != '_') {
			return false
		}
	}
	return true
}

// validatePlaces checks the locations of all pipelines against each other.
func (c *Config) validatePlaces(ps *Problems) {
	type place struct {
		path, url string
		storePlace
	}
	var outputs []place
	for _, p := range c.Pipelines {
		out, err := ParseLocation(p.Output.URL)
		if err != nil {
			continue // reported where the pipeline was checked
		}
		path := join("pipelines", p.Name)
		o := place{path + ".output.url", p.Output.URL, placeIn(p.Output.S3.S3, out)}
		for _, before := range outputs {
			switch {
			case before.storePlace == o.storePlace:
				ps.add(o.path, "must not be the output of two pipelines (also "+before.path+")", o.url)
			case before.contains(o.storePlace) || o.contains(before.storePlace):
				ps.add(o.path, "must not lie within another pipeline's output, nor hold it ("+before.path+" is "+before.url+")", o.url)
			}
		}
		outputs = append(outputs, o)
		for _, source := range p.sources() {
			switch {
			case source.contains(o.storePlace):
				ps.add(o.path, "must not lie under the source "+source.Location.String(), o.url)
			case o.contains(source):
				ps.add(o.path, "must not hold the source "+source.Location.String(), o.url)
			}
		}
	}
}

// sources are the places a pipeline reads, none if its URL is unusable.
func (p *Pipeline) sources() []storePlace {
	l, err := ParseLocation(p.Source.URL)
	if err != nil {
		return nil
	}
	if len(p.Source.Prefixes) == 0 {
		return []storePlace{placeIn(p.Source.S3, l)}
	}
	places := make([]storePlace, len(p.Source.Prefixes))
	for i, prefix := range p.Source.Prefixes {
		places[i] = placeIn(p.Source.S3, l.Under(prefix))
	}
	return places
}
