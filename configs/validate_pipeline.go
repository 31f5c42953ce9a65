package configs

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/partition"
)

// validate checks one pipeline, section by section as in the file.
func (p *Pipeline) validate(ps *Problems, fns Fns) {
	path := join("pipelines", p.Name)
	if !validName(p.Name) {
		ps.add(path, "must be named with at most 63 letters, digits, - and _, a letter or digit first", fmt.Sprintf("%q", short(p.Name)))
	}
	granule := p.validateSource(ps, path+".source")
	p.validateTrigger(ps, path+".trigger")
	p.validateWindow(ps, path+".window", granule)
	p.Index.validate(ps, path+".index", granule, fns)
	p.validateErrors(ps, path+".errors")
	if p.Full != nil {
		p.Full.validate(ps, path+".full")
	}
	p.Guards.validate(ps, path+".guards")
	p.Output.validate(ps, path+".output")
}

// nestedIn is the first of the prefixes that lies within path or holds it.
func nestedIn(prefixes []string, path string) string {
	for _, other := range prefixes {
		if o := strings.Trim(other, "/"); o != "" && (strings.HasPrefix(path+"/", o+"/") || strings.HasPrefix(o+"/", path+"/")) {
			return other
		}
	}
	return ""
}

// validateSource returns the granule, 0 if it cannot be known.
func (p *Pipeline) validateSource(ps *Problems, path string) time.Duration {
	s := p.Source
	if required(ps, path+".url", s.URL) {
		validLocation(ps, path+".url", s.URL)
	}
	for i, prefix := range s.Prefixes {
		at := fmt.Sprintf("%s.prefixes[%d]", path, i)
		trimmed := strings.Trim(prefix, "/")
		if trimmed == "" || !cleanSegments(trimmed) {
			ps.add(at, "must be a path below the URL without empty, . or .. segments", fmt.Sprintf("%q", short(prefix)))
		}
		if slices.ContainsFunc(s.Prefixes[:i], func(o string) bool { return strings.Trim(o, "/") == trimmed }) {
			ps.add(at, "must not be listed twice", prefix)
		} else if other := nestedIn(s.Prefixes[:i], trimmed); other != "" {
			ps.add(at, fmt.Sprintf("must not lie within %q or hold it: objects would count twice", other), prefix)
		}
	}
	s.S3.validate(ps, path+".s3")
	var granule time.Duration
	haveLayout := required(ps, path+".layout", s.Layout)
	if s.Granularity < 0 {
		notNegative(ps, path+".granularity", s.Granularity)
	} else if zone := validZone(ps, path+".time_zone", s.TimeZone); haveLayout {
		known := *p
		if !zone {
			known.Source.TimeZone = "UTC" // what is wrong with the layout is so in any zone
		}
		granule = known.validateLayout(ps, path)
	}
	if required(ps, path+".format", s.Format) {
		oneOf(ps, path+".format", s.Format, FormatParquet, FormatNDJSON, FormatCSV)
	}
	if need := p.RetentionNeed(); s.Retention != 0 && s.Retention < need {
		ps.add(path+".retention", "must be at least 2 × window.size + the longest over + three schedule intervals ("+FormatDuration(need)+")", FormatDuration(s.Retention))
	}
	if s.MaxFutureSkew != nil {
		notNegative(ps, path+".max_future_skew", *s.MaxFutureSkew)
	}
	notNegative(ps, path+".settle", s.Settle)
	return granule
}

// validateLayout reports what package partition says of the layout, in the
// form of this package.
func (p *Pipeline) validateLayout(ps *Problems, path string) time.Duration {
	l, err := p.Layout()
	if err == nil {
		return l.Granularity()
	}
	var pattern *partition.PatternError
	if !errors.As(err, &pattern) {
		ps.add(path+".layout", err.Error(), p.Source.Layout)
		return 0
	}
	for _, text := range pattern.Problems {
		at, got := path+".layout", p.Source.Layout
		if rest, ok := strings.CutPrefix(text, "granularity: "); ok {
			at, text, got = path+".granularity", rest, ""
			for _, sep := range []string{", got ", "; got "} {
				if i := strings.LastIndex(text, sep); i >= 0 {
					text, got = text[:i], text[i+len(sep):]
					break
				}
			}
			if d, err := ParseDuration(got); err == nil {
				got = FormatDuration(d)
			}
		}
		ps.add(at, text, got)
	}
	return 0
}

func validLocation(ps *Problems, path, value string) {
	if _, err := ParseLocation(value); err != nil {
		ps.add(path, err.Error(), value)
	}
}

func (s S3) validate(ps *Problems, path string) {
	if s.Endpoint != "" {
		u, err := url.Parse(s.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			ps.add(path+".endpoint", "must be http://host or https://host", short(s.Endpoint))
		}
	}
	if s.RoleARN != "" && !strings.HasPrefix(s.RoleARN, "arn:") {
		ps.add(path+".role_arn", "must begin with arn:", s.RoleARN)
	}
	if s.ExternalID != "" && s.RoleARN == "" {
		ps.add(path+".external_id", "must come with role_arn", s.ExternalID)
	}
	if o := s.ExpectedOwner; o != "" && (len(o) != 12 || strings.Trim(o, "0123456789") != "") {
		ps.add(path+".expected_owner", "must be an account id of 12 digits", o)
	}
	oneOf(ps, path+".checksum", s.Checksum, ChecksumWhenRequired, ChecksumWhenSupported)
}

func (p *Pipeline) validateTrigger(ps *Problems, path string) {
	t := p.Trigger
	zone, err := location(t.TimeZone)
	if err != nil {
		ps.add(path+".time_zone", err.Error(), t.TimeZone)
		zone = time.UTC
	}
	if t.Every != 0 && t.Cron != "" {
		ps.add(path, "must have every or cron, not both", "every "+FormatDuration(t.Every)+" and cron "+t.Cron)
	}
	if t.Cron != "" {
		if _, err := ParseCron(t.Cron, zone); err != nil {
			ps.add(path+".cron", err.Error(), t.Cron)
		}
	}
	if (t.Every != 0 || t.Cron == "") && (t.Every < time.Second || t.Every%time.Second != 0) {
		ps.add(path+".every", "must be a whole number of seconds, at least 1s", FormatDuration(t.Every))
	}
	if t.Timeout <= 0 {
		ps.add(path+".timeout", "must be positive", FormatDuration(t.Timeout))
	}
}

func (p *Pipeline) validateWindow(ps *Problems, path string, granule time.Duration) {
	w := p.Window
	switch {
	case w.Size == 0:
		ps.add(path+".size", "is required", "nothing")
	case w.Size < 0:
		ps.add(path+".size", "must be positive", FormatDuration(w.Size))
	default:
		wholeGranules(ps, path+".size", w.Size, granule)
	}
	if w.Max != 0 {
		p.validateWindowMax(ps, path+".max", granule)
	}
	switch {
	case w.OnGap == "":
	case p.Full != nil:
		if w.OnGap == GapSkip {
			ps.add(path+".on_gap", "must be rebuild or fail with a full section (coverage is never cut then)", w.OnGap)
			return
		}
		oneOf(ps, path+".on_gap", w.OnGap, GapRebuild, GapFail)
	default:
		if w.OnGap == GapRebuild {
			ps.add(path+".on_gap", "must be skip or fail without a full section (there is nothing to rebuild)", w.OnGap)
			return
		}
		oneOf(ps, path+".on_gap", w.OnGap, GapSkip, GapFail)
	}
}

func (p *Pipeline) validateWindowMax(ps *Problems, path string, granule time.Duration) {
	w := p.Window
	if w.Max < 0 {
		ps.add(path, "must be positive", FormatDuration(w.Max))
		return
	}
	wholeGranules(ps, path, w.Max, granule)
	if reach := p.Reach(); w.Max < reach {
		ps.add(path, "must be at least the larger of window.size and the longest over ("+FormatDuration(reach)+")", FormatDuration(w.Max))
		return
	}
	if p.Full == nil {
		return
	}
	if least := p.LongestOver() + 2*p.ScheduleInterval(); w.Max < least {
		ps.add(path, "must be at least the longest over + two schedule intervals ("+FormatDuration(least)+")", FormatDuration(w.Max))
	}
}

// wholeGranules checks a positive duration; a granule of 0 is unknown and was
// reported.
func wholeGranules(ps *Problems, path string, d, granule time.Duration) {
	if granule > 0 && d%granule != 0 {
		ps.add(path, "must be a whole number of granules ("+FormatDuration(granule)+")", FormatDuration(d))
	}
}

func (p *Pipeline) validateErrors(ps *Problems, path string) {
	e := p.Errors
	oneOf(ps, path+".object", e.Object, ErrorsFail, ErrorsSkip)
	if e.SkipAfter < 0 {
		ps.add(path+".skip_after", "must be 0 (never) or more", fmt.Sprint(e.SkipAfter))
	}
	oneOf(ps, path+".row", e.Row, ErrorsFail, ErrorsReject)
	if e.RejectLimit < 0 || e.RejectLimit > 1 {
		ps.add(path+".reject_limit", "must be from 0% to 100%", e.RejectLimit.String())
	}
}

func (f *Full) validate(ps *Problems, path string) {
	if f.Schedule != "" {
		if _, err := parseTimes(f.Schedule); err != nil {
			ps.add(path+".schedule", err.Error(), f.Schedule)
		}
	}
	validZone(ps, path+".time_zone", f.TimeZone)
	if y := f.Since.Year(); !f.Since.IsZero() && (y < 1970 || y > 2199) {
		ps.add(path+".since", "must be in the years 1970 to 2199", f.Since.Format(time.RFC3339))
	}
	oneOf(ps, path+".promote", f.Promote, PromoteAuto, PromoteManual)
	notNegative(ps, path+".support_previous_for", f.SupportPreviousFor)
	oneOf(ps, path+".on_stale", f.OnStale, StaleRebuild, StaleAlarm)
	notNegative(ps, path+".tombstones", f.Tombstones)
}

func (g Guards) validate(ps *Problems, path string) {
	if g.MinDocuments < 0 {
		ps.add(path+".min_documents", "must not be negative", fmt.Sprint(g.MinDocuments))
	}
	if g.MaxDocuments < 0 || g.MaxDocuments > 0 && g.MaxDocuments < g.MinDocuments {
		ps.add(path+".max_documents", "must be 0 (no limit) or at least min_documents", fmt.Sprint(g.MaxDocuments))
	}
	if g.MaxShrink < 0 || g.MaxShrink > 1 {
		ps.add(path+".max_shrink", "must be from 0% to 100%", g.MaxShrink.String())
	}
	if g.MaxGrowth < 0 {
		ps.add(path+".max_growth", "must not be negative", g.MaxGrowth.String())
	}
}

// Of panes in layers: a smaller pane is not worth them, and no reader takes
// more.
const (
	minLayered Size = 1 << 10
	maxLayers       = 20
)

func (o Output) validate(ps *Problems, path string) {
	if required(ps, path+".url", o.URL) {
		validLocation(ps, path+".url", o.URL)
	}
	o.S3.S3.validate(ps, path+".s3")
	if acl := o.S3.ACL; acl != "" {
		oneOf(ps, path+".s3.acl", acl, "private", "public-read", "public-read-write", "authenticated-read", "aws-exec-read", "bucket-owner-read", "bucket-owner-full-control")
	}
	if n := len(o.S3.Tags); n > 10 {
		ps.add(path+".s3.tags", "must be at most 10", fmt.Sprint(n))
	}
	for _, k := range sortedKeys(o.S3.Tags) {
		if v := o.S3.Tags[k]; k == "" || len([]rune(k)) > 128 || len([]rune(v)) > 256 {
			ps.add(join(path+".s3.tags", k), "must have a key of 1 to 128 and a value of at most 256 characters", short(v))
		}
	}
	notNegative(ps, path+".retain.for", o.Retain.For)
	if o.Retain.Panes < 1 {
		ps.add(path+".retain.panes", "must be at least 1", fmt.Sprint(o.Retain.Panes))
	}
	if o.Retain.Bases < 1 {
		ps.add(path+".retain.bases", "must be at least 1", fmt.Sprint(o.Retain.Bases))
	}
	if o.Layers.Above < minLayered {
		ps.add(path+".layers.above", "must be at least "+minLayered.String(), o.Layers.Above.String())
	}
	if o.Layers.Max < 0 || o.Layers.Max > maxLayers {
		ps.add(path+".layers.max", fmt.Sprintf("must be 0 (none) to %d", maxLayers), fmt.Sprint(o.Layers.Max))
	}
	oneOf(ps, path+".mode", o.Mode, ModeAccumulating)
}
